"""What leaves for other cells: messages that NATS takes, letters in portions, and none that blocks the rest."""

import json
import logging
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from crawl_platform.commit.faults import Faults
from crawl_platform.commit.manifest import BULK, Manifest
from crawl_platform.commit.outbox import Outbox
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet import epochs, messages
from crawl_platform.fleet.epochs import Series
from crawl_platform.fleet.exchange import MessageTooLargeError
from crawl_platform.fleet.messages import (
    MESSAGE_BYTES,
    MESSAGE_URLS,
    Discover,
    DiscoveredUrl,
    RobotsReply,
    decode_inbox,
    discoveries,
)
from crawl_platform.fleet.publisher import Publisher
from crawl_platform.frontier.kv import Batch, MemoryKV
from crawl_platform.settings import HostRule
from crawl_platform.testing.builders import FrontierRig, tiny_lake
from crawl_platform.web.host import shard_of
from tests.fleet.worker_cell import virtual_cell

TAKES = 1_000_000
"""Bytes that NATS takes unless told otherwise."""
OTHERS = next(name for n in range(100) if shard_of(name := f"host-{n}.test", 2) == 1)


def links(lengths: list[int], host: str = OTHERS) -> list[DiscoveredUrl]:
    return [DiscoveredUrl(f"https://{host}/{n}/" + "x" * length) for n, length in enumerate(lengths)]


# what travels


def half_a_crawl(**rules: Any) -> FrontierRig:
    return FrontierRig("a.test", OTHERS, n_shards=2, shards=frozenset({0}), **rules)


def test_what_its_shape_keeps_out_there_does_not_travel() -> None:
    short, long = f"https://{OTHERS}/short", f"https://{OTHERS}/" + "%E2%82%AC" * 5_400

    plan = half_a_crawl().discover(short, long)

    assert [found.url for found in plan.foreign[1]] == [short]
    assert plan.turned_away == {"url-too-long": 1}


def test_a_trap_that_is_off_for_a_host_keeps_nothing_back() -> None:
    long = f"https://{OTHERS}/" + "x" * 5_000

    plan = half_a_crawl(host_rules=(HostRule(OTHERS, urls={"traps_off": ["url-too-long"]}),)).discover(long)

    assert [found.url for found in plan.foreign[1]] == [long]


@given(st.lists(st.integers(0, 120_000), max_size=30), st.integers(0, 2 * MESSAGE_URLS))
@hypothesis_settings(deadline=None, max_examples=15)
def test_messages_are_cut_by_bytes_and_lose_nothing(long: list[int], short: int) -> None:
    urls = links(long + [10] * short)

    sent = list(discoveries(urls))

    read = [cast(Discover, decode_inbox(data)).urls for data in sent]
    assert [url for part in read for url in part] == urls
    assert all(len(part) <= MESSAGE_URLS for part in read)
    assert all(len(data) <= MESSAGE_BYTES + 100 for data in sent)


def test_ablation_messages_that_are_cut_by_number_alone_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    urls = links([48_000] * 50)
    assert all(len(data) <= TAKES for data in discoveries(urls))

    monkeypatch.setattr(messages, "MESSAGE_BYTES", 1 << 40)

    assert any(len(data) > TAKES for data in discoveries(urls))


# what leaves


