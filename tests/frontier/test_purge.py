"""What a frontier forgets on legal request, and what it leaves alone; URLs that are excluded by their beginning."""

import random
import string
from pathlib import Path

import pytest

from crawl_platform.admission.hosts import EXCLUDED
from crawl_platform.admission.stops import Word
from crawl_platform.frontier import purge
from crawl_platform.frontier.kv import MemoryKV
from crawl_platform.frontier.purge import Dropped, at_rest, drop, key_ranges
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.frontier.trim import TrimOrder, order
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, B, known, url


def crawled(*extra: str) -> FrontierRig:
    """Two hosts, of which some pages are fetched and others wait."""
    rig = FrontierRig(A, B, *extra)
    rig.discover(
        *(url(f"in/{n}", host) for host in (A, B) for n in range(5)), *(url(f"out/{n}") for n in range(3))
    )
    for _ in range(6):
        rig.finish(rig.claim_page())
    return rig


def dropped(rig: FrontierRig, pattern: str) -> Dropped:
    done = Dropped()
    for batch in drop(rig.frontier, pattern, done):
        rig.kv.write(batch)
    return done


def entries(rig: FrontierRig, word: str) -> list[bytes]:
    return [key for key, value in rig.kv.scan(b"\0", b"\xff") if word.encode() in key + value]


@pytest.mark.parametrize("pattern", [A, f"*.{A}"])
def test_nothing_of_a_host_is_left_and_another_is_untouched(pattern: str) -> None:
    rig = crawled()
    rig.apply(lambda planner: order(planner, 0, A, TrimOrder(keep=1)))
    others = entries(rig, B)

    done = dropped(rig, pattern)

    assert (done.hosts, done.urls) == (1, 8)
    assert entries(rig, A) == []
    assert entries(rig, B) == others
    assert A not in rig.frontier.hosts
    assert A not in rig.frontier.agenda
    assert rig.frontier.known == rig.frontier.hosts[B].record.known == 5
    rig.restart()
    assert (list(rig.frontier.hosts), rig.frontier.known) == ([B], 5)


def test_of_urls_with_one_beginning_the_counts_go_along() -> None:
    rig = crawled()

    done = dropped(rig, url("in/"))

    assert (done.hosts, done.urls) == (0, 5)
    assert entries(rig, "a.test/in/") == []
    before = rig.frontier.hosts[A].record, rig.frontier.known, rig.frontier.fetched
    assert before[0].known == 3
    assert before[0].queued == sum(key[:1] == b"q" for key in entries(rig, "a.test/out/"))
    rig.restart()
    assert (rig.frontier.hosts[A].record, rig.frontier.known, rig.frontier.fetched) == before


def test_what_is_gone_is_found_again_like_any_new_page() -> None:
    rig = crawled()
    dropped(rig, url("in/1"))

    assert rig.discover(url("in/1")).new_urls == 1


def test_a_run_that_is_cut_off_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "PORTION", 2)
    rig = crawled()
    rig.kv.write(next(iter(drop(rig.frontier, A, Dropped()))))
    rig.restart()

    dropped(rig, A)

    assert entries(rig, A) == []


def test_it_waits_for_what_is_claimed_and_not_committed() -> None:
    rig = crawled()
    lease = rig.claim_page()
    pattern = f"*.{lease.host}"
    assert not at_rest(rig.frontier, pattern)
    rig.land(lease)
    assert not at_rest(rig.frontier, pattern), "its result would write the record anew"

    rig.apply(lambda planner: planner.page(rig.result(lease)))

    assert at_rest(rig.frontier, pattern)


@pytest.mark.parametrize("compacted", [True, False])
def test_its_bytes_are_on_no_disk_once_the_store_is_compacted(tmp_path: Path, compacted: bool) -> None:
    """Without, as the ablation shows, what is deleted can still be read from the store's files."""
    secret = "".join(random.choices(string.ascii_lowercase, k=40))  # nothing that could be compressed away
    kv = RocksKV(tmp_path / "state")
    rig = FrontierRig(A, B, kv=kv)
    rig.discover(url(secret), *(url(str(n), B) for n in range(100)))
    kv.settle()
    assert holding(tmp_path, secret) != []
    ranges = key_ranges(rig.frontier, A)

    dropped(rig, A)
    if compacted:
        kv.compact(ranges)

    left = [name for name in holding(tmp_path, secret) if not name.startswith("MANIFEST")]
    assert (left == []) == compacted
    assert rig.frontier.hosts[B].record.known == 100
    kv.close()
    RocksKV(tmp_path / "state").close()
    assert (holding(tmp_path, secret) == []) == compacted, (
        "RocksDB's list of files quotes keys until the next start"
    )


def holding(folder: Path, word: str) -> list[str]:
    """Files in which the word stands, byte by byte."""
    return [p.name for p in folder.rglob("*") if p.is_file() and word.encode() in p.read_bytes()]


@pytest.mark.parametrize("bar", ["excluded", "purged"])
def test_barred_urls_neither_enter_nor_are_fetched_and_their_neighbours_are(bar: str) -> None:
    rig = FrontierRig(A)
    rig.discover(url("in/1"), url("out/1"))

    if bar == "excluded":
        rig.exclude(url("in/"))
    else:
        rig.book.purging.add(url("in/"))
    plan = rig.discover(url("in/2"), url("out/2"))
    queued = []
    rig.apply(lambda planner: queued.append(planner.recrawl(url("in/1"), "r1")))

    assert (plan.new_urls, plan.turned_away, queued) == (1, {EXCLUDED: 1}, [EXCLUDED])
    fetched = set()
    for _ in range(2):
        lease = rig.claim_page()
        fetched.add(lease.url)
        rig.finish(lease)
    assert rig.next_claim(5.0) is None
    assert fetched == {url("out/1"), url("out/2")}
    (denied,) = rig.frontier.denied
    assert (denied.url, denied.refused) == (url("in/1"), EXCLUDED)
    rig.apply(lambda planner: planner.denied(denied))
    assert known(rig, url("in/1")).reason == EXCLUDED


def test_a_paused_domain_is_held_with_all_its_hosts_and_goes_on_where_it_was() -> None:
    rig = FrontierRig("a.shop.test", "b.shop.test", B)
    rig.discover(*(url("1", host) for host in ("a.shop.test", "b.shop.test", B)))
    rig.book.stops.hear([Word("shop.test", True, 1.0)])

    first = rig.next_claim()
    assert first is not None
    assert first.host == B
    assert rig.next_claim(60.0) is None

    assert not rig.book.stops.hear([Word("shop.test", False, 0.5)]), "an older word"
    assert rig.book.stops.hear([Word("shop.test", False, 2.0)])
    rig.frontier.resume(*rig.times())
    hosts = {lease.host for _ in range(2) if (lease := rig.next_claim()) is not None}
    assert hosts == {"a.shop.test", "b.shop.test"}


def test_ablation_without_the_look_at_pauses_it_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = FrontierRig("a.shop.test", kv=MemoryKV())
    rig.discover(url("1", "a.shop.test"))
    rig.book.stops.hear([Word("shop.test", True, 1.0)])
    assert rig.next_claim(60.0) is None

    rig.frontier.resume(*rig.times())
    assert rig.next_claim(60.0) is None, "it is paused still"
    monkeypatch.setattr(rig.book.stops, "holds", lambda host: False)
    rig.frontier.resume(*rig.times())

    assert rig.next_claim(60.0) is not None
