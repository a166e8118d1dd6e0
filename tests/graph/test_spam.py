import numpy as np
import pytest

from crawl_platform.graph import spam
from crawl_platform.graph.host_rank import rank_hosts

TRUSTED = 12
LIKED, BULK, MADE = TRUSTED, TRUSTED + 1, TRUSTED + 2
MAKERS = 40
N = TRUSTED + 3 + MAKERS


def small_web():
    """Twelve trusted hosts link to each other and to LIKED once or twice; three of them 900 times each to BULK; two of
    them once to MADE, to which forty hosts that nobody links to link ten times each."""
    arcs = [(a, (a + k) % TRUSTED, 1 + k % 2) for a in range(TRUSTED) for k in (1, 2, 3)]
    arcs += [(a, LIKED, 1 + a % 2) for a in range(TRUSTED)]
    arcs += [(a, BULK, 900) for a in range(3)]
    arcs += [(a, MADE, 1) for a in range(2)]
    arcs += [(MADE + 1 + b, MADE, 10) for b in range(MAKERS)]
    return np.array(arcs).T


def ranks(arcs):
    return rank_hosts(*arcs, N, np.arange(N) < TRUSTED)


def test_links_in_bulk_and_links_that_nobody_vouches_for_are_told_from_others():
    found = ranks(small_web())

    assert found.eligible[[LIKED, BULK, MADE]].tolist() == [True, False, False]
    assert found.per_supporter[BULK] == 900
    assert found.vouched[MADE] < 0.05
    assert found.vouched[LIKED] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("constant", "value", "passes"), [("UNVOUCHED_WEIGHT", 0.0, MADE), ("LEAST_DEVIATION", 1e9, BULK)]
)
def test_each_kind_of_evidence_holds_a_farm_that_the_other_lets_through(constant, value, passes, monkeypatch):
    """Ablation: without the weight of who vouches, or with every number of links taken for usual."""
    arcs = small_web()
    arcs[2][arcs[1] == MADE] = 1
    monkeypatch.setattr(spam, constant, value)

    assert ranks(arcs).eligible[passes]


def test_one_host_with_a_footer_on_every_page_raises_no_doubt():
    arcs = small_web()
    arcs[2][(arcs[0] == 0) & (arcs[1] == LIKED)] = 5_000

    found = ranks(arcs)

    assert found.eligible[LIKED]
    assert found.per_supporter[LIKED] < 2


def test_hosts_without_trust_cannot_move_what_is_usual():
    arcs = small_web()
    crowd = np.array(
        [(MADE + 1 + b, MADE + 1 + (b + k) % MAKERS, 900) for b in range(MAKERS) for k in (1, 2, 3)]
    )

    alone, crowded = ranks(arcs), ranks(np.concatenate([arcs, crowd.T], axis=1))

    assert crowded.doubt[BULK] == pytest.approx(alone.doubt[BULK])


def test_a_host_that_strangers_link_to_is_told_from_one_that_owners_do():
    """A hundred hosts link; strangers set the links to host 1 at seven of ten, and one in twenty of the others."""
    src, dst = np.arange(1_010), np.repeat([0, 1], [1_000, 10])
    own = np.arange(1_010) % 20 > 0
    own[1_000:] = np.arange(10) < 3

    found = spam.set_by_strangers(src, dst, own, 3)

    assert found.hosts.tolist() == [50, 7, 0]
    assert found.excess[1] > spam.MOST_EXCESS > found.excess[0]
    assert found.excess[2] == 0.0
