"""Six signals and their one combination."""

import numpy as np
import pytest

from crawl_platform.settings import Value
from crawl_platform.value import signals
from crawl_platform.value.signals import (
    Signals,
    combined,
    corpus,
    exploration,
    material,
    quality,
    rarity,
    retrieval,
    technical,
)

NAN = float("nan")


def of(n: int = 3, **given) -> Signals:
    usual = {
        "business": np.zeros(n),
        "ir": np.full(n, 0.6),
        "corpus": np.full(n, 0.3),
        "technical": np.ones(n),
        "exploration": np.full(n, 0.5),
        "importance": np.full(n, 0.5),
        "read": np.ones(n, bool),
    }
    return Signals(**usual | {name: np.array(values) for name, values in given.items()})


def value(given: Signals, base: float = 0.5, critical: tuple[bool, ...] = (False,) * 3, **weights: float):
    return combined(np.full(len(given.ir), base), given, np.array(critical), Value(**weights)).tolist()


def test_the_usual_page_keeps_what_its_depth_is_worth():
    assert value(of()) == pytest.approx([0.5] * 3)


def test_a_topic_of_weight_one_is_worth_eight_times_and_an_unwanted_one_an_eighth():
    assert value(of(business=[1.0, 0.0, -1.0])) == pytest.approx([4.0, 0.5, 0.0625])


def test_without_topics_business_says_nothing():
    assert value(of(business=[NAN] * 3)) == pytest.approx([0.5] * 3)


def test_each_signal_raises_the_value_by_its_weight():
    assert value(of(ir=[0.9, 0.6, 0.3])) == pytest.approx([0.5 * 2**x for x in (0.3, 0.0, -0.3)])
    assert value(of(corpus=[0.5, 0.3, 0.1])) == pytest.approx([0.5 * 2**x for x in (0.1, 0.0, -0.1)])
    assert value(of(exploration=[1.0, 0.5, 0.0])) == pytest.approx([0.5 * 2**x for x in (0.25, 0.0, -0.25)])
    assert value(of(importance=[0.9, 0.5, 0.1])) == pytest.approx([0.5 * 2**x for x in (0.6, 0.0, -0.6)])
    assert value(of(ir=[0.9, 0.6, 0.3]), ir=0.0) == pytest.approx([0.5] * 3)


def test_what_is_not_known_is_the_mean_of_what_is():
    assert value(of(ir=[0.9, NAN, 0.3]))[1] == pytest.approx(0.5)


def test_the_usual_page_is_one_that_was_read():
    """Ablation: with the unread in the mean, a crawl with many known URLs would take its own pages for worth less."""
    some = of(exploration=[0.2, 1.0, 1.0], read=[True, False, False])
    all_ = of(exploration=[0.2, 1.0, 1.0], read=[True, True, True])

    assert value(some)[0] == pytest.approx(0.5)
    assert value(all_)[0] < 0.45


def test_technical_faults_multiply():
    assert value(of(technical=[0.2, 1.0, 0.1])) == pytest.approx([0.1, 0.5, 0.05])


def test_a_critical_page_has_a_floor_whatever_its_signals_say():
    """Ablation: without the floor it is worth next to nothing."""
    bad = of(business=[-1.0] * 3, technical=[0.1] * 3)

    assert value(bad, critical=(True, False, False)) == pytest.approx([1.0, 0.00625, 0.00625])
    assert value(bad, critical=(True, False, False), critical_floor=0.0)[0] == pytest.approx(0.00625)
    assert value(of(business=[1.0] * 3), critical=(True,) * 3) == pytest.approx([4.0] * 3)


def test_a_value_stays_within_bounds_whatever_the_weights():
    found = value(of(business=[1.0, 0.0, -1.0]), business=1e6)

    assert found == pytest.approx([signals.MOST, 0.5, signals.LEAST])


def test_a_long_text_with_a_title_of_its_own_is_better_than_a_list_of_links():
    story, list_, empty, copied = quality([400, 60, 0, 400], [10, 200, 3, 10], [1, 40, 0, 1], [1, 1, 1, 20])

    assert 1.0 >= story > copied > list_ > empty >= 0.0
    assert empty == 0.0


def test_retrievals_prove_a_page_useful_and_fewer_prove_less():
    poor = retrieval([0.2] * 3, [0.0, 10.0, 1_000.0])

    assert poor == pytest.approx([0.2, 0.6, 1.0], abs=0.01)
    assert retrieval([NAN, NAN], [0.0, 10.0]) == pytest.approx([NAN, 0.5], nan_ok=True)


def test_what_is_rare_fills_a_gap():
    assert rarity([1.0, 0.1, 0.001, 0.0]) == pytest.approx([0.0, 1 / 3, 1.0, 1.0])
    thick, thin = corpus([0.9, 0.1], [0.9, 0.01], [NAN, NAN])
    assert thin > 0.7 > 0.1 > thick
    assert np.isnan(corpus([NAN], [NAN], [NAN]))[0]


def test_a_group_that_nobody_has_read_is_worth_a_look():
    new, young, old = exploration([0, 4, 400])

    assert new == 1.0
    assert young == pytest.approx(new / np.sqrt(2))
    assert old < 0.1


def test_of_several_faults_the_worst_counts():
    left, why = technical(
        [("duplicate", np.array([True, True, False])), ("soft error", np.array([True, False, False]))], 3
    )

    assert left == pytest.approx([0.1, 0.2, 1.0])
    assert why == ["soft error", "duplicate", ""]


def test_only_what_differs_much_is_told():
    assert material(np.array([1.0, 1.1, 1.5, 0.5]), np.ones(4)).tolist() == [False, False, True, True]
