"""A crawl of the synthetic web, which has every kind of host that a real one has: what its server saw, and
what the lake says. The web's seed is drawn anew for each run (a failing test shows it): nothing holds for
one web only. The crawl is cut off after `SECONDS`, so nothing here depends on how far it came.
"""

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import pytest

from crawl_platform.settings import Frontier, Politeness
from crawl_platform.simulation.host import UNREACHABLE
from crawl_platform.simulation.log import Entry
from crawl_platform.simulation.noise import SESSION_PARAMETER
from crawl_platform.simulation.running import launch
from crawl_platform.simulation.verdict import forbidden, overlaps, short_gaps, tolerance, touched
from crawl_platform.simulation.web import SyntheticWeb
from tests.fleet.checks import assert_one_row_per_request, assert_whole_at_every_commit
from tests.fleet.harness import DELAY, Fleet, Row, fetch_from
from tests.fleet.state import CellState

pytestmark = pytest.mark.long

SECONDS = 25.0
BACKOFF = 1.0
"""Seconds that a host is left alone after a failure of its own."""
RETRY_AFTER = 3.0
"""What the limited host asks for with each 429."""


@dataclass(frozen=True)
class Crawl:
    """What is left of the crawl after a clean stop. `truth` is the web itself."""

    truth: SyntheticWeb
    fleet: Fleet
    log: list[Entry]
    fetches: list[Row]
    state: CellState = field(repr=False)

    @cached_property
    def outcomes(self) -> dict[str, set[str]]:
        """Host → outcomes of its pages; those of robots.txt are written robots:outcome."""
        found: dict[str, set[str]] = defaultdict(set)
        for row in (row for row in self.fetches if row["kind"] in ("page", "robots")):
            prefix = "robots:" if row["kind"] == "robots" else ""
            found[row["host"]].add(prefix + row["outcome"])
        return found

    def kind(self, kind: str) -> str:
        """The one trusted host of a kind."""
        [name] = [h.name for h in self.truth.hosts.values() if h.kind == kind and h.role == "trusted"]
        return name

    def known(self, host: str) -> list[str]:
        """Every URL of the host that the frontier knows."""
        return [url for url in self.state.urls if re.match(rf"https?://{re.escape(host)}[:/]", url)]


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"seed of the web: {seed}")  # noqa: T201
    folder = tmp_path_factory.mktemp("synthetic")
    with launch(["synthetic", "--seed", str(seed)], folder / "requests.jsonl") as web:
        sections = {
            "fetch": fetch_from(web.ready, read_timeout=3.0, total_timeout=4.0, dns_timeout=1.0),
            "politeness": Politeness(host_delay=DELAY, address_delay=DELAY, backoff_first=BACKOFF),
            "frontier": Frontier(retry_delay=2.0),
        }
        with Fleet(folder / "home", web.ready, **sections) as fleet:
            fleet.start()
            fleet.seed()
            time.sleep(SECONDS)
            assert fleet.restarts("cell-0") == 0, "the cell died on the way"
            fleet.stop()
            yield Crawl(
                web.ready.web(), fleet, fleet.requests(), fleet.fetches(), fleet.copy_of_state("cell-0")
            )


# what the server saw


def test_only_hosts_of_the_seed_were_touched(crawl: Crawl) -> None:
    hosts = set(touched(crawl.log))

    assert len(hosts) > 20
    assert {crawl.truth.hosts[host].role for host in hosts} == {"trusted"}


def test_nothing_that_robots_forbids_was_asked_for(crawl: Crawl) -> None:
    assert forbidden(crawl.log, crawl.truth) == []
    everything = [entry for entry in crawl.log if entry.path != "/robots.txt"]
    assert len(everything) > 200


def test_robots_txt_was_asked_for_before_any_page(crawl: Crawl) -> None:
    first: dict[str, str] = {}
    for entry in crawl.log:
        first.setdefault(entry.host, entry.path)

    assert set(first.values()) == {"/robots.txt"}


def test_requests_never_overlapped_and_kept_their_distance(crawl: Crawl) -> None:
    delays = {name: max(DELAY, host.crawl_delay or 0.0) for name, host in crawl.truth.hosts.items()}
    assert max(delays.values()) == 2.0, "some host asks for more in its robots.txt"

    assert overlaps(crawl.log) == []
    assert overlaps(crawl.log, by="address") == []
    assert short_gaps(crawl.log, delays) == []
    assert short_gaps(crawl.log, DELAY, by="address") == []


def test_a_host_that_says_slow_down_was_left_alone_for_as_long_as_it_asked(crawl: Crawl) -> None:
    limited = [entry for entry in crawl.log if entry.host == crawl.kind("limited")]
    waits = [b.start_boot - a.end_boot for a, b in pairwise(limited) if a.status == 429]

    assert waits
    assert min(waits) >= RETRY_AFTER - tolerance(RETRY_AFTER)


def test_a_host_that_breaks_connections_was_left_alone_for_a_while(crawl: Crawl) -> None:
    flaky = [entry for entry in crawl.log if entry.host == crawl.kind("flaky")]
    waits = [b.start_boot - a.end_boot for a, b in pairwise(flaky) if a.status is None]

    assert all(wait >= BACKOFF - tolerance(BACKOFF) for wait in waits)


# what the lake says


