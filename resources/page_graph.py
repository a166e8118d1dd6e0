"""The link graph of pages as arrays beside the lake: brought up to date by what has come, or built from all.

An arc leads from a page that was read to one that it links to, on the horizon too. Pages have ids that stay, also when
all is built again; those that nothing names any more leave only then. After a purge everything begins anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crawl_platform.errors import DamagedStateError
from crawl_platform.graph.link_kernels import Counts, Flags, Keys, Nodes, Places
from crawl_platform.graph.link_sets import Links, LinkSets, Update
from crawl_platform.graph.names import Names, keys_of
from crawl_platform.graph.page_links import STRENGTHS
from crawl_platform.lake.arrays import GRAPHS, Generation, Texts, current, store
from crawl_platform.lake.changes import Mark
from crawl_platform.lake.lake import Lake
from resources.host_graph import SETS, new_secret
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
    sets: LinkSets
    secret: Keys

    @staticmethod
    def empty() -> "PageGraph":
        return PageGraph(Names(), np.zeros(0, np.uint32), Names(), _no_sets(), new_secret())

    @property
    def read(self) -> Nodes:
        """Ids of the pages that were read: the sources of the rows."""
        return self.pages.of(self.sets.page)

    @property
    def strength(self) -> Counts:
        """Of each arc."""
        return self.sets.counts[:, 0]

    def front(self) -> Flags:
        """Which of the pages that were read are front pages."""
        urls = self.pages.texts.take(pa.array(self.read))
        found: Flags = pc.match_substring_regex(urls, FRONT_PAGE).to_numpy(zero_copy_only=False).astype(bool)
        return found


@dataclass(frozen=True)
class Refreshed:
    """The graph at the versions of `news`; `links`: rows read. `known_pages`, `known_hosts`: those with an id
    before."""

    graph: PageGraph
    news: News
    links: int
    known_pages: int
    known_hosts: int


def _no_sets() -> LinkSets:
    return LinkSets.empty(1, np.uint8)


def load(lake: Lake) -> tuple[PageGraph, dict[str, Mark]] | None:
    """The graph as kept, and at which versions; None: there is none that can be read."""
    kept = current(folder_of(lake))
    if kept is None or kept.facts.get("format") != FORMAT:
        return None
    try:
        return _loaded(kept), {name: Mark(*told) for name, told in kept.facts["marks"].items()}
    except DamagedStateError:
        return None


def _loaded(kept: Generation) -> PageGraph:
    pages, hosts = (
        Names(kept.array(f"{name}.keys"), kept.array(f"{name}.ids"), kept.texts(name))
        for name in ("pages", "hosts")
    )
    sets = LinkSets(*(kept.array(f"sets.{name}") for name in SETS))
    return PageGraph(pages, kept.array("page_host"), hosts, sets, kept.array("secret"))


def refresh(lake: Lake, versions: Mapping[str, int], *, anew: str = "") -> Refreshed:
    """The graph of `links` and `fetches` at these versions. `anew`: why to read everything, though there may be a
    state to go on from. Nothing is kept: see `keep`."""
    found = load(lake)
    before, since = found if found else (PageGraph.empty(), {})
    told = news(lake, versions, since, anew=anew)
    return _told(lake, before, told)


def keep(lake: Lake, refreshed: Refreshed) -> Path:
    """Make it the state that the next refresh goes on from."""
    graph, versions, told = refreshed.graph, refreshed.news.versions, refreshed.news
    arrays = {
        "secret": graph.secret,
        "page_host": graph.page_host,
        **{f"{name}.keys": names.keys for name, names in (("pages", graph.pages), ("hosts", graph.hosts))},
        **{f"{name}.ids": names.ids for name, names in (("pages", graph.pages), ("hosts", graph.hosts))},
        **{f"sets.{name}": getattr(graph.sets, name) for name in SETS},
    }
    texts = {
        "pages": Texts(graph.pages.texts, 0 if told.anew else refreshed.known_pages),
        "hosts": Texts(graph.hosts.texts, 0 if told.anew else refreshed.known_hosts),
    }
    label = "-".join(f"{name}-{version}" for name, version in sorted(versions.items()))
    return store(folder_of(lake), label, arrays, texts, {"format": FORMAT, "marks": marks(lake, versions)})


def _told(lake: Lake, graph: PageGraph, told: News) -> Refreshed:
    seen = Seen(graph.hosts, graph.secret, graph.pages, np.asarray(graph.page_host)).read(
        told.files["fetches"]
    )
    update = Update(_no_sets() if told.anew else graph.sets, seen.visits, largest=True)
    orphans = Orphans(seen.fetches)
    for rows, found in links_of(lake, told, update, seen, LINK_COLUMNS, orphans):
        _add(rows, update, seen, found)
    new = update.new()
    made = PageGraph(seen.pages or Names(), seen.page_host, seen.hosts, new, graph.secret)
    if told.anew:
        made = _without_unused(made)
    return Refreshed(made, told, orphans.rows, len(graph.pages), len(graph.hosts))


def _without_unused(graph: PageGraph) -> PageGraph:
    page, host = np.ones(len(graph.pages), bool), np.ones(len(graph.hosts), bool)
    page[graph.read] = page[graph.sets.target] = False
    host[graph.page_host[~page]] = False
    return PageGraph(
        graph.pages.without(page), graph.page_host, graph.hosts.without(host), graph.sets, graph.secret
    )


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


def arcs(graph: PageGraph) -> tuple[Nodes, Nodes]:
    """(source, target) of each arc, by id."""
    return np.repeat(graph.read, graph.sets.lengths()), graph.sets.target


def rows_of(graph: PageGraph, ids: Places) -> dict[str, pa.Array]:
    """URL and host of pages by id."""
    hosts = graph.hosts.texts.combine_chunks().take(pa.array(graph.page_host[ids]))
    return {"url": graph.pages.texts.take(pa.array(ids)), "host": hosts}
