"""What an answer to a robots.txt request means for its origin and its host: redirects followed, also across hosts
and cells, and what is found at their end settled for the origin where they began.

Bodies are third parties', and a host's first request is for them: what an answer breaks here counts as no answer, for
that origin alone.
"""

import logging

from crawl_platform.admission.robots import GIVEN_UP
from crawl_platform.errors import StateError
from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fleet.messages import RobotsHop, RobotsReply
from crawl_platform.fleet.parts import Parts, redirect_target
from crawl_platform.fleet.rows import fetch_row
from crawl_platform.fleet.uses import note_wishes
from crawl_platform.frontier.errands import HopReply
from crawl_platform.frontier.lease import Hop, RobotsLease, RobotsResult
from crawl_platform.frontier.robots_life import after_answer
from crawl_platform.web.robots import status_rule, whole_lines
from crawl_platform.web.url import host_of

log = logging.getLogger(__name__)
NO_REPLY, BARRED = "no_reply", "barred"
"""Ends of a chain that no request has: the other host did not answer in time; it must not be asked."""


class RobotsAnswers:
    def __init__(self, parts: Parts) -> None:
        self._p = parts

    def take(self, lease: RobotsLease, response: Response) -> None:
        """A request has ended: for its origin, or as an errand for all that wait for it."""
        p = self._p
        target = redirect_target(lease.url, response)
        outcome, body = str(response.outcome), response.body if response.outcome is Outcome.OK else b""
        body = whole_lines(body) if response.truncated else body
        waiting = lease.errand or (Hop(lease.origin, lease.url, lease.hops, 0.0),)
        for hop in waiting:
            reply = HopReply(hop.origin, hop.url, hop.hops, outcome, response.status, target or "", body)
            if p.frontier.book.shard(host_of(hop.origin)) not in p.frontier.shards:
                self._send(host_of(hop.origin), RobotsReply.of(reply))
            elif hop.hops == 0 or p.frontier.moved.errands.end(reply):
                error = self._taken_in(reply)
                if error is not None:
                    response.outcome, response.detail = Outcome.INTERNAL_ERROR, repr(error)[:300]
        row = fetch_row(p.fetch_id(), "robots", lease, response, p.origin, redirect_to=target)
        p.bulk.open.rows.add("fetches", row)
        p.bulk.touch()

    def catch_up(self) -> None:
        """Replies that came from other cells, and chains that wait no longer."""
        errands = self._p.frontier.moved.errands
        while errands.replies:
            reply = errands.replies.pop()
            if errands.end(reply):
                self._taken_in(reply)
        while errands.lost:
            hop = errands.lost.pop()
            self._settle(HopReply(hop.origin, hop.url, hop.hops, NO_REPLY), "disallow_all")

    def _taken_in(self, reply: HopReply) -> Exception | None:
        """`_advance`; what it raises is returned, and the origin counts as unreachable until its next try."""
        try:
            self._advance(reply)
        except StateError:
            raise
        except Exception as error:
            log.exception("what %s says about robots of %s can't be used", reply.url, reply.origin)
            self._p.frontier.moved.errands.chains.pop(reply.origin, None)
            nothing = HopReply(reply.origin, reply.url, reply.hops, str(Outcome.INTERNAL_ERROR))
            self._settle(nothing, "disallow_all")
            return error
        return None

    def _advance(self, reply: HopReply) -> None:
        """One hop of a chain of ours is over: the next one, or its end."""
        p = self._p
        if reply.outcome == Outcome.REDIRECT:
            now, limit = p.clock.now(), p.settings.fetch.robots_redirects
            led = p.frontier.moved.follow(reply.origin, reply.hops, reply.target or None, limit, now)
            if led == "elsewhere":
                hop = p.frontier.moved.errands.chains[reply.origin]
                self._send(host_of(hop.url), RobotsHop(hop.origin, hop.url, hop.hops, hop.until))
            if led in ("followed", "elsewhere"):
                # The chain may have come back to its own host, which has waited for it.
                p.frontier.reschedule(host_of(reply.origin), now, p.clock.boottime())
                return
            if led == "barred":
                self._settle(HopReply(reply.origin, reply.target, reply.hops, BARRED), "disallow_all")
                return
        self._settle(reply, _rule(reply))

    def _settle(self, reply: HopReply, rule: str) -> None:
        """The chain of an origin has ended: what holds for it from now on, in force at once and written down with
        the epoch."""
        p = self._p
        now, home = p.clock.now(), host_of(reply.origin)
        settings = p.frontier.rules.of(home).politeness
        before = p.frontier.moved.record(reply.origin)
        limited = reply.outcome == Outcome.RATE_LIMITED
        body = reply.body if rule == "rules" else b""
        known = after_answer(before, rule, body, now, settings, limited=limited)
        delay = p.frontier.robots.store(reply.origin, known.rule, known.body, known.expires_at)
        lease = RobotsLease(reply.origin, home, p.frontier.book.shard(home), reply.url, reply.hops)
        rules = p.frontier.robots.rules_of(reply.origin)
        result = RobotsResult(
            lease, now, known.rule, known.body, known.expires_at,
            known.fetched_at, known.unreachable_since, known.failures, tuple(rules.sitemaps) if rules else (),
        )  # fmt: skip
        p.bulk.open.robots.append((result, delay))
        p.bulk.touch()
        self._tell(home, known.rule, before is not None and before.rule == GIVEN_UP, delay, reply)

    def _tell(self, home: str, rule: str, given_up_before: bool, crawl_delay: float, reply: HopReply) -> None:
        """The host hears of it: its clock, its place in the agenda, its row of `hosts`."""
        p = self._p
        state = p.frontier.hosts.get(home)
        if state is None:
            return
        state.record.crawl_delay = crawl_delay
        detail = (
            reply.outcome if reply.hops == 0 else f"{reply.outcome} after {reply.hops} redirects: {reply.url}"
        )
        event = "robots_given_up" if rule == GIVEN_UP and not given_up_before else "robots"
        p.tell(
            state, event, robots_status=rule, delay=p.frontier.delay(state.record, home), detail=detail[:500]
        )
        if rule in ("rules", "allow_all"):
            note_wishes(p, state, reply.origin)
        if p.gates.host_ready_at(home) != float("inf"):
            p.gates.hold_host(home, p.clock.boottime() + crawl_delay)
        # Else a request is in flight, which was admitted without it; its end starts the new delay.
        p.frontier.reschedule(home, p.clock.now(), p.clock.boottime())

    def _send(self, host: str, letter: RobotsHop | RobotsReply) -> None:
        """To the cell that `host` belongs to, with the next small epoch: within a second."""
        p = self._p
        p.fast.open.letters.append((p.frontier.book.shard(host), letter))
        p.fast.touch()


def _rule(reply: HopReply) -> str:
    """What the last answer of a chain says (RFC 9309 §2.3.1): a redirect that leads nowhere is an answer."""
    if reply.outcome in (Outcome.REDIRECT, Outcome.BAD_REDIRECT):
        return "allow_all"
    rule = status_rule(reply.status)
    return "disallow_all" if rule == "rules" and reply.outcome != Outcome.OK else rule
