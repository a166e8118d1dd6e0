"""What may enter the frontier: past boundary, traps, budgets and the seen set."""

import pytest

from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.lease import Found
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.ports import MAX_PORTS
from crawl_platform.frontier.records import (
    DISCOVERY,
    DROPPED,
    QUEUED,
)
from crawl_platform.frontier.seen import SeenSet
from crawl_platform.settings import Frontier as FrontierSettings
from crawl_platform.testing.builders import FrontierRig
from crawl_platform.web.host import shard_of
from tests.frontier.scenes import A, B, known, url

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


def test_a_host_has_so_many_ports_and_no_more() -> None:
    rig = FrontierRig(A)
    ports = range(8000, 8000 + MAX_PORTS)

    rig.discover(*(f"http://{A}:{port}/" for port in ports))
    more = rig.discover(f"http://{A}:9000/", f"http://{A}:{ports[0]}/more", f"http://{A}/")

    assert rig.frontier.hosts[A].record.ports == tuple(ports)
    assert (more.new_urls, more.turned_away) == (2, {"too_many_ports": 1})


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
    rig.frontier.seen._confirm = lambda keys: [True] * len(keys)

    assert rig.discover(*(url(f"{n}") for n in range(50))).new_urls == 0


def lossy(frontier: Frontier) -> None:
    """Give the frontier a filter that takes every URL for known."""
    kv = frontier.kv
    frontier.seen = SeenSet(10, 10, lambda keys: [value is not None for value in kv.get_many(keys)])

    class Full:
        def __contains__(self, key: object) -> bool:
            return True

        def update(self, keys: object) -> None: ...

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
