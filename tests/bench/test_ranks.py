"""The bench of ranks: its graphs are power laws, and contenders rank the same graph."""

import numpy as np
import pytest

from bench.ranks import igraph, networkx, ours, verdict, write_graph

HOSTS, EDGES = 2_000, 20_000


@pytest.fixture(scope="module")
def arcs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    write_graph(folder, HOSTS, EDGES)
    return [np.fromfile(folder / end, np.int32) for end in ("src", "dst")]


def test_a_tenth_of_the_hosts_is_linked_to_by_half_of_the_links(arcs):
    degrees = -np.sort(-np.bincount(arcs[1], minlength=HOSTS))

    assert len(arcs[0]) == len(arcs[1]) == EDGES
    assert 0.4 < degrees[: HOSTS // 10].sum() / EDGES < 0.6
    assert degrees[0] < 0.05 * EDGES


def test_the_same_seed_makes_the_same_graph(arcs, tmp_path):
    write_graph(tmp_path, HOSTS, EDGES)

    assert (tmp_path / "src").read_bytes() == arcs[0].tobytes()


@pytest.mark.parametrize("other", [igraph, networkx])
def test_contenders_rank_alike(arcs, other):
    assert np.abs(ours(*arcs, HOSTS) - np.array(other(*arcs, HOSTS))).sum() <= 2e-8


@pytest.mark.parametrize(("found", "met"), [(0.25, True), (0.251, False)])
def test_a_line_is_met_up_to_its_bound(found, met):
    assert verdict("time", found, 0.25)["met"] is met
