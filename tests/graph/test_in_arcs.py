"""In-arcs, straight from the input: any integers, mapped files, duplicates, weights of 0; and no copy of it."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from crawl_platform.graph import in_arcs as in_arcs_module
from crawl_platform.graph.in_arcs import in_arcs
from crawl_platform.graph.pagerank import pagerank
from tests.graph.test_pagerank import multigraphs


@settings(max_examples=60, deadline=None)
@given(multigraphs(), st.data())
def test_they_are_what_was_given_by_target(graph, data):
    src, dst, n = graph
    weights = data.draw(
        st.none() | st.lists(st.sampled_from([0, 1, 2.5]), min_size=len(src), max_size=len(src))
    )
    given_weights = np.ones(len(src)) if weights is None else np.array(weights, float)
    expected = sparse.coo_array((given_weights, (dst, src)), shape=(n, n)).toarray()

    graph = in_arcs(src, dst, n, weights)

    ends, sources, values = graph.arcs
    lengths = np.diff(ends, prepend=0)
    values = np.ones(len(src)) if weights is None else values
    found = sparse.coo_array((values, (np.repeat(np.arange(n), lengths), sources)), shape=(n, n)).toarray()
    assert sorted(graph.rows) == list(range(n))
    np.testing.assert_array_equal(found[np.ix_(graph.rows, graph.rows)], expected)
    out = expected.sum(axis=0)
    linking = out > 0
    np.testing.assert_array_equal(graph.out[graph.rows[linking]], out[linking])
    np.testing.assert_array_equal(graph.inner[graph.rows[linking]], expected[linking].sum(axis=0)[linking])


def test_chunks_and_parts_make_no_difference(monkeypatch):
    random = np.random.default_rng(5)
    src, dst = random.integers(0, 3_000, (2, 20_000))
    whole = in_arcs(src, dst, 3_000)
    monkeypatch.setattr(in_arcs_module, "LEAST_CHUNK", 700)
    monkeypatch.setattr(in_arcs_module, "MOST_CHUNK", 700)

    parts = in_arcs(src, dst, 3_000)

    np.testing.assert_array_equal(whole.arcs[0], parts.arcs[0])
    for begin, end in zip(np.r_[0, whole.arcs[0][:-1]], whole.arcs[0], strict=True):
        assert sorted(whole.arcs[1][begin:end]) == sorted(parts.arcs[1][begin:end])


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_of_any_width_are_ranked_alike(kind):
    src, dst = np.array([0, 1, 2, 2]), np.array([1, 2, 0, 3])

    np.testing.assert_array_equal(pagerank(src.astype(kind), dst.astype(kind), 4), pagerank(src, dst, 4))


def test_a_mapped_file_that_is_read_only_is_ranked(tmp_path):
    arcs = np.random.default_rng(4).integers(0, 500, (2, 4_000)).astype(np.int32)
    arcs.tofile(tmp_path / "arcs")
    src, dst = np.memmap(tmp_path / "arcs", np.int32, "r", shape=(2, 4_000))

    np.testing.assert_array_equal(pagerank(src, dst, 500), pagerank(*arcs, 500))


@pytest.mark.parametrize(
    ("src", "dst", "weights", "message"),
    [
        ([0, 2], [1, 1], None, "from 0 to 1"),
        ([0, 1], [1, -1], None, "from 0 to 1"),
        ([0, 2**32], [1, 0], None, "from 0 to 1"),
        ([0, 1], [1], None, "one length"),
        ([0, 1], [1, 0], [1.0], "one length"),
        ([0.5, 1.0], [1, 0], None, "whole numbers"),
        ([[0, 1]], [[1, 0]], None, "one dimension"),
        ([0, 1], [1, 0], [1.0, -1.0], "≥ 0"),
        ([0, 1], [1, 0], [1.0, np.nan], "≥ 0"),
        ([0, 1], [1, 0], [1.0, np.inf], "≥ 0"),
    ],
)
def test_arcs_that_don_t_fit_are_refused(src, dst, weights, message):
    with pytest.raises(ValueError, match=message):
        in_arcs(src, dst, 2, weights)


def test_more_nodes_than_32_bits_are_refused():
    with pytest.raises(ValueError, match="32 bits"):
        in_arcs([0], [1], 2**32)


PEAK = """
from pathlib import Path
import numpy as np
from crawl_platform.graph.in_arcs import in_arcs
from crawl_platform.graph.pagerank import warm

def told(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

warm()
src, dst = np.random.default_rng(1).integers(0, 100_000, (2, 8_000_000), dtype=np.int32)
before = told("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
graph = in_arcs(src, dst, 100_000)
print(told("VmHWM") - before)
"""


@pytest.mark.long
def test_a_build_takes_four_bytes_an_arc_and_little_more():
    done = subprocess.run([sys.executable, "-c", PEAK], check=True, stdout=subprocess.PIPE)

    arcs, nodes, chunk = 4 * 8_000_000, 40 * 100_000, 16 * 500_000
    assert arcs * 0.9 < int(done.stdout) < arcs + nodes + chunk + 8e6
