"""`python -m crawl_platform.api --home DIR`: serve the API of the crawl at DIR until SIGTERM.

The composition root: settings, environment, clock and logs are read and made here.
"""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import click
import msgspec
import uvloop
from aiohttp import web

from crawl_platform import settings as settings_module
from crawl_platform.api.server import Api, Setup
from crawl_platform.api.tokens import (
    VARIABLE,
    Tokens,
    callers_of,
    is_loopback,
    require_safe,
    write_api_file,
)
from crawl_platform.clock import SystemClock
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.logs import log_to
from crawl_platform.fleet.supervisor import EXIT_REFUSES
from crawl_platform.settings import Settings

log = logging.getLogger(__name__)
STOP_PATIENCE = 5.0
"""Seconds that calls under way get when we are told to stop."""


@click.command()
@click.option("--home", required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", help="Address to bind; default api.host.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port to bind; default api.port.")
@click.option("--console", is_flag=True, help="Log to standard error too.")
def main(home: Path, host: str | None, port: int | None, console: bool) -> None:
    """Serve the HTTP API of the crawl at HOME."""
    settings = settings_module.load(home)
    log_to(settings, "api", console=console)
    host = settings.api.host if host is None else host
    port = settings.api.port if port is None else port
    try:
        uvloop.run(_serve(settings, host, port, os.environ.get(VARIABLE, "")))
    except ConfigurationError as error:
        log.critical("the API refuses to start: %s", error)
        click.echo(str(error), err=True)
        sys.exit(EXIT_REFUSES)
    except OSError as error:
        log.error("the API can't listen on %s port %d: %s", host, port, error)
        sys.exit(1)


async def _serve(settings: Settings, host: str, port: int, given: str) -> None:
    require_safe(host, given)
    callers, file = callers_of(settings.root, given)
    setup = Setup(settings, Tokens(callers), SystemClock(), open_metrics=is_loopback(host))
    runner = web.AppRunner(
        Api(setup).application(), access_log=None, auto_decompress=False, shutdown_timeout=STOP_PATIENCE
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await runner.setup()
    try:
        await _listen(runner, host, port, _port_of(file.url))
        url = _url(host, runner.addresses[0][1])
        write_api_file(settings.root, msgspec.structs.replace(file, url=url))
        log.info("serving %s for %s", url, ", ".join(sorted(caller.name for caller in callers.values())))
        await stop.wait()
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int, last: int) -> None:
    """On `port`; if that is 0 on the port of the last time, so that the URL outlives a restart, or a free one."""
    for candidate in (port,) if port else (last, 0):
        try:
            await web.TCPSite(runner, host, candidate).start()
            return
        except OSError:
            if port or not candidate:
                raise


def _port_of(url: str) -> int:
    port = url.rpartition(":")[2].strip("/")
    return int(port) if port.isdigit() else 0


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


if __name__ == "__main__":
    main()
