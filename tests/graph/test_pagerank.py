import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.graph.pagerank import ConvergenceError, pagerank
from tests.graph.cases import graph_names, read_graph, read_ranks


@st.composite
def graphs(draw, max_nodes=12):
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    arcs = draw(st.lists(st.tuples(node, node), unique=True, max_size=40))
    src, dst = np.array(arcs or np.zeros((0, 2)), np.int64).reshape(-1, 2).T
    return src, dst, n


@pytest.mark.parametrize("name", graph_names())
def test_ranks_of_real_web_graphs(name):
    src, dst, n = read_graph(name)
    nodes, expected = read_ranks(name)

    ranks = pagerank(src, dst, n)

    assert np.abs(ranks[nodes] - expected).sum() <= 1e-7
    assert ranks.sum() == pytest.approx(1.0, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(graphs(), st.data())
def test_it_agrees_with_networkx_on_any_graph_teleport_and_weights(graph, data):
    src, dst, n = graph
    weights = data.draw(st.lists(st.integers(1, 9), min_size=len(src), max_size=len(src)))
    teleport = data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n).filter(any))
    oracle = nx.DiGraph()
    oracle.add_nodes_from(range(n))
    oracle.add_weighted_edges_from(zip(src.tolist(), dst.tolist(), weights, strict=True))
    jump = dict(enumerate(teleport))

    expected = nx.pagerank(oracle, personalization=jump, dangling=jump, tol=1e-13, max_iter=5_000)

    ranks = pagerank(src, dst, n, teleport=teleport, weights=weights)
    np.testing.assert_allclose(ranks, [expected[v] for v in range(n)], atol=1e-9)


@given(graphs())
def test_ranks_are_a_distribution(graph):
    src, dst, n = graph
    ranks = pagerank(src, dst, n)

    assert np.all(ranks > 0)
    assert ranks.sum() == pytest.approx(1.0, abs=1e-12)


def test_an_earlier_result_is_continued_to_the_same_ranks():
    random = np.random.default_rng(3)
    src, dst = random.integers(0, 500, (2, 4_000))
    before = pagerank(src[:-50], dst[:-50], 500)

    np.testing.assert_allclose(pagerank(src, dst, 500, start=before), pagerank(src, dst, 500), atol=1e-10)


def test_a_graph_without_nodes_has_no_ranks():
    assert pagerank([], [], 0).shape == (0,)


@pytest.mark.parametrize("teleport", [[0, 0], [1, -1], [1]])
def test_a_teleport_that_is_no_distribution_is_refused(teleport):
    with pytest.raises(ValueError, match="teleport"):
        pagerank([0], [1], 2, teleport=teleport)


def test_ranks_that_do_not_converge_are_not_returned():
    with pytest.raises(ConvergenceError):
        pagerank([0, 1, 2], [1, 2, 0], 3, damping=1 - 1e-9, teleport=[1, 0, 0])
