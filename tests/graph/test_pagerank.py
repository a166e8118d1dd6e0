import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.graph import kernels
from crawl_platform.graph import pagerank as pagerank_module
from crawl_platform.graph.pagerank import ConvergenceError, pagerank
from tests.graph.cases import graph_names, read_graph, read_ranks


@st.composite
def graphs(draw, max_nodes=12):
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    arcs = draw(st.lists(st.tuples(node, node), unique=True, max_size=40))
    src, dst = np.array(arcs or np.zeros((0, 2)), np.int64).reshape(-1, 2).T
    return src, dst, n


@st.composite
def multigraphs(draw, max_nodes=12):
    """Arcs may be repeated, and lead back to where they start."""
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    arcs = draw(st.lists(st.tuples(node, node), max_size=60))
    src, dst = np.array(arcs or np.zeros((0, 2)), np.int64).reshape(-1, 2).T
    return src, dst, n


def solved(src, dst, n, weights, jump):
    """The same by elimination, for few nodes."""
    matrix = np.zeros((n, n))
    np.add.at(matrix, (dst, src), weights)
    out = matrix.sum(axis=0)
    y = np.linalg.solve(np.eye(n) - 0.85 * matrix / np.where(out > 0, out, 1.0), jump)
    return y / y.sum()


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


@settings(max_examples=100, deadline=None)
@given(multigraphs(), st.data())
def test_it_is_the_solution_with_repeated_arcs_loops_and_weights_of_zero(graph, data):
    src, dst, n = graph
    weights = data.draw(
        st.none() | st.lists(st.sampled_from([0, 1, 2.5]), min_size=len(src), max_size=len(src))
    )
    teleport = data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n).filter(any))
    expected = solved(src, dst, n, np.ones(len(src)) if weights is None else weights, teleport)

    ranks = pagerank(src, dst, n, teleport=teleport, weights=weights)

    assert np.abs(ranks - expected).sum() <= 1e-10


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


@pytest.mark.parametrize("damping", [-0.1, 1.0, np.nan])
def test_damping_that_has_no_solution_is_refused(damping):
    with pytest.raises(ValueError, match="damping"):
        pagerank([0], [1], 2, damping)


def test_ranks_that_do_not_converge_are_not_returned(monkeypatch):
    monkeypatch.setattr(pagerank_module, "MAX_STEPS", 3)
    with pytest.raises(ConvergenceError):
        pagerank(*random_arcs(), 500)


def test_rows_with_more_arcs_than_a_block_holds_are_summed_to_their_ends(monkeypatch):
    expected = pagerank(*random_arcs(), 500)
    monkeypatch.setattr(pagerank_module, "HELD_ARCS", 5)

    assert np.abs(pagerank(*random_arcs(), 500) - expected).sum() <= 1e-10


def random_arcs():
    return np.random.default_rng(3).integers(0, 500, (2, 4_000))


def steps_of(monkeypatch, **given):
    """How many sweeps the ranks of a random graph take."""
    sweep, steps = kernels.sweep, []
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "sweep", lambda *a: steps.append(1) or sweep(*a))
        pagerank(*random_arcs(), 500, **given)
    return len(steps)


def test_scaling_saves_most_steps(monkeypatch):
    scaled = steps_of(monkeypatch)
    monkeypatch.setattr(pagerank_module, "PATIENCE", 0)

    assert scaled < steps_of(monkeypatch) / 3


def test_a_start_saves_steps(monkeypatch):
    assert steps_of(monkeypatch, start=pagerank(*random_arcs(), 500)) <= 2 < steps_of(monkeypatch)


@pytest.mark.parametrize(("patience", "converges"), [(3, True), (10_000, False)])
def test_scaling_that_does_not_help_is_given_up(monkeypatch, patience, converges):
    """Ablation: with endless patience, a scale that is wrong each time keeps the iteration from its end."""
    expected = pagerank(*random_arcs(), 500)
    monkeypatch.setattr(pagerank_module, "_balance", lambda comes, goes: 1.01)
    monkeypatch.setattr(pagerank_module, "PATIENCE", patience)

    if converges:
        assert np.abs(pagerank(*random_arcs(), 500) - expected).sum() <= 1e-9
    else:
        with pytest.raises(ConvergenceError):
            pagerank(*random_arcs(), 500)
