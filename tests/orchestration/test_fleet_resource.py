"""Starting, stopping, scaling and watching the fleet's processes, here and on Kubernetes, behind one interface.

For Kubernetes the API server is a FAKE of ours (`tests/deploy/fake_api_server.py`): no cluster was asked.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawl_platform import settings as settings_module
from crawl_platform.clock import ManualClock
from crawl_platform.errors import ConfigurationError, ExchangeError, PlatformError
from crawl_platform.fleet.messages import Heartbeat
from crawl_platform.fleet.supervisor import is_running
from crawl_platform.settings import Fleet, Identity, Settings
from resources.fleet import FleetResource
from resources.fleet_control import CellState, FleetControl, FleetState, require_scalable
from resources.kubernetes_fleet import POD_INDEX, RESTARTED_AT, KubernetesFleet
from resources.local_fleet import LocalFleet
from tests.deploy.fake_api_server import FakeApiServer
from tests.deploy.manifests import NAMESPACE, Rendered, render
from tests.fleet.harness import eventually

THREE = {shard: f"cell-{shard % 3}" for shard in range(256)}
SCALE = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/crawl-cell/scale"


@pytest.fixture
def cells() -> dict[str, Any]:
    """The cells' StatefulSet as the chart makes it."""
    found = Rendered(render({})).one("StatefulSet", "cell")
    found["metadata"]["namespace"] = NAMESPACE
    return found


@pytest.fixture
def server(cells: dict[str, Any]) -> Iterator[FakeApiServer]:
    with FakeApiServer(cells).serving() as server:
        yield server


def fleet_at(
    server: FakeApiServer,
    clock: ManualClock,
    *,
    name: str = "crawl-cell",
    owners: dict[int, str] = THREE,
    heard: tuple[int, ...] = (0, 1, 2),
) -> KubernetesFleet:
    beats = [Heartbeat(f"cell-{n}", "i", 1, clock.now() - 1.0, 1.0, {}) for n in heard]
    return KubernetesFleet(
        NAMESPACE, name, owners=lambda: owners, beats=lambda: beats, api=server.client(), clock=clock
    )


def pod(cells: dict[str, Any], number: int, **status: Any) -> dict[str, Any]:
    labels = cells["spec"]["template"]["metadata"]["labels"] | {POD_INDEX: str(number)}
    container = {"name": "cell", "image": "i", "imageID": "i", "ready": True, "restartCount": 0}
    running = {"state": {"running": {}}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": f"crawl-cell-{number}", "namespace": NAMESPACE, "labels": labels},
        "spec": {"containers": [{"name": "cell", "image": "i"}]},
        "status": {"phase": "Running", "containerStatuses": [container | running | status]},
    }


def replicas(server: FakeApiServer) -> int:
    count: int = server.objects["StatefulSet", "crawl-cell"]["spec"]["replicas"]
    return count


# on Kubernetes (a fake API server)


def test_a_stop_scales_to_none_and_a_start_to_as_many_cells_as_own_shards(
    server: FakeApiServer, clock: ManualClock
) -> None:
    fleet: FleetControl = fleet_at(server, clock)

    fleet.stop()
    assert replicas(server) == 0
    fleet.start()
    assert replicas(server) == 3
    assert server.requests == [("PATCH", SCALE), ("PATCH", SCALE)]


@pytest.mark.parametrize(("number", "why"), [(2, "would not be crawled"), (4, "would own no shard")])
def test_a_number_of_cells_that_the_shard_table_is_not_made_for_is_refused(
    server: FakeApiServer, clock: ManualClock, number: int, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        fleet_at(server, clock).scale(number)

    assert server.requests == [], "nothing was asked of the cluster"


def test_the_number_that_the_shard_table_is_made_for_is_set(
    server: FakeApiServer, clock: ManualClock
) -> None:
    server.objects["StatefulSet", "crawl-cell"]["spec"]["replicas"] = 1

    fleet_at(server, clock).scale(3)

    assert replicas(server) == 3


def test_a_fleet_that_is_not_prepared_is_not_started(server: FakeApiServer, clock: ManualClock) -> None:
    with pytest.raises(ConfigurationError, match="prepare"):
        fleet_at(server, clock, owners={}).start()

    assert server.requests == []


def test_a_restart_changes_the_pods_template_and_nothing_else(
    server: FakeApiServer, clock: ManualClock, cells: dict[str, Any]
) -> None:
    fleet_at(server, clock).restart()

    patched = server.objects["StatefulSet", "crawl-cell"]
    assert patched["spec"]["template"]["metadata"]["annotations"].pop(RESTARTED_AT)
    assert patched == cells


def test_the_status_joins_pods_heartbeats_and_shards(
    server: FakeApiServer, clock: ManualClock, cells: dict[str, Any]
) -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    server.pods = [
        pod(cells, 0),
        pod(cells, 1, ready=False, restartCount=4, state=waiting),
        pod(cells, 10),
        pod(cells, 2) | {"metadata": {"name": "other-0", "namespace": NAMESPACE, "labels": {"app": "other"}}},
    ]

    state = fleet_at(server, clock, heard=(0, 1)).status()

    assert state.wanted == 3
    assert not state.well
    at = clock.now() - 1.0
    assert state.cells == (
        CellState("cell-0", "running", 86, 0, at),
        CellState("cell-1", "restarting", 85, 4, at, "CrashLoopBackOff"),
        CellState("cell-2", "stopped", 85),
        CellState("cell-10", "silent", 0),
    )


def test_a_fleet_is_well_when_each_cell_runs_and_is_heard(
    server: FakeApiServer, clock: ManualClock, cells: dict[str, Any]
) -> None:
    server.pods = [pod(cells, number) for number in range(3)]
    assert fleet_at(server, clock).status().well

    assert not fleet_at(server, clock, heard=(0, 2)).status().well, "one is silent"
    server.pods.pop()
    assert not fleet_at(server, clock).status().well, "one has no pod"


def test_a_pod_that_is_being_ended_does_not_count(
    server: FakeApiServer, clock: ManualClock, cells: dict[str, Any]
) -> None:
    server.pods = [pod(cells, 0)]
    server.pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    state = fleet_at(server, clock).status()

    assert (state.cells[0].state, state.cells[0].detail) == ("stopped", "is being ended")


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (403, ConfigurationError, "Role fleet-control"),
        (401, ConfigurationError, "Role fleet-control"),
        (500, ExchangeError, "500"),
        (429, ExchangeError, "429"),
    ],
)
def test_a_refusal_of_the_api_server_says_what_to_do(
    server: FakeApiServer, clock: ManualClock, status: int, error: type[PlatformError], says: str
) -> None:
    server.refuse = (status, "Refused")
    fleet = fleet_at(server, clock)

    for call in (fleet.stop, fleet.start, fleet.restart, fleet.status):
        with pytest.raises(error, match=says):
            call()


