"""`crawl up` and `crawl down`: start and stop a fleet, with Dagster beside it."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import click
import msgspec

from crawl_platform import settings as settings_module
from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import count_text
from crawl_platform.cli.seed_file import SeedFile
from crawl_platform.cli.seed_import import seed_from
from crawl_platform.errors import ConfigurationError, PlatformError
from crawl_platform.fleet.seeding import crawlable, said
from crawl_platform.fleet.supervisor import Companion, is_running
from crawl_platform.settings import Settings
from resources.instance import dagster_command
from resources.local_fleet import (
    last_line,
    reload_fleet,
    start_supervisor,
    stop_fleet,
    stop_supervisor,
    wait_until_running,
)

PROGRESS_EVERY = 5.0


@click.command()
@click.option(
    "--seeds",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Hosts or URLs to start from: one a line (# starts a comment), or a top list as `crawl seed import` reads it.",
)
@click.option("--contact", metavar="MAIL", help="Mail or URL that site owners can write to (required once).")
@click.option("--agent", metavar="NAME", help="Product name in the user agent.")
@click.option("--cells", type=click.IntRange(1), help="Fetch processes.")
@click.option(
    "--delay",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Least time between two requests to a host or address.",
)
@click.option(
    "--dagster/--no-dagster", default=True, show_default=True, help="Run the Dagster UI and daemon too."
)
@click.option("--port", type=int, help="Port of the Dagster UI on 127.0.0.1.")
@click.option("--detach", "-d", is_flag=True, help="Return once the fleet runs; `crawl down` stops it.")
@home_option
def up(
    seeds: Path | None, contact: str | None, agent: str | None, cells: int | None, delay: float | None,
    dagster: bool, port: int | None, detach: bool, home: Path,
) -> None:  # fmt: skip
    """Start the crawl at --home (created if need be) and keep it running until Ctrl-C.

    Options are kept in HOME/crawl.toml, so the next `crawl up` needs none. The crawl goes on where it
    stopped. It fetches only the hosts of FILE and those that are promoted later, obeys robots.txt, and
    waits at least --delay seconds between two requests to one host.
    """
    home.mkdir(parents=True, exist_ok=True)
    settings = _configure(settings_module.load(home), contact, agent, cells, delay, port)
    settings.require_contact()
    if seeds is not None:
        _require_seeds(seeds)
    if seeds is None and not Crawl(settings).lake.exists():
        raise ConfigurationError(
            "a new crawl needs --seeds FILE: the hosts or URLs to start from, one a line"
        )
    if is_running(settings.root):
        raise ConfigurationError(f"a fleet is already running at {home}: `crawl down --home {home}` stops it")
    if dagster:
        require_free(settings.orchestration.port)
    settings_module.save(settings)
    interrupts = Interrupts()
    process = start_supervisor(settings, companions(settings, dagster=dagster), outlives_us=detach)
    wait_until_running(settings, process)
    if seeds is not None:
        count = seed_from(Crawl(settings), SeedFile(seeds), "seed list").hosts
        click.echo(f"{count_text(count, 'seed host')} handed to the fleet")
    _say_running(settings, dagster)
    if not detach:
        follow(settings, process, interrupts)


@click.command()
@home_option
def down(home: Path) -> None:
    """Stop the fleet: requests in flight land, everything is committed, nothing is lost."""
    if not stop_fleet(home):
        click.echo(f"no fleet is running at {home}")
        return
    click.echo("stopped")


@click.command()
@home_option
def reload(home: Path) -> None:
    """Have the running fleet read its settings anew: HOME/crawl.toml and the files that it names.

    What is wrong with them is told, and nothing is done. Else all cells end (what is in flight lands, all is committed)
    before the first starts again, which takes some seconds. The number of cells, NATS, the API and Dagster stay as they
    are until `crawl down` and `crawl up`.
    """
    reload_fleet(home)
    click.echo("settings are in force")


def _configure(
    settings: Settings,
    contact: str | None,
    agent: str | None,
    cells: int | None,
    delay: float | None,
    port: int | None,
) -> Settings:
    replace = msgspec.structs.replace
    if contact is not None:
        settings = replace(settings, identity=replace(settings.identity, contact=contact))
    if agent is not None:
        settings = replace(settings, identity=replace(settings.identity, agent=agent))
    if cells is not None:
        settings = replace(settings, fleet=replace(settings.fleet, cells=cells))
    if delay is not None:
        politeness = replace(settings.politeness, host_delay=delay, address_delay=delay)
        settings = replace(settings, politeness=politeness)
    if port is not None:
        settings = replace(settings, orchestration=replace(settings.orchestration, port=port))
    settings.validate()
    return settings


def _require_seeds(path: Path) -> None:
    """Raise `ConfigurationError` before anything is started if no line of the file names a host."""
    if not any(crawlable(said(line)) for line in SeedFile(path)):
        raise ConfigurationError(f"{path} names no host that can be crawled: write one host or URL a line")


def companions(settings: Settings, *, dagster: bool = True) -> list[Companion]:
    """What runs beside the fleet: its HTTP API and Dagster."""
    found = []
    if settings.api.enabled:
        found.append(
            Companion("api", [sys.executable, "-m", "crawl_platform.api", "--home", str(settings.root)])
        )
    if dagster:
        command, env = dagster_command(settings, settings.orchestration.port)
        found.append(Companion("dagster", command, env))
    return found


def require_free(port: int) -> None:
    """Raise `ConfigurationError` if something listens on 127.0.0.1:`port` already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ConfigurationError(f"port {port} is in use: choose another with --port") from error


