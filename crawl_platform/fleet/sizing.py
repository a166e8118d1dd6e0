"""What a crawl of a given rate needs: Little's law, and what pages were measured to take.

The constants are a fit to crawls of three webs on one core of a shared machine: the demo's (8 KB a page, 8 to 15 links,
some over TLS), manuals (62 KB, 19 links) and indexes (13 KB, 118 links). `python -m bench.sizing` repeats them and
compares. None of them had more than 43 hosts: what a connection takes (`fetch.warm`) is what a cell with 3,000 TLS
hosts took beyond one with 300 (`bench.crawl`).
"""

import math

import msgspec

from crawl_platform.fetch.warm import BYTES_EACH
from crawl_platform.settings import Fetch

WARM = 1.5
"""Slots per request in flight on average: requests come in bursts, and slow hosts hold theirs."""
BUSY = 0.8
"""Share of its core that a cell may use for long: the rest is for bursts."""
CPU_PER_FETCH, CPU_PER_BYTE, CPU_PER_LINK = 0.0025, 5.0e-8, 2.0e-5
"""Seconds of the cell's core: per fetch, byte of page and link."""
COMMITTER_CORES = 0.0022
"""Of committer and NATS beside the cells: seconds per fetch."""
MEMORY = 345e6
"""Bytes of a cell beside its connections."""
BYTES_PER_FETCH, BYTES_PER_LINK = 700.0, 25.0
"""In the lake, compressed, beside body and text."""
FILES = 512
"""Open files of a cell beside its connections: stores, tables, logs."""
DAY, HOURS_A_MONTH, DAYS_A_MONTH, GB = 86_400, 730, 30, 1e9


class Load(msgspec.Struct, frozen=True):
    """A crawl: `rate` (fetches per second), `latency` and `delay` (seconds), `page` (bytes as the site meant them).

    Shares of `page`: `wire` goes over the wire, `compressed` is what a kept body takes, `text` is main text. `links`
    per page; `new`: share of fetches that bring a page not kept before; `hosts` (0: as many as the rate needs).
    `warm_bytes`: each cell's budget for connections at rest, which rest for `keepalive` seconds at most."""

    rate: float
    latency: float = 0.5
    page: int = 100_000
    delay: float = 1.0
    wire: float = 0.25
    compressed: float = 0.25
    text: float = 0.15
    links: float = 60.0
    new: float = 1.0
    hosts: int = 0
    warm_bytes: int = Fetch().warm_bytes
    keepalive: float = Fetch().keepalive


class Prices(msgspec.Struct, frozen=True):
    """Examples, in one currency: of an hour of a core with its memory, a GB stored for a month, a GB received."""

    core_hour: float = 0.04
    gb_month: float = 0.023
    gb_received: float = 0.0


class Need(msgspec.Struct, frozen=True):
    """What it takes. `cores`: CPU time of the cells; `committer_cores`: of committer and NATS, in all. `connections`:
    open ones of all cells, at rest or with a request in flight."""

    in_flight: float
    slots_per_cell: int
    hosts_needed: int
    connections: int
    cores: float
    committer_cores: float
    cells: int
    open_files_per_cell: int
    memory_bytes_per_cell: int
    bandwidth_bits_per_second: int
    disk_bytes_per_day: int


class Cost(msgspec.Struct, frozen=True):
    """Per month of 30 days. `storage`: of what such a month adds, at its end; what was kept before comes on top."""

    cores: float
    storage: float
    received: float

    @property
    def total(self) -> float:
        return self.cores + self.storage + self.received


def need(load: Load) -> Need:
    """In flight = rate x latency (Little's law); a host gives at most 1 / (delay + latency) pages a second."""
    in_flight = load.rate * load.latency
    hosts = load.hosts or math.ceil(load.rate * (load.delay + load.latency))
    cores = load.rate * (CPU_PER_FETCH + load.page * CPU_PER_BYTE + load.links * CPU_PER_LINK)
    cells = max(1, math.ceil(cores / BUSY))
    connections = open_connections(load, hosts, in_flight, cells)
    content = load.new * load.page * load.compressed * (1 + load.text)
    return Need(
        in_flight=in_flight,
        slots_per_cell=math.ceil(WARM * in_flight / cells),
        hosts_needed=hosts,
        connections=connections,
        cores=cores,
        committer_cores=load.rate * COMMITTER_CORES,
        cells=cells,
        open_files_per_cell=math.ceil((WARM * in_flight + connections) / cells) + FILES,
        memory_bytes_per_cell=int(MEMORY + BYTES_EACH * connections / cells),
        bandwidth_bits_per_second=int(load.rate * load.page * load.wire * 8),
        disk_bytes_per_day=int(load.rate * (BYTES_PER_FETCH + load.links * BYTES_PER_LINK + content) * DAY),
    )


def open_connections(load: Load, hosts: int, in_flight: float, cells: int) -> int:
    """One of each host that was asked within the last `keepalive` seconds, as far as the cells' budgets reach; those
    with a request in flight are no part of a budget."""
    asked_lately = min(hosts, math.ceil(load.rate * load.keepalive))
    return min(asked_lately, cells * (load.warm_bytes // BYTES_EACH) + math.ceil(in_flight))


def cost(needed: Need, prices: Prices) -> Cost:
    cores = needed.cells + math.ceil(needed.committer_cores)
    received = needed.bandwidth_bits_per_second / 8 * DAY * DAYS_A_MONTH / GB
    return Cost(
        cores=cores * HOURS_A_MONTH * prices.core_hour,
        storage=needed.disk_bytes_per_day * DAYS_A_MONTH / GB * prices.gb_month,
        received=received * prices.gb_received,
    )
