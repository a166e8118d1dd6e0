"""The link graph of hosts as arrays beside the lake: brought up to date by what has come, or built from all.

Ids of hosts stay, also when all is built again; a host that no link names any more leaves, and its id isn't given
again. After a purge everything begins anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crawl_platform.graph.host_links import (
    EdgeLayers,
    Edges,
    Sightings,
    first_sightings,
    updated,
)
from crawl_platform.graph.link_kernels import Flags, Keys, Nodes, Places
from crawl_platform.graph.link_sets import Links, LinkSets, SetLayers, Update, pair_of
from crawl_platform.graph.names import Names
from crawl_platform.lake.arrays import GRAPHS, Generation, Texts, store
from crawl_platform.lake.changes import Mark
from crawl_platform.lake.lake import Lake
from resources.graph_state import (
    LAYERS,
    asked_for,
    changed_sets,
    is_current,
    is_thin,
    kept_state,
    label_of,
    loaded_sets,
    new_secret,
    no_sets,
    sets_to_keep,
)
from resources.link_news import (
    News,
    Orphans,
    Runs,
    Seen,
    coded,
    flagged,
    links_of,
    marks,
    micros,
    news,
)

FORMAT = 1
"""Of the arrays: what another release has written is built anew."""
LINK_COLUMNS = ("fetch_id", "src_url", "src_host", "dst_host", "position", "nofollow", "seen_at")
MOST_POINTS = 400
"""Of the growth that are remembered; then every other one is forgotten."""
EDGES = ("pair", "counts", "first", "last")


def folder_of(lake: Lake) -> Path:
    """Where the arrays are kept."""
    return lake.root / GRAPHS / "hosts"


@dataclass(frozen=True)
class HostGraph:
    """Hosts by id, the links that pages show, and the edges that they add up to."""

    hosts: Names
    sets: SetLayers
    edges: EdgeLayers
    secret: Keys
    growth: tuple[dict[str, Any], ...] = ()
    """What its size was after earlier updates; `moment` is that of the last visit by then (µs since 1970)."""

    @staticmethod
    def empty() -> "HostGraph":
        return HostGraph(Names(), no_sets(), EdgeLayers(Edges.empty(), Edges.empty()), new_secret())

    def grown(self, **sizes: int) -> "HostGraph":
        """With its present size in `growth`, unless nothing has come since the last one."""
        moment = max(int(layer.moment.max(initial=0)) for layer in (self.sets.base, self.sets.top))
        if self.growth and self.growth[-1]["moment"] >= moment:
            return self
        points = self.growth if len(self.growth) < MOST_POINTS else self.growth[::2]
        return replace(self, growth=(*points, {"moment": moment, **sizes}))

    def links(self) -> int:
        """Links between hosts that pages show now, summed over pages."""
        layers = (self.sets.base, self.sets.top)
        shown = sum(int(layer.counts[:, 0].sum(dtype=np.int64)) for layer in layers)
        return shown - int(self.sets.hidden()[1].counts[:, 0].sum(dtype=np.int64))


@dataclass(frozen=True)
class Refreshed:
    """The graph at the versions of `news`; `links`: rows read; `orphans`: links without their fetch among them."""

    graph: HostGraph
    news: News
    links: int
    orphans: int
    known: int
    """Hosts with an id before."""
    generation: str
    """Which state it goes on from; empty: from none."""


def load(lake: Lake) -> tuple[HostGraph, dict[str, Mark], str] | None:
    """The graph as kept, at which versions, and the name of that state; None: there is none that can be read."""
    return kept_state(folder_of(lake), FORMAT, _loaded)


def _loaded(kept: Generation) -> HostGraph:
    hosts = Names(kept.array("keys"), kept.array("ids"), kept.texts("hosts"))
    edges = EdgeLayers(*(Edges(*(kept.array(f"edges.{layer}.{n}") for n in EDGES)) for layer in LAYERS))
    return HostGraph(
        hosts, loaded_sets(kept), edges, kept.array("secret"), tuple(kept.facts.get("growth", ()))
    )


def refresh(lake: Lake, versions: Mapping[str, int], *, anew: str = "") -> Refreshed:
    """The graph of `links` and `fetches` at these versions. `anew`: why to read everything, though there may be a
    state to go on from. Nothing is kept: see `keep`."""
    found = load(lake)
    before, since, generation = found if found else (HostGraph.empty(), {}, "")
    told = news(lake, versions, since, anew=anew)
    if told.anew:
        before = replace(HostGraph.empty(), hosts=before.hosts, secret=before.secret, growth=before.growth)
    return _told(lake, before, told, generation)


def keep(lake: Lake, refreshed: Refreshed) -> Path:
    """Make it the state that the next refresh goes on from."""
    graph, versions, told = refreshed.graph, refreshed.news.versions, refreshed.news
    goes_on = not told.anew and is_current(folder_of(lake), refreshed.generation)
    sets, same_sets = sets_to_keep(graph.sets, goes_on)
    edges, same_edges = (
        graph.edges,
        goes_on and is_thin(len(graph.edges.top.pair), len(graph.edges.base.pair)),
    )
    if not same_edges:
        edges = EdgeLayers(edges.whole(), Edges.empty())
    arrays: dict[str, Any] = {
        "secret": graph.secret,
        "keys": graph.hosts.keys,
        "ids": graph.hosts.ids,
        **sets,
    }
    for layer in LAYERS:
        arrays |= {f"edges.{layer}.{name}": getattr(getattr(edges, layer), name) for name in EDGES}
    same = [*same_sets, *(f"edges.base.{name}" for name in EDGES if same_edges)]
    arrays = {name: array for name, array in arrays.items() if name not in same}
    texts = {"hosts": Texts(graph.hosts.texts, 0 if told.anew else refreshed.known)}
    facts = {"format": FORMAT, "marks": marks(lake, versions), "growth": graph.growth}
    return store(folder_of(lake), label_of(versions), arrays, texts, facts, same)


def _told(lake: Lake, graph: HostGraph, told: News, generation: str) -> Refreshed:
    seen = Seen(graph.hosts, graph.secret).read(told.files["fetches"])
    update, orphans = Update(asked_for(graph.sets, told, seen), seen.visits), Orphans(seen.fetches)
    sightings: list[Sightings] = []
    for rows, found in links_of(lake, told, update, seen, LINK_COLUMNS, orphans):
        sightings = _few([*sightings, _add(rows, update, seen, found)])
    new = update.new()
    sets = changed_sets(graph.sets, new, told)
    changed = updated(graph.edges, update, new, sets, first_sightings(sightings))
    hosts, edges = seen.hosts, graph.edges.under(changed)
    if told.anew:
        hosts, edges = hosts.without(_unused(len(hosts), new, changed)), EdgeLayers(changed, Edges.empty())
    made = HostGraph(hosts, sets, edges, graph.secret, graph.growth)
    orphaned = orphans.count(lake, told.versions)
    return Refreshed(made, told, orphans.rows, orphaned, len(graph.hosts), generation)


def _few(sightings: list[Sightings]) -> list[Sightings]:
    """The same, not longer than twice what they come to."""
    if sum(len(part.pair) for part in sightings[1:]) <= len(sightings[0].pair):
        return sightings
    return [first_sightings(sightings)]


def _unused(count: int, sets: LinkSets, edges: Edges) -> Flags:
    unused = np.ones(count, bool)
    for ids in (sets.host, edges.src, edges.dst):
        unused[ids] = False
    return unused


def _add(rows: pa.Table, update: Update, seen: Seen, found: Runs) -> Sightings:
    """Add what a portion of `links` says; returns when pairs were seen in it."""
    src, dst = (seen.learn_hosts(rows, name) for name in ("src_host", "dst_host"))
    outside = src != dst
    now = outside & found.spread(found.current)
    update.add(Links(found.spread(found.row)[now], dst[now], _counts(rows, now)))
    pair = pair_of(src[outside], dst[outside])
    return first_sightings([Sightings(pair, micros(rows, "seen_at")[outside])])


def _counts(rows: pa.Table, chosen: Flags) -> Nodes:
    """As in `COUNTS`."""
    position = coded(rows, "position")
    nofollow = rows["nofollow"].fill_null(False).to_numpy()
    main, comments = (flagged(*position, pa.array([place])) for place in ("main", "comments"))
    columns = (np.ones(rows.num_rows, bool), nofollow, main, ~nofollow & ~comments)
    return np.column_stack([values[chosen] for values in columns]).astype(np.uint32)


def table_of(graph: HostGraph) -> pa.Table:
    """Edges by the names of their hosts, in order of these: columns as in the table `host_graph`."""
    edges = graph.edges.whole().shown()
    order, texts = _by_name(graph.hosts, edges)
    src, dst = (texts.take(pa.array(ends[order])) for ends in (edges.src, edges.dst))
    counts = dict(
        zip(("links", "pages", "nofollow", "main", "editorial"), edges.counts[order].T, strict=True)
    )
    when = pa.timestamp("us", "UTC")
    return pa.table(
        {
            "src_host": src,
            "dst_host": dst,
            **{name: values.astype(np.int64) for name, values in counts.items()},
            "first_seen": pa.array(edges.first[order]).cast(when),
            "last_seen": pa.array(edges.last[order]).cast(when),
        }
    )


def _by_name(hosts: Names, edges: Edges) -> tuple[Places, pa.Array]:
    texts = hosts.texts.combine_chunks().cast(pa.string())
    place = np.empty(len(texts), np.uint32)
    place[pa.compute.sort_indices(texts).to_numpy()] = np.arange(len(texts), dtype=np.uint32)
    return np.argsort(pair_of(place[edges.src], place[edges.dst])), texts
