"""Settings that are read anew while the fleet runs (`crawl reload`, SIGHUP): what may change, and what may not."""

from pathlib import Path

from crawl_platform import settings as settings_module
from crawl_platform.errors import ConfigurationError
from crawl_platform.settings import Settings


def settings_to_reload(home: Path, cells: int) -> Settings:
    """The settings of now. Raises `ConfigurationError` if they are wrong, or name another number of cells than run:
    cells share the slots of front ends and domains by that number, so all have to be started by the same."""
    settings = settings_module.load(home)
    settings.validate()
    settings.require_contact()
    if settings.fleet.cells != cells:
        raise ConfigurationError(
            f"fleet.cells is {settings.fleet.cells}, and {cells} run: `crawl down` and `crawl up` change that"
        )
    return settings
