"""A process's pulse: a file that is touched as long as its event loop turns, for those who watch from outside.

Kubernetes has no supervisor of ours: its probes look at the file's age. A loop that hangs stops touching
it, and the process is started anew; NATS or the lake being away does not stop it, since a new process would
not help. The file holds the process id, by which a cell is told to hold (SIGUSR1) before it is stopped.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from crawl_platform.clock import Clock
from crawl_platform.errors import ConfigurationError, ExchangeError
from crawl_platform.fleet.exchange import Endpoint, Exchange
from crawl_platform.fleet.messages import Heartbeat

log = logging.getLogger(__name__)
EVERY = 2.0
FRESH = 15.0
"""An older file (seconds) is of a process that hangs or is gone: its pid may be anybody's by now."""
HOLD = signal.SIGUSR1
LOOK_EVERY = 0.25
HEARD_WITHIN = 0.5
"""A heartbeat this much later (seconds) than the signal was made with the signal obeyed."""


def pulse_path(home: Path, name: str) -> Path:
    return home / "run" / f"{name}.alive"


@contextlib.asynccontextmanager
async def pulse(home: Path, name: str) -> AsyncIterator[None]:
    """Keep the pulse of `name` while the block runs; afterwards the file is gone."""
    path = pulse_path(home, name)
    end_pulse(home, name)
    task = asyncio.create_task(_beat_forever(path))
    try:
        yield
    finally:
        task.cancel()
        end_pulse(home, name)


def end_pulse(home: Path, name: str) -> None:
    """Remove what a killed predecessor left: its pulse is not ours."""
    pulse_path(home, name).unlink(missing_ok=True)


async def _beat_forever(path: Path) -> None:
    while True:
        try:
            _touch(path)
        except OSError as error:  # a full disk: the crawl has its own way with that
            log.warning("no pulse: %s", error)
        await asyncio.sleep(EVERY)


def _touch(path: Path) -> None:
    if path.exists():
        os.utime(path)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text(str(os.getpid()))
    draft.replace(path)


async def drain(home: Path, name: str, endpoint: Endpoint, clock: Clock, *, within: float) -> bool:
    """Tell the cell `name` of this machine to claim no more, and wait until nothing of it is in flight.

    Returns False if something still was after `within` seconds, or could not be heard of. Raises
    `ConfigurationError` if no such cell is alive here.
    """
    path = pulse_path(home, name)
    if not path.exists() or clock.now() - path.stat().st_mtime > FRESH:
        raise ConfigurationError(f"no {name} is alive at {home}")
    deadline = clock.boottime() + within
    told_at = clock.now()
    os.kill(int(path.read_text()), HOLD)
    try:
        exchange = await Exchange.connect(endpoint, "drain")
    except ExchangeError as error:
        log.warning("%s holds, unheard: %s", name, error)
        return False
    try:
        while not await _at_rest(exchange, name, told_at + HEARD_WITHIN):
            if clock.boottime() > deadline:
                return False
            await asyncio.sleep(LOOK_EVERY)
        return True
    finally:
        await exchange.close()


async def _at_rest(exchange: Exchange, name: str, after: float) -> bool:
    try:
        entry = await exchange.get("cells", name)
    except ExchangeError as error:
        log.warning("%s is not heard of: %s", name, error)
        return False
    if entry is None:
        return False
    beat = msgspec.json.decode(entry[0], type=Heartbeat)
    return beat.at > after and not beat.report["in_flight"]
