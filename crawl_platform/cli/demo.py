"""`crawl demo`: the whole loop on a synthetic web, as it happens.

Starts web, fleet and Dagster in a folder of its own; what is told meanwhile is in `demo_show.py`.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from crawl_platform import settings as settings_module
from crawl_platform.cli.crawl import DEMO_HOME, Crawl
from crawl_platform.cli.demo_show import Show
from crawl_platform.cli.run import Interrupts, companions, require_free
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.supervisor import is_running
from crawl_platform.settings import Commit, Fetch, Identity, Orchestration, Politeness, Refresh, Settings
from crawl_platform.simulation.running import Ready, launch
from crawl_platform.simulation.verdict import read_log
from resources.local_fleet import start_supervisor, stop_supervisor, wait_until_running

MARKER = "this-is-a-demo"
DELAY = 0.7
PACE = 1.5
"""How much faster than by default its pages change: in minutes something has to be learnt of them."""
LONG_ENOUGH = 200.0
"""Seconds after which the analysis has to have been seen as well as the loop."""


@click.command()
@click.option("--web-seed", type=int, default=1, show_default=True, help="Which synthetic web to crawl.")
@click.option(
    "--for",
    "seconds",
    type=float,
    help="End after this many seconds of crawling, status 0 only if the whole loop was seen.",
)
@click.option(
    "--port", type=int, default=3000, show_default=True, help="Port of the Dagster UI on 127.0.0.1."
)
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEMO_HOME,
    show_default=True,
    help="Folder of the demo; emptied at the start.",
)
def demo(web_seed: int, seconds: float | None, port: int, home: Path) -> None:
    """Crawl a synthetic web on this machine, with Dagster, and say what happens.

    Shows pages fetched, hosts found on the horizon, the first promotion and its evidence, the promoted
    host's first page, a fastlane recrawl and a schedule window, all within three minutes; then change
    rates beside the web's true ones, promised and realised use of a window, quality measures, the
    analysts' marts, near-duplicates and new pages found through the freshlane, within four. Runs until
    Ctrl-C; nothing leaves the loopback interface.
    """
    interrupts = Interrupts()
    if is_running(home.resolve()):
        raise ConfigurationError(f"a demo is running at {home}: stop it, or name another folder with --home")
    require_free(port)
    _empty(home)
    web_log = home / "web.jsonl"
    arguments = ("synthetic", "--seed", str(web_seed), "--pace", str(PACE))
    click.echo(f"starting a synthetic web (--web-seed {web_seed}), a fleet and Dagster in {home} …")
    click.echo(f"meanwhile, elsewhere: .venv/bin/crawl top --home {home}")
    with launch(arguments, web_log, ca_file=home / "web-ca.pem") as web:
        settings = _settings(home, web.ready, port)
        settings_module.save(settings)
        (home / "web.json").write_bytes(msgspec.json.encode(web.ready))
        with _fleet(settings):
            show = Show(settings, web.ready)
            try:
                Crawl(settings).fleet.seed(web.ready.seeds, reason="demo seed")
                show.run(seconds, interrupts)
                show.summary(whole=True)
            except KeyboardInterrupt:
                click.echo("")
                show.summary(whole=False)
            if show.elapsed < LONG_ENOUGH and not (show.complete and show.analysis.complete):
                click.echo(
                    f"In {show.elapsed:.0f} s not everything can be seen: give it 240 (make demo FOR=240)."
                )
            click.echo("stopping …")
    clean = show.verdict(read_log(web_log))
    seen = show.complete and (seconds is None or seconds < LONG_ENOUGH or show.analysis.complete)
    if seconds is not None and not (seen and clean):
        raise SystemExit(1)


def _empty(home: Path) -> None:
    """Start afresh, but never remove a folder that a demo has not made."""
    if home.exists() and any(home.iterdir()):
        if not (home / MARKER).exists():
            raise ConfigurationError(f"{home} is not a demo's folder: name an empty one with --home")
        shutil.rmtree(home)
    home.mkdir(parents=True, exist_ok=True)
    (home / MARKER).touch()


def _settings(home: Path, web: Ready, port: int) -> Settings:
    """Embedded defaults, with the paces of a web that changes in seconds."""
    return Settings(
        home=str(home.resolve()),
        identity=Identity(agent="crawl-platform-demo", contact="https://example.org/crawl-platform-demo"),
        politeness=Politeness(host_delay=DELAY, address_delay=DELAY, robots_retry=30.0, backoff_first=2.0),
        fetch=Fetch(
            nameservers=(web.nameserver,),
            allow_networks=("127.0.0.0/8",),
            ca_file=web.ca_file,
            read_timeout=10.0,
            total_timeout=20.0,
            slots=64,
        ),
        refresh=Refresh(interval_min=2.0, interval_max=3600.0, prior_rate=1440.0, watch_min=5.0),
        commit=Commit(epoch_seconds=2.0, stats_seconds=5.0, snapshot_seconds=20.0),
        orchestration=Orchestration(profile="demo", port=port, window_seconds=30.0),
    )


@contextmanager
def _fleet(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    process = start_supervisor(settings, companions(settings))
    try:
        wait_until_running(settings, process)
        yield process
    finally:
        stop_supervisor(process)
