"""The fleet as a Dagster resource. The fleet is not a run: it goes on when Dagster stops."""

from pathlib import Path

import dagster as dg

from crawl_platform import settings as settings_module
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.fleet.shards import read_owners
from resources.fleet_control import FleetControl
from resources.local_fleet import LocalFleet

STATEFULSET_VARIABLE = "CRAWL_FLEET_STATEFULSET"


class FleetResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Where the exchange says how to reach it (`<home>/run/nats.json`), and the lake's number of shards.

    `statefulset`: "namespace/name" of the cells where they run on Kubernetes; empty on one machine.
    """

    endpoint_file: str
    n_shards: int
    statefulset: str = ""

    def client(self) -> FleetClient:
        """A client; its calls raise `ExchangeError` while the exchange is away."""
        return FleetClient(Path(self.endpoint_file), self.n_shards)

    def control(self) -> FleetControl:
        """What starts, stops and watches the fleet's processes.

        Raises `ConfigurationError` where `statefulset` is none, or this is not a pod of a cluster.
        """
        file = Path(self.endpoint_file)
        if not self.statefulset:
            return LocalFleet(settings_module.load(file.parent.parent))
        namespace, _, name = self.statefulset.partition("/")
        if not namespace or not name:
            raise ConfigurationError(
                f"{STATEFULSET_VARIABLE} is {self.statefulset!r}: write namespace/name of the cells' StatefulSet"
            )
        from resources.kubernetes_fleet import KubernetesFleet  # a second of imports, needed here only

        return KubernetesFleet(
            namespace, name, owners=lambda: read_owners(file), beats=lambda: self.client().heartbeats()
        )
