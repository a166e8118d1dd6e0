"""The crawl that a command is about: its settings, its lake, its fleet."""

from dataclasses import dataclass
from pathlib import Path

from crawl_platform import settings as settings_module
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.fleet.supervisor import is_running
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Settings

DEMO_HOME = Path(".crawl/demo")


@dataclass(frozen=True)
class Crawl:
    settings: Settings

    @staticmethod
    def at(home: Path) -> "Crawl":
        """The crawl at `home`. Raises `ConfigurationError` if there is none."""
        crawl = Crawl(settings_module.load(home))
        if not crawl.lake.exists():
            demo = f" (a demo's is at {DEMO_HOME})" if (DEMO_HOME / "lake").exists() else ""
            raise ConfigurationError(
                f"there is no crawl at {home}: start one with `crawl up --seeds FILE --contact MAIL --home {home}`, "
                f"or name another folder with --home{demo}"
            )
        return crawl

    @property
    def home(self) -> Path:
        return self.settings.root

    @property
    def lake(self) -> Lake:
        return Lake(self.settings.lake_root)

    @property
    def fleet(self) -> FleetClient:
        """Raises `ConfigurationError` when no fleet runs here: what it would say could not be heard.

        With a NATS elsewhere (`fleet.nats_url`) the fleet may run elsewhere too.
        """
        if not self._may_run:
            raise ConfigurationError(f"no fleet is running at {self.home}: start it with `crawl up`")
        return FleetClient(self.home / "run" / "nats.json", self.lake.n_shards)

    @property
    def running_fleet(self) -> FleetClient | None:
        """For commands that tell less without a fleet; one that runs elsewhere may still not answer."""
        return self.fleet if self._may_run else None

    @property
    def _may_run(self) -> bool:
        return bool(self.settings.fleet.nats_url) or is_running(self.home)
