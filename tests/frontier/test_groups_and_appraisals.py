"""URL groups of what enters, and what URLs are worth: by depth, or as they were appraised."""

import pytest

from crawl_platform.frontier.lease import Found, value_at
from crawl_platform.frontier.records import (
    DISCOVERY,
    FASTLANE,
    REFRESH,
    HostRecord,
    Waiting,
    decode,
    shard_range,
)
from crawl_platform.scheduling.templates import group_id
from crawl_platform.settings import Frontier as FrontierSettings
from crawl_platform.settings import Refresh
from crawl_platform.testing.builders import FrontierRig
from crawl_platform.web.host import shard_of
from tests.frontier.scenes import A, B, known, move, url

HOUR = 3_600.0


def group(template: str) -> int:
    return group_id(A, template)


# groups


def test_a_url_has_its_group_from_its_text_when_it_enters() -> None:
    rig = FrontierRig(A)

    rig.discover(url("story/12-a-long-title"), url("story/13-another-long-title"), url("about"))

    groups = {path: known(rig, url(path)).group for path in ("story/12-a-long-title", "about")}
    assert groups == {"story/12-a-long-title": group("/story/*"), "about": group("/about")}


@pytest.mark.parametrize("interested", [True, False], ids=["by topic", "ablation: in order"])
def test_a_new_url_on_topic_goes_ahead_at_once_and_is_worth_what_its_depth_says(interested: bool) -> None:
    rig = FrontierRig(A)
    if interested:
        rig.frontier.interest = lambda url, anchor: 8.0 if "wind" in url + anchor else 1.0
    plain = [Found(url(f"{n}"), 2, value_at(2), anchor="more") for n in range(3)]
    told = [
        Found(url("wind"), 2, value_at(2), anchor=""),
        Found(url("z"), 2, value_at(2), anchor="wind power"),
    ]
    unasked = [Found(url("wind-of-old"), 2, value_at(2))]

    rig.apply(lambda planner: planner.discover_all([*plain, *unasked, *told], A))

    first = set()
    for _ in range(2):
        lease = rig.claim_page()
        first.add(lease.url)
        rig.finish(lease)
    assert (first == {url("wind"), url("z")}) is interested
    assert known(rig, url("wind-of-old")).value == known(rig, url("2")).value == value_at(2)


def test_what_urls_teach_about_their_host_survives_a_restart() -> None:
    rig = FrontierRig(A)
    rig.discover(*(url(f"wiki/{chr(97 + n)}x") for n in range(10)))

    rig.restart()
    rig.discover(url("wiki/new"))

    assert known(rig, url("wiki/new")).group == group("/wiki/*")


def test_a_plan_that_is_not_written_teaches_nothing() -> None:
    rig = FrontierRig(A)
    rig.discover(url("about"))
    before = dict(rig.frontier.hosts[A].record.shapes)

    rig.plan(lambda planner: planner.discover(Found(url("news/today"), 1, 0.5)))

    assert rig.frontier.hosts[A].record.shapes == before


def test_a_url_that_did_not_enter_teaches_nothing() -> None:
    rig = FrontierRig(A, settings=FrontierSettings(max_depth=2, bloom_capacity=100))
    rig.discover(url("about"))
    before = dict(rig.frontier.hosts[A].record.shapes)

    rig.discover(url("news/today"), depth=3)

    assert rig.frontier.hosts[A].record.shapes == before


def test_a_page_is_given_its_group_anew_at_each_visit() -> None:
    rig = FrontierRig(A)
    rig.discover(url("wiki/ax"))
    assert known(rig, url("wiki/ax")).group == group("/wiki/ax")
    rig.discover(*(url(f"wiki/{chr(98 + n)}x") for n in range(10)), value=0.0)

    rig.finish(rig.claim_page())

    assert known(rig, url("wiki/ax")).group == group("/wiki/*")


def test_the_group_that_a_page_was_fetched_as_is_kept_with_its_posterior() -> None:
    rig = FrontierRig(A)
    rig.discover(url("about"))

    rig.finish(rig.claim_page(), group=77)

    assert known(rig, url("about")).group == 77


def test_the_place_in_the_queue_says_what_a_claim_must_know() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"), value=0.25)
    rig.finish(rig.claim_page(), posterior=(1.5, 2.5))

    [(_, data)] = list(rig.kv.scan(*shard_range(b"q", 0)))
    record = known(rig, url("1"))
    assert decode(data, Waiting) == Waiting(record.group, 0.25, 1.5, 2.5, record.last_success_at, 0)


