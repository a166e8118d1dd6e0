"""One crawl over hosts that mean harm: it ends, each host is recorded for what it is, and nobody else is hurt."""

from collections import Counter
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from crawl_platform.fetch.outcome import Outcome
from crawl_platform.frontier.listed import SITEMAP_WAITS
from crawl_platform.frontier.records import NO_LANE
from crawl_platform.simulation.hostile.honest import paths
from crawl_platform.simulation.hostile.table import NETWORK, HostileHost, hosts
from crawl_platform.simulation.hostile.visit import DECOYS
from crawl_platform.simulation.verdict import overlaps, short_gaps
from crawl_platform.web.url import host_of
from tests.fleet.checks import assert_each_row_has_its_request, assert_nothing_twice
from tests.hostile.crawl import BUDGET, REST, Crawled, crawl, path_of

SLICE = (
    "silent",
    "endless-body",
    "endless-interim",
    "bomb-br",
    "maze",
    "dns-rebinding",
    "seed-private",
    "tls-elsewhere",
    "reset-in-head",
    "robots-endless",
    "page-private",
    "page-spam",
)
"""One of each kind, for the short run."""
MORE_MEMORY = 300_000_000
"""Bytes by which a cell may grow beyond its idle size, whatever hosts send."""
MORE_DISK = 1_000_000
"""Bytes on disk per host: what 120 pages, their links and the fetches take, and room."""
PACE = 2.0
"""Seconds per page of the honest site beyond its delay, whatever else the machine has to do."""
TIMES = 4.0
"""How many times as long a page of the honest site may take among hostile hosts as with hardly anybody else."""


@pytest.fixture(scope="module", params=["slice", pytest.param("whole", marks=pytest.mark.long)])
def names(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return SLICE if request.param == "slice" else ()


@pytest.fixture(scope="module")
def crawled(names: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    hurry = {"delay": 0.05, "first_byte_timeout": 3.0} if names else {}
    return crawl(tmp_path_factory.mktemp("hostile"), names, **hurry)


def judged(crawled: Crawled, host: HostileHost) -> str:
    """What is wrong with how the host ended; empty if nothing."""
    rows, row = crawled.watched(host), host.row
    outcomes = {fetch["outcome"] for fetch in rows}
    if not rows or not outcomes <= set(row.outcomes):
        details = sorted({str(fetch["detail"]) for fetch in rows})
        return f"ended as {sorted(outcomes)}, not as {row.outcomes}: {details}"
    if row.seen and row.seen not in outcomes:
        return f"never ended as {row.seen}"
    if row.truncated and not any(fetch["truncated"] for fetch in rows):
        return "was not flagged as truncated"
    if row.odd and not any(row.odd in str(fetch["oddities"]).split(",") for fetch in rows):
        return f"was not flagged as {row.odd}"
    requests = len(crawled.asked(host))
    return f"{requests} requests, more than {row.most}" if requests > row.most else ""


def test_every_host_ends_as_its_row_in_the_table_says(crawled: Crawled, names: tuple[str, ...]) -> None:
    wrong = {host.row.name: fault for host in hosts(names) if (fault := judged(crawled, host))}

    assert wrong == {}


def test_the_crawl_ends_with_nothing_due(crawled: Crawled) -> None:
    due = {
        host_of(url)
        for url, record in crawled.state.urls.items()
        if record.lane != NO_LANE
        and record.rank / 1000 < crawled.ended + REST
        # Of sitemaps beyond a megabyte two are read at a time; the others' turn comes later.
        and record.reason != SITEMAP_WAITS
    }

    assert due <= crawled.asleep
    assert crawled.state.unqueued == []
    assert crawled.restarts == 0


def test_the_honest_site_is_complete_and_not_delayed(crawled: Crawled) -> None:
    honest = [row for row in crawled.rows if row["host"] == "honest.hostile.test"]

    assert paths() <= {path_of(row["url"]) for row in honest if row["outcome"] == Outcome.OK}
    assert crawled.honest_pace < crawled.delay + PACE


@pytest.mark.long
@pytest.mark.parametrize("names", ["whole"], indirect=True, scope="module")
def test_it_is_hardly_slower_than_alone(crawled: Crawled, tmp_path: Path) -> None:
    alone = crawl(tmp_path, ["late"], crawled.delay)

    assert crawled.honest_pace < TIMES * alone.honest_pace


def test_no_private_address_sees_a_connection(crawled: Crawled) -> None:
    contacted = {row["address"] for row in crawled.rows if row["address"]}

    assert crawled.decoys == []
    assert [address for address in contacted if ip_address(address) not in ip_network(NETWORK)] == []
    assert Counter(row["outcome"] for row in crawled.rows)[Outcome.UNSAFE_ADDRESS] > 0


@pytest.mark.long
def test_ablation_without_the_guard_the_decoys_are_contacted(tmp_path: Path) -> None:
    inward = ("dns-inward", "dns-rebinding", "seed-private", "to-private-name")

    open_to_all = crawl(tmp_path, inward, allow_networks=("127.0.0.0/8",))

    assert {entry.address for entry in open_to_all.decoys} == {DECOYS[0]}


def test_a_cell_stays_small(crawled: Crawled) -> None:
    assert crawled.peak - crawled.idle < MORE_MEMORY


def test_what_is_written_is_bounded_by_what_a_host_may_have(crawled: Crawled, names: tuple[str, ...]) -> None:
    known = Counter(host_of(url) for url in crawled.state.urls)

    assert crawled.disk < len(hosts(names)) * MORE_DISK
    assert {host: count for host, count in known.items() if count > 2 * BUDGET} == {}


def test_the_crawl_is_polite_to_those_that_are_not(crawled: Crawled) -> None:
    for by in ("host", "address"):
        assert overlaps(crawled.requests, by=by) == []
        assert short_gaps(crawled.requests, crawled.delay, by=by) == []


def test_the_lake_tells_of_each_request_once(crawled: Crawled, names: tuple[str, ...]) -> None:
    deaf = {crawled.name_of(host) for host in hosts(names) if host.row.door != "open"}
    heard = [row for row in crawled.rows if row["host"] not in deaf]

    assert_each_row_has_its_request(crawled.requests, heard)
    assert_nothing_twice(crawled.rows)
