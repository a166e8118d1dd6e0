import numpy as np
import pytest

from crawl_platform.graph.page_links import importance, linking, starts
from crawl_platform.graph.pagerank import pagerank


def test_readers_start_at_front_pages_by_the_trust_of_hosts():
    front, host = np.array([True, False, True, False]), np.array([0, 0, 1, 1], np.uint32)

    assert starts(front, host, np.array([0.75, 0.25])).tolist() == [0.75, 0, 0.25, 0]


def test_a_host_without_a_front_page_shares_its_trust_among_its_pages():
    host = np.array([0, 0, 1], np.uint32)

    assert starts(np.array([False, False, True]), host, np.array([0.5, 0.5])).tolist() == [0.25, 0.25, 0.5]


def test_where_nobody_is_trusted_hosts_are_equals():
    host = np.array([0, 1], np.uint32)

    assert starts(np.array([True, True]), host, np.zeros(3)).tolist() == [1, 1]


def test_importance_is_the_part_of_all_pages_that_rank_below():
    assert importance(np.array([0.1, 0.4, 0.1, 0.2])).tolist() == [0.25, 0.875, 0.25, 0.625]
    assert importance(np.zeros(0)).tolist() == []


def test_a_page_is_linked_to_by_as_many_pages_as_say_so():
    target = np.array([1, 1, 2], np.uint32)

    assert linking(target, 4).tolist() == [0, 2, 1, 0]
    assert linking(target, 4, np.array([True, False, False])).tolist() == [0, 1, 0, 0]


def test_links_in_main_content_and_a_short_way_make_a_page_important():
    """Page 0 is the front page: 1 by main content, 2 by the footer, 3 behind 1, 4 behind 3."""
    src, dst, strength = [0, 0, 1, 3], [1, 2, 3, 4], [8, 1, 8, 8]
    jump = starts(np.arange(5) == 0, np.zeros(5, np.uint32), np.ones(1))

    ranks = pagerank(src, dst, 5, teleport=jump, weights=strength)

    assert np.argsort(-ranks).tolist() == [0, 1, 3, 4, 2]
    assert ranks[1] == pytest.approx(8 * ranks[2])
