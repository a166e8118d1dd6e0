"""A shard made anew from the lake alone: what it knows, and which clocks are kept."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawl_platform.commit.committer import Committer
from crawl_platform.commit.outbox import Outbox
from crawl_platform.commit.staging import Row
from crawl_platform.fleet import rebuild
from crawl_platform.fleet.rebuild import Rebuild, Rebuilt
from crawl_platform.fleet.rows import snapshot_rows
from crawl_platform.frontier import shard_state
from crawl_platform.frontier.records import (
    FETCHED,
    NO_LANE,
    HostRecord,
    UrlRecord,
    decode,
    host_key,
    queue_key,
    shard_range,
    url_of_key,
)
from crawl_platform.testing.builders import FrontierRig, fetched, sample_row, staged_manifest, tiny_lake

A, ELSEWHERE = "a.test", "b.test"
LATER = 3600.0


def url(name: str, host: str = A) -> str:
    return f"https://{host}/{name}"


class Scene:
    """A crawl of one host: some pages, a snapshot, and rows that are newer. Then the disk is lost."""

    def __init__(self, folder: Path) -> None:
        self.lake = tiny_lake(folder)
        self.rig = FrontierRig(A)
        self.manifests = 0
        self.purged: set[str] = set()
        self.rig.discover(*(url(f"{n}") for n in range(6)))
        self.host.admitted = True
        for _ in range(3):
            self.rig.finish(self.rig.claim_page(), fingerprint="f", body_hash=7, link_set="old")

    @property
    def host(self) -> HostRecord:
        return self.rig.frontier.hosts[A].record

    def snapshot(self) -> None:
        self.rig.apply(lambda planner: planner._over.host(A))
        now = self.rig.clock.now()
        self.commit({"frontier": list(snapshot_rows(self.rig.frontier, 0, f"s{now:.0f}", now))})

    def commit(self, *rows: dict[str, list[Row]]) -> None:
        self.manifests += 1
        at = self.rig.clock.now()
        committer = Committer(self.lake, self.rig.clock, redeliver=lambda manifest: None, max_age=1e9)
        committer.offer([staged_manifest(self.lake, self.manifests, rows, at=at)])
        committer.round()

    def fetch(self, name: str, *targets: str, **values: Any) -> None:
        """A page that was fetched, and its links."""
        values = {"host": A, "shard": 0, "kind": "page", "rate_a": 1.0, "rate_b": 2.0, "group_id": 0} | values
        rows = fetched(f"id-{name}-{self.manifests}", url(name), self.rig.clock.now(), *targets, **values)
        self.commit({table: list(some) for table, some in rows.items()})

    async def rebuilt(self) -> tuple[FrontierRig, Rebuilt]:
        """By a cell that owned nothing yet."""
        rig = FrontierRig(A, ELSEWHERE, clock=self.rig.clock, shards=frozenset())
        outbox = Outbox(rig.kv, "new")
        lake = self.lake.connect()
        work = Rebuild(
            0, rig.frontier, outbox, lake, rig.politeness, rig.clock, lambda _, url: url in self.purged
        )
        await work.base()
        for _ in shard_state.meet(rig.frontier, 0):
            pass
        shard_state.adopt(rig.frontier, 0, *rig.times())
        done = await work.newer()
        lake.close()
        rig.allow_all(A)
        return rig, done


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def urls(rig: FrontierRig) -> dict[str, UrlRecord]:
    return {url_of_key(key)[1]: decode(value, UrlRecord) for key, value in rig.kv.scan(*shard_range(b"u", 0))}


def assert_in_order(rig: FrontierRig) -> None:
    """Queues and counts are what the records say."""
    known = urls(rig)
    places = {queue_key(0, A, r.lane, r.rank, u) for u, r in known.items() if r.lane != NO_LANE}
    assert places == {key for key, _ in rig.kv.scan(*shard_range(b"q", 0))}
    host = decode(rig.kv.get(host_key(0, A)) or b"", HostRecord)
    assert host.known == rig.frontier.known == len(known)
    assert host.queued == len(places)
    assert host.fetched == sum(1 for record in known.values() if record.last_success_at)


async def test_a_snapshot_brings_every_url_and_host_as_it_was(scene: Scene) -> None:
    scene.snapshot()

    rig, done = await scene.rebuilt()

    assert urls(rig) == urls(scene.rig)
    assert (done.urls, done.hosts) == (6, 1)
    assert msgspec.structs.asdict(rig.frontier.hosts[A].record) == msgspec.structs.asdict(scene.host)
    assert_in_order(rig)


async def test_pages_that_were_fetched_since_are_not_fetched_at_once_again(scene: Scene) -> None:
    scene.snapshot()
    scene.rig.clock.advance(LATER)
    waiting = next(u for u, record in urls(scene.rig).items() if not record.last_success_at)
    scene.fetch(waiting.rpartition("/")[2], url("new"), link_set="x", fingerprint="g")

    rig, _ = await scene.rebuilt()

    record = urls(rig)[waiting]
    assert (record.state, record.last_success_at, record.fingerprint) == (FETCHED, rig.clock.now(), "g")
    assert (record.body_hash, record.etag) == (0, ""), "its next visit brings all of its links"
    assert url("new") in urls(rig)
    assert_in_order(rig)


async def test_what_the_lost_cell_may_not_have_told_other_cells_is_told_again(scene: Scene) -> None:
    """The host of another shard: here there is only one, so it is our own that does not own it."""
    scene.snapshot()
    scene.rig.clock.advance(LATER)
    scene.fetch("0", url("there", ELSEWHERE))

    rig, done = await scene.rebuilt()

    assert url("there", ELSEWHERE) in {url_of_key(key)[1] for key, _ in rig.kv.scan(b"u", b"v")}
    assert done.links == 1


async def test_without_a_snapshot_rows_and_the_hosts_table_are_enough(scene: Scene) -> None:
    entry = sample_row(
        "hosts", scene.rig.clock.now(), host=A, shard=0, event="seeded", state="seed", trusted=True
    )
    scene.commit({"hosts": [entry]})
    scene.fetch("", url("1"), url("2"))

    rig, _ = await scene.rebuilt()

    assert set(urls(rig)) == {url(""), url("1"), url("2")}
    host = rig.frontier.hosts[A].record
    assert (host.in_seed, host.trusted) == (True, True)
    assert_in_order(rig)


async def test_a_sitemap_that_was_read_since_is_read_again(scene: Scene) -> None:
    scene.snapshot()
    scene.rig.clock.advance(LATER)
    scene.fetch("0", kind="sitemap")

    rig, _ = await scene.rebuilt()

    assert rig.claim_page().url == url("0")


async def test_what_was_purged_does_not_come_back_from_a_lake_that_has_it_still(scene: Scene) -> None:
    scene.snapshot()
    scene.rig.clock.advance(LATER)
    scene.fetch("0")
    scene.purged.add(url("0"))

    rig, _ = await scene.rebuilt()

    assert set(urls(rig)) == {url(f"{n}") for n in range(1, 6)}
    assert_in_order(rig)


# clocks


async def test_delays_and_back_offs_of_the_snapshot_are_kept(scene: Scene) -> None:
    scene.host.crawl_delay = 40.0
    scene.host.not_before, scene.host.left_alone = scene.rig.clock.now() + 500.0, 500.0
    scene.snapshot()

    rig, _ = await scene.rebuilt()

    assert rig.gates.host_ready_at(A) == pytest.approx(rig.clock.boottime() + 500.0)
    assert rig.frontier.delay(rig.frontier.hosts[A].record, A) == 40.0


@pytest.mark.parametrize(
    ("outcome", "status", "wait"),
    [
        ("rate_limited", 429, 86_400.0),
        pytest.param("unavailable", 503, 86_400.0, marks=pytest.mark.long),
        ("first_byte_timeout", None, 3_600.0),
    ],
)
async def test_a_host_that_was_overloaded_since_is_left_alone_for_as_long_as_it_may_have_asked_for(
    scene: Scene, outcome: str, status: int | None, wait: float
) -> None:
    scene.snapshot()
    scene.rig.clock.advance(LATER)
    scene.fetch("0", outcome=outcome, status=status)
    scene.rig.clock.advance(10.0)

    rig, _ = await scene.rebuilt()

    assert rig.gates.host_ready_at(A) == pytest.approx(rig.clock.boottime() + wait - 10.0)


async def test_ablation_without_it_the_host_would_be_asked_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "BACKS_OFF", frozenset())
    scene.snapshot()
    scene.rig.clock.advance(LATER)
    scene.fetch("0", outcome="rate_limited", status=429)

    rig, _ = await scene.rebuilt()

    assert rig.gates.host_ready_at(A) < rig.clock.boottime() + 10.0


async def test_ablation_without_the_newer_rows_pages_are_lost(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "LINKS", rebuild.LINKS + " AND false")
    scene.snapshot()
    scene.rig.clock.advance(LATER)
    scene.fetch("0", url("new"))

    rig, _ = await scene.rebuilt()

    assert url("new") not in urls(rig)
