"""What an epoch changes: entries past boundary and traps, results, retries, requests, redelivery."""

import pytest

from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.kv import MemoryKV, OrderedKV
from crawl_platform.frontier.lease import Found, Lease
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.records import (
    DISCOVERY,
    DROPPED,
    FASTLANE,
    FETCHED,
    GONE,
    NO_LANE,
    QUEUED,
    REFRESH,
    UrlRecord,
)
from crawl_platform.frontier.seen import SeenSet
from crawl_platform.settings import Frontier as FrontierSettings
from crawl_platform.settings import Refresh
from crawl_platform.testing.builders import FrontierRig
from crawl_platform.web.host import shard_of

A, B = "a.test", "b.test"


def url(path: str, host: str = A) -> str:
    return f"https://{host}/{path}"


def known(rig: FrontierRig, target: str, host: str = A) -> UrlRecord:
    record = rig.record(host, target)
    assert record is not None
    return record


# leases outlive crashes


def test_a_claimed_url_stays_queued_until_its_epoch_is_absorbed(store: OrderedKV) -> None:
    rig = FrontierRig(A, kv=store)
    rig.discover(url("1"))
    rig.land(rig.claim_page())

    rig.restart()  # before the commit point: as if it had never been claimed

    assert rig.claim_page().url == url("1")


def test_a_plan_that_was_not_written_changed_nothing(store: OrderedKV) -> None:
    rig = FrontierRig(A, kv=store)
    rig.discover(url("1"))
    before = list(store.scan(b"", b"\xff"))
    lease = rig.claim_page()
    rig.land(lease)

    rig.plan(lambda planner: planner.page(rig.result(lease, found=[Found(url("2"), 1, 0.5)])))

    assert list(store.scan(b"", b"\xff")) == before


def test_a_plan_written_but_not_absorbed_before_a_crash_counts(store: OrderedKV) -> None:
    rig = FrontierRig(A, kv=store)
    rig.discover(url("1"))
    lease = rig.claim_page()
    rig.land(lease)
    plan = rig.plan(lambda planner: planner.page(rig.result(lease, "gone", found=[Found(url("2"), 1, 0.5)])))

    store.write(plan.batch, sync=True)
    rig.restart()

    assert rig.claim_page().url == url("2")
    assert known(rig, url("1")).state == GONE


def test_a_url_is_not_claimed_twice_while_its_epoch_is_open() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"), url("2"))
    first = rig.claim_page()
    rig.land(first)

    assert rig.claim_page().url != first.url


# entries


def test_a_new_url_is_queued_for_discovery_and_counted() -> None:
    rig = FrontierRig(A)

    plan = rig.discover(url("1"), depth=3, value=0.25, hops=1)

    record = known(rig, url("1"))
    assert (record.state, record.lane, record.depth, record.value, record.hops) == (
        QUEUED,
        DISCOVERY,
        3,
        0.25,
        1,
    )
    assert (plan.new_urls, rig.frontier.known, rig.frontier.hosts[A].record.queued) == (1, 1, 1)


def test_a_url_enters_once_within_an_epoch_after_it_and_after_a_restart() -> None:
    rig = FrontierRig(A)

    assert rig.discover(url("1"), url("1")).turned_away == {"seen": 1}
    assert rig.discover(url("1")).turned_away == {"seen": 1}
    rig.restart()
    assert rig.discover(url("1")).turned_away == {"seen": 1}
    assert rig.frontier.known == 1


def test_a_bloom_filter_that_errs_on_every_url_costs_lookups_and_no_page() -> None:
    rig = FrontierRig(A)
    lossy(rig.frontier)

    plan = rig.discover(*(url(f"{n}") for n in range(50)))

    assert plan.new_urls == 50
    assert rig.frontier.seen.false_positives == 50


def test_ablation_without_the_durable_confirm_the_same_filter_loses_pages() -> None:
    rig = FrontierRig(A)
    lossy(rig.frontier)
    rig.frontier.seen._confirm = lambda key: True

    assert rig.discover(*(url(f"{n}") for n in range(50))).new_urls == 0


def lossy(frontier: Frontier) -> None:
    """Give the frontier a filter that takes every URL for known."""
    kv = frontier.kv
    frontier.seen = SeenSet(10, 10, lambda key: kv.get(key) is not None)

    class Full:
        def __contains__(self, key: object) -> bool:
            return True

        def add(self, key: object) -> None: ...

    frontier.seen._filters = [Full()]  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("x" * 2_100, "url-too-long"),
        ("a/b/a/b/a/b/a/b/a/b", "repeated-segments"),
        ("p?" + "&".join(f"k{n}={n}" for n in range(12)), "too-many-parameters"),
        ("calendar/3021/05/01", "calendar-run"),
    ],
)
def test_a_trap_is_turned_away_with_its_reason(path: str, reason: str) -> None:
    rig = FrontierRig(A)

    plan = rig.discover(url(path))

    assert plan.turned_away == {reason: 1}
    assert rig.record(A, url(path)) is None


