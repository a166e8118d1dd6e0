"""The link graph of pages as arrays beside the lake: brought up to date by what has come, or built from all.

An arc leads from a page that was read to one that it links to, on the horizon too. Pages have ids that stay, also when
all is built again; those that nothing names any more leave only then. After a purge everything begins anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crawl_platform.graph.link_kernels import Counts, Flags, Keys, Nodes, Places
from crawl_platform.graph.link_sets import Links, SetLayers, Update
from crawl_platform.graph.names import Names, keys_of
from crawl_platform.graph.page_links import STRENGTHS
from crawl_platform.lake.arrays import GRAPHS, Generation, Texts, store
from crawl_platform.lake.changes import Mark
from crawl_platform.lake.lake import Lake
from resources.graph_state import (
    asked_for,
    changed_sets,
    is_current,
    kept_state,
    label_of,
    loaded_sets,
    new_secret,
    no_sets,
    sets_to_keep,
)
from resources.link_news import News, Orphans, Runs, Seen, coded, column, links_of, marks, news

FORMAT = 1
"""Of the arrays: what another release has written is built anew."""
LINK_COLUMNS = ("fetch_id", "src_url", "dst_url", "dst_host", "position", "nofollow")
FRONT_PAGE = r"^https?://[^/?#]*/$"


def folder_of(lake: Lake) -> Path:
    """Where the arrays are kept."""
    return lake.root / GRAPHS / "pages"


@dataclass(frozen=True)
class PageGraph:
    """Pages and hosts by id, `page_host`: the host of each page; `sets`: what pages link to, with `STRENGTHS`."""

    pages: Names
    page_host: Nodes
    hosts: Names
    sets: SetLayers
    secret: Keys

    @staticmethod
    def empty() -> "PageGraph":
        return PageGraph(Names(), np.zeros(0, np.uint32), Names(), _no_sets(), new_secret())

    def arcs(self) -> "Arcs":
        """All of them: mapped into memory where nothing has changed since they were laid down."""
        sets = self.sets.whole()
        return Arcs(self.pages.of(sets.page), sets.host, sets.ends, sets.target, sets.counts[:, 0])

    def are_front(self, ids: Nodes) -> Flags:
        """Which of these pages are front pages."""
        urls = self.pages.texts.take(pa.array(ids))
        found: Flags = pc.match_substring_regex(urls, FRONT_PAGE).to_numpy(zero_copy_only=False).astype(bool)
        return found


class Arcs(NamedTuple):
    """Compressed rows: ids of the P pages that were read and of their hosts, where the row of each ends; of each arc
    the page that it leads to, and its strength."""

    page: Nodes
    host: Nodes
    ends: Places
    target: Nodes
    strength: Counts

    def sources(self) -> Nodes:
        """The page that each arc comes from."""
        return np.repeat(self.page, np.diff(self.ends, prepend=0))


@dataclass(frozen=True)
class Refreshed:
    """The graph at the versions of `news`; `links`: rows read. `known_pages`, `known_hosts`: those with an id
    before. `generation`: which state it goes on from; empty: from none."""

    graph: PageGraph
    news: News
    links: int
    known_pages: int
    known_hosts: int
    generation: str


def _no_sets() -> SetLayers:
    return no_sets(1, np.uint8)


def load(lake: Lake) -> tuple[PageGraph, dict[str, Mark], str] | None:
    """The graph as kept, at which versions, and the name of that state; None: there is none that can be read."""
    return kept_state(folder_of(lake), FORMAT, _loaded)


def _loaded(kept: Generation) -> PageGraph:
    pages, hosts = (
        Names(kept.array(f"{name}.keys"), kept.array(f"{name}.ids"), kept.texts(name))
        for name in ("pages", "hosts")
    )
    return PageGraph(pages, kept.array("page_host"), hosts, loaded_sets(kept), kept.array("secret"))


def refresh(lake: Lake, versions: Mapping[str, int], *, anew: str = "") -> Refreshed:
    """The graph of `links` and `fetches` at these versions. `anew`: why to read everything, though there may be a
    state to go on from. Nothing is kept: see `keep`."""
    found = load(lake)
    before, since, generation = found if found else (PageGraph.empty(), {}, "")
    told = news(lake, versions, since, anew=anew)
    return _told(lake, replace(before, sets=_no_sets()) if told.anew else before, told, generation)


def keep(lake: Lake, refreshed: Refreshed) -> Path:
    """Make it the state that the next refresh goes on from."""
    graph, versions, told = refreshed.graph, refreshed.news.versions, refreshed.news
    sets, same = sets_to_keep(graph.sets, not told.anew and is_current(folder_of(lake), refreshed.generation))
    arrays = {
        "secret": graph.secret,
        "page_host": graph.page_host,
        **{f"{name}.keys": names.keys for name, names in (("pages", graph.pages), ("hosts", graph.hosts))},
        **{f"{name}.ids": names.ids for name, names in (("pages", graph.pages), ("hosts", graph.hosts))},
        **{name: array for name, array in sets.items() if name not in same},
    }
    texts = {
        "pages": Texts(graph.pages.texts, 0 if told.anew else refreshed.known_pages),
        "hosts": Texts(graph.hosts.texts, 0 if told.anew else refreshed.known_hosts),
    }
    facts = {"format": FORMAT, "marks": marks(lake, versions)}
    return store(folder_of(lake), label_of(versions), arrays, texts, facts, same)


def _told(lake: Lake, graph: PageGraph, told: News, generation: str) -> Refreshed:
    seen = Seen(graph.hosts, graph.secret, graph.pages, np.asarray(graph.page_host)).read(
        told.files["fetches"]
    )
    update = Update(asked_for(graph.sets, told, seen), seen.visits, largest=True)
    orphans = Orphans(seen.fetches)
    for rows, found in links_of(lake, told, update, seen, LINK_COLUMNS, orphans):
        _add(rows, update, seen, found)
    new = update.new()
    assert seen.pages is not None
    sets = changed_sets(graph.sets, new, told)
    made = PageGraph(seen.pages, seen.page_host, seen.hosts, sets, graph.secret)
    if told.anew:
        made = _without_unused(made)
    return Refreshed(made, told, orphans.rows, len(graph.pages), len(graph.hosts), generation)


def _without_unused(graph: PageGraph) -> PageGraph:
    page, host = np.ones(len(graph.pages), bool), np.ones(len(graph.hosts), bool)
    arcs = graph.arcs()
    page[arcs.page] = page[arcs.target] = False
    host[graph.page_host[~page]] = False
    return replace(graph, pages=graph.pages.without(page), hosts=graph.hosts.without(host))


def _add(rows: pa.Table, update: Update, seen: Seen, found: Runs) -> None:
    """Add what a portion of `links` says of pages as they are now."""
    strength = _strength(rows)
    now = found.spread(found.current) & (strength > 0)
    row, rows = found.spread(found.row)[now], rows.select(["dst_url", "dst_host"]).filter(pa.array(now))
    urls = column(rows, "dst_url")
    keys = keys_of(urls, seen.secret)
    seen.learn_pages(keys, urls, seen.learn_hosts(rows, "dst_host"))
    assert seen.pages is not None
    update.add(Links(row, seen.pages.of(keys), strength[now].reshape(-1, 1)))


def _strength(rows: pa.Table) -> Counts:
    """Of each link; 0: it isn't followed."""
    code, values = coded(rows, "position")
    known = np.array(
        [STRENGTHS.get(value, 0) for value in values.to_pylist()] + [STRENGTHS["other"]], np.uint8
    )
    nofollow = rows["nofollow"].fill_null(False).to_numpy()
    return np.where(nofollow, 0, known[code]).astype(np.uint8)


def rows_of(graph: PageGraph, ids: Places) -> dict[str, pa.Array]:
    """URL and host of pages by id."""
    hosts = graph.hosts.texts.combine_chunks().take(pa.array(graph.page_host[ids]))
    return {"url": graph.pages.texts.take(pa.array(ids)), "host": hosts}
