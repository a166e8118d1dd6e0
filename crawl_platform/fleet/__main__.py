"""Entry points of the fleet's processes: `python -m crawl_platform.fleet cell|committer|upkeep|supervisor`.

Where cells run without a supervisor (`deploy/helm`), `prepare`, `wait` and `drain` do what it does otherwise.

The composition root: here settings are read, clocks and stores made, signals and logs set up.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import click
import msgspec
import uvloop

from crawl_platform import settings as settings_module
from crawl_platform.clock import SystemClock
from crawl_platform.commit.faults import parse_fault
from crawl_platform.commit.outbox import Outbox, incarnations
from crawl_platform.errors import (
    CrawlError,
    DamagedStateError,
    ExchangeError,
    LakeRewoundError,
    LostExchangeError,
    OwnershipLostError,
    StateTooNewError,
)
from crawl_platform.fetch.signing import signer_for
from crawl_platform.fleet.committing import CommitterProcess
from crawl_platform.fleet.exchange import Endpoint, Exchange
from crawl_platform.fleet.incarnation import settle_incarnation
from crawl_platform.fleet.logs import log_to
from crawl_platform.fleet.prepare import prepare_fleet, wait_prepared
from crawl_platform.fleet.pulse import HOLD, end_pulse, pulse
from crawl_platform.fleet.pulse import drain as drain_cell
from crawl_platform.fleet.same_exchange import require_same
from crawl_platform.fleet.shards import claim_shards
from crawl_platform.fleet.stops import LOOK
from crawl_platform.fleet.supervisor import EXIT_REFUSES, Companion, Supervisor
from crawl_platform.fleet.upkeep import Answer, Task, do_portion
from crawl_platform.frontier.layout import bring_up_to_date
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.frontier.shard_state import stored
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Settings

log = logging.getLogger(__name__)
GARBAGE = 50_000, 20, 50
"""Thresholds of the garbage collector. A cell holds a whole epoch's rows, none of which are garbage: with Python's own
it spends a tenth of its time on looking through them."""
NATS_USER, NATS_PASSWORD = "CRAWL_NATS_USER", "CRAWL_NATS_PASSWORD"


def _log_to(settings: Settings, name: str) -> None:
    log_to(settings, name, console=click.get_current_context().find_root().params["console"])


REFUSED = (LakeRewoundError, LostExchangeError, DamagedStateError, StateTooNewError)
"""Errors that another start would meet again: somebody has to decide something."""


def _run(work: Callable[[asyncio.Event], Awaitable[None]], name: str) -> None:
    """Run until done or SIGTERM/SIGINT; the exit status says what became of it."""

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await work(stop)

    try:
        uvloop.run(main())
    except REFUSED as error:
        log.critical("%s refuses to go on: %s", name, error)
        sys.exit(EXIT_REFUSES)
    except (OwnershipLostError, CrawlError) as error:
        log.error("%s stops: %s: %s", name, type(error).__name__, error)
        sys.exit(1)
    except Exception:
        log.exception("%s died of a bug", name)
        sys.exit(1)


async def _connect(endpoint_file: Path, name: str, stop: asyncio.Event) -> Exchange:
    """NATS may come up after us: try until it is there or we are told to stop."""
    while True:
        try:
            return await Exchange.connect(Endpoint.read(endpoint_file), name)
        except ExchangeError as error:
            if stop.is_set():
                raise
            log.warning("%s", error)
            await asyncio.sleep(0.5)


@click.group()
@click.option("--console", is_flag=True, help="Log to standard error as well as to logs/ (containers).")
def main(console: bool) -> None:
    """Processes of the crawl fleet (started by `crawl up`)."""


@main.command()
@click.option("--home", required=True, type=click.Path(path_type=Path))
@click.option("--name", required=True)
@click.option("--fault", default="", help="tests only: kill this process at a point of the commit protocol")
def cell(home: Path, name: str, fault: str) -> None:
    """Crawl the shards that the shard table gives to NAME."""
    # No other role digests pages: numba takes a second to import and 60 MB.
    from crawl_platform.digest import warm
    from crawl_platform.fleet.cell import Cell
    from crawl_platform.machine_code import is_compiled

    settings = settings_module.load(home)
    _log_to(settings, name)
    signal.signal(LOOK, signal.SIG_IGN)  # until the cell listens; it reads the file at its start anyway
    end_pulse(home, name)

    async def work(stop: asyncio.Event) -> None:
        settings.require_contact()
        if not is_compiled():
            log.warning("the digest is compiled, once: that takes up to a minute")
        warm()
        exchange = await _connect(home / "run" / "nats.json", name, stop)
        await require_same(exchange, settings.lake_root)
        kv = RocksKV(home / "cells" / name / "state")
        try:
            bring_up_to_date(kv)
            outbox, lake = Outbox(kv, uuid.uuid4().hex), Lake(settings.lake_root)
            await settle_incarnation(outbox, exchange, lake, uuid.uuid4().hex, stop)
            ours = ("", *incarnations(kv))
            shards = await claim_shards(
                exchange,
                name,
                outbox.incarnation,
                lambda shard, owner: owner.incarnation not in ours and not stored(kv, shard),
            )
            process = Cell(
                name,
                settings,
                shards=shards,
                n_shards=lake.n_shards,
                kv=kv,
                outbox=outbox,
                exchange=exchange,
                clock=SystemClock(),
                faults=parse_fault(fault),
            )
            asyncio.get_running_loop().add_signal_handler(HOLD, process.hold)
            asyncio.get_running_loop().add_signal_handler(LOOK, process.look_at_stops)
            gc.freeze()  # modules and settings are for good
            gc.set_threshold(*GARBAGE)
            async with pulse(home, name):
                await process.run(stop)
        finally:
            kv.close()
            await exchange.close()

    _run(work, name)


@main.command()
@click.option("--home", required=True, type=click.Path(path_type=Path))
@click.option("--fault", default="")
def committer(home: Path, fault: str) -> None:
    """Commit manifests to the lake."""
    settings = settings_module.load(home)
    of_upkeep = fault.startswith("upkeep.")
    _log_to(settings, "committer")
    end_pulse(home, "committer")

    async def work(stop: asyncio.Event) -> None:
        exchange = await _connect(home / "run" / "nats.json", "committer", stop)
        try:
            await require_same(exchange, settings.lake_root)
            process = CommitterProcess(
                settings,
                Lake(settings.lake_root),
                exchange,
                SystemClock(),
                parse_fault("" if of_upkeep else fault),
                uuid.uuid4().hex,
                fault if of_upkeep else "",
            )
            async with pulse(home, "committer"):
                await process.run(stop)
        finally:
            await exchange.close()

    _run(work, "committer")


@main.command()
@click.option("--home", required=True, type=click.Path(path_type=Path))
@click.option("--task", required=True, type=click.Path(path_type=Path), help="JSON of what to do")
@click.option("--answer", required=True, type=click.Path(path_type=Path), help="where to say what was done")
@click.option("--fault", default="", help="tests only: kill this process at a point of upkeep")
def upkeep(home: Path, task: Path, answer: Path, fault: str) -> None:
    """One portion of upkeep, for the committer that waits for it."""
    settings = settings_module.load(home)
    _log_to(settings, "upkeep")
    os.nice(10)
    wanted = msgspec.json.decode(task.read_bytes(), type=Task)
    try:
        said = Answer(do_portion(settings, SystemClock(), wanted, faults=parse_fault(fault)))
    except CrawlError as error:
        log.error("upkeep stops: %s", error)
        said = Answer(error=str(error))
    draft = answer.with_suffix(".tmp")
    draft.write_bytes(msgspec.json.encode(said))
    draft.replace(answer)


@main.command()
@click.option("--home", required=True, type=click.Path(path_type=Path))
@click.option("--fault", multiple=True, help="tests only: process=point:nth")
@click.option("--companion", multiple=True, help="JSON of a process that lives and dies with the fleet")
def supervisor(home: Path, fault: tuple[str, ...], companion: tuple[str, ...]) -> None:
    """Start the fleet's processes and keep them running."""
    settings = settings_module.load(home)
    _log_to(settings, "supervisor")
    faults = dict(item.split("=", 1) for item in fault)
    companions = [msgspec.json.decode(text, type=Companion) for text in companion]
    process = Supervisor(settings, SystemClock(), faults, companions, _login())

    async def work(stop: asyncio.Event) -> None:
        settings.require_contact()  # cells would say so one by one, for ever
        signer_for(settings, SystemClock())  # the same with a key that can't be read
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, process.reload)
        await process.run(stop)

    _run(work, "supervisor")


