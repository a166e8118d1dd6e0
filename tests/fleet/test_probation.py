"""A promoted host on probation: a few pages, then all of them or none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_platform.admission.hosts import HORIZON, SEED, HostBook
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet import natsserver
from crawl_platform.fleet.client import FleetClient
from crawl_platform.testing.builders import FrontierRig
from tests.fleet.harness import Fleet, eventually
from tests.fleet.sites import Plan, serve
from tests.frontier.scenes import A, url

PAGES = 5


@pytest.fixture
def client(tmp_path: Path) -> Iterator[FleetClient]:
    _, config = natsserver.prepare(tmp_path)
    process = natsserver.start(config, tmp_path / "nats.out")
    try:
        log = tmp_path / "logs" / "nats.log"
        eventually(lambda: log.exists() and "Server is ready" in log.read_text(), 10.0, "NATS runs", 0.02)
        yield FleetClient(tmp_path / "run" / "nats.json", 4)
    finally:
        process.terminate()
        process.wait(10)


def promote(client: FleetClient, most_pages: int | None = None, host: str = "one.test") -> None:
    client.promote(host, [f"https://{host}/"], decision_id="d", reason="ranked", most_pages=most_pages)


def test_what_is_said_of_a_host_on_probation(client: FleetClient) -> None:
    promote(client, PAGES)
    promote(client)
    assert client.hosts()["one.test"].most_pages == PAGES, "late links leave the bound as it is"

    promote(client, 0)
    assert client.hosts()["one.test"].most_pages == 0
    assert client.demote("one.test", promotion="another", decision_id="e", reason="useless") == 0
    assert client.hosts()["one.test"].state == SEED, "somebody has asked for it since"

    assert client.demote("one.test", promotion="d", decision_id="e", reason="useless") > 0
    assert client.hosts()["one.test"].state == HORIZON
    assert client.demote("one.test", promotion="d", decision_id="e", reason="useless") == 0, "once"
    assert client.demote("unheard-of.test", promotion="d", decision_id="e", reason="useless") == 0

    client.seed(["own.test"])
    with pytest.raises(ConfigurationError, match="chosen by an operator"):
        client.demote("own.test", promotion="d", decision_id="e", reason="useless")


def test_no_more_pages_are_known_of_a_host_than_its_probation_allows() -> None:
    rig = FrontierRig(A)
    rig.book.bound(A, 2)

    assert [rig.discover(url(str(n))).turned_away for n in range(3)] == [{}, {}, {"on_probation": 1}]

    rig.book.bound(A, 0)
    assert rig.discover(url("2")).new_urls == 1


def test_a_demoted_host_is_not_in_the_seed() -> None:
    book = HostBook(1)
    book.set("a.test", SEED)

    book.set("a.test", HORIZON)

    assert book.state("a.test") == HORIZON


@pytest.mark.long
def test_a_host_is_read_a_little_then_not_at_all_then_whole(tmp_path: Path) -> None:
    web = tmp_path / "web"
    web.mkdir()
    with (
        serve(web, Plan("seed.test", 3), Plan("new.test", 30)) as world,
        Fleet(tmp_path / "home", world.web) as fleet,
    ):
        fleet.start()
        fleet.seed([world.url("seed.test")])
        fleet.wait_quiet()
        start = world.url("new.test")

        fleet.client.promote("new.test", [start], decision_id="d1", reason="ranked", most_pages=PAGES)
        fleet.wait_requests(1, "new.test")
        fleet.wait_quiet()
        assert len(_pages(fleet)) == PAGES

        fleet.client.demote("new.test", promotion="d1", decision_id="d2", reason="useless")
        eventually(lambda: _events(fleet) == ["promoted", "demoted"], 20.0, "the demotion is in the lake")
        with pytest.raises(ConfigurationError, match="on the horizon"):
            fleet.client.recrawl(start, request_id="r1")

        # Its links are known to the lake: they are handed over again with the next promotion.
        linked = [row["dst_url"] for row in fleet.rows("SELECT DISTINCT dst_url FROM links")]
        of_host = [found for found in linked if found.startswith(start)]
        assert len(of_host) > PAGES
        fleet.client.promote("new.test", of_host, decision_id="d3", reason="ranked", most_pages=0)
        eventually(lambda: len(_pages(fleet)) == 30, 30.0, "all pages are read")
        eventually(
            lambda: _events(fleet) == ["promoted", "demoted", "promoted"], 20.0, "the return is in the lake"
        )


def _pages(fleet: Fleet) -> set[str]:
    return {entry.path for entry in fleet.requests_to("new.test") if entry.path != "/robots.txt"}


def _events(fleet: Fleet) -> list[str]:
    rows = fleet.rows(
        "SELECT event FROM hosts WHERE host = 'new.test' AND event IN ('promoted', 'demoted') ORDER BY happened_at"
    )
    return [row["event"] for row in rows]
