import networkx as nx
import numpy as np

from crawl_platform.graph.shape import shape


def test_degrees_and_components_are_those_of_the_nodes_with_an_arc():
    found = shape(np.array([0, 0, 4], np.uint32), np.array([1, 2, 5], np.uint32), 7)

    assert found.reach.tolist() == [0, 1, 1, 0, 1]
    assert found.leave.tolist() == [2, 0, 0, 1, 0]
    assert found.components.tolist() == [3, 2]


def test_components_are_those_of_networkx():
    src, dst = np.random.default_rng(1).integers(0, 300, (2, 120)).astype(np.uint32)

    graph = nx.Graph(list(zip(src.tolist(), dst.tolist(), strict=True)))
    expected = sorted(map(len, nx.connected_components(graph)), reverse=True)

    assert shape(src, dst, 300).components.tolist() == expected


def test_nothing_has_no_shape():
    none = np.zeros(0, np.uint32)

    assert [part.tolist() for part in shape(none, none, 0)] == [[], [], []]
