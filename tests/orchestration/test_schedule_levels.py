"""Visits of known pages are planned by what they are worth, beside first visits, in one currency."""

from dataclasses import replace

import numpy as np
import pytest

from assets import schedule_plan, schedule_work
from assets.schedule import window_at
from assets.schedule_work import Levels, Work
from bench.simulation.tables import MemoryTables
from crawl_platform.clock import DAY, as_datetime
from crawl_platform.scheduling import bandit
from crawl_platform.scheduling.refresh import index_one
from crawl_platform.settings import Settings
from tests.orchestration.one_host import one_host

NOW = 20_000 * DAY
WINDOW = 3_600.0


def work(levels: Levels | None, room: int = 10) -> Work:
    """One host: a group whose pages always have changed, and one of pages that seldom do, twenty due of each."""
    return one_host(
        "a.test",
        room,
        ["", "/ticker/#", "/guide/#"],
        eligible=[0, 20, 20],
        reward=[0, 100, 10],
        fetches=[0, 100, 100],
        levels=levels,
    )


WORTH = Levels(np.array([1, 2]), np.array([0.001, 0.1]), np.array([20, 20]))
"""A copy of a ticker is stale at once: a visit brings less freshness than one of a guide."""


@pytest.mark.parametrize(
    ("levels", "most_to"), [(WORTH, 2), (None, 1)], ids=["by worth", "switched off: by news"]
)
def test_visits_go_where_copies_stay_fresh_not_where_there_is_always_a_change(
    monkeypatch: pytest.MonkeyPatch, levels: Levels | None, most_to: int
) -> None:
    monkeypatch.setattr(bandit, "RANDOM_SHARE", 0.0)

    plan = schedule_plan.plan_window(work(levels), "w")

    assert plan.given.sum() == 10
    assert int(np.argmax(plan.given)) == most_to


def test_what_is_reserved_is_kept_whatever_it_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandit, "RANDOM_SHARE", 0.0)
    due = replace(work(WORTH), overdue=np.array([0, 6, 0]), late=np.array([0.0, 60.0, 0.0]))

    plan = schedule_plan.plan_window(due, "w")

    assert plan.given.tolist() == [0, 6, 4]


def test_a_random_share_finds_a_group_that_has_become_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pages are thought to be worth next to nothing, and only a visit can tell otherwise. Ablation: without the
    share it never gets one."""
    visits = {}
    for share in (0.0, bandit.RANDOM_SHARE):
        monkeypatch.setattr(bandit, "RANDOM_SHARE", share)
        plans = [schedule_plan.plan_window(work(WORTH), f"w{n}") for n in range(100)]
        visits[share] = sum(int(plan.given[1]) for plan in plans)

    assert visits[0.0] == 0
    assert visits[0.02] >= 3


def test_a_level_is_the_index_of_its_pages_at_the_windows_end() -> None:
    tables = MemoryTables()
    seen = NOW - 3 * DAY
    fetch = {
        "kind": "page",
        "lane": "refresh",
        "outcome": "ok",
        "host": "a.test",
        "group_id": 7,
        "template": "/p/#",
    }
    tables.append(
        "fetches",
        [
            {**fetch, "fetch_id": f"f{n}", "url": f"https://a.test/p/{n}", "started_at": as_datetime(seen),
             "value": 0.5, "rate_a": a, "rate_b": 4.0}
            for n, a in enumerate((0.0, 0.5, 3.0))
        ],
    )  # fmt: skip
    tables.append(
        "hosts", [{"host": "a.test", "happened_at": as_datetime(seen), "event": "in", "state": "seed"}]
    )
    settings = Settings(home="")

    found = schedule_work.work_of(tables.reading, settings, window_at(NOW, WINDOW))

    prior_a, prior_b = (
        settings.refresh.prior_shape,
        settings.refresh.prior_shape / settings.refresh.prior_rate,
    )
    age = (NOW + WINDOW - seen) / DAY
    index = sorted((index_one(prior_a + a, prior_b + 4.0, age, 0.5) for a in (0.0, 0.5, 3.0)), reverse=True)
    assert found.levels is not None
    assert found.levels.visits.tolist() == [1, 1, 1]
    assert np.all(np.abs(np.log2(found.levels.worth / index)) <= 1 / schedule_work.PER_OCTAVE)


def test_unread_pages_are_worth_what_their_groups_read_pages_turned_out_to_be() -> None:
    """And what the fleet was told of a page counts before both. Ablation: without `page_values` the two are alike."""
    tables = MemoryTables()
    at = as_datetime(NOW)
    tables.append(
        "hosts", [{"host": "a.test", "state": "seed", "event": "seeded", "happened_at": at, "delay": 1.0}]
    )
    waiting = {
        "snapshot_id": "s",
        "snapshot_at": at,
        "shard": 0,
        "host": "a.test",
        "state": "queued",
        "value": 0.5,
    }
    tables.append(
        "frontier",
        [{**waiting, "url": f"https://a.test/{g}/{i}", "group_id": g} for g in (1, 2) for i in range(10)],
    )
    settings, window = Settings(home="."), window_at(NOW, WINDOW)
    alike = schedule_work.work_of(tables.reading, settings, window)
    read = {"host": "a.test", "fetch_id": "f", "technical": 1.0, "exploration": 0.5, "base": 0.5, "reason": "",
            "critical": False, "retrievals": 0.0, "computed_at": at}  # fmt: skip
    tables.append(
        "page_values",
        [{**read, "url": f"https://a.test/2/read-{i}", "group_id": 2, "value": 4.0} for i in range(36)],
    )
    better = schedule_work.work_of(tables.reading, settings, window)
    tables.append("page_values", [{**read, "url": f"https://a.test/1/{i}", "fetch_id": None, "group_id": 1,
                                   "value": 2.0, "told": 2.0} for i in range(10)])  # fmt: skip
    told = schedule_work.work_of(tables.reading, settings, window)
    tables.close()

    assert alike.first is not None
    assert better.first is not None
    assert told.first is not None
    assert alike.first[1] == alike.first[2]
    assert better.first[2] / better.first[1] == pytest.approx(8**0.9)
    assert told.first[1] / better.first[1] == pytest.approx(4.0)
