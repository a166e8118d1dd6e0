"""The link graph of hosts as arrays beside the lake: brought up to date by what has come, or built from all.

Ids of hosts stay, also when all is built again; a host that no link names any more leaves, and its id isn't given
again. After a purge everything begins anew.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crawl_platform.errors import DamagedStateError
from crawl_platform.graph.host_links import (
    COUNTS,
    Edges,
    Sightings,
    first_sightings,
    updated,
)
from crawl_platform.graph.link_kernels import Flags, Keys, Nodes, Places
from crawl_platform.graph.link_sets import Links, LinkSets, Update, pair_of
from crawl_platform.graph.names import Names
from crawl_platform.lake.arrays import GRAPHS, Generation, Texts, current, store
from crawl_platform.lake.changes import Mark
from crawl_platform.lake.lake import Lake
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
SETS = ("page", "host", "moment", "link_set", "ends", "target", "counts")
EDGES = ("pair", "counts", "first", "last")


def folder_of(lake: Lake) -> Path:
    """Where the arrays are kept."""
    return lake.root / GRAPHS / "hosts"


@dataclass(frozen=True)
class HostGraph:
    """Hosts by id, the links that pages show, and the edges that they add up to."""

    hosts: Names
    sets: LinkSets
    edges: Edges
    secret: Keys

    @staticmethod
    def empty() -> "HostGraph":
        return HostGraph(Names(), LinkSets.empty(len(COUNTS)), Edges.empty(), new_secret())


@dataclass(frozen=True)
class Refreshed:
    """The graph at the versions of `news`; `links`: rows read; `orphans`: links without their fetch among them."""

    graph: HostGraph
    news: News
    links: int
    orphans: int
    known: int
    """Hosts with an id before."""


def new_secret() -> Keys:
    return np.frombuffer(secrets.token_bytes(16), np.uint64).copy()


def load(lake: Lake) -> tuple[HostGraph, dict[str, Mark]] | None:
    """The graph as kept, and at which versions; None: there is none that can be read."""
    kept = current(folder_of(lake))
    if kept is None or kept.facts.get("format") != FORMAT:
        return None
    try:
        return _loaded(kept), {name: Mark(*told) for name, told in kept.facts["marks"].items()}
    except DamagedStateError:
        return None


def _loaded(kept: Generation) -> HostGraph:
    hosts = Names(kept.array("keys"), kept.array("ids"), kept.texts("hosts"))
    sets = LinkSets(*(kept.array(f"sets.{name}") for name in SETS))
    edges = Edges(*(kept.array(f"edges.{name}") for name in EDGES))
    return HostGraph(hosts, sets, edges, kept.array("secret"))


def refresh(lake: Lake, versions: Mapping[str, int], *, anew: str = "") -> Refreshed:
    """The graph of `links` and `fetches` at these versions. `anew`: why to read everything, though there may be a
    state to go on from. Nothing is kept: see `keep`."""
    found = load(lake)
    before, since = found if found else (HostGraph.empty(), {})
    told = news(lake, versions, since, anew=anew)
    base = HostGraph(before.hosts, LinkSets.empty(len(COUNTS)), Edges.empty(), before.secret)
    return _told(lake, base if told.anew else before, told)


def keep(lake: Lake, refreshed: Refreshed) -> Path:
    """Make it the state that the next refresh goes on from."""
    graph, versions = refreshed.graph, refreshed.news.versions
    arrays: dict[str, Any] = {
        "secret": graph.secret,
        "keys": graph.hosts.keys,
        "ids": graph.hosts.ids,
        **{f"sets.{name}": getattr(graph.sets, name) for name in SETS},
        **{f"edges.{name}": getattr(graph.edges, name) for name in EDGES},
    }
    texts = {"hosts": Texts(graph.hosts.texts, 0 if refreshed.news.anew else refreshed.known)}
    facts = {"format": FORMAT, "marks": marks(lake, versions)}
    label = "-".join(f"{name}-{version}" for name, version in sorted(versions.items()))
    return store(folder_of(lake), label, arrays, texts, facts)


def _told(lake: Lake, graph: HostGraph, told: News) -> Refreshed:
    seen = Seen(graph.hosts, graph.secret).read(told.files["fetches"])
    update, orphans = Update(graph.sets, seen.visits), Orphans(seen.fetches)
    sightings: list[Sightings] = []
    for rows, found in links_of(lake, told, update, seen, LINK_COLUMNS, orphans):
        sightings = _few([*sightings, _add(rows, update, seen, found)])
    new = update.new()
    edges = updated(graph.edges, update, new, first_sightings(sightings))
    hosts = seen.hosts.without(_unused(len(seen.hosts), new, edges)) if told.anew else seen.hosts
    made = HostGraph(hosts, new, edges, graph.secret)
    return Refreshed(made, told, orphans.rows, orphans.count(lake, told.versions), len(graph.hosts))


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
    edges = graph.edges.shown()
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