def test_depth_is_capped() -> None:
    rig = FrontierRig(A, settings=FrontierSettings(max_depth=3, bloom_capacity=100))

    assert rig.discover(url("3"), depth=3).new_urls == 1
    assert rig.discover(url("4"), depth=4).turned_away == {"too_deep": 1}


def test_redirects_that_follow_one_another_are_capped() -> None:
    rig = FrontierRig(A, settings=FrontierSettings(max_hops=2, bloom_capacity=100))

    rig.discover(url("start"))
    for n in range(2):
        lease = rig.claim_page()
        rig.finish(lease, "redirect", found=[Found(url(f"hop{n}"), 0, 0.5, lease.record.hops + 1)])
    last = rig.claim_page()
    plan = rig.finish(last, "redirect", found=[Found(url("hop9"), 0, 0.5, last.record.hops + 1)])

    assert plan.turned_away == {"too_many_redirects": 1}


def test_a_host_beyond_its_page_budget_takes_only_shallow_pages() -> None:
    rig = FrontierRig(A, settings=FrontierSettings(page_budget=3, surface_depth=1, bloom_capacity=100))
    rig.discover(*(url(f"{n}") for n in range(3)), depth=5)

    assert rig.discover(url("deep"), depth=2).turned_away == {"surface_mode": 1}
    assert rig.discover(url("shallow"), depth=1).new_urls == 1

    rig.restart()
    assert rig.discover(url("deep"), depth=2).turned_away == {"surface_mode": 1}


@pytest.mark.parametrize("depth", [0, 1, 5])
def test_a_host_is_bounded_whatever_it_publishes_at_whatever_depth(depth: int) -> None:
    rig = FrontierRig(A, settings=FrontierSettings(page_budget=10, surface_depth=1, bloom_capacity=100))

    for n in range(100):
        rig.discover(*(url(f"{n}/{m}") for m in range(5)), depth=depth)

    assert rig.frontier.known == (20 if depth <= 1 else 10)


def test_on_the_way_into_surface_mode_deeper_pages_leave_the_queue_and_stay_known() -> None:
    rig = FrontierRig(A, settings=FrontierSettings(page_budget=4, surface_depth=1, bloom_capacity=100))
    rig.discover(url("deep1"), url("deep2"), depth=3)
    rig.discover(url("shallow1"), url("shallow2"), depth=1)
    rig.discover(url("one too many"), depth=2)

    claimed = [rig.claim_page().url]
    rig.clock.advance(10)
    for lease in (denied := rig.frontier.denied):
        rig.apply(lambda planner, lease=lease: planner.denied(lease))

    assert claimed == [url("shallow1")]
    assert {lease.url for lease in denied} == {url("deep1"), url("deep2")}
    assert (known(rig, url("deep1")).state, known(rig, url("deep1")).reason) == (DROPPED, "surface_mode")


def test_a_request_reaches_below_the_surface() -> None:
    rig = FrontierRig(A, settings=FrontierSettings(page_budget=1, surface_depth=1, bloom_capacity=100))
    rig.discover(url("deep"), depth=3)
    rig.discover(url("one too many"), depth=2)

    rig.apply(lambda planner: planner.recrawl(url("deep"), "r1"))

    assert rig.claim_page().url == url("deep")


def test_the_horizon_never_enters() -> None:
    rig = FrontierRig(A)

    plan = rig.discover("https://stranger.test/1", "https://sub.a.test/1")

    assert plan.turned_away == {"horizon": 2}
    assert set(rig.frontier.hosts) <= {A}
    assert len(plan.batch) == 0


@pytest.mark.parametrize("name", [A, "*.a.test", "*.test"])
def test_an_excluded_host_takes_no_more_urls(name: str) -> None:
    rig = FrontierRig(A)
    rig.exclude(name)

    assert rig.discover(url("1")).turned_away == {"excluded": 1}
    assert rig.apply(lambda planner: planner.recrawl(url("1"), "r1")).new_urls == 0
    assert not Planner(rig.frontier, 0.0).admit(A, [], trusted=True, decision_id="d")


