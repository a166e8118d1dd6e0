"""The fleet in a cluster: the cells' StatefulSet, by the Kubernetes API.

Cells are pods; `cell-2` is the pod whose number (label `apps.kubernetes.io/pod-index`) is 2. The API server
is asked for two things only: the StatefulSet with its scale, and the pods that it selects.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import kubernetes.client as k8s  # type: ignore[import-untyped]
import kubernetes.config  # type: ignore[import-untyped]
import urllib3
from kubernetes.client.exceptions import ApiException  # type: ignore[import-untyped]
from kubernetes.config import ConfigException

from crawl_platform.clock import Clock, SystemClock, as_datetime
from crawl_platform.errors import ConfigurationError, ExchangeError
from crawl_platform.fleet.messages import Heartbeat
from resources.fleet_control import CellState, FleetState, cell_states, require_scalable

T = TypeVar("T")
POD_INDEX = "apps.kubernetes.io/pod-index"
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
TIMEOUT = 10.0


class KubernetesFleet:
    """`FleetControl` of the cells of one StatefulSet.

    `owners` reads the shard table and `beats` the heartbeats: both from the exchange.
    """

    def __init__(
        self,
        namespace: str,
        name: str,
        *,
        owners: Callable[[], Mapping[int, str]],
        beats: Callable[[], Iterable[Heartbeat]],
        api: k8s.ApiClient | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._namespace = namespace
        self._name = name
        self._owners = owners
        self._beats = beats
        self._clock = clock or SystemClock()
        api = api or in_cluster()
        self._apps, self._core = k8s.AppsV1Api(api), k8s.CoreV1Api(api)

    def start(self) -> None:
        owners = self._owners()
        cells = len(set(owners.values()))
        require_scalable(owners, cells)
        self._set_replicas(cells)

    def stop(self) -> None:
        """Each pod's preStop drains its cell first; what is on the cells' disks stays there."""
        self._set_replicas(0)

    def scale(self, cells: int) -> None:
        require_scalable(self._owners(), cells)
        self._set_replicas(cells)

    def restart(self) -> None:
        """One pod after the other, as `kubectl rollout restart` does it."""
        at = as_datetime(self._clock.now()).isoformat()
        body = {"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: at}}}}}
        self._ask(
            "restart",
            lambda: self._apps.patch_namespaced_stateful_set(
                self._name, self._namespace, body, _request_timeout=TIMEOUT
            ),
        )

    def status(self) -> FleetState:
        found = self._ask(
            "read",
            lambda: self._apps.read_namespaced_stateful_set(
                self._name, self._namespace, _request_timeout=TIMEOUT
            ),
        )
        labels = found.spec.selector.match_labels or {}
        pods = self._ask(
            "list the pods of",
            lambda: self._core.list_namespaced_pod(
                self._namespace,
                label_selector=",".join(f"{key}={value}" for key, value in sorted(labels.items())),
                _request_timeout=TIMEOUT,
            ),
        )
        kept = {cell.name: cell for cell in map(_cell_of, pods.items)}
        states = cell_states(kept, self._owners(), self._beats(), self._clock.now())
        return FleetState(int(found.spec.replicas or 0), states)

    def _set_replicas(self, replicas: int) -> None:
        self._ask(
            "scale",
            lambda: self._apps.patch_namespaced_stateful_set_scale(
                self._name, self._namespace, {"spec": {"replicas": replicas}}, _request_timeout=TIMEOUT
            ),
        )

    def _ask(self, what: str, call: Callable[[], T]) -> T:
        """The API server's refusals as errors that say what to do."""
        whose = f"StatefulSet {self._namespace}/{self._name}"
        try:
            return call()
        except ApiException as error:
            if error.status == 404:
                raise ConfigurationError(f"there is no {whose}: is the chart installed there?") from error
            if error.status in (401, 403):
                raise ConfigurationError(
                    f"this service account may not {what} {whose}: bind it to the Role fleet-control of the chart"
                ) from error
            raise ExchangeError(
                f"Kubernetes did not {what} {whose}: {error.status} {error.reason}"
            ) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ExchangeError(f"the Kubernetes API server does not answer: {error}") from error


def in_cluster() -> k8s.ApiClient:
    """The API as this pod's service account may use it. Raises `ConfigurationError` outside of a pod."""
    configuration = k8s.Configuration()
    try:
        kubernetes.config.load_incluster_config(configuration)
    except ConfigException as error:
        raise ConfigurationError(f"this is not a pod of a cluster: {error}") from error
    configuration.retries = 1
    return k8s.ApiClient(configuration)


def _cell_of(pod: Any) -> CellState:
    number = (pod.metadata.labels or {}).get(POD_INDEX) or pod.metadata.name.rpartition("-")[2]
    statuses = pod.status.container_statuses or []
    restarts = sum(status.restart_count for status in statuses)
    state, detail = _state_of(pod.metadata.deletion_timestamp, pod.status.phase, statuses)
    return CellState(f"cell-{number}", state, 0, restarts, detail=detail)


def _state_of(deleted_at: datetime | None, phase: str, statuses: list[Any]) -> tuple[str, str]:
    if deleted_at is not None:
        return "stopped", "is being ended"
    for status in statuses:
        waiting = status.state.waiting
        if waiting is not None:
            state = "restarting" if status.restart_count else "starting"
            return state, waiting.reason or ""
    if phase == "Running" and statuses and all(status.ready for status in statuses):
        return "running", ""
    return "starting", phase