class Interrupts:
    """SIGTERM and SIGINT are noted, also when a shell started us with SIGINT ignored (`… &`), and acted on
    between two steps: raised in the middle of a database call they would surface as an error of its own."""

    def __init__(self) -> None:
        self._noted = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, *_: object) -> None:
        self._noted = True

    def sleep(self, seconds: float) -> None:
        """Sleep; raises `KeyboardInterrupt` if a signal has come since the start."""
        until = time.monotonic() + seconds
        while not self._noted and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
        if self._noted:
            raise KeyboardInterrupt


def _say_running(settings: Settings, dagster: bool) -> None:
    home = settings.root
    click.echo(f"the crawl runs at {home}")
    if dagster:
        click.echo(f"  Dagster:  http://127.0.0.1:{settings.orchestration.port} (up in about 20 s)")
    if settings.api.enabled:
        click.echo(f"  API:      URL and token in {home / 'run' / 'api.json'}")
    click.echo(f"  Look:     crawl status --home {home}    crawl top --home {home}")
    click.echo(f'  Query:    crawl sql --home {home} "SELECT outcome, count(*) FROM fetches GROUP BY ALL"')


def follow(settings: Settings, process: subprocess.Popen[bytes], interrupts: Interrupts) -> None:
    """Print progress until Ctrl-C, then stop the fleet."""
    click.echo("Ctrl-C stops it")
    said = ""
    try:
        while process.poll() is None:
            interrupts.sleep(PROGRESS_EVERY)
            line = _progress(settings)
            if line != said:
                click.echo(line)
            said = line
        raise PlatformError(f"the fleet has ended: {last_line(settings.root / 'logs' / 'supervisor.log')}")
    except KeyboardInterrupt:
        click.echo("stopping …")
        stop_supervisor(process)
        click.echo("stopped")


def _progress(settings: Settings) -> str:
    """A line of figures, or why there is none: whoever only watches must not end what it watches."""
    try:
        return _figures(settings)
    except PlatformError as error:
        return f"no figures now: {error}"


def _figures(settings: Settings) -> str:
    beats = Crawl(settings).fleet.heartbeats()
    total = {
        key: sum(beat.report.get(key, 0) for beat in beats)
        for key in ("pages", "errors", "rate", "known_urls")
    }
    return (
        f"{total['pages']:,.0f} pages, {total['errors']:,.0f} errors since start, {total['rate']:.1f} fetches/s, "
        f"{total['known_urls']:,.0f} URLs known"
    )
