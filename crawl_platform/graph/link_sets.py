"""Pages and the links that each shows now: what a sum over links is made of, and what leaves it when a page changes.

A page shows the links of one link set, that of its last success. News are `Visits` (who was read, and which set it
shows since) and `Links` (rows of link sets). In which steps they come doesn't matter, as long as a set's links come
no later than the visit that first cites it, or together.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawl_platform.graph.link_kernels import Counts, Flags, Keys, Nodes, Places, weave
from crawl_platform.graph.names import find, inserted, starts_of

_32 = np.uint64(32)


class Visits(NamedTuple):
    """Successful fetches of pages, in any order, shape (N,): keys of the page and of the set that it shows (`NONE`:
    none), its host's id, and when (µs since 1970). Of two at the same moment the later in order counts."""

    page: Keys
    host: Nodes
    moment: Places
    link_set: Keys

    def last(self) -> "Visits":
        """The last of each page, by page."""
        order = np.lexsort((self.moment, self.page))
        page = self.page[order]
        final = order[np.append(page[1:] != page[:-1], True)] if len(page) else order
        return Visits(self.page[final], self.host[final], self.moment[final], self.link_set[final])


def together(parts: Iterable[Visits]) -> Visits:
    """The last visit of each page."""
    columns = zip(no_visits(), *parts, strict=True)
    return Visits(*(np.concatenate(column) for column in columns)).last()


def no_visits() -> Visits:
    return Visits(
        np.zeros(0, np.uint64), np.zeros(0, np.uint32), np.zeros(0, np.int64), np.zeros(0, np.uint64)
    )


class Links(NamedTuple):
    """Counts (N, K) per row of a page and target, in any order; a target may come more than once."""

    row: Places
    target: Nodes
    counts: Counts


class LinkSets(NamedTuple):
    """P pages by key, with host, moment and set of the last success; C links in rows: `ends` (P,), `target` (C,) within
    a row in order, `counts` (C, K)."""

    page: Keys
    host: Nodes
    moment: Places
    link_set: Keys
    ends: Places
    target: Nodes
    counts: Counts

    @staticmethod
    def empty(width: int, dtype: type[np.integer] = np.uint32) -> "LinkSets":
        counts = np.zeros((0, width), dtype)
        return LinkSets(*no_visits(), np.zeros(0, np.int64), np.zeros(0, np.uint32), counts)

    def rows_of(self, rows: Places) -> tuple[Places, Places]:
        """(row of each link, its place) of the links in these rows."""
        lengths = self.lengths()[rows]
        before = np.cumsum(lengths) - lengths
        begins = self.ends[rows] - lengths
        places = np.repeat(begins - before, lengths) + np.arange(lengths.sum())
        return np.repeat(rows, lengths), places

    def lengths(self) -> Places:
        """Links in each row."""
        return np.diff(self.ends, prepend=0)

    def only(self, pages: Keys) -> "LinkSets":
        """Of these pages (sorted), as far as they are known."""
        place, known = find(self.page, pages)
        rows = place[known]
        _, places = self.rows_of(rows)
        ends = np.cumsum(self.lengths()[rows])
        host, moment, link_set = self.host[rows], self.moment[rows], self.link_set[rows]
        return LinkSets(pages[known], host, moment, link_set, ends, self.target[places], self.counts[places])

    def under(self, top: "LinkSets") -> "LinkSets":
        """Of all pages of both; of those in both as `top` has them."""
        at, known = find(self.page, top.page)
        page = inserted(self.page, at[~known], top.page[~known])
        row = np.searchsorted(page, top.page)
        before = inserted(np.arange(len(self.page)), at[~known], np.int64(-1))
        host, moment, link_set = (np.empty(len(page), column.dtype) for column in self[1:4])
        for made, old, new in zip((host, moment, link_set), self[1:4], top[1:4], strict=True):
            made[before >= 0], made[row] = old, new
        kept, lengths = np.ones(len(page), bool), np.zeros(len(page), np.int64)
        kept[row], lengths[row] = False, top.lengths()
        woven_rows = woven(self, top, before, kept, np.cumsum(lengths))
        return LinkSets(page, host, moment, link_set, *woven_rows)


@dataclass(frozen=True)
class SetLayers:
    """All pages: `base`, and above it `top`, which counts for the pages that it has. What changes goes into `top`, so
    that it costs what it is, and not what all is."""

    base: LinkSets
    top: LinkSets

    def only(self, pages: Keys) -> LinkSets:
        """Of these pages (sorted), as far as they are known."""
        return self.base.only(pages).under(self.top.only(pages))

    def under(self, changed: LinkSets) -> "SetLayers":
        return SetLayers(self.base, self.top.under(changed))

    def whole(self) -> LinkSets:
        """All pages in one layer."""
        return self.base.under(self.top) if len(self.top.page) else self.base

    def hidden(self) -> tuple[Places, LinkSets]:
        """(rows of the base that `top` stands above, what they hold)."""
        place, known = find(self.base.page, self.top.page)
        return place[known], self.base.only(self.top.page)


