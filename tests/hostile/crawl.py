"""One crawl over hostile hosts and an honest one, by a real fleet, and all that was seen of it."""

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import psutil

from crawl_platform.frontier.kv import prefix_end
from crawl_platform.frontier.records import HostRecord, RobotsRecord, decode
from crawl_platform.frontier.rocks import RocksKV
from crawl_platform.settings import Commit, Fetch, Frontier, Politeness
from crawl_platform.simulation.hostile.server import DECOY
from crawl_platform.simulation.hostile.table import NETWORK, HostileHost, hosts
from crawl_platform.simulation.log import Entry
from crawl_platform.simulation.running import Ready, launch
from crawl_platform.web.url import canonicalize, host_of
from tests.fleet.harness import Fleet, Row
from tests.fleet.state import CellState

DELAY = 0.1
"""Seconds between requests to a host or address. Many hosts at once: the server itself needs some of it."""
BUDGET = 36
"""Pages of a host before it is in surface mode; it may grow to twice as many."""
REST = 600.0
"""Seconds from now within which nothing may be due when a crawl has ended."""


@dataclass(frozen=True)
class Crawled:
    """`requests`: what the hosts saw. `idle`, `peak`: bytes of memory of the cell, before and at most.

    `asleep`: hosts that nothing is fetched of for a long time to come. `took`: seconds from the seeding until rest.
    `honest_took`: until the honest site's last page. `disk`: bytes that the home grew by. `cpu`: seconds of the cell.
    `ended`: UTC seconds.
    """

    web: Ready
    delay: float
    rows: list[Row]
    requests: list[Entry]
    state: CellState
    asleep: set[str]
    restarts: int
    idle: int
    peak: int
    disk: int
    took: float
    honest_took: float
    cpu: float
    ended: float

    def asked(self, host: HostileHost) -> list[Entry]:
        name = self.name_of(host)
        return [entry for entry in self.requests if entry.host == name]

    def name_of(self, host: HostileHost) -> str:
        """The host as URLs spell it: of a poisoned seed not its own."""
        url = canonicalize(host.seed(self.web.http_port, self.web.https_port))
        assert url is not None
        return host_of(url)

    def watched(self, host: HostileHost) -> list[Row]:
        """Fetches of what the host's row in the table speaks about."""
        name, path = self.name_of(host), host.row.watched
        return [row for row in self.rows if row["host"] == name and path in ("", path_of(row["url"]))]

    @property
    def honest_pace(self) -> float:
        """Seconds per request of the honest site."""
        return self.honest_took / sum(1 for entry in self.requests if entry.host == "honest.hostile.test")

    @property
    def decoys(self) -> list[Entry]:
        return [entry for entry in self.requests if entry.host == DECOY]


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def settings(web: Ready, delay: float = DELAY, **fetch: Any) -> dict[str, msgspec.Struct]:
    """Short times, so that whatever waits for a deadline has it within seconds. `delay` in seconds."""
    return {
        "politeness": Politeness(
            host_delay=delay, address_delay=delay, backoff_first=0.3, backoff_cap=1.0, robots_retry=3600.0
        ),
        "fetch": Fetch(
            **{
                "slots": 64,
                "nameservers": (web.nameserver,),
                "allow_networks": (NETWORK,),
                "ca_file": web.ca_file,
                "connect_timeout": 8.0,
                "tls_timeout": 7.0,
                "first_byte_timeout": 5.0,
                "head_timeout": 7.0,
                "read_timeout": 4.0,
                "total_timeout": 14.0,
                "rate_window": 6.0,
                "dns_timeout": 1.0,
                "dns_ttl_floor": 0.5,
                **fetch,
            }
        ),
        "frontier": Frontier(page_budget=BUDGET, max_attempts=2, retry_delay=0.5),
        "commit": Commit(epoch_seconds=1.0, stats_seconds=5.0),
    }


@contextmanager
def served(folder: Path, names: Sequence[str] = ()) -> Iterator[tuple[Ready, list[HostileHost]]]:
    """The hostile web, or the named part of it, and its hosts."""
    with launch(["hostile", *names], folder / "requests.jsonl") as running:
        yield running.ready, hosts(names)


def crawl(
    folder: Path, names: Sequence[str] = (), delay: float = DELAY, within: float = 150.0, **fetch: Any
) -> Crawled:
    """Crawl the misbehaviours called `names` (none: all) to the end. `fetch`: settings of that section."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        served(folder, names) as (web, _),
        Fleet(folder / "home", web, **settings(web, delay, **fetch)).start() as fleet,
    ):
        memory, before = Memory(fleet.pid("cell-0")), size_of(fleet.home)
        began, started = time.time(), memory.cpu()
        with memory.watched():
            fleet.seed()
            fleet.wait_quiet(within)
        ended, cpu = time.time(), memory.cpu() - started
        restarts = fleet.restarts("cell-0")
        fleet.stop()
        requests = fleet.requests()
        return Crawled(
            web=web,
            delay=delay,
            rows=fleet.fetches(),
            requests=requests,
            state=fleet.copy_of_state(),
            asleep=asleep(fleet, ended + REST),
            restarts=restarts,
            idle=memory.idle,
            peak=memory.peak,
            disk=size_of(fleet.home) - before,
            took=ended - began,
            honest_took=max(e.end for e in requests if e.host.startswith("honest.")) - began,
            cpu=cpu,
            ended=ended,
        )


def asleep(fleet: Fleet, until: float) -> set[str]:
    """Hosts that ask to be left alone until `until` (UTC seconds) or so: their robots.txt can't be had, they say
    when to come back, or their delay is at its cap."""
    cap = fleet.settings.politeness.crawl_delay_cap
    found: set[str] = set()
    with tempfile.TemporaryDirectory(dir=fleet.home) as folder:
        copy = Path(folder) / "state"
        shutil.copytree(fleet.home / "cells" / "cell-0" / "state", copy)
        kv = RocksKV(copy)
        try:
            for key, value in kv.scan(b"h", prefix_end(b"h")):
                host = decode(value, HostRecord)
                if host.not_before > until or host.crawl_delay >= cap:
                    found.add(key[3:].decode())
            for key, value in kv.scan(b"r", prefix_end(b"r")):
                robots = decode(value, RobotsRecord)
                if robots.rule == "disallow_all" and robots.expires_at > until:
                    found.add(host_of(key[3:].decode()))
        finally:
            kv.close()
    return found


class Memory:
    """Resident memory of a process: when idle, and its peak while it is watched."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.idle = self.peak = self._process.memory_info().rss

    def cpu(self) -> float:
        """Processor seconds of the process so far."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    @contextmanager
    def watched(self, every: float = 0.05) -> Iterator[None]:
        stop = threading.Event()

        def look() -> None:
            while not stop.wait(every):
                self.peak = max(self.peak, self._process.memory_info().rss)

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield
        finally:
            stop.set()
            looking.join()


def size_of(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
