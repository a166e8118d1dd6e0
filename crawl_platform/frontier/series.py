"""How many URLs of a host belong to one series (`web.traps.series_of`), in bounded space.

Misra and Gries' summary ("Finding repeated elements", 1982): at most `KEPT` counters; a URL of a series that has
none when all are taken costs each of them one. A counter is never too high, and too low by at most
n / (KEPT + 1) after n URLs: a series is never stopped too early, and one that grows without end always is.
"""

from collections.abc import Iterable, Sequence

import xxhash

from crawl_platform.settings import HostSettings, TrapName
from crawl_platform.web.traps import Series, series_of, trap_reason

KEPT = 64
"""Counters per host, of at most 10 bytes in its record."""

Counts = dict[int, int]
"""Hash of a series → URLs of it that entered, at least. Replaced, never changed in place."""


def trapped(
    url: str, settings: HostSettings, counts: Counts, series: Sequence[Series] | None = None
) -> TrapName | None:
    """The filter that turns a new URL of a host away, None if it may enter: by its shape, or by the number of its
    like (`series`: those that it belongs to, if they are known already)."""
    off = settings.urls.traps_off
    reason = trap_reason(url, settings.frontier, off)
    if reason is not None:
        return reason
    own = series_of(url, settings.frontier) if series is None else series
    endless = overlong(counts, (one for one in own if one.name not in off)) if own else None
    return endless.name if endless is not None else None


def overlong(counts: Counts, series: Iterable[Series]) -> Series | None:
    """The first of `series` that may have no more URLs."""
    return next((one for one in series if counts.get(_key(one), 0) >= one.most), None)


def counted(counts: Counts, series: Iterable[Series]) -> Counts:
    """The counts after one more URL of each of `series`."""
    for one in series:
        key = _key(one)
        if key in counts or len(counts) < KEPT:
            counts = {**counts, key: counts.get(key, 0) + 1}
        else:
            counts = {other: count - 1 for other, count in counts.items() if count > 1}
    return counts


def _key(series: Series) -> int:
    return xxhash.xxh3_64_intdigest(f"{series.name} {series.key}".encode()) >> 32
