import math
import random
from itertools import combinations

from crawl_platform.graph.neighbourhood import (
    MOST_NEIGHBOURS,
    MOST_RELATIVES,
    MOST_SUPPORTERS,
    RINGS,
    neighbourhood,
)


def crowd(seed: int = 1):
    """More of everything than can be shown."""
    draw = random.Random(seed)
    supporters = [f"s{i:02d}" for i in range(30)]
    others = [f"o{i:03d}" for i in range(100)]
    links = [(draw.choice(supporters), draw.choice(others)) for _ in range(300)]
    links += [(draw.choice(others), draw.choice(supporters)) for _ in range(300)]
    kin = {"x": [f"k{i}" for i in range(20)], "s00": ["s01", "k3"]}
    return neighbourhood("x", supporters, links, kin)


def test_the_host_stands_in_the_middle_its_supporters_around_it_and_the_rest_outside():
    found = neighbourhood("x", ["a", "b"], [("a", "c"), ("d", "b")], {"a": ["e"]})

    assert found.rings == {"x": 0, "a": 1, "b": 1, "c": 2, "d": 2, "e": 2}
    assert found.places["x"] == (0.0, 0.0)
    for host, ring in found.rings.items():
        x, y = found.places[host]
        assert ring == 0 or math.isclose((x / RINGS[ring][0]) ** 2 + (y / RINGS[ring][1]) ** 2, 1.0)


def test_supporters_link_to_the_host_and_links_among_those_shown_are_kept():
    found = neighbourhood("x", ["a", "b"], [("a", "b"), ("a", "a"), ("a", "c"), ("y", "z")], {})

    assert found.links == [("a", "b"), ("a", "c"), ("a", "x"), ("b", "x")]


def test_hosts_that_belong_together_are_tied_once():
    found = neighbourhood("x", ["a", "b"], [], {"a": ["b", "e"], "b": ["a"], "x": ["e"]})

    assert found.kin == [("a", "b"), ("a", "e"), ("e", "x")]


def test_of_many_neighbours_those_with_most_links_to_the_inner_ones_are_shown():
    links = [(s, "liked") for s in "abc"] + [("a", f"other-{i:02d}") for i in range(20)]

    found = neighbourhood("x", ["a", "b", "c"], links, {})

    assert [h for h, ring in found.rings.items() if ring == 2] == [
        "liked",
        *(f"other-{i:02d}" for i in range(9)),
    ]


def test_a_crowd_is_cut_to_what_can_be_read():
    found = crowd()
    counts = [list(found.rings.values()).count(ring) for ring in range(3)]

    assert counts == [1, MOST_SUPPORTERS, MOST_RELATIVES + MOST_NEIGHBOURS]


def test_no_two_hosts_stand_too_close_to_be_told_apart():
    found = crowd()

    assert min(math.dist(a, b) for a, b in combinations(found.places.values(), 2)) > 0.4


def test_the_same_graph_gives_the_same_picture():
    assert crowd() == crowd()


def test_a_host_without_supporters_stands_alone():
    assert neighbourhood("x", [], [], {}).places == {"x": (0.0, 0.0)}
