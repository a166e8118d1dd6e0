"""Many hosts on few addresses, crawled by cells that share these addresses; what the server's log says of it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crawl_platform.simulation.log import Entry
from crawl_platform.simulation.running import Ready, launch
from crawl_platform.web.host import shard_of

ADDRESSES = ("127.9.0.1", "127.9.0.2", "127.9.0.3")
LINKS = 40


@contextmanager
def crowded(folder: Path, hosts: int, addresses: Sequence[str] = ADDRESSES) -> Iterator[Ready]:
    """A web of `hosts` sites of the same `LINKS` pages, spread over `addresses`."""
    site = folder / "site"
    site.mkdir(parents=True)
    links = " ".join(f'<a href="/p{n}.html">page {n}</a>' for n in range(LINKS))
    for name in ("index.html", *(f"p{n}.html" for n in range(LINKS))):
        (site / name).write_text(f"<!doctype html><title>{name}</title><main><p>{name}</p>{links}</main>")
    names = [f"h{n}.test" for n in range(hosts)]
    where = [f"--override={name}={addresses[n % len(addresses)]}" for n, name in enumerate(names)]
    with launch(["files", *(f"{name}={site}" for name in names), *where], folder / "requests.jsonl") as web:
        yield web.ready


@dataclass(frozen=True)
class Use:
    """How one address was used within a stretch of time."""

    requests: int
    capacity: float
    """Requests that the time had room for: each takes what it took, and the delay."""
    by_cell: Counter[int]
    hosts_of_cell: Counter[int]
    by_host: Counter[str]

    @property
    def used(self) -> float:
        return self.requests / self.capacity

    @property
    def fairness(self) -> float:
        """Most of the ratio of two cells' requests per host of theirs."""
        rates = [self.by_cell[cell] / self.hosts_of_cell[cell] for cell in self.hosts_of_cell]
        return max(rates) / max(min(rates), 1e-9)


def uses(log: Sequence[Entry], begin: float, end: float, delay: float, cells: int, shards: int) -> list[Use]:
    """The use of each address between two moments (CLOCK_BOOTTIME). Shards are dealt out to cells in turn."""
    at: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in log:
        if begin <= entry.start_boot < end:
            at[entry.address].append(entry)
    found = []
    for entries in at.values():
        took = sum(entry.end_boot - entry.start_boot for entry in entries) / len(entries)
        names = {entry.host for entry in entries}
        found.append(
            Use(
                len(entries),
                (end - begin) / (took + delay),
                Counter(cell_of(entry.host, cells, shards) for entry in entries),
                Counter(cell_of(name, cells, shards) for name in names),
                Counter(entry.host for entry in entries),
            )
        )
    return found


def cell_of(host: str, cells: int, shards: int) -> int:
    return shard_of(host, shards) % cells
