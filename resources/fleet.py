"""The fleet as a Dagster resource. The fleet is not a run: it goes on when Dagster stops."""

from pathlib import Path

import dagster as dg

from crawl_platform.fleet.client import FleetClient


class FleetResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Where the exchange says how to reach it (`<home>/run/nats.json`), and the lake's number of shards."""

    endpoint_file: str
    n_shards: int

    def client(self) -> FleetClient:
        """A client; its calls raise `ExchangeError` while the exchange is away."""
        return FleetClient(Path(self.endpoint_file), self.n_shards)
