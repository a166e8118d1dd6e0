"""A cell whose state has forgotten its last epochs: numbers that were used are not used again."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from crawl_platform.clock import ManualClock
from crawl_platform.commit.committer import Committer
from crawl_platform.commit.manifest import (
    BULK,
    SERIES,
    Manifest,
    application,
    decode_manifest,
    encode_manifest,
)
from crawl_platform.commit.outbox import Outbox
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet import incarnation
from crawl_platform.fleet.exchange import Exchange
from crawl_platform.fleet.inbox import Arrival, Inbox
from crawl_platform.fleet.incarnation import settle_incarnation
from crawl_platform.fleet.messages import Redeliver
from crawl_platform.frontier.kv import Batch, MemoryKV
from crawl_platform.testing.builders import FrontierRig, fetched, staged_manifest, tiny_lake

T0 = 1_800_000_000.0


class Queue:
    """The manifest stream: `waiting` per subject; publishing may have an effect."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[bytes]] = {}
        self.on_publish: Callable[[], None] = lambda: None

    async def last_manifest(self, subject: str) -> bytes | None:
        waiting = self.waiting.get(subject)
        return waiting[-1] if waiting else None

    async def publish(self, subject: str, data: bytes, message_id: str = "") -> int:
        self.waiting.setdefault(subject, []).append(data)
        self.on_publish()
        return 1


class Cell:
    """A cell's outbox, the stream and the lake; its state can be put back."""

    def __init__(self, root: Path) -> None:
        self.lake = tiny_lake(root / "lake")
        self.queue = Queue()
        self.kv = MemoryKV()
        self.outbox = Outbox(self.kv, "old")

    def epoch(self, page: str) -> Manifest:
        """Commit one page to the state."""
        number = self.outbox.next_number(BULK)
        rows = fetched(f"{page}-id", f"https://a.test/{page}", T0)
        made = staged_manifest(self.lake, number, [rows], at=T0, incarnation=self.outbox.incarnation)
        batch = Batch()
        self.outbox.add(batch, made, number)
        self.kv.write(batch, sync=True)
        self.outbox.committed(made, number)
        return made

    def publish(self, made: Manifest) -> None:
        subject = f"manifest.{made.incarnation}.{made.series}"
        self.queue.waiting.setdefault(subject, []).append(encode_manifest(made))

    def commit(self) -> None:
        """The committer takes what it can of all that waits."""
        committer = Committer(self.lake, ManualClock(T0), redeliver=lambda m: None, max_age=1e9)
        waiting = [decode_manifest(data) for queue in self.queue.waiting.values() for data in queue]
        committer.offer(waiting)
        committer.round()
        self.queue.waiting.clear()
        for manifest in waiting:
            if not committer.done(manifest):
                self.publish(manifest)

    def put_back(self, state: MemoryKV) -> None:
        self.kv, self.outbox = state, Outbox(state, "never")

    def state(self) -> MemoryKV:
        copy, batch = MemoryKV(), Batch()
        for key, value in self.kv.scan(b"", b"\xff"):
            batch.put(key, value)
        copy.write(batch)
        return copy

    def settle(self, stop: asyncio.Event | None = None) -> None:
        exchange: Exchange = self.queue  # type: ignore[assignment]
        asyncio.run(settle_incarnation(self.outbox, exchange, self.lake, "new", stop or asyncio.Event()))

    def forget_what_is_shown(self) -> None:
        apps = [application(self.outbox.incarnation, series) for series in SERIES]
        tables = ("fetches", "links", "commits")
        shown = {t: {a: self.lake.delta(t).transaction_version(a) or 0 for a in apps} for t in tables}
        self.outbox.confirm(shown)

    def pages(self) -> list[str]:
        return [r["fetch_id"] for r in self.lake.query("SELECT fetch_id FROM fetches ORDER BY 1").to_pylist()]


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    """One epoch is in the lake."""
    made = Cell(tmp_path)
    made.publish(made.epoch("a"))
    made.commit()
    return made


def lose_the_last_epoch(cell: Cell, *, committed: bool) -> None:
    before = cell.state()
    cell.publish(cell.epoch("b"))
    if committed:
        cell.commit()
    cell.put_back(before)


def test_a_state_that_is_as_new_as_the_lake_keeps_its_incarnation(cell: Cell) -> None:
    cell.epoch("unpublished")
    cell.settle()

    assert cell.outbox.incarnation == "old"
    assert cell.outbox.next_number(BULK) == 3


@pytest.mark.parametrize("committed", [True, False], ids=["in the lake", "waiting in NATS"])
def test_a_state_that_lost_its_last_record_goes_on_as_another_and_loses_no_row(
    cell: Cell, committed: bool
) -> None:
    lose_the_last_epoch(cell, committed=committed)

    cell.settle()
    cell.publish(cell.epoch("c"))
    cell.commit()
    cell.forget_what_is_shown()

    assert cell.outbox.incarnation == "new"
    assert cell.pages() == ["a-id", "b-id", "c-id"]
    assert cell.outbox.manifests() == []


@pytest.mark.parametrize("committed", [True, False], ids=["in the lake", "waiting in NATS"])
def test_ablation_without_it_the_next_epoch_takes_a_used_number_and_its_rows_are_lost(
    cell: Cell, committed: bool
) -> None:
    lose_the_last_epoch(cell, committed=committed)

    lost = cell.epoch("c")
    if committed:
        cell.publish(lost)
    cell.commit()
    cell.forget_what_is_shown()

    assert cell.pages() == ["a-id", "b-id"]
    assert cell.outbox.manifests() == [], "and the cell believes that they are in the lake"


def test_what_the_state_still_owes_comes_into_the_lake_first(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incarnation, "LOOK_AGAIN", 0.01)
    cell.epoch("owed")  # published, but NATS has lost it
    lose_the_last_epoch(cell, committed=False)
    cell.queue.on_publish = cell.commit

    cell.settle()

    assert cell.outbox.incarnation == "new"
    assert cell.pages() == ["a-id", "b-id", "owed-id"]


def test_told_to_stop_meanwhile_it_takes_no_other_incarnation(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incarnation, "LOOK_AGAIN", 0.01)
    cell.epoch("owed")
    lose_the_last_epoch(cell, committed=False)
    stop = asyncio.Event()
    stop.set()

    with pytest.raises(ExchangeError, match="told to stop"):
        cell.settle(stop)

    assert cell.outbox.incarnation == "old"


def test_a_message_that_is_no_manifest_is_not_believed(cell: Cell) -> None:
    cell.queue.waiting["manifest.old.bulk"] = [b"{}"]

    cell.settle()

    assert cell.outbox.incarnation == "old"


@pytest.mark.parametrize(("whose", "again"), [("old", True), ("new", True), ("another cell's", False)])
def test_rows_of_the_former_incarnation_that_are_quarantined_are_fetched_again(
    whose: str, again: bool
) -> None:
    rig = FrontierRig("a.test")
    outbox = Outbox(rig.kv, "old")
    rig.discover("https://a.test/1")
    rig.finish(rig.claim_page(), manifest=1)
    outbox.renew("new")
    inbox = Inbox(rig.kv, rig.frontier, "cell-0", "new")
    message = Arrival(0, 1, Redeliver(whose, BULK, 1), rig.clock.now())

    rig.apply(lambda planner: inbox.apply(planner, [message]))

    assert (rig.next_claim(patience=60.0) is not None) == again