def test_a_fleet_that_is_not_there_is_named(server: FakeApiServer, clock: ManualClock) -> None:
    with pytest.raises(ConfigurationError, match="no StatefulSet crawling/nowhere"):
        fleet_at(server, clock, name="nowhere").status()


def test_an_api_server_that_is_away_is_an_error_of_ours(clock: ManualClock) -> None:
    with FakeApiServer().serving() as gone:
        fleet = fleet_at(gone, clock)

    with pytest.raises(ExchangeError, match="does not answer"):
        fleet.stop()


def test_the_fake_refuses_what_kubernetes_does_not_know(server: FakeApiServer, clock: ManualClock) -> None:
    """The ablation of the fake: a malformed request would be seen."""
    fleet = fleet_at(server, clock)

    with pytest.raises(ExchangeError, match="422"):
        fleet._set_replicas("three")  # type: ignore[arg-type]
    assert replicas(server) == 3


# on one machine


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(
        home=str(tmp_path), identity=Identity(contact="crawler@example.org"), fleet=Fleet(cells=2, shards=8)
    )
    settings_module.save(settings)
    return settings


def test_a_local_fleet_is_started_watched_and_stopped(settings: Settings) -> None:
    fleet: FleetControl = LocalFleet(settings)
    assert fleet.status() == FleetState(0, ())
    try:
        fleet.start()
        eventually(lambda: fleet.status().well, 60.0, "both cells are heard of")
        state = fleet.status()
        pids = settings.root / "run" / "status.json"
        before = pids.read_bytes()
        fleet.start()  # again: nothing happens

        assert state.wanted == 2
        assert [(cell.name, cell.state, cell.shards) for cell in state.cells] == [
            ("cell-0", "running", 4),
            ("cell-1", "running", 4),
        ]
        assert before.partition(b'"started_at"')[0] == pids.read_bytes().partition(b'"started_at"')[0]
        fleet.scale(2)
        with pytest.raises(ConfigurationError, match="would own no shard"):
            fleet.scale(3)
    finally:
        fleet.stop()
    assert not is_running(settings.root)
    assert fleet.status() == FleetState(0, ())
    with pytest.raises(ConfigurationError, match="Start it first"):
        fleet.scale(2)


def test_a_local_fleet_that_never_ran_may_have_any_number_of_cells(settings: Settings) -> None:
    LocalFleet(settings).scale(5)

    assert settings_module.load(settings.root).fleet.cells == 5


def test_a_local_fleet_without_a_contact_is_not_started(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="contact"):
        LocalFleet(Settings(home=str(tmp_path))).start()


# which of the two


def resource(tmp_path: Path, **fields: str) -> FleetResource:
    return FleetResource(endpoint_file=str(tmp_path / "run" / "nats.json"), n_shards=8, **fields)


def test_the_resource_controls_the_fleet_of_its_home(tmp_path: Path) -> None:
    assert isinstance(resource(tmp_path).control(), LocalFleet)


def test_outside_of_a_cluster_there_is_no_stateful_set_to_control(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not a pod of a cluster"):
        resource(tmp_path, statefulset="crawling/crawl-cell").control()


def test_a_stateful_set_without_a_namespace_is_no_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="namespace/name"):
        resource(tmp_path, statefulset="crawl-cell").control()


def test_the_rule_of_scaling_needs_no_cluster() -> None:
    require_scalable(THREE, 3)

    with pytest.raises(ConfigurationError, match="3 cells own the shards"):
        require_scalable(THREE, 1)
