import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from crawl_platform.graph import harmonic as module
from crawl_platform.graph.harmonic import harmonic
from tests.graph.test_pagerank import graphs


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_it_agrees_with_networkx(graph):
    src, dst, n = graph
    oracle = nx.DiGraph()
    oracle.add_nodes_from(range(n))
    oracle.add_edges_from(zip(src.tolist(), dst.tolist(), strict=True))
    expected = nx.harmonic_centrality(oracle)

    np.testing.assert_allclose(harmonic(src, dst, n), [expected[v] for v in range(n)], atol=1e-12)


def test_a_sample_estimates_the_exact_value():
    src, dst = np.random.default_rng(5).integers(0, 1_000, (2, 6_000))
    exact = harmonic(src, dst, 1_000)

    estimate = harmonic(src, dst, 1_000, max_sources=400, random=np.random.default_rng(1))

    reached = exact > 1
    assert np.abs(estimate[reached] / exact[reached] - 1).max() < 0.15


def test_a_sample_without_a_generator_is_refused():
    with pytest.raises(ValueError, match="generator"):
        harmonic([0, 1, 2], [1, 2, 0], 3, max_sources=2)


def test_taking_sources_in_chunks_changes_nothing(monkeypatch):
    src, dst = np.random.default_rng(6).integers(0, 50, (2, 200))
    whole = harmonic(src, dst, 50)
    monkeypatch.setattr(module, "CELLS_AT_ONCE", 120)

    np.testing.assert_allclose(harmonic(src, dst, 50), whole)
