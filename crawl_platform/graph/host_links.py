"""Who links to whom, host by host: sums over the links that pages show now, kept by what changes.

What a page no longer shows is subtracted, what it shows now is added. Only of an edge that has lost a page the last
time that it was seen has to be looked up among the pages of its source.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crawl_platform.graph.link_kernels import Keys, Nodes, Places, latest
from crawl_platform.graph.link_sets import LinkSets, SetLayers, Update, Visits, pair_of
from crawl_platform.graph.names import find, inserted, keys_of, merged, starts_of

COUNTS = ("links", "nofollow", "main", "editorial")
"""What is counted of a page's links to a host."""
NEVER = np.iinfo(np.int64).min
LATER = np.iinfo(np.int64).max
_32, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


class Sightings(NamedTuple):
    """When a link from one host to another was first seen, in any link set (µs since 1970), by pair of ids."""

    pair: Keys
    moment: Places


def first_sightings(parts: Iterable[Sightings]) -> Sightings:
    """The earliest of each pair, by pair."""
    columns = zip((np.zeros(0, np.uint64), np.zeros(0, np.int64)), *parts, strict=True)
    pair, moment = (np.concatenate(column) for column in columns)
    if not len(pair):
        return Sightings(pair, moment)
    order = np.argsort(pair, kind="stable")
    pair, moment = pair[order], moment[order]
    first = starts_of(pair)
    return Sightings(pair[first], np.minimum.reduceat(moment, first))


@dataclass(frozen=True)
class Edges:
    """E pairs of hosts by `pair`, ids of source and target in one key. `counts` (E, 5): links shown now, their
    pages, nofollow, main and editorial links. `first` and `last` seen (µs since 1970; `NEVER` where nothing is shown
    now, `LATER` where no sighting was told). A pair that has lost all its links stays, for `first`."""

    pair: Keys
    counts: NDArray[np.int32]
    first: Places
    last: Places

    @staticmethod
    def empty() -> "Edges":
        none = np.zeros(0, np.int64)
        return Edges(np.zeros(0, np.uint64), np.zeros((0, 1 + len(COUNTS)), np.int32), none, none)

    @property
    def src(self) -> Nodes:
        return (self.pair >> _32).astype(np.uint32)

    @property
    def dst(self) -> Nodes:
        return (self.pair & _LOW).astype(np.uint32)

    def under(self, top: "Edges") -> "Edges":
        """All of both; of pairs in both as `top` has them."""
        grown = _with_pairs(self, top.pair)
        place = np.searchsorted(grown.pair, top.pair)
        for column in ("counts", "first", "last"):
            getattr(grown, column)[place] = getattr(top, column)
        return grown

    def shown(self) -> "Edges":
        """Those with a link that is shown now."""
        now = self.counts[:, 0] > 0
        return Edges(self.pair[now], self.counts[now], self.first[now], self.last[now])


@dataclass(frozen=True)
class EdgeLayers:
    """All edges: `base`, and above it `top`, which counts for the pairs that it has."""

    base: Edges
    top: Edges

    def only(self, pairs: Keys) -> Edges:
        """Of these pairs (sorted); those that aren't known have no links and were never seen."""
        made = _with_pairs(Edges.empty(), pairs)
        for layer in (self.base, self.top):
            place, known = find(layer.pair, pairs)
            for column in ("counts", "first", "last"):
                getattr(made, column)[known] = getattr(layer, column)[place[known]]
        return made

    def under(self, changed: Edges) -> "EdgeLayers":
        return EdgeLayers(self.base, self.top.under(changed))

    def whole(self) -> Edges:
        """All edges in one layer."""
        return self.base.under(self.top) if len(self.top.pair) else self.base


