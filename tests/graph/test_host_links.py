"""Edges between hosts, kept by what changes: any sequence of updates gives what a build from nothing gives."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.graph import host_links
from crawl_platform.graph.host_links import NEVER, EdgeLayers, Edges, Sightings, first_sightings, updated
from crawl_platform.graph.link_sets import Links, LinkSets, SetLayers, Update, Visits, pair_of, together

HOSTS, PAGES = 4, 9
"""Page p is of host p mod HOSTS; keys of pages and sets are these numbers plus one."""


@dataclass(frozen=True)
class Visit:
    """`shows`: links of a set of its own (target, main, nofollow), or the number of an earlier visit of the page."""

    number: int
    page: int
    moment: int
    shows: tuple[tuple[int, bool, bool], ...] | int

    def set_among(self, visits: list["Visit"]) -> int:
        return self.number if isinstance(self.shows, tuple) else visits[self.shows].number


@st.composite
def crawls(draw):
    """Visits in the order in which they reach the lake, which need not be that of their moments, in portions."""
    moments = draw(st.lists(st.integers(0, 1_000), min_size=1, max_size=14, unique=True))
    link = st.tuples(st.integers(0, HOSTS - 1), st.booleans(), st.booleans())
    visits: list[Visit] = []
    for number, moment in enumerate(moments):
        page = draw(st.integers(0, PAGES - 1))
        owned = [v.number for v in visits if v.page == page and isinstance(v.shows, tuple)]
        again = owned and draw(st.booleans())
        shows = draw(st.sampled_from(owned)) if again else tuple(draw(st.lists(link, max_size=5)))
        visits.append(Visit(number, page, moment, shows))
    cuts = draw(st.sets(st.integers(1, len(visits)), max_size=4))
    bounds = [0, *sorted(cuts | {len(visits)})]
    return [visits[a:b] for a, b in itertools.pairwise(bounds)]


class Graph:
    """Link sets and edges, told of portions."""

    def __init__(self) -> None:
        self.layers = SetLayers(LinkSets.empty(4), LinkSets.empty(4))
        self.edge_layers, self.told = EdgeLayers(Edges.empty(), Edges.empty()), []

    def tell(self, visits: list[Visit]) -> None:
        self.told += visits
        page = np.array([v.page for v in visits])
        told = Visits(
            (page + 1).astype(np.uint64),
            (page % HOSTS).astype(np.uint32),
            np.array([v.moment for v in visits]),
            np.array([v.set_among(self.told) + 1 for v in visits], np.uint64),
        )
        update = Update(self.layers.only(np.unique(told.page)), together([told]))
        shown = np.array([v.number + 1 for v in visits], np.uint64)
        earlier = {int(key) - 1 for key in update.wanting(shown)}
        sightings = []
        for visit in [*visits, *(v for v in self.told if v.number in earlier and v not in visits)]:
            sightings += self._add(update, visit)
        self.finish(update, sightings)

    def finish(self, update: Update, sightings: list[Sightings]) -> None:
        new = update.new()
        self.layers = self.layers.under(new)
        changed = updated(self.edge_layers, update, new, self.layers, first_sightings(sightings))
        self.edge_layers = self.edge_layers.under(changed)

    def lay_down(self) -> None:
        """What has changed goes into the base."""
        self.layers = SetLayers(self.layers.whole(), LinkSets.empty(4))
        self.edge_layers = EdgeLayers(self.edge_layers.whole(), Edges.empty())

    @property
    def sets(self) -> LinkSets:
        return self.layers.whole()

    @property
    def edges(self) -> Edges:
        return self.edge_layers.whole()

    def _add(self, update: Update, visit: Visit) -> list[Sightings]:
        links = visit.shows if isinstance(visit.shows, tuple) else ()
        links = [link for link in links if link[0] != visit.page % HOSTS]
        if not links:
            return []
        target = np.array([link[0] for link in links], np.uint32)
        main, nofollow = (np.array([link[k] for link in links]) for k in (1, 2))
        counts = np.column_stack([np.ones(len(links)), nofollow, main, ~nofollow]).astype(np.uint32)
        row, current = update.rows(*(np.array([n + 1], np.uint64) for n in (visit.page, visit.number)))
        if current[0]:
            update.add(Links(np.full(len(links), row[0]), target, counts))
        pair = pair_of(np.full(len(links), visit.page % HOSTS), target)
        return [Sightings(pair, np.full(len(links), visit.moment))]

    def rows(self) -> dict[tuple[int, int], tuple[int, ...]]:
        edges = self.edges.shown()
        values = np.column_stack([edges.counts, edges.first, edges.last]).tolist()
        ends = zip(edges.src.tolist(), edges.dst.tolist(), strict=True)
        return dict(zip(ends, map(tuple, values), strict=True))


def counted(visits: list[Visit]) -> dict[tuple[int, int], tuple[int, ...]]:
    """The same in plain words: page by page, link by link."""
    last = {v.page: v for v in sorted(visits, key=lambda v: v.moment)}
    edges: dict[tuple[int, int], list[list[int]]] = {}
    for page, visit in last.items():
        shown = visits[visit.set_among(visits)].shows
        for target, main, nofollow in shown:
            if target != page % HOSTS:
                row = [1, page, nofollow, main, not nofollow, visit.moment]
                edges.setdefault((page % HOSTS, target), []).append(row)
    seen = [
        (v.page % HOSTS, t, v.moment) for v in visits if isinstance(v.shows, tuple) for t, _, _ in v.shows
    ]
    return {
        pair: (
            len(rows), len({row[1] for row in rows}), *(sum(row[k] for row in rows) for k in (2, 3, 4)),
            min(m for src, dst, m in seen if (src, dst) == pair), max(row[5] for row in rows),
        )
        for pair, rows in edges.items()
    }  # fmt: skip


@given(crawls(), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_any_sequence_of_updates_equals_a_full_build_and_a_count_link_by_link(portions, laid_down):
    steps, full = Graph(), Graph()
    for number, portion in enumerate(portions):
        steps.tell(portion)
        if number == laid_down:
            steps.lay_down()
    full.tell([visit for portion in portions for visit in portion])

    assert steps.rows() == full.rows() == counted(steps.told)
    for name in ("page", "host", "moment", "link_set", "ends", "target", "counts"):
        assert np.array_equal(getattr(steps.sets, name), getattr(full.sets, name)), name
    for name in ("pair", "counts", "first", "last"):
        assert np.array_equal(getattr(steps.edges, name), getattr(full.edges, name)), name


CHANGED = [
    [Visit(0, 0, 10, ((1, True, False),)), Visit(1, 4, 20, ((1, True, False),))],
    [Visit(2, 4, 30, ((2, True, False),))],
]
"""Two pages of host 0 link to host 1; then the one that was read last no longer does."""


def told(portions):
    graph = Graph()
    for portion in portions:
        graph.tell(portion)
    return graph


def test_what_a_page_no_longer_shows_is_subtracted_and_the_edge_was_last_seen_on_another():
    assert told(CHANGED).rows() == {(0, 1): (1, 1, 0, 1, 1, 10, 10), (0, 2): (1, 1, 0, 1, 1, 30, 30)}


def test_without_another_look_the_edge_would_seem_seen_later(monkeypatch):
    """Ablation."""
    monkeypatch.setattr(host_links, "_look_again", lambda *_: None)

    assert told(CHANGED).rows()[0, 1][-1] == 20


def test_an_edge_that_has_lost_its_links_is_not_shown_and_remembers_when_it_was_first_seen():
    graph = told([[Visit(0, 0, 10, ((1, True, False),))], [Visit(1, 0, 20, ())]])

    assert graph.rows() == {}
    assert graph.edges.last.tolist() == [NEVER]

    graph.tell([Visit(2, 0, 30, ((1, True, False),))])

    assert graph.rows()[0, 1][-2:] == (10, 30)


def test_a_visit_that_finds_the_same_links_only_moves_the_time():
    graph = told([[Visit(0, 0, 10, ((1, True, False),))], [Visit(1, 0, 20, 0)]])

    assert graph.rows() == {(0, 1): (1, 1, 0, 1, 1, 10, 20)}


def test_links_that_come_after_their_visit_are_added():
    graph, visit = Graph(), Visit(0, 0, 10, ((1, True, False),))
    graph.tell([Visit(0, 0, 10, ())])
    update = Update(graph.sets, together([]))
    graph.finish(update, graph._add(update, visit))

    edges = graph.edges
    assert edges.counts.tolist() == [[1, 1, 0, 1, 1]]
    assert (edges.first.tolist(), edges.last.tolist()) == ([10], [10])


@pytest.mark.parametrize(("largest", "found"), [(False, 5), (True, 3)])
def test_links_of_a_page_to_one_target_are_summed_or_the_largest_kept(largest, found):
    sets = LinkSets.empty(1)
    for count in (3, 2):
        one = np.array([1], np.uint64)
        visit = Visits(one, np.zeros(1, np.uint32), np.array([1]), one)
        update = Update(sets, visit if count == 3 else together([]), largest)
        update.add(Links(np.zeros(1, np.int64), np.zeros(1, np.uint32), np.array([[count]], np.uint32)))
        sets = update.new()

    assert sets.counts.tolist() == [[found]]
