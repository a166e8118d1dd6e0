"""Hosts at rest: what a cell keeps of those that it does not serve just now."""

import tracemalloc
from collections import defaultdict
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.frontier.hosts import HostState, Look
from crawl_platform.frontier.known_hosts import KnownHosts, Rest
from crawl_platform.frontier.lease import Lease
from crawl_platform.frontier.windows import Window
from crawl_platform.settings import Frontier as FrontierSettings
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import url

HOSTS = [f"{name}.test" for name in "abcdef"]
ALL = 1_000


def rig_of(most: int) -> FrontierRig:
    return FrontierRig(*HOSTS, settings=FrontierSettings(bloom_capacity=10_000, active_hosts=most))


class Crawl:
    """Requests in an order drawn from a seed. Hosts answer, ask for a longer delay, or are to be left alone."""

    def __init__(self, most: int, seed: int, steps: bool = False) -> None:
        """`steps`: whether somebody steps the wall clock now and then."""
        self.rig = rig_of(most)
        self.steps = steps
        self.random = Random(seed)
        self.claims: list[tuple[float, str]] = []
        self.not_before: dict[str, float] = defaultdict(float)
        self.asked: dict[str, float] = defaultdict(float)
        self.landed: list[Lease] = []

    def run(self, steps: int) -> list[tuple[float, str]]:
        self.rig.discover(*(url(f"{n}", host) for host in HOSTS for n in range(3)))
        for step in range(steps):
            self.random.choice([self.fetch, self.fetch, self.fetch, self.commit, self.find, self.wait])(step)
        return self.claims

    def fetch(self, step: int) -> None:
        lease = self.rig.claim()
        if lease is None:
            return
        assert isinstance(lease, Lease)
        start = self.rig.clock.boottime()
        assert start >= self.not_before[lease.host], f"{lease.host} is asked too early"
        self.claims.append((start, lease.url))
        self.answer(lease)
        self.rig.land(lease, took=0.5)
        self.not_before[lease.host] = max(
            self.not_before[lease.host], self.rig.clock.boottime() + self.asked[lease.host]
        )
        self.landed.append(lease)

    def answer(self, lease: Lease) -> None:
        now, boot = self.rig.times()
        record = self.rig.frontier.hosts[lease.host].record
        kind = self.random.randrange(4)
        if kind == 0:  # robots.txt asks for more: in force at once, written down with the next commit
            record.crawl_delay = self.asked[lease.host] = self.random.choice([20.0, 90.0])
        if kind == 1:  # Retry-After
            wait = self.random.choice([30.0, 600.0])
            record.not_before, record.not_before_boot, record.left_alone = now + wait, boot + wait, wait
            self.not_before[lease.host] = max(self.not_before[lease.host], boot + wait)
            self.rig.gates.hold_host(lease.host, boot + wait)

    def commit(self, step: int) -> None:
        results = [
            self.rig.result(lease, self.random.choice(["success", "gone"]), changed=True)
            for lease in self.landed
        ]
        self.landed = []
        self.rig.apply(*(lambda planner, one=one: planner.page(one) for one in results))

    def find(self, step: int) -> None:
        self.rig.discover(url(f"new-{step}", self.random.choice(HOSTS)), value=self.random.random())

    def wait(self, step: int) -> None:
        self.rig.clock.advance(self.random.choice([1.0, 15.0, 3_600.0]))
        if self.random.random() < 0.2 and self.steps:
            self.rig.clock.step(self.random.choice([-7_200.0, 7_200.0]))


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4]))
@settings(deadline=None)
def test_a_cell_that_lets_hosts_rest_asks_what_and_when_one_that_keeps_all_does(seed: int, most: int) -> None:
    few, all_ = Crawl(most, seed), Crawl(ALL, seed)

    assert few.run(60) == all_.run(60)
    assert {host: few.rig.frontier.hosts[host].record for host in HOSTS} == {
        host: all_.rig.frontier.hosts[host].record for host in HOSTS
    }


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4]))
@settings(deadline=None)
def test_no_host_that_has_rested_is_asked_too_early_though_the_clock_is_stepped(seed: int, most: int) -> None:
    crawl = Crawl(most, seed, steps=True)

    crawl.run(60)

    assert crawl.claims


def forgetful(self: KnownHosts, state: HostState) -> None:
    """Nothing is written down of a host that is put to rest."""
    rest = Rest(Look(), {}, 0, 0.0, True, False, False, state.record.queued, 0.0)
    self._resting[state.host] = msgspec.msgpack.encode(rest)