@dataclass
class Update:
    """`old` with news: first all visits, then links in portions, then `new`. `old` has all pages that news are of, as
    far as they are known. `largest`: of several links of a page to one target the largest counts are kept, else their
    sum.

    A page of which a visit says that it shows another set loses its links; those of the new set come with the links.
    """

    old: LinkSets
    visits: Visits
    largest: bool = False
    _fresh: list[Links] = field(default_factory=list)

    def __post_init__(self) -> None:
        old, visits = self.old, self.visits
        at, known = find(old.page, visits.page)
        self.page = inserted(old.page, at[~known], visits.page[~known])
        self.host = inserted(old.host, at[~known], visits.host[~known])
        self.moment = inserted(old.moment, at[~known], visits.moment[~known])
        self.link_set = inserted(old.link_set, at[~known], visits.link_set[~known])
        self.before = inserted(np.arange(len(old.page)), at[~known], np.int64(-1))
        self.kept: Flags = np.ones(len(self.page), bool)
        where = np.searchsorted(self.page, visits.page)
        newer = visits.moment >= self.moment[where]
        row, link_set = where[newer], visits.link_set[newer]
        self.kept[row] = (self.link_set[row] == link_set) & (self.before[row] >= 0)
        self.moment[row], self.link_set[row] = visits.moment[newer], link_set
        self.read: Places = row

    def wanting(self, shown: Keys) -> Keys:
        """Sets that pages show now and did not before, and that aren't among `shown`: their links came earlier."""
        sets = self.link_set[~self.kept]
        missing = np.setdiff1d(sets, shown)
        return missing[missing > 0]

    def rows(self, page: Keys, link_set: Keys) -> tuple[Places, Flags]:
        """(row of each page; whether it is known and shows that set now)."""
        row, known = find(self.page, page)
        row = np.where(known, row, 0)
        if len(self.page):
            known &= self.link_set[row] == link_set
        return row, known

    def add(self, links: Links) -> None:
        """Links that pages show now; their rows as from `rows`."""
        if len(links.row):
            self._fresh.append(_combined(links, self.largest))

    def new(self) -> LinkSets:
        """All pages with the links that they show now."""
        fresh = self._gathered()
        ends = np.cumsum(np.bincount(fresh.row, minlength=len(self.page)))
        made = woven(self.old, fresh, self.before, self.kept, ends, self.largest)
        self.changed = ~self.kept
        self.changed[fresh.row] = True
        return LinkSets(self.page, self.host, self.moment, self.link_set, *made)

    def _gathered(self) -> Links:
        if not self._fresh:
            width, dtype = self.old.counts.shape[1], self.old.counts.dtype
            return Links(np.zeros(0, np.int64), np.zeros(0, np.uint32), np.zeros((0, width), dtype))
        if len(self._fresh) > 1:
            joined = Links(*(np.concatenate(column) for column in zip(*self._fresh, strict=True)))
            self._fresh.clear()
            self._fresh.append(_combined(joined, self.largest))
        return self._fresh.pop()


def woven(
    old: LinkSets, fresh: LinkSets | Links, before: Places, kept: Flags, ends: Places, largest: bool = False
) -> tuple[Places, Nodes, Counts]:
    """Ends, targets and counts of rows: of `old` (row before[r]) where they are kept, and of `fresh`, whose rows end at
    `ends`."""
    most = len(old.target) + len(fresh.target)
    counts = np.empty((most, old.counts.shape[1]), old.counts.dtype)
    made = (np.zeros(len(before), np.int64), np.empty(most, np.uint32), counts)
    given = (ends, fresh.target, fresh.counts)
    length = weave(before, kept, (old.ends, old.target, old.counts), given, made, largest)
    return made[0], made[1][:length], made[2][:length]


def _combined(links: Links, largest: bool) -> Links:
    """One row and target once, in their order."""
    key = pair_of(links.row, links.target)
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = starts_of(key)
    combine = np.maximum if largest else np.add
    counts = combine.reduceat(links.counts[order], first, axis=0, dtype=links.counts.dtype)
    key = key[first]
    return Links((key >> _32).astype(np.int64), key.astype(np.uint32), counts)


def pair_of(one: NDArray[np.integer], other: NDArray[np.integer]) -> Keys:
    """Two ids as one key."""
    return (one.astype(np.uint64) << _32) | other.astype(np.uint64)