class Nats:
    """Takes what is small enough, unless it is away."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.away = False

    async def publish(self, subject: str, data: bytes, message_id: str = "") -> int:
        if self.away:
            raise ExchangeError("away")
        if len(data) > TAKES:
            raise MessageTooLargeError("too large")
        self.taken.append(data)
        return len(self.taken)


async def nobody(_confirmed: list[Any]) -> None:
    pass


def publisher_of(outbox: Outbox, nats: Nats, root: Path) -> Publisher:
    tiny_lake(root)
    return Publisher(outbox, cast(Any, nats), root, Faults(), nobody)


def outbox_with(kv: MemoryKV, *data: bytes) -> Outbox:
    outbox, batch = Outbox(kv, "incarnation"), Batch()
    for one in data:
        outbox.add_message(batch, "inbox.1", one)
    kv.write(batch)
    return outbox


async def test_what_nats_never_takes_is_dropped_and_counted_and_the_rest_arrives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kv, nats = MemoryKV(), Nats()
    outbox_with(kv, b"first", b"x" * 24_000_000, b"last")
    outbox = Outbox(kv, "incarnation")  # a restart: what an earlier version has written is there
    publisher = publisher_of(outbox, nats, tmp_path)

    await publisher._publish_messages()

    assert nats.taken == [b"first", b"last"]
    assert publisher.dropped == 1
    assert list(outbox.messages()) == []
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_what_waits_for_days_leaves_in_portions_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawl_platform.commit.outbox.PORTION_MESSAGES", 3)
    waiting = [b"%d" % n for n in range(10)]
    outbox, nats = outbox_with(MemoryKV(), *waiting), Nats()
    publisher = publisher_of(outbox, nats, tmp_path)
    acked: list[int] = []

    def sent(sequences: list[int]) -> None:
        acked.append(len(sequences))
        Outbox.sent(outbox, sequences)

    monkeypatch.setattr(outbox, "sent", sent)

    await publisher._publish_messages()

    assert nats.taken == waiting
    assert acked == [3, 3, 3, 1], "each portion is off the disk before the next is read"
    assert list(outbox.messages()) == []


async def test_while_nats_is_away_nothing_is_dropped(tmp_path: Path) -> None:
    outbox, nats = outbox_with(MemoryKV(), b"first", b"x" * 2_000_000), Nats()
    publisher = publisher_of(outbox, nats, tmp_path)
    nats.away = True

    with pytest.raises(ExchangeError):
        await publisher._publish_messages()

    assert len(list(outbox.messages())) == 2
    assert publisher.dropped == 0


async def test_what_the_lake_has_confirmed_is_remembered_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = Outbox(kv := MemoryKV(), "incarnation")
    for number in (1, 2, 3):
        made, batch = Manifest("incarnation", BULK, number, "cell-0", 1, 0.0, (0,), ()), Batch()
        outbox.add(batch, made, 0)
        kv.write(batch)
        outbox.committed(made, 0)
    publisher = publisher_of(outbox, Nats(), tmp_path)
    monkeypatch.setattr(publisher, "transactions", lambda: {"commits": {f"incarnation/{BULK}": 2}})

    await publisher._publish_manifests()
    await publisher._forget()

    assert publisher._published == {(BULK, 3)}


# letters


def replies(count: int) -> list[tuple[int, RobotsReply]]:
    """As one errand owes them, for `count` hosts that were redirected to one large file."""
    body = b"user-agent: *\n" + b"#" * 480_000
    return [
        (0, RobotsReply(f"https://tenant-{n}.test", "https://b.test/robots.txt", 1, "ok", 200, "", body))
        for n in range(count)
    ]


async def closed(series: Series, outbox: Outbox) -> list[bytes]:
    """The messages that closing the epoch has added."""
    before = {sequence for sequence, _ in outbox.messages()}
    await series.close()
    return [message.data for sequence, message in outbox.messages() if sequence not in before]


async def test_replies_of_one_errand_leave_in_portions_and_in_order(tmp_path: Path) -> None:
    async with virtual_cell(tmp_path, {"a.test": "192.0.2.1"}) as cell:
        series, outbox, owed = cell.made._fast, cell.made._outbox, replies(12)
        series.open.letters += owed
        portions = []
        while series.open:
            portions.append(await closed(series, outbox))
            assert sum(map(len, portions[-1])) <= epochs.LETTER_BYTES

    assert len(portions) > 1
    sent = [json.loads(data)["origin"] for portion in portions for data in portion]
    assert sent == [letter.origin for _, letter in owed]


async def test_ablation_replies_without_a_bound_make_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "LETTER_BYTES", 1 << 40)

    with pytest.raises(AssertionError):
        await test_replies_of_one_errand_leave_in_portions_and_in_order(tmp_path)
