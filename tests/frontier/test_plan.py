"""What an epoch changes: leases that outlive crashes, results, retries, requests, redelivery, counts."""

import pytest

from crawl_platform.frontier.kv import MemoryKV, OrderedKV
from crawl_platform.frontier.lease import Found, Lease
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.records import (
    DROPPED,
    FASTLANE,
    FETCHED,
    GONE,
    NO_LANE,
    REFRESH,
    shard_range,
)
from crawl_platform.scheduling.refresh import change_chance
from crawl_platform.settings import Frontier as FrontierSettings
from crawl_platform.settings import Refresh
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, known, url

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


# results


def test_a_success_is_due_again_once_it_has_changed_with_the_least_probability() -> None:
    rig = FrontierRig(A, refresh=Refresh(interval_min=1.0, prior_shape=1.0, prior_rate=1.0))
    rig.discover(url("1"))
    lease = rig.claim_page()
    rig.frontier.hosts[A].threshold = rig.frontier.revisits.floor  # there is room for every visit

    rig.finish(lease, body_hash=7, links_hash=8, fingerprint="f", etag="e", posterior=(1.0, 0.0))

    record = known(rig, url("1"))
    assert (record.state, record.lane, record.fails) == (FETCHED, REFRESH, 0)
    assert (record.body_hash, record.links_hash, record.fingerprint, record.etag) == (7, 8, "f", "e")
    least = change_chance(2.0, 1.0, (record.rank / 1000 - rig.clock.now()) / 86_400.0)
    assert least == pytest.approx(rig.refresh.least_change, abs=1e-4)
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
    rig.apply(lambda planner: planner.redeliver(A, target))


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


def test_a_url_knows_every_manifest_whose_rows_still_count() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    rig.finish(rig.claim_page(), manifest=1, body_hash=7, fingerprint="f", link_set="first")
    for manifest, facts in (
        (2, {"changed": False, "link_set": "first"}),  # nothing new: links and page still came with 1
        (3, {"changed": True, "link_set": "first"}),  # a new page, the old links
    ):
        request = f"r{manifest}"
        rig.apply(lambda planner, request=request: planner.recrawl(url("1"), request))
        rig.clock.advance(60.0)
        rig.finish(rig.claim_page(), manifest=manifest, body_hash=7, fingerprint="f", **facts)

        record = known(rig, url("1"))
        assert record.rows_in("bulk", 1)
        assert record.rows_in("bulk", manifest)
    assert not known(rig, url("1")).rows_in("bulk", 2)
    assert not known(rig, url("1")).rows_in("fast", 3)


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


def test_a_redelivery_in_the_epoch_of_the_urls_own_result_leaves_one_place_in_the_queue() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    rig.finish(rig.claim_page(), body_hash=7)
    lease = rig.claim_page()
    rig.land(lease)
    result = rig.result(lease, body_hash=7, changed=False)

    rig.apply(lambda planner: planner.page(result), lambda planner: planner.redeliver(A, url("1")))

    assert rig.frontier.hosts[A].record.queued == 1
    assert len(list(rig.kv.scan(*shard_range(b"q", 0)))) == 1


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
