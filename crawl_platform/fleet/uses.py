"""What sites say about the use of their pages, gathered from every place, and what the cell does about it.

The places: robots.txt (in force when the page was fetched), the answer's headers, the page itself, and the host's
tdmrep.json where `Citizenship.read_tdmrep` has it fetched. What they say is combined in `web.preferences`, what
follows from it in `admission.preferences`.
"""

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from crawl_platform.admission.preferences import FACTS, NO_BODY, Treatment, treatment
from crawl_platform.commit.staging import Row
from crawl_platform.digest import Digest
from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import DISPOSITIONS, Outcome
from crawl_platform.fleet.inbox import Arrival
from crawl_platform.fleet.messages import Discover, DiscoveredUrl
from crawl_platform.fleet.parts import Parts
from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.lease import Lease
from crawl_platform.settings import Settings
from crawl_platform.web.preferences import (
    Preferences,
    Statement,
    TdmRule,
    combine,
    content_usage,
    parse_tdmrep,
    robots_directives,
    said_in_robots,
    tdm_file_says,
    tdm_reservation,
)
from crawl_platform.web.signals import x_robots_tag
from crawl_platform.web.url import origin_of_canonical

TDMREP = "/.well-known/tdmrep.json"
BEFORE_PAGES = 1_000.0
"""Value of that file: no page is worth as much, so it is next in its host's queue."""
SAYS = ("title", "text", "text_hash", "simhash", "body", "body_encoding")
"""Columns of a page's row that hold what the page says, or tell of it."""


class Uses(NamedTuple):
    """The preferences of one page and what follows from them."""

    preferences: Preferences
    treatment: Treatment

    def apply(self, page: Row) -> Row:
        """The page's row with its preferences, and without what is not to be kept."""
        kept = self.treatment.keep
        hidden = {FACTS: SAYS, NO_BODY: ("body", "body_encoding")}.get(kept, ())
        return {
            **page,
            **dict.fromkeys(hidden),
            "preferences": list(self.preferences.words().items()),
            "preferences_from": list(self.preferences.sources.items()),
            "refused": list(self.treatment.refused),
            "kept": kept,
        }

    @property
    def keeps_anchors(self) -> bool:
        """Whether the texts of the page's links may be kept."""
        return self.treatment.keep != FACTS


def uses_of(parts: Parts, lease: Lease, response: Response, facts: Digest | None) -> Uses:
    """What holds for a page that was fetched. `facts`: None where its body was not read (it is as it was)."""
    agent = who_asked(parts.settings, response)
    said = [*_of_robots(parts, lease.url, agent), *_of_headers(response, agent)]
    if facts is not None:
        said += _of_page(facts)
    state = parts.frontier.hosts.get(lease.host)
    if state is not None and state.record.tdm:
        rules = (TdmRule(*rule) for rule in state.record.tdm)
        said.append(Statement("file:tdmrep", tdm_file_says(rules, _path(lease.url))))
    preferences = combine(said)
    return Uses(preferences, treatment(preferences, parts.frontier.rules.of(lease.host).citizenship))


def who_asked(settings: Settings, response: Response) -> str:
    """The name that the page was asked in: what is said to that name holds for the answer."""
    if response.identity and settings.identities:
        named = (one.agent for one in settings.identities if one.name == response.identity)
        return next(named, "") or settings.identity.agent
    return settings.identity.agent


def _of_robots(parts: Parts, url: str, agent: str) -> tuple[Statement, ...]:
    robots = parts.frontier.robots.rules_of(origin_of_canonical(url))
    return said_in_robots(robots, url, agent) if robots is not None else ()


def _of_headers(response: Response, agent: str) -> Iterator[Statement]:
    """Most answers have none of these headers: what is absent costs a look and no more."""
    if usage := response.header("content-usage"):
        yield Statement("header:content-usage", content_usage(usage))
    if tag := response.header("x-robots-tag"):
        yield Statement("header:x-robots-tag", robots_directives(x_robots_tag(tag, agent)))
    if reservation := response.header("tdm-reservation"):
        yield Statement("header:tdmrep", tdm_reservation(reservation))


def _of_page(facts: Digest) -> Iterator[Statement]:
    if facts.robots:
        yield Statement("meta:robots", robots_directives(facts.robots))
    if facts.tdm_reservation is not None:
        yield Statement("meta:tdmrep", tdm_reservation(facts.tdm_reservation))


def _path(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def note_wishes(parts: Parts, state: HostState, origin: str) -> None:
    """robots.txt was read: tell what it says about uses of the host, where that is news; look for tdmrep.json."""
    agent = parts.frontier.admission.identities.own(state.host, state.record.refused).agent
    words = combine(_of_robots(parts, f"{origin}/", agent)).words()
    told = ", ".join(f"{use}={word}" for use, word in sorted(words.items()))
    if told != state.record.wishes:
        state.record.wishes = told
        parts.tell(state, "preferences", preferences=list(words.items()), detail=told or "nothing any more")
    if parts.frontier.rules.of(state.host).citizenship.read_tdmrep:
        message = Discover((DiscoveredUrl(f"{origin}{TDMREP}", 0, BEFORE_PAGES),))
        parts.fast.open.arrivals.append(Arrival(state.shard, 0, message, parts.clock.now()))
        parts.fast.touch()


def note_tdmrep(parts: Parts, lease: Lease, response: Response) -> None:
    """A page was answered. If it is its host's tdmrep.json, its rules hold from now on (written down with the
    host); if that is gone, none do; while it can't be had, those that did go on."""
    state = parts.frontier.hosts.get(lease.host)
    if state is None or not lease.url.endswith(TDMREP) or _path(lease.url) != TDMREP:
        return
    if not parts.frontier.rules.of(lease.host).citizenship.read_tdmrep:
        return
    if response.outcome is Outcome.OK:
        state.record.tdm = tuple((rule.location, rule.reserved) for rule in parse_tdmrep(response.body))
    elif DISPOSITIONS[response.outcome] == "gone":
        state.record.tdm = ()