def test_each_request_is_one_row_of_fetches(crawl: Crawl) -> None:
    assert_one_row_per_request(crawl.log, crawl.fetches)


def test_every_link_row_has_its_fetch_at_every_commit(crawl: Crawl) -> None:
    assert assert_whole_at_every_commit(crawl.fleet.lake) > 10


@pytest.mark.parametrize(
    ("fault", "outcomes"),
    [
        ("dead", {"robots:connect_refused"}),
        ("unresolvable", {"robots:no_such_host"}),
        ("servfail", {"robots:dns_failure"}),
        ("mute", {"robots:dns_timeout"}),
    ],
)
def test_a_host_that_can_not_be_reached_has_its_own_outcome(
    crawl: Crawl, fault: str, outcomes: set[str]
) -> None:
    assert fault in UNREACHABLE
    assert crawl.outcomes[crawl.kind(fault)] == outcomes
    assert crawl.kind(fault) not in touched(crawl.log)


@pytest.mark.parametrize(
    ("kind", "sure", "possible"),
    [
        ("robots5xx", {"robots:unavailable"}, set()),
        ("norobots", {"robots:not_found", "ok"}, {"not_found"}),
        ("robotsmoved", {"robots:redirect", "robots:ok", "ok"}, {"not_found"}),
        ("limited", {"robots:ok", "ok", "rate_limited"}, {"not_found"}),
        ("outage", {"robots:ok"}, {"ok", "not_found", "unavailable"}),
        ("slow", {"robots:ok"}, {"ok", "first_byte_timeout"}),
        ("stuck", {"robots:ok"}, {"ok", "first_byte_timeout", "not_found"}),
        ("flaky", {"robots:ok", "ok"}, {"connection_lost", "bad_http", "bad_encoding", "not_found"}),
        ("moved", {"robots:ok", "redirect"}, set()),
        ("manual", {"robots:ok", "ok"}, {"not_modified", "not_found"}),
    ],
)
def test_a_host_with_a_character_has_the_outcomes_that_fit_it(
    crawl: Crawl, kind: str, sure: set[str], possible: set[str]
) -> None:
    hosts = [h.name for h in crawl.truth.hosts.values() if h.kind == kind and h.role == "trusted"]

    for host in hosts:
        assert sure <= crawl.outcomes[host] <= sure | possible


def test_pages_made_to_hurt_are_outcomes_and_not_crashes(crawl: Crawl) -> None:
    expected = {"header": "headers_too_large", "cookies": "headers_too_large"}
    rows = {r["url"].rpartition("/")[2]: r for r in crawl.fetches if "/hazard/" in r["url"]}

    assert rows, "no hazard was met"
    assert {r["outcome"] for r in rows.values()} <= {
        "ok",
        "headers_too_large",
        "bad_encoding",
        "first_byte_timeout",
    }
    for name, outcome in expected.items():
        assert name not in rows or rows[name]["outcome"] == outcome
    cap = crawl.fleet.settings.fetch.body_cap
    for name in ("bomb", "huge", "flood"):
        assert name not in rows or (rows[name]["truncated"] and rows[name]["body_bytes"] <= cap)
    assert "internal_error" not in set().union(*crawl.outcomes.values())


# traps


def in_calendar(url: str) -> bool:
    year = re.search(r"/calendar/(\d+)/", url)
    return year is None or 1800 <= int(year[1]) <= 2060


@pytest.mark.parametrize(
    ("kind", "what", "harmless"),
    [
        ("calendar", "a calendar is left at the edge of time", in_calendar),
        (
            "session",
            "session ids don't make new URLs",
            lambda url: f"{SESSION_PARAMETER}=" not in url,
        ),
        ("shop", "facets don't pile up", lambda url: url.count("&") + 1 <= 8),
        ("bazaar", "facets don't pile up", lambda url: url.count("&") + 1 <= 8),
        ("winding", "a redirect chain is followed five times", lambda url: not url.endswith("/hop/6")),
    ],
)
def test_a_trap_is_bounded(crawl: Crawl, kind: str, what: str, harmless: Callable[[str], bool]) -> None:
    known = crawl.known(crawl.kind(kind))

    assert len(known) > 5
    assert [url for url in known if not harmless(url)] == [], what


def test_a_page_with_twenty_thousand_links_brings_no_more_than_its_share(crawl: Crawl) -> None:
    flood = [url for url in crawl.known(crawl.kind("hazard")) if "/flood/" in url]

    assert len(flood) <= crawl.fleet.settings.frontier.max_urls_per_page


def test_a_host_with_an_empty_queue_has_been_crawled_whole(crawl: Crawl) -> None:
    waiting = set(crawl.state.waiting())
    done = [
        host
        for host in crawl.truth.hosts.values()
        if host.role == "trusted" and not host.fault and host.kind in ("manual", "directory", "tenant", "plain")
        and not waiting.intersection(crawl.known(host.name))
    ]  # fmt: skip
    fetched = {row["url"] for row in crawl.fetches if row["outcome"] in ("ok", "not_modified")}

    assert done, "no small host was finished"
    for host in done:
        missing = [url for url in crawl.truth.urls(host.name) if url not in fetched]
        assert [url for url in missing if crawl.truth.allowed(url)] == []


def test_nothing_known_is_lost_from_the_queues(crawl: Crawl) -> None:
    assert crawl.state.unqueued == []
