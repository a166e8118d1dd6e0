"""A site owner asks to be left alone: from the request to the last fetch, in every cell and by every door."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from crawl_platform.admission.hosts import EXCLUDED
from crawl_platform.admission.stops import Word
from crawl_platform.clock import SystemClock
from crawl_platform.commit.faults import Faults
from crawl_platform.commit.outbox import Outbox
from crawl_platform.fetch.client import Response
from crawl_platform.fleet.cell import Cell
from crawl_platform.fleet.messages import HostPolicy, PurgeOrder, encode
from crawl_platform.frontier.absorb import absorb
from crawl_platform.frontier.kv import MemoryKV
from crawl_platform.frontier.lease import Found, Lease, RobotsLease
from crawl_platform.frontier.plan import Planner
from crawl_platform.settings import Fetch, Identity, Politeness, Settings
from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.testing.builders import tiny_lake
from tests.api.serving import api_process
from tests.cli.crawling import Command
from tests.fetch.servers import answers, reply, serving
from tests.fleet.checks import assert_polite
from tests.fleet.harness import Fleet, Row, eventually
from tests.fleet.sites import Plan, serve

WITHIN = 5.0
HOST = "site.test"


class Quiet:
    """An exchange that nothing is asked of here."""


@pytest_asyncio.fixture
async def cell(tmp_path: Path) -> AsyncIterator[Cell]:
    settings = Settings(
        home=str(tmp_path),
        identity=Identity(contact="me@example.org"),
        politeness=Politeness(host_delay=0.001, address_delay=0.001),
        fetch=Fetch(allow_networks=("127.0.0.0/8",)),
    )
    tiny_lake(settings.lake_root)
    kv = MemoryKV()
    made = Cell(
        "cell-0",
        settings,
        shards=frozenset({0}),
        n_shards=1,
        kv=kv,
        outbox=Outbox(kv, "incarnation"),
        exchange=Quiet(),  # type: ignore[arg-type]
        clock=SystemClock(),
        faults=Faults(),
    )
    yield made
    await made._client.close()
    await made._dns.close()


async def claimed(cell: Cell, url: str) -> Lease | RobotsLease:
    """A lease on the only URL that the cell knows (robots.txt comes first)."""
    clock = SystemClock()
    cell.frontier.book.set(HOST, "seed")
    planner = Planner(cell.frontier, clock.now(), "bulk", 1)
    planner.discover(Found(url, 0, 1.0))
    plan = planner.finish()
    cell.frontier.kv.write(plan.batch)
    absorb(cell.frontier, plan, clock.now(), clock.boottime())
    for _ in range(100):
        lease = cell.frontier.claim(clock.now(), clock.boottime())
        if lease is not None:
            return lease
        await asyncio.sleep(0.01)
    raise AssertionError("nothing to claim")


def told(cell: Cell, key: str, word: msgspec.Struct) -> None:
    cell._directives._obey(key, encode(word))


async def heads_sent(
    cell: Cell,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    key: str = "host.x",
    word: msgspec.Struct | None = None,
) -> int:
    """Requests that reach a host which is excluded (or of which `word` is said) at a moment between its claim and its
    request."""

    def exclude() -> None:
        told(cell, key, word or HostPolicy("*.test", EXCLUDED))

    async def resolve(host: str) -> str:
        if moment == "its name is resolved":
            exclude()
        return "127.0.0.1"

    connect = cell._client.get

    async def get(*arguments: Any, **options: Any) -> Response:
        if moment == "the connection is made":
            exclude()
        return await connect(*arguments, **options)

    async with serving(answers(reply("404 Not Found"))) as server:
        lease = await claimed(cell, server.url("/page"))
        monkeypatch.setattr(cell._dns, "address", resolve)
        monkeypatch.setattr(cell._client, "get", get)
        await cell._worker.run(lease)
        return len(server.heads)


@pytest.mark.parametrize("moment", ["its name is resolved", "the connection is made"])
async def test_a_request_that_waits_is_not_sent_to_a_host_excluded_meanwhile(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    assert await heads_sent(cell, monkeypatch, moment) == 0
    assert not cell.frontier.hosts[HOST].in_flight
    assert cell.frontier.gates.address_ready_at("127.0.0.1") < float("inf"), "its address is free for others"


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("pause", Word("", True, 1.0)),
        ("pause.x", Word(HOST, True, 1.0)),
        ("host.x", HostPolicy("http://site.test", EXCLUDED)),
        ("purge.x", PurgeOrder("p1", HOST, 1.0)),
    ],
)
async def test_nor_once_it_is_paused_barred_or_purged(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, key: str, word: msgspec.Struct
) -> None:
    assert await heads_sent(cell, monkeypatch, "the connection is made", key, word) == 0
    assert HOST in cell.frontier.agenda, "it is looked at again: a pause ends"


async def test_ablation_without_the_look_at_pauses_it_would_be(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell.frontier.book.stops, "holds", lambda host: False)

    assert await heads_sent(cell, monkeypatch, "the connection is made", "pause", Word("", True, 1.0)) == 1


async def test_without_the_last_look_it_would_be(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_platform.fleet.worker.EXCLUDED", "a state that no host is in")

    assert await heads_sent(cell, monkeypatch, "the connection is made") == 1


@pytest.mark.long
def test_within_five_seconds_no_cell_asks_an_excluded_host_by_whatever_door_it_came(tmp_path: Path) -> None:
    hosts = ("a.shop.test", "b.shop.test", "c.shop.test", "shop.test", "alone.test")
    plans = [Plan(host, 900) for host in hosts]
    web = tmp_path / "web"
    web.mkdir()
    with (
        serve(web, *plans) as world,
        Fleet(tmp_path / "home", world.web, fleet=FleetSettings(cells=2)) as fleet,
    ):
        fleet.start()
        fleet.seed([world.url(host) for host in hosts])
        for host in hosts:
            fleet.wait_requests(15, host)
        eventually(lambda: len(_cells(fleet)) == 2, 20.0, "both cells fetch")

        Command(fleet.home).json("exclude", "*.shop.test", "--reason", "its owner wrote to us")
        with api_process(fleet.home) as api:
            asked = api.call("/v1/exclude", {"host": "alone.test", "reason": "its owner called"})
        eventually(lambda: len(_excluded(fleet)) == len(hosts), 20.0, "the exclusions are in the lake")
        fleet.wait_quiet()

        since = {
            name: policy.since for name, policy in fleet.client.hosts().items() if policy.state == EXCLUDED
        }
        for host in hosts:
            log = fleet.requests_to(host)
            rule = "alone.test" if host == "alone.test" else "*.shop.test"
            assert max(entry.start for entry in log) < since[rule] + WITHIN
            assert {entry.ended_by for entry in log} == {"response"}, "what was in flight has ended well"
            assert len(log) < 900, "its queue was not worked off"
        assert_polite(fleet.requests())
        _assert_told(fleet, asked.json["request_id"])


def _cells(fleet: Fleet) -> list[Row]:
    return fleet.rows("SELECT DISTINCT cell FROM fetches")


def _excluded(fleet: Fleet) -> list[Row]:
    return fleet.rows("SELECT host, decision_id, detail FROM hosts WHERE event = 'excluded'")


def _assert_told(fleet: Fleet, api_request: str) -> None:
    """Each exclusion is a row with its reason and who asked."""
    rows = fleet.rows("SELECT request_id, target, requested_by, reason FROM requests WHERE kind = 'exclude'")
    asked = {row["target"]: row for row in rows}
    assert asked["*.shop.test"]["reason"] == "its owner wrote to us"
    assert asked["*.shop.test"]["requested_by"]
    assert asked["alone.test"]["request_id"] == api_request
    assert asked["alone.test"]["requested_by"] == "api:operator"
    for row in _excluded(fleet):
        request = asked["alone.test" if row["host"] == "alone.test" else "*.shop.test"]
        assert (row["decision_id"], row["detail"]) == (request["request_id"], request["reason"])
