"""What goes with a shard beside its URLs: how far its inbox was read, requests, purges, whose rows it has."""

from pathlib import Path

import msgspec
import pytest

from crawl_platform.commit.outbox import Outbox, incarnations, inherit, was_ours
from crawl_platform.fleet import shard_file
from crawl_platform.fleet.inbox import Arrival, Inbox, note_requests, requests_taken
from crawl_platform.fleet.messages import Discover, DiscoveredUrl, ShardOwner, encode
from crawl_platform.fleet.purging import DONE, purged_in_part, purges_done
from crawl_platform.fleet.shard_file import PORTION, About
from crawl_platform.frontier.kv import Batch, MemoryKV
from crawl_platform.frontier.shard_state import taken, taken_whole
from crawl_platform.testing.builders import FrontierRig
from crawl_platform.web.host import shard_of

HOSTS = [next(f"h{n}.test" for n in range(50) if shard_of(f"h{n}.test", 2) == shard) for shard in (0, 1)]


def message(shard: int, page: str = "") -> bytes:
    return encode(Discover((DiscoveredUrl(f"https://{HOSTS[shard]}/{page}"),)))


class Reading:
    """A cell of shard 0 that has read to sequence 100, with 101 in its open epoch, when shard 1 comes, read to 50."""

    def __init__(self) -> None:
        self.rig = FrontierRig(*HOSTS, n_shards=2, shards=frozenset({0}))
        self.inbox = Inbox(self.rig.kv, self.rig.frontier, "cell-0", "i")
        self.apply(self.arrives(0, 100))
        self.open = self.arrives(0, 101)
        self.rig.kv.write(taken_whole(1, "snapshot", 50))

    def arrives(self, shard: int, sequence: int) -> Arrival:
        found = self.inbox.arrival(f"inbox.{shard}", sequence, message(shard, f"{sequence}"), 0.0)
        assert found is not None
        return found

    def apply(self, *arrivals: Arrival) -> None:
        self.rig.apply(lambda planner: self.inbox.apply(planner, arrivals))

    def comes(self) -> None:
        self.rig.frontier.own(frozenset({0, 1}))
        self.inbox.adopt(1)


# how far the inbox was read


def test_the_inbox_is_read_again_from_where_the_shard_that_came_has_been_read_to() -> None:
    reading = Reading()
    reading.comes()

    reading.apply(reading.open)

    assert reading.inbox.resume_after() == 50, (
        "what came by the reader before says nothing about the new shard"
    )
    assert reading.inbox.applied == {0: 101, 1: 50}
    assert reading.inbox.arrival("inbox.0", 100, message(0), 0.0) is None, "applied already"
    reading.apply(reading.arrives(1, 60))
    assert reading.inbox.resume_after() == 60


def test_ablation_an_arrival_of_the_old_reader_would_pass_over_what_waits_for_the_shard() -> None:
    reading = Reading()
    reading.comes()

    old = reading.open
    reading.apply(Arrival(old.shard, old.sequence, old.message, old.at, reading.inbox.reader))

    assert reading.inbox.resume_after() == 101


def test_a_cell_that_died_before_it_used_the_shard_reads_from_there_too() -> None:
    reading = Reading()
    reading.apply(reading.open)
    assert reading.inbox.resume_after() == 101
    reading.rig.frontier.own(frozenset({0, 1}))

    again = Inbox(reading.rig.kv, reading.rig.frontier, "cell-0", "i")

    assert again.resume_after() == 50
    assert taken(reading.rig.kv, 1) is None


def test_messages_of_a_shard_that_leaves_wait_in_the_stream() -> None:
    reading = Reading()
    reading.inbox.leave(0)

    assert reading.inbox.arrival("inbox.0", 102, message(0), 0.0) is None


# requests, rows and purges


def test_a_recrawl_that_was_carried_out_is_known_where_the_shard_goes() -> None:
    giver, taker, batch = MemoryKV(), MemoryKV(), Batch()
    note_requests(batch, {"r-1": 1_700_000_000})
    giver.write(batch)

    batch = Batch()
    note_requests(batch, requests_taken(giver))
    taker.write(batch)

    assert requests_taken(taker) == {"r-1": 1_700_000_000}


def test_a_quarantined_manifest_of_the_giver_concerns_the_taker() -> None:
    giver, taker = MemoryKV(), MemoryKV()
    Outbox(giver, "first").renew("second")
    Outbox(taker, "other")

    batch = Batch()
    for incarnation in incarnations(giver):
        inherit(batch, incarnation)
    taker.write(batch)

    assert sorted(incarnations(giver)) == ["first", "second"]
    assert was_ours(taker, "first")
    assert was_ours(taker, "second")


def test_a_purge_that_the_giver_had_not_carried_out_is_open_again() -> None:
    taker, batch = MemoryKV(), Batch()
    for request_id in (b"both", b"taker alone"):
        batch.put(DONE + request_id, b"")
    taker.write(batch)

    batch = Batch()
    purged_in_part(batch, taker, ["both", "giver alone"])
    taker.write(batch)

    assert purges_done(taker) == ["both"]


# the file


def test_a_file_has_all_records_in_order_and_what_they_are_about(tmp_path: Path) -> None:
    records = [(f"u{n:06}".encode(), bytes((n % 256,)) * (n % 50)) for n in range(2 * PORTION + 1)]
    about = About(3, ("i",), ("p",), {"r": 7})

    shard_file.write(tmp_path, "3-x.parquet", about, iter(records))

    told, portions = shard_file.read(tmp_path, "3-x.parquet")
    found = list(portions)
    assert told == about
    assert [record for portion in found for record in portion] == records
    assert max(map(len, found)) <= PORTION


def test_a_shard_without_records_has_a_file_too(tmp_path: Path) -> None:
    shard_file.write(tmp_path, "3-x.parquet", About(3), iter(()))

    assert list(shard_file.read(tmp_path, "3-x.parquet")[1]) == []


def test_what_can_not_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    def broken() -> list[tuple[bytes, bytes]]:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        shard_file.write(tmp_path, "3-x.parquet", About(3), (record for record in broken()))

    assert shard_file.shards_with_files(tmp_path) == set()


def test_files_of_a_shard_go_together_and_no_others(tmp_path: Path) -> None:
    for name in ("3-a.parquet", "3-b.parquet", "33-a.parquet"):
        shard_file.write(tmp_path, name, About(3), iter(()))
    (tmp_path / shard_file.FOLDER / ".3-c.parquet").touch()
    assert shard_file.shards_with_files(tmp_path) == {3, 33}

    shard_file.remove_of(tmp_path, 3)

    assert [path.name for path in (tmp_path / shard_file.FOLDER).iterdir()] == ["33-a.parquet"]


def test_a_record_without_the_newer_fields_is_read() -> None:
    """Of a release that moved no shards."""
    owner = msgspec.json.decode(b'{"cell":"cell-0","incarnation":"i"}', type=ShardOwner)

    assert (owner.to, owner.snapshot, owner.handed, owner.lost) == ("", "", "", "")
