import numpy as np
import pytest

from crawl_platform.graph import host_rank
from crawl_platform.graph.host_rank import host_pairs, rank_hosts
from tests.graph.cases import web_with_farms


def best_horizon(ranks, web, count):
    """The hosts that would be promoted: eligible, untrusted, by trust."""
    score = np.where(ranks.eligible & ~web.trusted, ranks.trust, -1.0)
    return np.argsort(-score)[:count]


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_no_farm_is_among_the_best_hundred_and_honest_hosts_are(seed):
    web = web_with_farms(seed)

    best = best_horizon(rank_hosts(web.src, web.dst, web.links, web.n, web.trusted), web, 100)

    assert not set(best) & set(web.farm)
    assert len(set(best) & set(web.honest)) == 100


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_without_the_gate_farms_get_in(seed, monkeypatch):
    """Ablation: hijacked links give a farm trust like anybody's; only the gate keeps it out."""
    monkeypatch.setattr(host_rank, "MOST_DOUBT", np.inf)
    web = web_with_farms(seed)

    best = best_horizon(rank_hosts(web.src, web.dst, web.links, web.n, web.trusted), web, 100)

    assert set(best) & set(web.farm)


def test_a_thousand_links_from_one_host_are_one_vote():
    src, dst = np.array([0, 0, 1, 1]), np.array([2, 3, 2, 3])

    ranks = rank_hosts(src, dst, np.array([1_000, 1, 1, 1]), 4, [True, True, False, False])

    assert ranks.trust[2] == pytest.approx(ranks.trust[3])
    assert ranks.uniform[2] > ranks.uniform[3]


def test_a_host_without_a_path_from_the_seed_has_no_trust():
    ranks = rank_hosts([0, 2], [1, 3], [1, 1], 4, [True, False, False, False])

    assert ranks.trust[3] == 0.0
    assert not ranks.eligible[3]
    assert ranks.spam_mass[3] == 1.0


def test_ranks_sum_to_one():
    web = web_with_farms(1)
    ranks = rank_hosts(web.src, web.dst, web.links, web.n, web.trusted)

    assert ranks.trust.sum() == pytest.approx(1.0)
    assert ranks.uniform.sum() == pytest.approx(1.0)


def test_a_ranking_without_trusted_hosts_is_refused():
    with pytest.raises(ValueError, match="trusted"):
        rank_hosts([0], [1], [1], 2, [False, False])


def test_repeated_arcs_add_up_and_links_to_oneself_are_dropped():
    pairs = host_pairs([0, 0, 1, 1], [1, 1, 1, 0], [2, 3, 9, 1], 2)

    assert (pairs.src.tolist(), pairs.dst.tolist(), pairs.links.tolist()) == ([0, 1], [1, 0], [5.0, 1.0])
