"""`crawl doctor`: what is wrong with a set-up, and what to do about it."""

import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
import duckdb

from crawl_platform import settings as settings_module
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import bytes_text, json_option, print_json
from crawl_platform.cli.run import require_free
from crawl_platform.errors import ConfigurationError, CrawlError
from crawl_platform.fetch.signing import key_path, load_key
from crawl_platform.fleet.descriptors import descriptors_needed
from crawl_platform.fleet.natsserver import binary
from crawl_platform.fleet.supervisor import is_running, read_status
from crawl_platform.lake.extension import open_duckdb
from crawl_platform.settings import Settings

PINNED = {"duckdb": "1.5.5", "duckdb-extension-delta": "1.5.5", "dagster": "1.13.27"}


@dataclass(frozen=True)
class Finding:
    check: str
    ok: bool
    detail: str
    remedy: str = ""


@click.command()
@json_option
@home_option
def doctor(as_json: bool, home: Path) -> None:
    """Check this machine and the crawl at --home; exit status 1 if something has to be done."""
    findings = list(_findings(home))
    if as_json:
        print_json([finding.__dict__ for finding in findings])
    else:
        for finding in findings:
            click.echo(f"{'ok  ' if finding.ok else 'BAD '} {finding.check}: {finding.detail}")
            if not finding.ok:
                click.echo(f"     → {finding.remedy}")
    if not all(finding.ok for finding in findings):
        raise SystemExit(1)


def _findings(home: Path) -> Iterator[Finding]:
    yield _python()
    yield from _versions()
    yield _try(
        "delta extension", "make setup", lambda: f"loads into DuckDB {duckdb.__version__}", _load_delta
    )
    yield _try("nats-server", "make setup", lambda: str(binary()))
    try:
        settings = settings_module.load(home)
    except ConfigurationError as error:
        yield Finding("settings", False, str(error), f"correct {home / settings_module.CONFIG_NAME}")
        return
    yield Finding("settings", True, f"{home / settings_module.CONFIG_NAME} is well-formed or absent")
    yield _contact(settings)
    yield _signing(settings)
    yield _descriptors(settings)
    yield _disk(settings)
    yield _port(settings)
    yield _processes(settings)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", sys.version_info >= (3, 11), found, "install Python 3.11 or newer")


def _versions() -> Iterator[Finding]:
    for name, wanted in PINNED.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "missing"
        remedy = f"{name} {wanted} is what works together: run `make setup` again"
        yield Finding(name, found == wanted, found, remedy)


def _try(
    check: str, remedy: str, detail: Callable[[], str], work: Callable[[], None] | None = None
) -> Finding:
    try:
        if work is not None:
            work()
        return Finding(check, True, detail())
    except CrawlError as error:
        return Finding(check, False, str(error), remedy)


def _load_delta() -> None:
    with open_duckdb() as connection:
        connection.execute("SELECT 1")


def _contact(settings: Settings) -> Finding:
    try:
        settings.require_contact()
    except ConfigurationError as error:
        return Finding("contact", False, "none", str(error))
    return Finding("contact", True, settings.identity.user_agent)


def _signing(settings: Settings) -> Finding:
    if not settings.signing.enabled:
        return Finding("signed requests", True, "off (signing.enabled)")
    path = key_path(settings)
    try:
        key = load_key(path)
        if path.stat().st_mode & 0o077:
            return Finding("signed requests", False, f"others can read {path}", f"chmod 600 {path}")
    except (ConfigurationError, OSError) as error:
        return Finding("signed requests", False, str(error), "crawl identity")
    return Finding("signed requests", True, f"{key.thumbprint}, published at {settings.signing.agent}")


def _descriptors(settings: Settings) -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = descriptors_needed(settings)
    enough = hard == resource.RLIM_INFINITY or hard >= needed
    remedy = f"raise the limit (ulimit -n {needed}) or lower fetch.slots"
    return Finding(
        "open files", enough, f"limit {hard}, {needed} needed for {settings.fetch.slots} slots", remedy
    )


def _disk(settings: Settings) -> Finding:
    existing = next(p for p in (settings.root, *settings.root.parents) if p.exists())
    free = shutil.disk_usage(existing).free
    needed = settings.fleet.min_free_disk
    detail = f"{bytes_text(free)} free at {existing}"
    return Finding(
        "disk", free >= needed, detail, f"free at least {bytes_text(needed)}: cells stop claiming below it"
    )


def _processes(settings: Settings) -> Finding:
    status = read_status(settings.root)
    if status is None or not is_running(settings.root):
        return Finding("processes", True, "no fleet is running here")
    bad = [child for child in status.children if child.state != "running"]
    if not bad:
        return Finding("processes", True, f"all {len(status.children)} of the fleet run")
    said = "; ".join(
        f"{child.name} {child.state}: {child.detail or 'a moment ago it ended'}" for child in bad
    )
    return Finding("processes", False, said, f"the end of its log in {settings.root / 'logs'} says why")


def _port(settings: Settings) -> Finding:
    port = settings.orchestration.port
    if is_running(settings.root):
        return Finding("dagster port", True, f"{port}, the fleet is running")
    try:
        require_free(port)
    except ConfigurationError as error:
        return Finding("dagster port", False, str(error), "choose another with `crawl up --port`")
    return Finding("dagster port", True, f"{port} is free")