def test_ablation_a_host_that_rests_before_its_delay_is_written_down_is_asked_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KnownHosts, "_put_to_rest", forgetful)
    monkeypatch.setattr(HostState, "is_busy", property(lambda self: self.in_flight))

    def crawl_much() -> None:
        for seed in range(50):
            Crawl(1, seed).run(60)

    with pytest.raises(AssertionError, match="too early"):
        crawl_much()


def urls_claimed_before_a_commit() -> list[str]:
    rig = rig_of(1)
    rig.discover(*(url("1", host) for host in HOSTS))
    leases = [rig.claim_page() for _ in HOSTS]
    for lease in leases:
        rig.land(lease)
    rig.discover(*(url("2", host) for host in HOSTS), value=0.1)
    return [lease.url for lease in (*leases, *(rig.claim_page() for _ in HOSTS))]


def test_a_url_whose_result_is_not_committed_is_not_claimed_again() -> None:
    urls = urls_claimed_before_a_commit()

    assert len(set(urls)) == len(urls)


def test_ablation_a_host_that_rests_before_the_commit_is_asked_for_the_same_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(HostState, "is_busy", property(lambda self: self.in_flight))
    urls = urls_claimed_before_a_commit()

    assert len(set(urls)) < len(urls)


def test_so_many_hosts_are_in_memory_and_those_served_stay() -> None:
    rig = rig_of(2)
    rig.discover(*(url(f"{n}", host) for host in HOSTS for n in range(2)))
    hosts = rig.frontier.hosts

    assert len(hosts.awake) == 2
    assert (len(hosts), sorted(hosts)) == (6, HOSTS)
    assert hosts.queued == 12

    leases = [rig.claim_page() for _ in HOSTS]
    assert {lease.host for lease in leases} == set(hosts.awake)

    for lease in leases:
        rig.finish(lease, "gone")
    assert len(hosts.awake) == 2
    assert hosts.queued == 6


def test_hosts_at_rest_whose_window_is_used_up_are_woken_by_the_next_one() -> None:
    rig = rig_of(1)
    rig.discover(*(url(f"{n}", host) for host in HOSTS for n in range(3)))
    now, boot = rig.times()
    windows = dict.fromkeys(range(rig.n_shards), Window("first", now + 9e9, dict.fromkeys(HOSTS, 1)))
    rig.frontier.open_windows(windows, now, boot)
    fetched = [rig.finish(lease, "gone") for _ in HOSTS if (lease := rig.claim_page())]
    assert len(fetched) == len(HOSTS)
    assert rig.next_claim(patience=1e6) is None

    windows = dict.fromkeys(windows, Window("second", now + 9e9, dict.fromkeys(HOSTS, 1)))
    rig.frontier.open_windows(windows, *rig.times())

    assert {rig.claim_page().host for _ in HOSTS} == set(HOSTS)


def test_what_is_slowed_is_counted_though_it_rests() -> None:
    rig = rig_of(1)
    rig.discover(*(url("1", host) for host in HOSTS))
    state = rig.frontier.hosts[HOSTS[0]]
    state.record.pace = msgspec.structs.replace(state.record.pace, delay=20.0)
    rig.discover(url("2", HOSTS[1]))

    assert HOSTS[0] not in rig.frontier.hosts.awake
    assert rig.frontier.hosts.slowed() == [20.0]


def test_a_host_that_is_purged_at_rest_is_known_no_more() -> None:
    rig = rig_of(1)
    rig.discover(*(url("1", host) for host in HOSTS))
    hosts = rig.frontier.hosts

    for host in HOSTS[:3]:
        del hosts[host]

    assert sorted(hosts) == HOSTS[3:]
    assert hosts.queued == 3
    with pytest.raises(KeyError):
        hosts[HOSTS[0]]


def memory_of(known: int, most: int) -> float:
    """Bytes per known host after a start."""
    hosts = [f"www.host-{n}.test" for n in range(known)]
    limits = FrontierSettings(bloom_capacity=10_000, seen_cache=1_024, active_hosts=most)
    rig = FrontierRig(*hosts, settings=limits, open_robots=False)
    sections = ("news", "world", "science", "culture")
    for start in range(0, known, 500):
        some = hosts[start : start + 500]
        rig.discover(*(url(f"{section}/a-page", host) for host in some for section in sections))
    tracemalloc.start()
    rig.restart()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / known


@pytest.mark.long
def test_what_a_host_at_rest_takes_is_a_fraction_of_one_in_memory() -> None:
    at_rest, in_memory = memory_of(4_000, 50), memory_of(4_000, 4_000)

    assert at_rest < 1_500, (at_rest, in_memory)
    assert at_rest < in_memory / 3, (at_rest, in_memory)
