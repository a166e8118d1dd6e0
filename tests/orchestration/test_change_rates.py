"""Groups, change rates and the model behind cold groups, from fetches to tables and checks."""

from datetime import timedelta

import dagster as dg
import numpy as np
import pyarrow as pa
import pytest

from assets import value_model
from crawl_platform.clock import as_datetime
from crawl_platform.scheduling.cold_prior import Judged
from crawl_platform.scheduling.templates import group_id

SECOND = 1 / 86_400.0
CHAIN = ("url_groups", "change_rates", "value_model")


def check(result: dg.ExecuteInProcessResult, name: str) -> dg.AssetCheckEvaluation:
    (found,) = [e for e in result.get_asset_check_evaluations() if e.check_name == name]
    return found


def watch(crawl, random, host: str, template: str, rate: float, *, pages: int = 3, checks: int = 30) -> None:
    """Pages of one group that change `rate` times a second, checked every 2 to 40 seconds."""
    number = group_id(host, template)
    for page in range(pages):
        url = f"https://{host}{template.replace('*', f'page-{page}')}"
        at, before = crawl.clock.now() - 3_600.0, None
        for n in range(checks + 1):
            wait = float(random.uniform(2, 40))
            changed = bool(random.random() < -np.expm1(-rate * wait))
            crawl.fetch(
                url,
                started_at=as_datetime(at + wait),
                previous_success_at=before,
                changed=changed if n else None,
                predicted_change=-np.expm1(-rate * wait) if n else None,
                group_id=number,
                template=template,
                depth=template.count("/"),
            )
            at, before = at + wait, as_datetime(at + wait)


@pytest.fixture
def random():
    return np.random.default_rng(12)


@pytest.fixture
def three_groups(crawl, random):
    """/ changes every 10 s, /story/* every 40 s, /about every 10 minutes."""
    crawl.host("a.test")
    watch(crawl, random, "a.test", "/", 1 / 10, pages=1, checks=60)
    watch(crawl, random, "a.test", "/story/*", 1 / 40)
    watch(crawl, random, "a.test", "/about", 1 / 600, pages=1, checks=40)
    crawl.commit()
    return crawl


def rows(lake, table: str) -> dict[str, dict]:
    return {row["template"]: row for row in lake.query(f"SELECT * FROM {table}").to_pylist()}


def test_groups_have_their_pages_checks_and_links_counted(harness, crawl, lake, three_groups):
    story = "https://a.test/story/page-1"
    crawl.visit("https://a.test/other", story, "https://b.test/")
    crawl.visit("https://a.test/third", story, position="nav")
    crawl.commit()

    result = harness.execute("url_groups")

    groups = rows(lake, "url_groups")
    assert set(groups) == {"/", "/story/*", "/about"}
    found = groups["/story/*"]
    assert (found["pages"], found["checks"], found["known_urls"]) == (3, 90, 3)
    assert 0 < found["changed"] < 90
    assert found["in_links"] == pytest.approx(2 / 3)
    assert found["main_links"] == pytest.approx(1 / 2)
    assert found["example"] == "https://a.test/story/page-0"
    assert all(e.passed for e in result.get_asset_check_evaluations())


@pytest.mark.long
def test_a_page_belongs_to_the_group_of_its_last_fetch(harness, crawl, lake):
    """Templates generalise as a host is learnt: what was told apart at first is one group then."""
    for n, template in enumerate(["/a", "/b", "/*", "/*"]):
        url = f"https://a.test/{'ab'[n % 2]}"
        crawl.clock.advance(5)
        crawl.fetch(
            url, group_id=group_id("a.test", template), template=template, changed=True if n > 1 else None
        )
    crawl.commit()

    harness.execute("url_groups")

    assert {t: g["pages"] for t, g in rows(lake, "url_groups").items()} == {"/*": 2}


@pytest.mark.long
def test_known_urls_that_were_never_fetched_count_for_their_group(harness, crawl, lake, three_groups):
    number = group_id("a.test", "/story/*")
    for n in range(9):
        crawl.row(
            "frontier",
            snapshot_id="s1",
            snapshot_at=harness.now(),
            shard=0,
            host="a.test",
            url=f"https://a.test/story/new-{n}",
            state="queued",
            group_id=number,
        )
    crawl.commit()

    harness.execute("url_groups")

    assert rows(lake, "url_groups")["/story/*"]["known_urls"] == 9


@pytest.mark.parametrize(
    ("columns", "name"),
    [({"template": None}, "groups_have_a_template"), ({"template": ""}, "groups_have_a_template")],
)
def test_a_group_that_nobody_can_name_stops_what_follows(harness, crawl, columns, name):
    crawl.fetch("https://a.test/x", group_id=7, **columns)
    crawl.commit()

    result = harness.execute("url_groups", "change_rates", fails=True)

    assert not check(result, name).passed
    assert not [
        e for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey("change_rates")
    ]


def test_a_host_whose_templates_do_not_generalise_is_named(harness, crawl):
    for n in range(501):
        crawl.fetch(f"https://a.test/x{n}", group_id=n + 1, template=f"/x{n}")
    crawl.commit()

    result = harness.execute("url_groups")

    assert not check(result, "few_groups_per_host").passed


def test_rates_are_near_the_truth_and_lie_in_their_interval(harness, lake, three_groups):
    result = harness.execute("url_groups", "change_rates")

    rates = rows(lake, "change_rates")
    for template, true in {"/": 1 / 10, "/story/*": 1 / 40, "/about": 1 / 600}.items():
        row = rates[template]
        assert row["rate"] * SECOND == pytest.approx(true, rel=0.6)
        assert row["rate_low"] < row["rate"] < row["rate_high"]
        assert row["changed"] + row["unchanged"] == row["checks"]
    assert rates["/"]["naive_rate"] < 0.75 * rates["/"]["rate"]
    assert rates["/"]["mean_interval"] == pytest.approx(21 * SECOND, rel=0.2)
    assert all(e.passed for e in result.get_asset_check_evaluations())


