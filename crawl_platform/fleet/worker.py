"""One lease, from claim to result: resolve → admit → fetch → digest → result and rows.

The only place where a request leaves the house. Its host was reserved by the claim; the address is reserved when it
is admitted, and both clocks are looked at once more in the same loop step as the write.
"""

import logging

from crawl_platform.admission.hosts import EXCLUDED, HostExcludedError
from crawl_platform.admission.identities import PROBE_AGAIN
from crawl_platform.admission.politeness import ImpoliteError
from crawl_platform.admission.service import Decision, Reason
from crawl_platform.errors import OwnershipLostError, SiteError, StateError
from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import UNREACHED, Outcome
from crawl_platform.fleet.pacing import Pacing
from crawl_platform.fleet.page_answers import PageAnswers
from crawl_platform.fleet.parts import Parts
from crawl_platform.fleet.robots_answers import RobotsAnswers
from crawl_platform.fleet.sitemap_answers import SitemapAnswers
from crawl_platform.fleet.spending import Offer
from crawl_platform.fleet.stages import FRONTIER, ROWS
from crawl_platform.frontier.lease import Lease, RobotsLease
from crawl_platform.frontier.records import PAGE

log = logging.getLogger(__name__)
AGAIN = 0.05
"""Seconds until a host whose request was turned away at the last moment is looked at again, at least."""
IMPOLITE, IMPOLITE_AGAIN = "impolite", 5.0
"""Name of the count of requests that the last look stopped; seconds until their host is looked at again."""