def _login() -> tuple[str, str] | None:
    """How to log in to the NATS at `fleet.nats_url`, from the environment."""
    user = os.environ.get(NATS_USER)
    return (user, os.environ.get(NATS_PASSWORD, "")) if user else None


@main.command()
@click.option("--home", required=True, type=click.Path(path_type=Path))
@click.option("--cells", type=click.IntRange(1), help="Cells of the fleet; fleet.cells by default.")
@click.option("--within", default=120.0, show_default=True, help="Seconds that NATS may take to come up.")
def prepare(home: Path, cells: int | None, within: float) -> None:
    """Create the lake and give every shard an owner. To be repeated at will."""
    settings = settings_module.load(home)
    _log_to(settings, "prepare")

    async def work(_stop: asyncio.Event) -> None:
        endpoint = Endpoint.read(home / "run" / "nats.json")
        number = cells or settings.fleet.cells
        counts = await prepare_fleet(settings, endpoint, SystemClock(), number, within=within)
        log.info("shards per cell: %s", counts)

    _run(work, "prepare")


@main.command()
@click.option("--home", required=True, type=click.Path(path_type=Path))
@click.option("--within", default=600.0, show_default=True, help="Seconds to wait before failing.")
def wait(home: Path, within: float) -> None:
    """Wait until `prepare` has done its work."""
    settings = settings_module.load(home)
    _log_to(settings, "wait")

    async def work(_stop: asyncio.Event) -> None:
        endpoint = Endpoint.read(home / "run" / "nats.json")
        await wait_prepared(settings, endpoint, SystemClock(), within=within)

    _run(work, "wait")


@main.command()
@click.option("--home", required=True, type=click.Path(path_type=Path))
@click.option("--name", required=True)
@click.option("--within", default=75.0, show_default=True, help="Seconds that what is in flight may take.")
def drain(home: Path, name: str, within: float) -> None:
    """Have the cell NAME of this machine claim no more, and wait until nothing of it is in flight.

    What comes before a stop (SIGTERM), which gives requests five seconds only. There is no way back: a cell
    on hold has to be started anew.
    """
    settings = settings_module.load(home)
    _log_to(settings, "drain")

    async def work(_stop: asyncio.Event) -> None:
        endpoint = Endpoint.read(home / "run" / "nats.json")
        done = await drain_cell(home, name, endpoint, SystemClock(), within=within)
        log.info("%s %s", name, "is at rest" if done else f"is not at rest after {within:g} s")

    _run(work, "drain")


if __name__ == "__main__":
    main()