def test_urls_of_other_cells_shards_are_handed_on_and_not_kept() -> None:
    mine = shard_of(A, 64)
    rig = FrontierRig(A, B, n_shards=64, shards=frozenset({mine}))
    assert shard_of(B, 64) != mine

    plan = rig.discover(url("1"), url("1", B), depth=2, value=0.75)

    assert plan.foreign == {shard_of(B, 64): [Found(url("1", B), 2, 0.75)]}
    assert rig.record(B, url("1", B)) is None
    assert plan.turned_away == {}


def test_a_host_is_admitted_once_with_its_known_urls() -> None:
    rig = FrontierRig()
    news = []

    def admit(planner: Planner) -> None:
        news.append(planner.admit(A, [Found(url("1"), 0, 1.0)], trusted=True, decision_id="d1"))

    rig.apply(admit)
    rig.apply(admit)

    record = rig.frontier.hosts[A].record
    assert news == [True, False]
    assert (record.trusted, record.decision_id, record.known, record.queued) == (True, "d1", 1, 1)


# results


def test_a_success_is_due_again_after_the_mean_time_between_its_changes() -> None:
    rig = FrontierRig(A, refresh=Refresh(interval_min=1.0, prior_shape=1.0, prior_rate=1.0))
    rig.discover(url("1"))

    rig.finish(rig.claim_page(), body_hash=7, links_hash=8, fingerprint="f", etag="e", posterior=(1.0, 0.0))

    record = known(rig, url("1"))
    assert (record.state, record.lane, record.fails) == (FETCHED, REFRESH, 0)
    assert (record.body_hash, record.links_hash, record.fingerprint, record.etag) == (7, 8, "f", "e")
    assert record.rank / 1000 - rig.clock.now() == pytest.approx(43_200, abs=1)
    assert (rig.frontier.fetched, rig.frontier.hosts[A].record.fetched) == (1, 1)


@pytest.mark.parametrize(("posterior", "expected"), [((1e6, 0.0), 100.0), ((0.0, 1e9), 1_000.0)])
def test_the_interval_stays_within_its_bounds(posterior: tuple[float, float], expected: float) -> None:
    rig = FrontierRig(A, refresh=Refresh(interval_min=100.0, interval_max=1_000.0))
    rig.discover(url("1"))

    rig.finish(rig.claim_page(), posterior=posterior)

    assert known(rig, url("1")).rank / 1000 - rig.clock.now() == pytest.approx(expected, abs=1)


def test_a_second_success_is_not_a_first_fetch() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    assert rig.finish(rig.claim_page()).first_fetches == 1
    assert rig.finish(rig.claim_page()).first_fetches == 0
    assert rig.frontier.fetched == 1


@pytest.mark.parametrize(("disposition", "state"), [("gone", GONE), ("refused", DROPPED)])
def test_a_page_that_is_no_page_leaves_the_queue_and_stays_known(disposition: str, state: int) -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))

    rig.finish(rig.claim_page(), disposition, reason="why")

    record = known(rig, url("1"))
    assert (record.state, record.lane, record.reason) == (state, NO_LANE, "why")
    assert rig.next_claim() is None
    assert rig.discover(url("1")).turned_away == {"seen": 1}


def test_a_failed_fetch_is_tried_again_with_growing_waits_and_given_up_in_the_end() -> None:
    rig = FrontierRig(A, settings=FrontierSettings(max_attempts=4, retry_delay=60.0, bloom_capacity=100))
    rig.discover(url("1"))
    waits = []

    while isinstance(lease := rig.next_claim(), Lease):
        rig.finish(lease, "retry", reason="read_timeout")
        waits.append(known(rig, url("1")).rank / 1000 - rig.clock.now())

    assert waits[:3] == pytest.approx([60, 120, 240], abs=1)
    assert len(waits) == 4
    assert (known(rig, url("1")).state, known(rig, url("1")).reason) == (GONE, "read_timeout")


def test_a_page_that_once_worked_is_never_given_up_and_a_success_clears_its_failures() -> None:
    rig = FrontierRig(A, settings=FrontierSettings(max_attempts=2, bloom_capacity=100))
    rig.discover(url("1"))
    rig.finish(rig.claim_page())

    for _ in range(5):
        rig.finish(rig.claim_page(), "retry")
    assert (known(rig, url("1")).fails, known(rig, url("1")).lane) == (5, REFRESH)
    rig.finish(rig.claim_page())

    assert known(rig, url("1")).fails == 0


def test_a_failure_keeps_what_the_last_success_taught() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    rig.finish(rig.claim_page(), body_hash=7, etag="e", link_set="set")
    at = known(rig, url("1")).last_success_at

    rig.finish(rig.claim_page(), "retry")

    record = known(rig, url("1"))
    assert (record.body_hash, record.etag, record.link_set, record.last_success_at) == (7, "e", "set", at)


