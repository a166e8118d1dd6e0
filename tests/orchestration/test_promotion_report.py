"""What people see of promotions: the report, a preview of a decision, and a decision that is made again."""

import shutil

import dagster as dg
import pytest

from assets.promotion_replay import replay
from crawl_platform.clock import ManualClock
from crawl_platform.errors import ConfigurationError
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Orchestration, Settings
from resources.lake import LakeResource
from resources.requests import Request, append_requests
from tests.orchestration.harness import Harness, without_pictures
from tests.orchestration.made_up_crawl import MadeUpCrawl, RememberingFleet, small_web

LIMITS = Orchestration(profile="demo", promotion_quota=5)


def asked(lake: Lake, clock: ManualClock, kind: str, target: str) -> None:
    via = "table" if kind == "promote" else "exchange"
    append_requests(
        lake, [Request(f"{kind}-{target}", clock.now(), kind, target, "ada", via, "because", 1.0)]
    )


@pytest.fixture(scope="module")
def made(empty_lake, tmp_path_factory):
    """(lake, harness, report of a decision); the lake has moved on since: by what was decided, links and requests."""
    home, clock = tmp_path_factory.mktemp("report"), ManualClock()
    shutil.copytree(empty_lake, home / "lake")
    lake = Lake(home / "lake")
    crawl = MadeUpCrawl(lake, clock)
    small_web(crawl)
    asked(lake, clock, "promote", "wanted.test")
    asked(lake, clock, "remove", "honest-1.test")
    with dg.DagsterInstance.ephemeral() as instance, without_pictures():
        harness = Harness(Settings(home=str(home), orchestration=LIMITS), clock, RememberingFleet(), instance)
        (event,) = harness.decide().asset_materializations_for_node("promotions")
        clock.advance(60)
        crawl.visit("https://seed-0.test/more", "https://another.test/")
        crawl.commit()
        asked(lake, clock, "exclude", "honest-0.test")
        yield lake, harness, event.metadata["report"].md_str


def decisions(lake: Lake) -> list[str]:
    """Ids of the promotions, those of the first run first."""
    return lake.query("SELECT decision_id FROM promotions ORDER BY decided_at, position NULLS LAST")[
        0
    ].to_pylist()


def ran(harness: Harness, job: str, **config) -> dict[str, object]:
    definition = harness.definitions.resolve_job_def(job)
    (op,) = [node.name for node in definition.graph.nodes]
    run_config = dg.RunConfig(ops={op: {"config": config}}).to_config_dict()
    result = definition.execute_in_process(instance=harness.instance, run_config=run_config)
    (event,) = result.filter_events(lambda e: e.event_type_value == "STEP_OUTPUT")
    return {name: value.value for name, value in event.step_output_data.metadata.items()}


# --- the report ---


def test_the_report_says_who_comes_in_and_why_in_words(made):
    _, _, report = made

    assert report.startswith("**6 hosts were promoted**, 1 of them asked for by name; ")
    assert (
        "| wanted.test | asked for by ada: because; not linked from the seed yet | nobody yet | not ranked |"
        in report
    )
    (row,) = [line for line in report.splitlines() if line.startswith("| honest-0.test | the seed")]
    assert "independent sites: seed-" in row
    assert "times the least" in row
    assert "no: " in row


def test_the_report_says_who_is_held_and_what_would_let_it_in(made):
    _, _, report = made

    assert "| veto | 1 | an operator took it out" in report
    assert "| honest-1.test | veto | vetoed by ada: because" in report


def test_the_report_has_its_pictures_and_what_it_was_computed_from(made):
    _, _, report = made

    assert "Promoted hosts (orange) beside the horizon" in report
    assert "Who stands around each promoted host" in report
    assert report.count(" and the hosts around it") == 4
    assert "Computed from fetches 1, host_graph 1" in report


# --- a preview ---


@pytest.mark.long
def test_a_preview_shows_what_another_quota_would_promote_and_writes_nothing(made):
    lake, harness, _ = made
    before = lake.versions()

    shown = ran(harness, "preview_promotions", quota=2)

    assert shown["report"].startswith("**2 hosts would be promoted**")
    assert len(shown["promoted"]) == 2
    assert not set(shown["promoted"]) & set(lake.query("SELECT host FROM promotions")["host"].to_pylist())
    assert lake.versions() == before


@pytest.mark.parametrize(
    ("job", "target", "words"),
    [
        ("promote_host", "honest-1.test", "by its rank it would be held (veto): vetoed by ada"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("promote_host", "honest-0.test", "it is excluded"),
                ("promote_host", "unheard-of.test", "it has no rank"),
                ("exclude_host", "seed-1.test", "1 seed hosts are fetched no more: seed-1.test"),
                ("exclude_host", "https://seed-1.test/a/", "URLs of seed-1.test that begin with"),
                ("recrawl_now", "https://seed-1.test/", "https://seed-1.test/ was fetched last at"),
            )
        ),
    ],
)
def test_a_dry_run_of_a_request_says_what_would_come_of_it(made, job, target, words):
    lake, harness, _ = made
    before, calls = lake.versions(), harness.fleet.calls

    shown = ran(harness, job, target=target, dry_run=True)["preview"]

    assert words in shown
    assert (lake.versions(), harness.fleet.calls) == (before, calls)


# --- made again ---


def test_a_decision_is_made_again_from_its_input_versions_though_the_lake_has_moved_on(made):
    lake, harness, _ = made

    again = replay(LakeResource(root=str(lake.root)), decisions(lake)[0], LIMITS)

    assert again.differences == []
    assert again.compared == 7  # six promotions and the veto
    assert ran(harness, "replay_promotion", decision_id=decisions(lake)[-1])["same"]


@pytest.mark.long
def test_the_rules_are_those_of_that_time(made):
    lake, _, _ = made

    again = replay(LakeResource(root=str(lake.root)), decisions(lake)[0], Orchestration(promotion_quota=1))

    assert again.differences == []


@pytest.mark.long
@pytest.mark.parametrize("table", ["requests", "promotions"])
def test_from_other_versions_it_would_be_another_decision(made, table, monkeypatch):
    """Ablation: each of the versions matters, also that of what was decided before."""
    lake, _, _ = made
    read = LakeResource.read

    def newer(self, *tables, at=None, **options):
        return read(self, *tables, at={**(at or {}), table: lake.version(table)}, **options)

    monkeypatch.setattr(LakeResource, "read", newer)

    assert replay(LakeResource(root=str(lake.root)), decisions(lake)[0], LIMITS).differences


def test_what_is_no_decision_about_a_promotion_is_told(made):
    lake, _, _ = made

    with pytest.raises(ConfigurationError, match="is no decision about a promotion"):
        replay(LakeResource(root=str(lake.root)), "schedule-1", LIMITS)
