import numpy as np
import pytest

from crawl_platform.graph.independence import UNKNOWN, related_hosts
from crawl_platform.graph.relations import Related, related


def test_hosts_that_share_a_label_are_together_directly_or_through_others():
    found = related({"a": ["ip:1"], "b": ["ip:1", "domain:x"], "c": ["domain:x"], "d": ["domain:y"]})

    assert found == [
        Related(1, "a", 3, ("ip:1",)),
        Related(1, "b", 3, ("domain:x", "ip:1")),
        Related(1, "c", 3, ("domain:x",)),
    ]


def test_hosts_that_stand_alone_are_left_out_and_so_is_what_only_they_have():
    assert related({"a": ["ip:1"], "b": []}) == []
    assert related({"a": ["ip:1", "domain:x"], "b": ["ip:1", "domain:y"]})[0].shared == ("ip:1",)


def test_the_largest_component_comes_first_then_by_name():
    found = related({h: [f"group:{h[0]}"] for h in ("b1", "b2", "a1", "a2", "z1", "z2", "z3")})

    assert [(row.component, row.host) for row in found] == [
        (1, "z1"), (1, "z2"), (1, "z3"), (2, "a1"), (2, "a2"), (3, "b1"), (3, "b2"),
    ]  # fmt: skip


def test_a_host_called_like_a_label_is_not_taken_for_it():
    assert related({"x": ["y"], "y": [], "z": ["x"]}) == []


@pytest.mark.parametrize("seed", range(5))
def test_components_are_those_that_votes_are_counted_by(seed):
    random = np.random.default_rng(seed)
    address, domain = random.integers(UNKNOWN, 25, (2, 60)).tolist()
    labels = {
        f"h{i:02d}": [f"{kind}:{label}" for kind, label in (("a", a), ("d", d)) if label != UNKNOWN]
        for i, (a, d) in enumerate(zip(address, domain, strict=True))
    }

    clusters = related_hosts([address, domain], 60)
    found = {row.host: row.component for row in related(labels)}

    for i, j in np.ndindex(60, 60):
        one, other = f"h{i:02d}", f"h{j:02d}"
        together = one in found and found[one] == found.get(other)
        assert i == j or together == (clusters[i] == clusters[j])