@pytest.mark.long
@pytest.mark.usefixtures("pictures")
def test_rates_are_drawn_over_how_often_they_were_checked(harness, three_groups):
    result = harness.execute("url_groups", "change_rates")

    (made,) = result.asset_materializations_for_node("change_rates")
    assert made.metadata["rates"].md_str.startswith("![Change rate of each group")


@pytest.mark.long
def test_the_same_inputs_give_the_same_rows(harness, lake, three_groups):
    harness.execute(*CHAIN)
    first = {name: lake.query(f"SELECT * FROM {name}") for name in ("url_groups", "change_rates")}

    harness.execute(*CHAIN)

    for name, table in first.items():
        assert lake.query(f"SELECT * FROM {name}").equals(table)


@pytest.mark.long
def test_rates_are_of_the_fetches_that_the_groups_were_made_from(harness, crawl, lake, random, three_groups):
    harness.execute("url_groups")
    watch(crawl, random, "late.test", "/", 1 / 10)
    crawl.commit()

    harness.execute("change_rates")

    assert lake.query("SELECT DISTINCT host FROM change_rates")["host"].to_pylist() == ["a.test"]
    assert lake.inputs_of("change_rates")["fetches"] == lake.inputs_of("url_groups")["fetches"]


def test_without_any_check_there_are_no_rates_and_nothing_fails(harness, crawl, lake):
    crawl.fetch("https://a.test/", group_id=3, template="/")
    crawl.commit()

    result = harness.execute(*CHAIN)

    assert result.success
    assert lake.query("SELECT * FROM change_rates").num_rows == 0
    assert lake.query("SELECT * FROM cold_priors").num_rows == 0


def test_predictions_that_do_not_come_true_are_pointed_out(harness, crawl, three_groups):
    for n in range(300):
        crawl.fetch(
            f"https://a.test/story/x-{n}",
            previous_success_at=harness.now() - timedelta(seconds=30),
            changed=False,
            predicted_change=0.9,
            group_id=group_id("a.test", "/story/*"),
            template="/story/*",
        )
    crawl.commit()

    result = harness.execute("url_groups", "change_rates")

    found = check(result, "predictions_hold")
    assert not found.passed
    assert found.severity is dg.AssetCheckSeverity.WARN


# the model behind cold groups


KINDS = {"/": 1 / 5, "/section/*": 1 / 10, "/story/*": 1 / 100, "/about": 1 / 2_000, "/tags/*": 1 / 30}


@pytest.fixture
def many_groups(crawl, random):
    """Eight hosts with the same kinds of groups, and one of which hardly anything has been seen."""
    for h in range(8):
        crawl.host(f"h{h}.test")
        for template, rate in KINDS.items():
            watch(crawl, random, f"h{h}.test", template, rate, pages=1, checks=25)
    crawl.host("cold.test")
    for template in ("/section/*", "/about"):
        watch(crawl, random, "cold.test", template, 1 / 60, pages=1, checks=2)
    crawl.commit()
    return crawl


def test_cold_groups_get_the_prior_of_what_looks_like_them(harness, lake, many_groups):
    result = harness.execute(*CHAIN)

    cold = rows(lake, "cold_priors")
    assert set(cold) == {"/section/*", "/about"}
    assert cold["/section/*"]["predicted_rate"] > 10 * cold["/about"]["predicted_rate"]
    metadata = result.asset_materializations_for_node("value_model")[0].metadata
    assert metadata["held_out_error_factor"].value < metadata["error_factor_of_the_mean"].value
    assert metadata["groups_learnt_from"].value == 40
    assert check(result, "better_than_the_mean").passed


@pytest.mark.long
def test_with_little_to_learn_from_it_says_so_and_gives_no_prior(harness, lake, three_groups):
    result = harness.execute(*CHAIN)

    metadata = result.asset_materializations_for_node("value_model")[0].metadata
    assert metadata["reason"].value.startswith("too little is known")
    assert lake.query("SELECT * FROM cold_priors").num_rows == 0
    assert check(result, "better_than_the_mean").passed


def worse(*_):
    return Judged(model=1.2, baseline=1.0, squared=2.0)


def test_a_model_worse_than_the_mean_gives_no_priors_and_is_pointed_out(
    harness, lake, many_groups, monkeypatch
):
    monkeypatch.setattr(value_model, "judge", worse)

    result = harness.execute(*CHAIN)

    found = check(result, "better_than_the_mean")
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert lake.query("SELECT * FROM cold_priors").num_rows == 0


def test_a_model_worse_than_its_previous_version_does_not_take_its_place(
    harness, lake, many_groups, monkeypatch
):
    """The one before learnt from the tables as it read them, at their versions."""
    harness.execute(*CHAIN)
    before = rows(lake, "cold_priors")
    learnt_from = []

    def outdone(*known):
        learnt_from.append(known[3])
        return Judged(model=0.5, baseline=1.0, squared=2.0, previous=0.3, chance=0.1)

    monkeypatch.setattr(value_model, "judge", outdone)
    result = harness.execute("value_model")

    found = check(result, "no_worse_than_before")
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "stays" in found.description
    assert rows(lake, "cold_priors") == before
    assert len(learnt_from[0].host) == 40


def test_priors_of_a_bad_model_would_stop_the_run(harness, many_groups, monkeypatch):
    """Ablation: the refusal is off, and the blocking check is what is left."""
    bad = value_model.Outcome(pa.table({"host": ["cold.test"]}), worse())

    found = value_model.better_than_the_mean(bad)

    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
