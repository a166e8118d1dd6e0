"""Reliability of predicted changes: by tenths, and in two numbers that the lake gives too."""

import duckdb
import numpy as np
import pytest

from crawl_platform.quality.reliability import BINS, MEASURES, reliability


def predictions(n: int = 20_000):
    random = np.random.default_rng(3)
    p = random.beta(0.7, 1.3, n)
    return p, random.random(n) < p


def test_of_true_probabilities_no_tenth_is_off():
    found = reliability(*predictions())

    assert not found.off(0.0).any()
    assert found.checks.sum() == 20_000
    assert found.realised == pytest.approx(found.predicted, abs=0.06)
    assert found.error < 0.02
    assert found.brier < found.brier_of_mean


def test_errors_that_cancel_out_in_the_sum_are_seen():
    """What `calibration` can't see: too low below, too high above."""
    p, came = predictions()
    bold = np.clip(0.5 + 2.0 * (p - 0.5), 0.0, 1.0)

    found = reliability(bold, came)

    assert bold.sum() == pytest.approx(came.sum(), rel=0.15)
    assert found.off(0.1).sum() >= 2
    assert found.error > 5 * reliability(p, came).error
    assert found.brier > reliability(p, came).brier


def test_few_checks_are_not_held_against_anyone():
    found = reliability([0.9, 0.9, 0.9], [False, True, True])

    assert abs(found.realised[9] - 0.9) > 0.1
    assert not found.off(0.1).any()


def test_it_is_told_by_hand():
    found = reliability([0.0, 0.1, 0.19, 1.0], [False, True, False, True])

    assert found.checks.tolist() == [1, 2, *[0] * (BINS - 3), 1]
    assert found.realised[[0, 1, 9]].tolist() == [0.0, 0.5, 1.0]
    assert np.isnan(found.realised[2])
    assert found.brier == pytest.approx((0.9**2 + 0.19**2) / 4)
    assert found.error == pytest.approx(abs(0.29 - 1) / 4)


def test_without_a_check_there_is_no_number():
    found = reliability([], [])

    assert np.isnan(found.brier)
    assert np.isnan(found.error)
    assert not found.off(0.0).any()


def test_the_measures_of_the_lake_are_the_same_numbers():
    p, came = predictions(500)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE recent (kind VARCHAR, changed BOOLEAN, predicted_change DOUBLE)")
        connection.executemany(
            "INSERT INTO recent VALUES ('page', ?, ?)",
            [(bool(c), float(x)) for x, c in zip(p, came, strict=True)],
        )
        connection.execute(
            "INSERT INTO recent VALUES ('page', true, NULL), ('robots', true, 0.1), ('page', NULL, 0.1)"
        )
        brier, error = (
            numerator / denominator
            for numerator, denominator in (connection.execute(m.sql).fetchone() for m in MEASURES)
        )

    found = reliability(p, came)
    assert brier == pytest.approx(found.brier)
    assert error == pytest.approx(found.error)
