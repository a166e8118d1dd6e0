"""The hostile web as a process: servers and name server until it is told to stop."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from crawl_platform.clock import Clock
from crawl_platform.simulation.dns import Nameserver
from crawl_platform.simulation.hostile.names import HostileZone
from crawl_platform.simulation.hostile.server import HostileServer
from crawl_platform.simulation.hostile.table import hosts
from crawl_platform.simulation.log import RequestLog
from crawl_platform.simulation.running import Options, until_stopped_or_orphaned


async def serve(
    names: Sequence[str],
    options: Options,
    clock: Clock,
    ready: Callable[[str, int, int, list[str]], None],
) -> None:
    """Serve the misbehaviours called `names` (none: all) and the honest site until SIGTERM or SIGINT.

    Calls `ready(nameserver, http_port, https_port, seeds)` when they answer.
    """
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    chosen = hosts(names)
    server = HostileServer(chosen, clock, RequestLog(Path(options.log)))
    server.bind(options.http_port, options.https_port)
    await server.start(options.ca_file)
    nameserver = Nameserver(HostileZone({host.name: (host.address, host.row.names) for host in chosen}))
    await nameserver.start()
    seeds = [host.seed(server.http_port, server.https_port) for host in chosen]
    ready(nameserver.address, server.http_port, server.https_port, seeds)
    await until_stopped_or_orphaned(stopped)
    nameserver.close()
    await server.close()