def test_the_manifest_that_carries_its_rows_is_written_on_the_url() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))

    rig.finish(rig.claim_page(), manifest=12)

    assert (known(rig, url("1")).series, known(rig, url("1")).manifest) == ("bulk", 12)


# requests


def test_a_requested_url_goes_into_the_fastlane_with_its_request() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))

    rig.apply(lambda planner: planner.recrawl(url("1"), "r1"))

    lease = rig.claim_page()
    assert (lease.lane, lease.record.request_id) == (FASTLANE, "r1")
    rig.finish(lease)
    assert known(rig, url("1")).request_id == ""


def test_a_request_for_an_unknown_url_of_a_seed_host_makes_it_known() -> None:
    rig = FrontierRig(A)

    rig.apply(lambda planner: planner.recrawl(url("new"), "r1"))

    assert rig.frontier.known == 1
    assert rig.discover(url("new")).turned_away == {"seen": 1}


@pytest.mark.parametrize("disposition", ["gone", "refused"])
def test_a_request_brings_back_what_was_gone(disposition: str) -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    rig.finish(rig.claim_page(), disposition)

    rig.apply(lambda planner: planner.recrawl(url("1"), "r1"))

    assert rig.claim_page().url == url("1")


def test_a_request_that_comes_while_the_url_is_in_flight_is_kept() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    lease = rig.claim_page()
    rig.apply(lambda planner: planner.recrawl(url("1"), "r1"))
    assert rig.claim() is None

    rig.finish(lease)

    again = rig.claim_page()
    assert (again.lane, again.record.request_id) == (FASTLANE, "r1")


@pytest.mark.parametrize("disposition", ["success", "gone", "retry", "refused"])
def test_a_second_request_in_flight_of_the_first_is_kept_however_that_one_ends(disposition: str) -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    rig.apply(lambda planner: planner.recrawl(url("1"), "r1"))
    lease = rig.claim_page()
    rig.apply(lambda planner: planner.recrawl(url("1"), "r2"))

    rig.finish(lease, disposition)

    assert rig.claim_page().record.request_id == "r2"


def test_a_request_for_the_horizon_is_refused() -> None:
    rig = FrontierRig(A)

    assert Planner(rig.frontier, 0.0).recrawl("https://stranger.test/", "r1") == "horizon"


# redelivery


def redeliver(rig: FrontierRig, target: str) -> None:
    rig.apply(lambda planner: planner.redeliver(A, target, known(rig, target)))


def test_a_redelivered_url_is_fetched_at_once_as_if_never_seen() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    rig.finish(
        rig.claim_page(),
        body_hash=7,
        links_hash=8,
        etag="e",
        last_modified="m",
        fingerprint="f",
        link_set="quarantined",
    )

    redeliver(rig, url("1"))

    record = rig.claim_page().record
    assert (record.body_hash, record.links_hash, record.etag, record.last_modified) == (0, 0, "", "")
    # With the old fingerprint the page would pass for unchanged and its lost `pages` row never be written.
    assert (record.fingerprint, record.link_set) == ("", "")


def test_a_redelivery_that_comes_while_the_url_is_in_flight_is_kept() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    rig.finish(rig.claim_page(), body_hash=7, fingerprint="f")
    lease = rig.claim_page()  # may end as 304: it brings no rows that could stand in for the lost ones
    redeliver(rig, url("1"))

    rig.finish(lease, body_hash=7, fingerprint="f", changed=False)

    again = rig.claim_page()
    assert again.lane == FASTLANE
    assert (again.record.body_hash, again.record.fingerprint) == (0, "")


def test_a_redelivered_url_that_was_gone_is_tried_again_until_it_is_known_what_it_is() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    rig.finish(rig.claim_page(), "gone")
    redeliver(rig, url("1"))

    rig.finish(rig.claim_page(), "retry")

    assert rig.claim_page().url == url("1")


# counts


def test_counts_of_a_host_are_those_of_its_store() -> None:
    rig = FrontierRig(A)
    rig.discover(*(url(f"{n}") for n in range(4)))
    for disposition in ("success", "gone", "retry"):
        rig.finish(rig.claim_page(), disposition)

    record = rig.frontier.hosts[A].record
    assert (record.known, record.queued, record.fetched) == (4, 3, 1)
    rig.restart()
    assert (rig.frontier.known, rig.frontier.fetched) == (4, 1)


def test_the_backlog_is_what_still_waits_for_its_first_fetch() -> None:
    rig = FrontierRig(A, kv=MemoryKV())
    rig.discover(*(url(f"{n}") for n in range(3)))
    rig.finish(rig.claim_page())
    rig.finish(rig.claim_page(), "gone")

    assert rig.frontier.backlog() == 1
