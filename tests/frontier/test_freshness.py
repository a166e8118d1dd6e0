"""The rule of revisits against the one before it, uniform visits, and the optimum of one who knows all rates."""

import pytest

from crawl_platform.frontier.revisits import Revisits
from tests.frontier.changing import ChangingHost, MeanInterval, Uniform, best_possible, spread

LEARN, COUNT = 1_500.0, 3_000.0


def crawled(policy: type[Revisits], pages: int, fastest: float, slowest: float, seed: int) -> ChangingHost:
    rates = spread(pages, fastest, slowest, seed)
    values = {page: (1.0, 0.5, 0.25)[n % 3] for n, page in enumerate(rates)}
    host = ChangingHost(rates, values, seed, policy=policy)
    host.run(LEARN + COUNT, count_after=LEARN)
    return host


def score(host: ChangingHost) -> float:
    return host.freshness(COUNT) / best_possible(host.rates, host.values, 1.0)


@pytest.mark.parametrize(
    ("pages", "fastest", "slowest"),
    [
        pytest.param(40, 10, 3_600, marks=pytest.mark.long),
        pytest.param(120, 10, 3_600, marks=pytest.mark.long),
        pytest.param(120, 2, 300, marks=pytest.mark.long),
    ],
)
def test_it_beats_the_mean_interval_and_uniform_visits(pages: int, fastest: float, slowest: float) -> None:
    ours, before, uniform = (
        score(crawled(policy, pages, fastest, slowest, 3)) for policy in (Revisits, MeanInterval, Uniform)
    )

    assert ours >= before + 0.08
    assert ours >= uniform + 0.03


@pytest.mark.long
def test_where_there_was_time_to_learn_it_comes_near_to_the_optimum() -> None:
    assert score(crawled(Revisits, 60, 10, 3_600, 5)) >= 0.94


def test_no_turn_is_left_unused_while_a_visit_is_worth_its_cost() -> None:
    host = crawled(Revisits, 60, 10, 3_600, 4)

    assert sum(host.visits.values()) >= 0.99 * COUNT


class NoSpareTurns(Revisits):
    """The safeguard off: a host with nothing due waits, and its threshold never falls."""

    def spare(self, state, kv, now):  # type: ignore[no-untyped-def]
        return None


def test_ablation_without_spare_turns_a_threshold_that_rose_too_far_leaves_turns_unused() -> None:
    assert sum(crawled(NoSpareTurns, 60, 10, 3_600, 4).visits.values()) < 0.9 * COUNT


def test_as_many_changes_are_found_as_were_predicted() -> None:
    host = ChangingHost(rates := spread(60, 10, 600, 6), dict.fromkeys(rates, 0.5), 6)

    host.run(4_000.0)

    assert host.changed > 500
    assert host.predicted == pytest.approx(host.changed, rel=0.08)
