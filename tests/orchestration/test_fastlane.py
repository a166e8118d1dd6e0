import dagster as dg
import pytest

from resources.requests import MAX_AGE, MOST_PER_TICK, Request, append_requests

PAGE = "https://seed-0.test/page"


def ask(lake, clock, *ids, target=PAGE, via="table", priority=0.0, age=0.0):
    at = clock.now() - age
    append_requests(lake, [Request(i, at, "recrawl", target, "ada", via, "", priority) for i in ids])


def test_a_new_request_is_published_without_a_run(harness, lake, clock, fleet):
    harness.sense("fastlane")
    ask(lake, clock, "r1")

    result = harness.sense("fastlane")

    assert result.run_requests == []
    assert fleet.recrawled == [(PAGE, "r1")]


def test_each_request_is_published_once(harness, lake, clock, fleet):
    ask(lake, clock, "r1")
    harness.sense("fastlane")
    ask(lake, clock, "r2", "r2")

    for _ in range(3):
        harness.sense("fastlane")

    assert [request for _, request in fleet.recrawled] == ["r1", "r2"]


def test_a_request_that_could_not_be_published_waits_for_the_exchange(harness, lake, clock, fleet):
    ask(lake, clock, "r1")
    fleet.away = True
    with pytest.raises(Exception, match="away"):
        harness.sense("fastlane")

    fleet.away = False
    harness.sense("fastlane")

    assert (PAGE, "r1") in fleet.recrawled


def test_requests_that_came_over_the_exchange_are_left_alone(harness, lake, clock, fleet):
    ask(lake, clock, "r1", via="exchange")

    harness.sense("fastlane")

    assert fleet.calls == 0


def test_a_flood_is_worked_off_in_bounded_ticks_by_priority_and_completely(harness, lake, clock, fleet):
    ask(lake, clock, *(f"low-{i:03d}" for i in range(MOST_PER_TICK)))
    ask(lake, clock, "urgent", priority=5.0)

    harness.sense("fastlane")
    assert len(fleet.recrawled) == MOST_PER_TICK
    assert fleet.recrawled[0][1] == "urgent"

    harness.sense("fastlane")
    assert len({request for _, request in fleet.recrawled}) == MOST_PER_TICK + 1


def test_a_request_that_is_too_old_or_makes_no_sense_is_refused_in_words(harness, lake, clock, fleet):
    ask(lake, clock, "old", age=MAX_AGE + 1)
    ask(lake, clock, "odd", target="nonsense")
    ask(lake, clock, "good")

    harness.sense("fastlane")

    assert [request for url, request in fleet.recrawled if url == PAGE] == ["good"]
    refused = lake.query("SELECT decision_id, reason FROM decisions WHERE verdict = 'refused' ORDER BY ALL")
    assert refused["decision_id"].to_pylist() == ["refused-odd", "refused-old"]


@pytest.mark.parametrize(
    ("job", "target"),
    [("promote_host", "wanted.test"), ("exclude_host", "*.bad.test"), ("recrawl_now", PAGE)],
)
def test_an_operators_job_publishes_and_leaves_a_row_that_no_sensor_publishes_again(
    harness, lake, fleet, job, target
):
    config = {"target": target, "reason": "a customer asked", "requested_by": "ada"}
    definition = harness.definitions.resolve_job_def(job)
    (op,) = [node.name for node in definition.graph.nodes]

    result = definition.execute_in_process(
        instance=harness.instance, run_config=dg.RunConfig(ops={op: {"config": config}}).to_config_dict()
    )
    calls = fleet.calls
    harness.sense("promotion")
    harness.sense("fastlane")

    (row,) = lake.query("SELECT target, via, requested_by, reason FROM requests").to_pylist()
    assert row == {"target": target, "via": "exchange", "requested_by": "ada", "reason": "a customer asked"}
    assert calls == fleet.calls == 1
    metadata = result.filter_events(lambda e: e.event_type_value == "STEP_OUTPUT")[
        0
    ].step_output_data.metadata
    assert metadata["publish_seconds"].value >= 0
