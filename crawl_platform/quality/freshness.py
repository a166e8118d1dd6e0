"""Freshness: the share of the copies held that still equal the live page, though nobody looks at it now.

Two estimates stand side by side. `freshness` rests on what checks found and nothing else (`quality.rates`);
`freshness_believed` is what the scheduler's own posteriors imply. Where they differ, the belief is off:
`calibration` says in which direction.
"""

from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from crawl_platform.quality.measure import Look, Measure, Value, run
from crawl_platform.quality.rates import Checks, still_equal

SAMPLE = 20_000
"""Copies looked at, the same ones each time as far as they last: a share is known to 0.4 points (one sigma)."""
HISTORY = 32
"""Last checks of each that are looked at."""
LEAST = 0.02
"""Least shape, and least rate parameter as a share of the prior's: the rule of `scheduling.change_rate.posterior`."""

SAMPLED = f"""
CREATE OR REPLACE TEMP TABLE sampled AS
SELECT row_number() OVER (ORDER BY hash(url), url) - 1 AS page,
    dense_rank() OVER (ORDER BY host, group_id) - 1 AS number, *
FROM (FROM copies ORDER BY hash(url), url LIMIT {SAMPLE})
"""
AGES = f"""
SELECT s.number, epoch($now - s.last_success) / 86400 AS age, s.value,
    greatest(coalesce(m.prior_a, r.prior_a, $prior_a) + s.rate_a, {LEAST}) AS a,
    greatest(coalesce(m.prior_b, r.prior_b, $prior_b) + s.rate_b,
        {LEAST} * coalesce(m.prior_b, r.prior_b, $prior_b)) AS b
FROM sampled s
LEFT JOIN change_rates r ON r.host = s.host AND r.group_id = s.group_id
LEFT JOIN cold_priors m ON m.host = s.host AND m.group_id = s.group_id
ORDER BY s.page
"""
CHECKS = f"""
SELECT s.page, epoch(f.started_at - f.previous_success_at) / 86400 AS days, f.changed
FROM fetches f JOIN sampled s USING (url)
WHERE f.kind = 'page' AND f.changed IS NOT NULL AND f.previous_success_at IS NOT NULL AND f.started_at <= $now
QUALIFY row_number() OVER (PARTITION BY f.url ORDER BY f.started_at DESC) <= {HISTORY}
ORDER BY s.page
"""
ONCE_CHECKED = """
SELECT count(*) FILTER (EXISTS (
    SELECT 1 FROM fetches f WHERE f.url = c.url AND f.kind = 'page' AND f.changed IS NOT NULL
)) AS numerator, count(*) AS denominator FROM copies c
"""
NO_COPY = "no page has been fetched yet"

FRESHNESS = Measure(
    "freshness",
    "freshness",
    "share",
    "Of the copies held, the share expected to equal the live page now: the mean over pages of the probability of no "
    "change since the last success, given all checks of the page, its group and the other pages.",
    NO_COPY,
    state=True,
)
BY_VALUE = Measure(
    "freshness_by_value",
    "freshness",
    "share",
    "The same, each page weighted by the value at which it was last picked.",
    "no page with a value has been fetched yet",
    state=True,
)
BELIEVED = Measure(
    "freshness_believed",
    "freshness",
    "share",
    "The same by the scheduler's belief: the mean of (b/(b + age))^a, where a and b are the group's prior "
    "(cold_priors, else change_rates, else the setting) and the page's own increments at its last success.",
    NO_COPY,
    state=True,
)
CALIBRATION = Measure(
    "calibration",
    "freshness",
    "ratio",
    "Changes that the scheduler expected to find, per change found, over the checks of the look back: above 1 it takes "
    "pages to change more often than they do.",
    "no check found a change in the look back",
    "SELECT sum(predicted_change) AS numerator, count(*) FILTER (changed) AS denominator FROM recent "
    "WHERE kind = 'page' AND changed IS NOT NULL AND predicted_change IS NOT NULL",
)
CHECKED = Measure(
    "checked_share",
    "freshness",
    "share",
    "Of the copies held, the share fetched well at least twice: for the others freshness rests on pages like them.",
    NO_COPY,
    ONCE_CHECKED,
    state=True,
)
MEASURES = (FRESHNESS, BY_VALUE, BELIEVED, CALIBRATION, CHECKED)


def freshness(connection: duckdb.DuckDBPyConnection, look: Look) -> dict[str, Value]:
    """The three estimates of freshness, by name of the measure; needs the table `sampled`."""
    pages = _columns(connection, AGES, look)
    if not len(pages["age"]):
        nothing = Value(None, 0.0, 0.0)
        return {m.name: nothing for m in (FRESHNESS, BY_VALUE, BELIEVED)}
    checks = _columns(connection, CHECKS, look)
    found = Checks(
        checks["page"].astype(np.int64), checks["days"].astype(np.float64), checks["changed"].astype(np.bool_)
    )
    age, value = pages["age"].astype(np.float64), pages["value"].astype(np.float64)
    equal = still_equal(found, pages["number"].astype(np.int64), age, (look.prior_a, look.prior_b))
    believed = still_equal_as_believed(pages["a"].astype(np.float64), pages["b"].astype(np.float64), age)
    everyone = np.ones(len(age))
    return {
        FRESHNESS.name: _mean(equal, everyone),
        BY_VALUE.name: _mean(equal, np.maximum(value, 0.0)),
        BELIEVED.name: _mean(believed, everyone),
    }


def still_equal_as_believed(
    a: NDArray[np.float64], b: NDArray[np.float64], age: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(b/(b + age))^a: a Gamma(a, b) belief's probability of no change for `age` days."""
    result: NDArray[np.float64] = np.exp(-a * np.log1p(np.maximum(age, 0.0) / b))
    return result


def _mean(share: NDArray[np.float64], weight: NDArray[np.float64]) -> Value:
    total = float(weight.sum())
    fresh = float(share @ weight)
    return Value(fresh / total if total > 0 else None, fresh, total)


def _columns(connection: duckdb.DuckDBPyConnection, sql: str, look: Look) -> dict[str, Any]:
    return {name: np.asarray(column) for name, column in run(connection, sql, look).fetchnumpy().items()}
