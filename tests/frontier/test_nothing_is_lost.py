"""The frontier against a model, over random histories with crashes: no known, eligible URL is ever lost.

The machine discovers, claims, lands, commits, asks again, excludes and crashes (before, or between, the write
and the absorbing of an epoch) in any order. After every step the store must add up; at the end every URL that
may still be fetched must come out.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from crawl_platform.admission.hosts import SEED
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.lease import Found, Lease, PageResult
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.records import (
    DROPPED,
    GONE,
    NO_LANE,
    HostRecord,
    UrlRecord,
    decode,
    places_of,
    shard_range,
    url_of_key,
)
from crawl_platform.settings import Frontier as FrontierSettings
from crawl_platform.settings import HostRule, Refresh
from crawl_platform.testing.builders import FrontierRig
from crawl_platform.web.url import host_of

HOSTS = ("a.test", "b.test", "c.test")
TARGETS = st.builds(lambda host, n: f"https://{host}/{n}", st.sampled_from(HOSTS), st.integers(0, 6))
DISPOSITIONS = st.sampled_from(["success", "success", "redirect", "retry", "gone", "refused"])


def truth(rig: FrontierRig) -> dict[str, UrlRecord]:
    """Every URL in the store."""
    found = {}
    for shard in rig.shards:
        for key, value in rig.kv.scan(*shard_range(b"u", shard)):
            found[url_of_key(key)[1]] = decode(value, UrlRecord)
    return found


def queue_keys(rig: FrontierRig) -> set[bytes]:
    return {key for shard in rig.shards for key, _ in rig.kv.scan(*shard_range(b"q", shard))}


class FrontierHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.rig = FrontierRig(
            *HOSTS,
            n_shards=4,
            host_rules=(HostRule("b.test", promises={"within": 300.0}),),
            settings=FrontierSettings(bloom_capacity=50, max_attempts=3, retry_delay=10.0),
            refresh=Refresh(interval_min=50.0, interval_max=500.0),
        )
        self.known: set[str] = set()
        self.owed: set[str] = set()
        """Asked for by a request that no fetch begun since has answered."""
        self.in_flight: list[Lease] = []
        self.landed: list[PageResult] = []
        self.requests = 0

    # steps

    @initialize(urls=st.lists(TARGETS, min_size=1, max_size=5))
    def seed(self, urls: list[str]) -> None:
        self.discover(urls, 0.5)

    @rule(urls=st.lists(TARGETS, min_size=1, max_size=4), value=st.floats(0, 1))
    def discover(self, urls: list[str], value: float) -> None:
        self.rig.discover(*urls, value=value)
        self.known |= {url for url in urls if self.eligible(url)}

    @rule(seconds=st.floats(0, 300))
    def time_passes(self, seconds: float) -> None:
        self.rig.clock.advance(seconds)

    @rule()
    def claim(self) -> None:
        lease = self.rig.claim()
        if lease is None:
            return
        assert isinstance(lease, Lease)
        assert self.eligible(lease.url)
        assert lease.url in self.known
        assert lease.url not in self.leased(), "claimed twice"
        assert lease.host not in {other.host for other in self.in_flight}, "two requests to one host"
        self.in_flight.append(lease)
        self.owed.discard(lease.url)

    @precondition(lambda self: self.in_flight)
    @rule(disposition=DISPOSITIONS, found=st.lists(TARGETS, max_size=3), took=st.floats(0, 5), data=st.data())
    def land(self, disposition: str, found: list[str], took: float, data: st.DataObject) -> None:
        lease = self.in_flight.pop(data.draw(st.integers(0, len(self.in_flight) - 1)))
        self.rig.land(lease, took)
        links = [Found(url, 1, 0.5) for url in found] if disposition in ("success", "redirect") else []
        body = 7 if disposition == "success" else 0
        self.landed.append(self.rig.result(lease, disposition, found=links, body_hash=body))

    @precondition(lambda self: self.in_flight)
    @rule()
    def hand_back(self) -> None:
        lease = self.in_flight.pop()
        self.rig.gates.release_host(lease.host)
        self.rig.frontier.hand_back(lease)
        self.rig.frontier.landed(lease.host, *self.rig.times())

    @precondition(lambda self: self.landed)
    @rule(crash=st.sampled_from(["no", "no", "no", "before the write", "before absorbing"]))
    def commit(self, crash: str) -> None:
        results, self.landed = self.landed, []
        plan = self.rig.plan(*((lambda planner, r=r: planner.page(r)) for r in results))
        if crash == "before the write":
            self.crash()
            return
        if crash == "before absorbing":
            self.rig.kv.write(plan.batch, sync=True)
        else:
            self.rig.write(plan)
        self.known |= {f.url for r in results for f in r.found if self.eligible(f.url)}
        if crash == "before absorbing":
            self.crash()

    @rule(url=TARGETS)
    def ask(self, url: str) -> None:
        self.requests += 1
        name = f"r{self.requests}"
        self.rig.apply(lambda planner: planner.recrawl(url, name))
        self.rig.allow_all(url.split("/")[2])
        if self.eligible(url):
            self.known.add(url)
            self.owed.add(url)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def redeliver(self, data: st.DataObject) -> None:
        url = data.draw(st.sampled_from(sorted(self.known)))
        host = url.split("/")[2]
        self.rig.clock.advance(0.002)
        self.rig.apply(lambda planner: planner.redeliver(host, url))
        self.owed.add(url)

    @rule(host=st.sampled_from(HOSTS))
    def exclude_or_lift(self, host: str) -> None:
        if self.rig.directives[host] == SEED:
            self.rig.exclude(host)
        else:
            self.lift(host)

    def lift(self, host: str) -> None:
        self.rig.directives[host] = SEED
        self.rig.book.set(host, SEED)
        self.rig.frontier.reschedule(host, *self.rig.times())

    @rule()
    def crash(self) -> None:
        self.in_flight, self.landed = [], []
        self.rig.restart()

    # what is true after every step

    def eligible(self, url: str) -> bool:
        return self.rig.directives[url.split("/")[2]] == SEED

    def leased(self) -> set[str]:
        return {lease.url for lease in self.in_flight} | {result.lease.url for result in self.landed}

    @invariant()
    def every_known_url_is_in_the_store_and_waits_unless_it_is_done_with(self) -> None:
        records = truth(self.rig)
        assert set(records) == self.known
        for url, record in records.items():
            assert record.lane != NO_LANE or record.state in (GONE, DROPPED), url
        for url in self.owed:
            assert records[url].lane != NO_LANE, url

    @invariant()
    def the_queues_hold_exactly_what_the_records_say(self) -> None:
        book = self.rig.book
        assert queue_keys(self.rig) == {
            place
            for url, record in truth(self.rig).items()
            for place in places_of(book.shard(host_of(url)), host_of(url), url, record)
        }

    @invariant()
    def counts_equal_the_stores_truth(self) -> None:
        records = truth(self.rig)
        frontier = self.rig.frontier
        dead = [r for r in records.values() if r.state in (GONE, DROPPED) and not r.last_success_at]
        for host, state in frontier.hosts.items():
            own = {url: record for url, record in records.items() if url.split("/")[2] == host}
            stored = self.rig.kv.get(b"h" + state.shard.to_bytes(2, "big") + host.encode())
            assert stored is not None
            for record in (state.record, decode(stored, HostRecord)):
                assert record.known == len(own)
                assert record.queued == sum(r.lane != NO_LANE for r in own.values())
                assert record.fetched == sum(r.last_success_at > 0 for r in own.values())
        assert frontier.known == len(records)
        assert frontier.fetched == sum(r.last_success_at > 0 for r in records.values())
        assert frontier.backlog() == len(records) - frontier.fetched - len(dead)

    @invariant()
    def the_frontier_holds_leases_for_exactly_what_is_under_way(self) -> None:
        held = {url for state in self.rig.frontier.hosts.values() for url in state.leased}
        assert held == self.leased()

    # and in the end

    def teardown(self) -> None:
        """Faults heal: whatever may be fetched comes out of its queue."""
        for lease in list(self.in_flight):
            self.rig.land(lease)
            self.landed.append(self.rig.result(lease, "retry"))
        self.in_flight = []
        if self.landed:
            self.commit("no")
        for host in HOSTS:
            self.lift(host)
        waiting = {url for url, record in truth(self.rig).items() if record.lane != NO_LANE}
        for _ in range(len(waiting)):
            lease = self.rig.claim_page()
            waiting.discard(lease.url)
            self.rig.finish(lease, "refused")
        assert not waiting
        assert self.rig.next_claim() is None


TestFrontierHistory = FrontierHistory.TestCase
TestFrontierHistory.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


# ablations: the machine sees what it is there to see


class Forgetful(Planner):
    """Leaves a fetched URL out of every queue."""

    def _queue_again(self, host: str, url: str, record: UrlRecord) -> None:
        return


class Claiming(Frontier):
    """Takes a URL out of its durable queue when it is claimed, not when its epoch commits."""

    def _pick(self, state: HostState, now: float, boot: float):  # type: ignore[no-untyped-def]
        lease = super()._pick(state, now, boot)
        if isinstance(lease, Lease):
            planner = Planner(self, now)
            record = planner._over.load(lease.host, lease.url)
            assert record is not None
            planner._over.unqueue(lease.host, lease.url, record)
            self.kv.write(planner.finish().batch)
        return lease


def history(machine: FrontierHistory) -> None:
    """A short life: discover, claim, crash, claim again, commit."""
    machine.seed([f"https://{host}/1" for host in HOSTS])
    machine.time_passes(10.0)
    machine.claim()
    machine.crash()
    machine.time_passes(10.0)
    machine.claim()
    lease = machine.in_flight.pop()
    machine.rig.land(lease)
    machine.landed.append(machine.rig.result(lease))
    machine.commit("no")
    machine.every_known_url_is_in_the_store_and_waits_unless_it_is_done_with()
    machine.the_queues_hold_exactly_what_the_records_say()
    machine.counts_equal_the_stores_truth()
    machine.teardown()


def test_a_short_history_holds() -> None:
    history(FrontierHistory())


@pytest.mark.parametrize("broken", ["claims are written", "results are not queued again"])
def test_ablation_a_frontier_that_loses_urls_is_caught(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "claims are written":
        monkeypatch.setattr("crawl_platform.testing.builders.Frontier", Claiming)
    else:
        monkeypatch.setattr("crawl_platform.testing.builders.Planner", Forgetful)

    with pytest.raises((AssertionError, LookupError)):
        history(FrontierHistory())
