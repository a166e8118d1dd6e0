"""Upkeep beside a running crawl, with real processes: the crawl goes on, and nothing is lost or doubled."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
from click.testing import CliRunner

from crawl_platform.cli import main
from crawl_platform.errors import PlatformError
from crawl_platform.fleet import client as client_module
from crawl_platform.fleet.exchange import Endpoint, Exchange
from crawl_platform.fleet.upkeep import ABSENT, SUBJECT, Answer
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.upkeep.report import Report
from crawl_platform.settings import Retention
from crawl_platform.testing.invariants import committed_once, links_have_fetches
from tests.fleet.checks import assert_brought_home, assert_drained, assert_nothing_twice, assert_polite
from tests.fleet.harness import Fleet, eventually
from tests.fleet.sites import Plan, World, serve
from tests.lake.aging import AgingLake, clock_days_ago

OLD = "SELECT * FROM {} WHERE regexp_matches(fetch_id, '^d[0-9]{{5}}-[0-9]+$') ORDER BY ALL"
"""Rows of `AgingLake.busy_day`."""
KEEP = Retention(history_days=60.0, compact_after_files=4, fetches_days=3.0, links_days=3.0, pages_days=3.0)
CITING = ("fetches", "links", "pages")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with serve(tmp_path / "web", Plan("one.test", 250), Plan("two.test", 250)) as running:
        yield running


@pytest.fixture
def fleet(world: World, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet (not started) whose lake has crawled before: three busy days, and a page with an old version each day."""
    with Fleet(tmp_path / "home", world.web, retention=KEEP) as fleet:
        fleet.lake.create(fleet.settings.fleet.shards)
        aging = AgingLake(fleet.lake, clock_days_ago(12))
        for day in range(3):
            aging.busy_day(rounds=6)
            visit = aging.visit(
                f"news-{day}", "https://a.test/news", f"https://b.test/{day}", body=b"%d" % day
            )
            aging.round(visit)
            aging.pass_days(1)
        yield fleet


def old_rows(lake: Lake) -> list[object]:
    return [lake.query(OLD.format(name)) for name in CITING]


def days_of(lake: Lake, name: str) -> list[str]:
    """The day of each live file of the three days before the crawl."""
    return sorted(
        path.rpartition("date=")[2][:10] for path in lake.delta(name).file_uris() if "date=" in path
    )


def assert_whole(fleet: Fleet, world: World, before: list[object]) -> None:
    """Of a stopped fleet: all of both sites is there, once; and of the days before, what is current."""
    assert committed_once(fleet.lake) == links_have_fetches(fleet.lake) == []
    assert_brought_home(fleet, *world.sites.values())
    assert_nothing_twice(fleet.fetches())
    assert_drained(fleet)
    assert_polite(fleet.requests())
    assert old_rows(fleet.lake) == before
    news = fleet.rows("SELECT fetch_id FROM pages WHERE url = 'https://a.test/news'")
    assert news == [{"fetch_id": "news-2"}], "retention has let go of the old versions"


@pytest.mark.long
def test_a_crawl_goes_on_while_the_lake_is_looked_after(fleet: Fleet, world: World) -> None:
    before = old_rows(fleet.lake)
    fleet.start()
    fleet.seed([world.url("one.test"), world.url("two.test")])
    fleet.wait_requests(40)

    asked = len(fleet.requests())
    dry = CliRunner().invoke(main, ["upkeep", "--home", str(fleet.home), "--dry-run", "--json"])
    report = fleet.client.upkeep()
    meanwhile = len(fleet.requests()) - asked

    assert dry.exit_code == 0, dry.output
    planned = msgspec.json.decode(dry.stdout, type=Report)
    done = {(d.table, d.action) for d in report.done}
    assert {(d.table, d.action) for d in planned.done} == done - {("fetches", "retain")}, (
        "a dry run does not foresee which fetches nobody will cite"
    )
    assert {d.action for d in report.done} == {"retain", "compact"}
    assert report.left == 0
    assert meanwhile > 10, "no request waited for it"
    fleet.wait_quiet()
    fleet.stop()
    assert [len(days_of(fleet.lake, name)) for name in CITING] == [3, 3, 3]
    assert_whole(fleet, world, before)
    assert fleet.restarts("committer") == 0
    noted = fleet.rows("SELECT DISTINCT action FROM upkeep ORDER BY action")
    assert [row["action"] for row in noted] == ["compact", "retain"]


@pytest.mark.long
def test_what_is_no_order_is_answered_and_the_next_order_done(fleet: Fleet) -> None:
    fleet.start()

    async def ask() -> bytes:
        exchange = await Exchange.connect(Endpoint.read(fleet.home / "run" / "nats.json"), "stranger")
        try:
            return await exchange.ask(SUBJECT, b'{"tables": 7}', 60.0, absent=ABSENT)
        finally:
            await exchange.close()

    answer = msgspec.json.decode(asyncio.run(ask()), type=Answer)

    assert answer.report is None
    assert answer.error.startswith("that is not an order: Expected `array`")
    assert fleet.client.upkeep(dry_run=True).done
    assert fleet.restarts("committer") == 0


@pytest.mark.long
def test_an_upkeep_that_is_killed_is_reported_and_the_next_one_goes_on(fleet: Fleet, world: World) -> None:
    before = old_rows(fleet.lake)
    fleet.start("committer=upkeep.committed:2")
    fleet.seed([world.url("one.test"), world.url("two.test")])
    fleet.wait_requests(40)

    with pytest.raises(PlatformError, match="ended with status -9"):
        fleet.client.upkeep()
    again = fleet.client.upkeep()

    assert again.left == 0
    fleet.wait_quiet()
    fleet.stop()
    assert [len(days_of(fleet.lake, name)) for name in CITING] == [3, 3, 3]
    assert_whole(fleet, world, before)
    assert fleet.restarts("committer") == 0


def upkeep_of(committer: int) -> psutil.Process | None:
    """The upkeep that a committer has started."""
    children = psutil.Process(committer).children()
    return next((child for child in children if "upkeep" in child.cmdline()), None)


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_committer_that_is_killed_meanwhile_takes_its_upkeep_along(
    fleet: Fleet, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PATIENCE", 5.0)
    before = old_rows(fleet.lake)
    fleet.start()
    fleet.seed([world.url("one.test"), world.url("two.test")])
    fleet.wait_requests(40)
    errors: list[str] = []
    asking = threading.Thread(target=_ask, args=(fleet, errors))
    committer = fleet.living_pid("committer")
    asking.start()
    eventually(lambda: upkeep_of(committer) is not None, 30.0, "upkeep begins", 0.01)
    child = upkeep_of(committer)
    assert child is not None

    with fleet.held():
        child.send_signal(signal.SIGSTOP)
        fleet.kill("committer")
    child.send_signal(signal.SIGCONT)
    child.wait(10.0)
    asking.join(30.0)

    assert not asking.is_alive()
    assert len(errors) == 1
    eventually(lambda: fleet.restarts("committer") == 1, 60.0, "the committer is started again")
    monkeypatch.undo()
    eventually(
        lambda: "commits to" in fleet.log_text("committer").rpartition("upkeep begins")[2], 60.0, "it leads"
    )
    assert fleet.client.upkeep().left == 0
    fleet.wait_quiet(120.0)
    fleet.stop()
    assert_whole(fleet, world, before)


def _ask(fleet: Fleet, errors: list[str]) -> None:
    try:
        fleet.client.upkeep()
    except PlatformError as error:
        errors.append(str(error))