class Worker:
    def __init__(self, parts: Parts) -> None:
        self._p = parts
        self._robots = RobotsAnswers(parts)
        self._pages = PageAnswers(parts)
        self._sitemaps = SitemapAnswers(parts)
        self._pacing = Pacing(parts)

    def catch_up(self) -> None:
        """Work that no lease brings: replies of other cells' hosts about robots.txt."""
        self._robots.catch_up()
        self._sitemaps.call()

    @property
    def unread(self) -> int:
        """Sitemaps and feeds that are asked for, wait to be read or are being read."""
        return self._sitemaps.unread

    async def read_forever(self) -> None:
        """Read sitemaps and feeds that were fetched: no fetch waits for that."""
        await self._sitemaps.read_forever()

    async def all_read(self) -> None:
        """Wait until those that were fetched are read."""
        await self._sitemaps.all_read()

    async def run(self, lease: Lease | RobotsLease) -> None:
        """Carry out one lease; the host goes back to the agenda in every case."""
        if isinstance(lease, Lease) and lease.record.kind != PAGE:
            await self._list(lease)
            return
        p = self._p
        response = await self._answer(lease)
        if response is None:
            return
        stages = p.telemetry.stages
        try:
            with stages.of(ROWS):
                if isinstance(lease, RobotsLease):
                    self._robots.take(lease, response)
                else:
                    self._pages.take(lease, response)
        except StateError:
            raise
        except Exception as error:
            if isinstance(lease, RobotsLease):
                raise
            log.exception("digesting %s failed", lease.url)
            response.outcome, response.detail = Outcome.INTERNAL_ERROR, repr(error)[:300]
            self._pages.failed(lease, response)
        self._landed(lease)

    def _landed(self, lease: Lease | RobotsLease) -> None:
        """The host's turn is over; its connection is kept if the next one comes soon."""
        p = self._p
        boot = p.clock.boottime()
        with p.telemetry.stages.of(FRONTIER):
            p.frontier.landed(lease.host, p.clock.now(), boot)
            at = p.frontier.agenda.at(lease.host)
        p.client.expect(lease.host, None if at is None else at - boot)

    async def _list(self, lease: Lease) -> None:
        """A sitemap or feed: asked for if there is room for it, and read while its host has other turns."""
        p = self._p
        if not self._sitemaps.enter(lease):
            p.gates.release_host(lease.host)
            p.frontier.free(lease.host)
            p.frontier.reschedule(lease.host, p.clock.now(), p.clock.boottime())
            return
        response = None
        try:
            response = await self._answer(lease)
        finally:
            if response is None:
                self._sitemaps.left(lease)
        if response is not None:
            self._landed(lease)
            self._sitemaps.arrived(lease, response)

    async def _answer(self, lease: Lease | RobotsLease) -> Response | None:
        """The response; None if no request was sent, and the lease was given back."""
        try:
            return await self._fetch(lease)
        except OwnershipLostError:
            self._give_back(lease)
            raise
        except HostExcludedError:
            self._give_back(lease)
            self._p.frontier.reschedule(lease.host, self._p.clock.now(), self._p.clock.boottime())
        except ImpoliteError:
            self._stopped(lease)
        return None

    def _cap(self, lease: Lease | RobotsLease) -> int:
        """Bytes of a body."""
        if isinstance(lease, RobotsLease):
            return self._p.settings.politeness.robots_bytes
        return self._sitemaps.cap(lease) if lease.record.kind != PAGE else self._p.settings.fetch.body_cap

    async def _fetch(self, lease: Lease | RobotsLease) -> Response | None:
        """The response, or None if the address is busy and the lease was handed back."""
        p = self._p
        begun, known = p.clock.boottime(), p.dns.pinned(lease.host) is not None
        try:
            address = await p.dns.address(lease.host)
        except SiteError as error:
            response = Response(Outcome(error.outcome), error.detail, started_at=p.clock.now())
            response.dns = p.clock.boottime() - begun
            self._pacing.ended(lease, None, response)
            return response
        resolving = None if known else p.clock.boottime() - begun
        paced = p.frontier.addresses[lease.host] = p.gates.clocks.address(address)
        if (elsewhere := await self._missing(lease.host, paced)) is not None:
            self._give_back(lease)
            p.frontier.await_address(elsewhere, lease.host, p.clock.boottime())
            return None
        robots = isinstance(lease, RobotsLease)
        state = p.frontier.state(lease.host)
        with p.telemetry.stages.of(FRONTIER):
            decision = p.frontier.admission.admit(
                lease.url, lease.host, paced, p.clock.now(), p.clock.boottime(), robots=robots,
                refused=state.record.refused if state is not None else "",
            )  # fmt: skip
        if not decision.admitted:
            self._turned_away(lease, decision)
            return None
        response = await self._request(lease, address, decision)
        response.dns = resolving
        if response.outcome in UNREACHED and not response.proxy_failed:
            p.dns.failed(lease.host, address)
        if response.proxy_failed:
            self._proxy_failed(lease, decision, response)
            return None
        with p.telemetry.stages.of(FRONTIER):
            self._pacing.ended(lease, decision, response)
            for gate in decision.gates:
                p.addresses.ended(gate)
        return response

    async def _missing(self, host: str, address: str) -> str | None:
        """Which of the clocks that `host` shares with others another cell has; None: we have what it takes."""
        held = self._p.addresses
        for gate in (address, self._p.gates.clocks.domain(host)):
            if gate and not held.holds(gate) and not await held.ask(gate):
                return gate
        return None

    def _stopped(self, lease: Lease | RobotsLease) -> None:
        """A bug, or a clock that was moved while the request connected. Nothing was sent, so nobody suffers from it
        but the host, which comes late."""
        p = self._p
        log.exception("the request for %s was stopped at the last look", lease.url)
        p.telemetry.counts[IMPOLITE] += 1
        self._give_back(lease)
        again = max(p.gates.host_clock(lease.host), p.clock.boottime() + IMPOLITE_AGAIN)
        p.frontier.agenda.put(lease.host, again)

    def _turned_away(self, lease: Lease | RobotsLease, decision: Decision) -> None:
        """Not now: the host comes back when what it lacks may be there."""
        p = self._p
        boot = p.clock.boottime()
        self._give_back(lease)
        if decision.gates:
            p.frontier.await_address(decision.gates[0], lease.host, boot)
        elif decision.reason is not Reason.NOT_SEED:
            soon = boot if decision.retry_at == float("inf") else decision.retry_at
            p.frontier.agenda.put(lease.host, max(soon, boot + AGAIN))

    def _proxy_failed(self, lease: Lease | RobotsLease, decision: Decision, response: Response) -> None:
        """Nothing has reached the site, so the URL has not been tried. That the proxy failed counts against the
        identity that goes through it."""
        p = self._p
        boot = p.clock.boottime()
        log.warning("identity %s: %s", response.identity, response.detail)
        self._pacing.next_in_line(p.frontier.admission.proxy_failed(decision, lease.host, boot))
        self._give_back(lease)
        p.frontier.agenda.put(lease.host, boot + PROBE_AGAIN)

    async def _request(self, lease: Lease | RobotsLease, address: str, decision: Decision) -> Response:
        p = self._p
        assert decision.choice is not None
        persona = decision.choice.persona

        def on_write() -> None:
            p.fence()
            if p.frontier.book.state(lease.host) == EXCLUDED:
                raise HostExcludedError(f"{lease.host} was excluded while its request waited")
            if p.frontier.book.stops.holds(lease.host) or p.frontier.book.bars(lease.host, lease.url):
                raise HostExcludedError(f"{lease.url} was stopped while its request waited")
            p.gates.check_write(lease.host, decision.gates[0], p.clock.boottime())

        robots = isinstance(lease, RobotsLease)
        offer = None if robots else await p.spending.offer(lease.host)
        try:
            response = await p.client.get(
                lease.url,
                lease.host,
                address,
                on_write=on_write,
                headers=self._headers(lease, offer) | {"User-Agent": persona.user_agent},
                proxy=persona.proxy,
                cap=self._cap(lease),
            )
        except (OwnershipLostError, HostExcludedError, ImpoliteError):
            self._pacing.next_in_line(p.frontier.admission.returned(decision))
            if offer is not None:
                await p.spending.settle(offer, None, sent=False)
            raise
        response.identity, response.admission = persona.name, decision.choice.how
        response.propensity = decision.choice.propensity
        if offer is not None:
            answered = response.headers if response.status is not None else None
            await p.spending.settle(offer, answered, sent=response.sent)
        return response

    def _headers(self, lease: Lease | RobotsLease, offer: Offer | None) -> dict[str, str]:
        """What this request says beside the client's own headers: validators, a price, a signature over it."""
        priced = offer.headers if offer is not None else {}
        headers = priced | (_conditional(lease) if isinstance(lease, Lease) else {})
        signer = self._p.signer
        return headers | signer.headers(lease.url, priced) if signer is not None else headers

    def _give_back(self, lease: Lease | RobotsLease) -> None:
        """No request was sent: host and lease are free again. The host still has to go back to the agenda."""
        p = self._p
        p.gates.release_host(lease.host)
        p.frontier.hand_back(lease)
        p.frontier.free(lease.host)


def _conditional(lease: Lease) -> dict[str, str]:
    """If-None-Match and If-Modified-Since from the last success."""
    record = lease.record
    headers = {}
    if record.body_hash and record.etag:
        headers["If-None-Match"] = record.etag
    if record.body_hash and record.last_modified:
        headers["If-Modified-Since"] = record.last_modified
    return headers