def updated(edges: EdgeLayers, update: Update, new: LinkSets, sets: SetLayers, seen: Sightings) -> Edges:
    """The edges that change with an update of link sets whose targets are hosts, to `new`; `sets`: all of them then.
    `seen`: of all links that came."""
    changed = np.flatnonzero(update.changed)
    was = update.before[changed]
    lost = _contributions(update.old, was[was >= 0], -1)
    pair, change = _summed(lost, _contributions(new, changed, 1))
    rows, places = new.rows_of(np.union1d(update.read, changed))
    shown = pair_of(new.host[rows], new.target[places])
    grown = edges.only(merged(pair, seen.pair, shown))
    place = np.searchsorted(grown.pair, pair)
    grown.counts[place] += change.astype(np.int32)
    place = np.searchsorted(grown.pair, seen.pair)
    grown.first[place] = np.minimum(grown.first[place], seen.moment)
    _look_again(grown, merged(lost[0]), sets)
    np.maximum.at(grown.last, np.searchsorted(grown.pair, shown), new.moment[rows])
    return grown


def _contributions(sets: LinkSets, rows: Places, sign: int) -> tuple[Keys, NDArray[np.int32]]:
    """What pages give to their edges."""
    row, place = sets.rows_of(rows)
    given = np.empty((len(row), 1 + len(COUNTS)), np.int32)
    given[:, 1] = sign
    for column, k in enumerate((0, 2, 3, 4)):
        given[:, k] = sets.counts[place, column]
        given[:, k] *= sign
    return pair_of(sets.host[row], sets.target[place]), given


def _summed(
    one: tuple[Keys, NDArray[np.int32]], other: tuple[Keys, NDArray[np.int32]]
) -> tuple[Keys, NDArray[np.int32]]:
    pair, given = np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]])
    if not len(pair):
        return pair, given
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    first = starts_of(pair)
    return pair[first], np.add.reduceat(given[order], first, axis=0)


def _with_pairs(edges: Edges, pairs: Keys) -> Edges:
    """A copy that has these pairs too (sorted)."""
    at, known = find(edges.pair, pairs)
    at = at[~known]
    return Edges(
        inserted(edges.pair, at, pairs[~known]),
        inserted(edges.counts, at, np.int32(0)),
        inserted(edges.first, at, np.int64(LATER)),
        inserted(edges.last, at, np.int64(NEVER)),
    )


def _look_again(edges: Edges, pairs: Keys, sets: SetLayers) -> None:
    """Set `last` of these pairs, which pages have left or changed."""
    if not len(pairs):
        return
    ends = (pairs >> _32).astype(np.int64), (pairs & _LOW).astype(np.int64)
    layers = (sets.base, sets.top)
    known = max(int(ids.max(initial=0)) for layer in layers for ids in (layer.host, layer.target))
    hosts = max(known, int(ends[0].max()), int(ends[1].max())) + 2
    sources, sinks = np.zeros(hosts, bool), np.zeros(hosts, bool)
    sources[ends[0]] = True
    sinks[ends[1]] = True
    found = np.full(len(pairs), NEVER)
    for layer, hidden in zip(layers, (sets.hidden()[0], np.zeros(0, np.int64)), strict=True):
        host = layer.host.copy()
        host[hidden] = hosts - 1  # is asked for by nobody
        latest(host, layer.moment, layer.ends, layer.target, pairs, sources, sinks, found)
    edges.last[np.searchsorted(edges.pair, pairs)] = found


def warm() -> None:
    """Have the machine code that graphs are kept with: from where it is kept, or compiled now."""
    one = np.array([1], np.uint64)
    for width, dtype in ((len(COUNTS), np.uint32), (1, np.uint8)):
        update = Update(
            LinkSets.empty(width, dtype), Visits(one, np.zeros(1, np.uint32), np.zeros(1, np.int64), one)
        )
        update.new()
    keys_of(pa.array(["a"]), np.ones(2, np.uint64))
    sets = SetLayers(LinkSets.empty(len(COUNTS)), LinkSets.empty(len(COUNTS)))
    _look_again(_with_pairs(Edges.empty(), one), one, sets.under(LinkSets.empty(len(COUNTS))))