def test_what_a_host_teaches_is_bounded_in_its_record() -> None:
    rig = FrontierRig(A)
    words = [chr(97 + n // 26) + chr(97 + n % 26) + "q" for n in range(300)]

    rig.discover(
        *(url(f"{a}/{b}/{c}.html?{a}=1") for a, b, c in zip(words, words[1:], words[2:], strict=False))
    )

    stored = rig.kv.get(b"h\0\0" + A.encode())
    assert stored is not None
    assert len(stored) < 3_000
    assert decode(stored, HostRecord).known == 298


# values


def test_a_page_is_worth_less_the_deeper_it_lies() -> None:
    assert [value_at(depth) for depth in (0, 1, 3)] == [1.0, 0.5, 0.25]


def test_a_url_that_was_asked_for_is_worth_as_much_as_a_root() -> None:
    rig = FrontierRig(A)

    rig.apply(lambda planner: planner.recrawl(url("new"), "r1"))

    assert known(rig, url("new")).value == 1.0


# appraisals


def appraise(rig: FrontierRig, target: str, value: float, reason: str = "duplicate of x") -> list[bool]:
    news: list[bool] = []
    rig.apply(lambda planner: news.append(planner.appraise(target, value, reason)))
    return news


def test_an_appraised_url_keeps_its_value_and_the_reason() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))

    appraise(rig, url("1"), 0.05)
    rig.finish(rig.claim_page())

    assert (known(rig, url("1")).value, known(rig, url("1")).worth) == (0.05, "duplicate of x")


def test_the_same_appraisal_again_is_no_news() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))

    assert appraise(rig, url("1"), 0.05) == [True]
    assert appraise(rig, url("1"), 0.05) == [False]


def test_a_url_that_is_not_known_or_another_cells_is_not_appraised() -> None:
    rig = FrontierRig(A, B, n_shards=64, shards=frozenset({shard_of(A, 64)}))

    assert appraise(rig, url("never-seen"), 0.5) == [False]
    assert appraise(rig, url("1", B), 0.5) == [False]
    assert rig.frontier.known == 0


def test_a_new_value_moves_a_url_in_the_discovery_queue_as_if_it_had_been_known() -> None:
    rig = FrontierRig(A)
    rig.discover(url("duplicate"), value=1.0)
    rig.discover(url("other"), value=0.4)

    appraise(rig, url("duplicate"), 0.2)

    assert [rig.claim_page().url, _next(rig)] == [url("other"), url("duplicate")]
    assert known(rig, url("duplicate")).rank / 1000 == pytest.approx(
        known(rig, url("duplicate")).discovered_at - 0.2 * HOUR, abs=0.01
    )


def _next(rig: FrontierRig) -> str:
    rig.frontier.hosts[A].in_flight = False
    rig.gates.release_host(A)
    rig.frontier.reschedule(A, *rig.times())
    return rig.claim_page().url


def test_a_new_value_moves_the_next_visit_of_a_page() -> None:
    rig = FrontierRig(A, refresh=Refresh(interval_min=2.0, interval_max=HOUR, prior_rate=1_440.0))
    rig.discover(url("1"))
    rig.finish(rig.claim_page())
    before = known(rig, url("1"))

    appraise(rig, url("1"), 0.0)

    after = known(rig, url("1"))
    assert after.lane == REFRESH
    assert after.rank > before.rank
    assert after.rank / 1000 == pytest.approx(after.last_success_at + HOUR, abs=0.01)


@pytest.mark.parametrize("lane", [FASTLANE, DISCOVERY, REFRESH])
def test_a_new_value_does_not_shorten_a_wait_that_has_another_reason(lane: int) -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"), value=0.1)
    rig.finish(rig.claim_page(), "retry")
    move(rig, url("1"), lane, due_in=500.0)
    rank = known(rig, url("1")).rank

    appraise(rig, url("1"), 0.9)

    assert (known(rig, url("1")).lane, known(rig, url("1")).rank) == (lane, rank)


def test_an_appraisal_that_comes_while_the_page_is_in_flight_counts_for_its_next_visit() -> None:
    rig = FrontierRig(A, refresh=Refresh(interval_min=2.0, interval_max=HOUR))
    rig.discover(url("1"))
    lease = rig.claim_page()

    appraise(rig, url("1"), 0.0)
    rig.finish(lease)

    record = known(rig, url("1"))
    assert (record.value, record.rank / 1000 - record.last_success_at) == (0.0, pytest.approx(HOUR, abs=0.01))
    assert rig.frontier.hosts[A].record.queued == 1


def test_an_appraisal_survives_a_restart() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))
    appraise(rig, url("1"), 0.05)

    rig.restart()

    assert rig.claim_page().record.value == 0.05
