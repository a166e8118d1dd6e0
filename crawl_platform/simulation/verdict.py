"""Was the crawl polite? Pure functions over the server's request log, the only witness that owes us nothing.

Times are compared by CLOCK_BOOTTIME, which no operator can step. Tolerance: min(20 ms, a quarter of the delay).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import msgspec

from crawl_platform.simulation.log import Entry

By = Literal["host", "address"]


class Pair(NamedTuple):
    """Two requests to the same host or address that stand too close; `by` seconds."""

    key: str
    first: Entry
    second: Entry
    by: float


class Rules(Protocol):
    """Whoever knows the robots rules: the synthetic web, or a stand-in."""

    def allowed(self, url: str, agent: str = "*") -> bool: ...


def read_log(path: Path) -> list[Entry]:
    """All whole lines of a request log; a last line still being written is left out."""
    text = path.read_bytes() if path.exists() else b""
    lines = text[: text.rfind(b"\n") + 1].splitlines()
    return [msgspec.json.decode(line, type=Entry) for line in lines]


def tolerance(delay: float) -> float:
    """How much earlier than `delay` a start may be seen by the server (seconds): the wire's own jitter."""
    return min(0.020, delay / 4)


def overlaps(log: Iterable[Entry], by: By = "host") -> list[Pair]:
    """Pairs where one request began before an earlier one to the same host or address had ended."""
    found = []
    for key, entries in _grouped(log, by):
        open_one = entries[0]
        for entry in entries[1:]:
            if entry.start_boot < open_one.end_boot:
                found.append(Pair(key, open_one, entry, open_one.end_boot - entry.start_boot))
            if entry.end_boot > open_one.end_boot:
                open_one = entry
    return found


def short_gaps(
    log: Iterable[Entry],
    delay: float | Mapping[str, float],
    by: By = "host",
    allowance: float | None = None,
) -> list[Pair]:
    """Pairs of consecutive requests whose starts lie closer than the delay (seconds) less the tolerance.

    `delay` for all, or per host or address (those not named are not judged). `allowance` replaces `tolerance(delay)`.
    """
    found = []
    for key, entries in _grouped(log, by):
        needed = delay.get(key) if isinstance(delay, Mapping) else delay
        if needed is None:
            continue
        least = needed - (tolerance(needed) if allowance is None else allowance)
        for first, second in pairwise(entries):
            gap = second.start_boot - first.start_boot
            if gap < least:
                found.append(Pair(key, first, second, needed - gap))
    return found


def forbidden(log: Iterable[Entry], web: Rules) -> list[Entry]:
    """Requests that the host's robots rules forbid to that agent; robots.txt itself is always allowed."""
    return [
        entry
        for entry in log
        if entry.path != "/robots.txt" and not web.allowed(f"http://{entry.host}{entry.path}", entry.agent)
    ]


def touched(log: Iterable[Entry]) -> dict[str, float]:
    """Hosts that were asked anything, with the first time (UTC seconds)."""
    first: dict[str, float] = {}
    for entry in log:
        first[entry.host] = min(entry.start, first.get(entry.host, entry.start))
    return first


def _grouped(log: Iterable[Entry], by: By) -> Iterator[tuple[str, list[Entry]]]:
    groups: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in log:
        groups[entry.host if by == "host" else entry.address].append(entry)
    for key, entries in groups.items():
        yield key, sorted(entries, key=lambda e: e.start_boot)
