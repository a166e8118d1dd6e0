"""Group `change_rates`: URL groups, how often their pages change, and the model behind cold groups.

All three stand on one version vector: what `change_rates` reads of `fetches` is what its groups were computed
from. Rates come from each page's checks, replayed under the prior of its group
(`crawl_platform/scheduling/group_prior.py`); the fleet hears of them with the next schedule window.
"""

from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.automation import DAILY
from assets.group_work import group_work
from assets.plots import histogram, ranges
from assets.reliability import of_predictions, reliability_summary, reliable
from assets.value_model import value_model
from crawl_platform.clock import DAY
from crawl_platform.lake.tables import CHANGE_RATES
from crawl_platform.scheduling.change_rate import bias_reduced_rate, naive_rate
from crawl_platform.scheduling.group_prior import Estimate, History, estimate, group_rates, of_a_new_page
from resources.lake import LakeResource, Reading, version_metadata

GROUP = "change_rates"
OWNERS = ["team:crawl"]
GROUP_INPUTS = ("fetches", "links", "frontier")

MOST_GROUPS = 500
"""Groups of one host: templates have at most 48 positions, and only some of them tell words apart."""
CHECKS_PER_PAGE = 200
"""The last checks of a page: what is older weighs next to nothing, since rates drift."""
PAGES_PER_GROUP = 2_000
"""Pages that a group's prior is estimated from, drawn by a hash: more would not move it."""
RECENT_CHECKS = 500
"""Checks that say whether predictions hold: those made after the priors were last told, in a crawl of any pace."""
RELIABLE_CHECKS = 5_000
"""Checks whose expectations are told apart by probability: enough for each tenth."""
TOLERANCE = 0.15
"""Part by which the changes that were expected may miss those that came, chance apart."""

PAGES = """
page AS (
    SELECT host, url, arg_max(group_id, started_at) AS group_id, arg_max(template, started_at) AS template,
        arg_max(depth, started_at) AS depth, count(duration_ms) AS timed, sum(duration_ms) AS fetch_ms,
        count(wire_bytes) AS weighed, sum(wire_bytes) AS wire_bytes, max(started_at) AS last_seen,
        count(*) FILTER (changed IS NOT NULL AND previous_success_at IS NOT NULL) AS checks,
        count(*) FILTER (changed AND previous_success_at IS NOT NULL) AS changed
    FROM fetches WHERE kind = 'page' AND group_id > 0 GROUP BY host, url
)
"""
"""A page belongs to the group of its last fetch: as a host is learnt, templates become more general."""

GROUPS = f"""
WITH {PAGES}, shown AS (
    SELECT dst_url AS url, count(*) AS links, count(*) FILTER (position = 'main') AS main
    FROM links_now GROUP BY dst_url
), known AS (SELECT host, group_id, count(*) AS urls FROM frontier_now GROUP BY host, group_id)
SELECT p.host, p.group_id, coalesce(arg_max(p.template, p.last_seen), '') AS template, count(*) AS pages,
    greatest(count(*), any_value(k.urls)) AS known_urls,
    sum(p.checks)::BIGINT AS checks, sum(p.changed)::BIGINT AS changed,
    avg(p.depth) AS depth, avg(coalesce(s.links, 0)) AS in_links,
    sum(s.main) / nullif(sum(s.links), 0) AS main_links,
    sum(p.fetch_ms) / nullif(sum(p.timed), 0) AS fetch_ms,
    sum(p.wire_bytes) / nullif(sum(p.weighed), 0) AS wire_bytes,
    min(p.url) AS example, max(p.last_seen) AS last_seen
FROM page p LEFT JOIN shown s ON s.url = p.url
LEFT JOIN known k ON k.host = p.host AND k.group_id = p.group_id
GROUP BY p.host, p.group_id ORDER BY p.host, p.group_id
"""

TOTALS = """
SELECT count(DISTINCT url) AS pages,
    count(*) FILTER (changed IS NOT NULL AND previous_success_at IS NOT NULL) AS checks,
    count(*) FILTER (changed AND previous_success_at IS NOT NULL) AS changed
FROM fetches WHERE kind = 'page' AND url IN (SELECT url FROM fetches WHERE kind = 'page' AND group_id > 0)
"""

CHECKS = f"""
WITH {PAGES}, drawn AS (
    SELECT host, url, group_id FROM page WHERE checks > 0
    QUALIFY row_number() OVER (PARTITION BY host, group_id ORDER BY hash(url), url) <= {PAGES_PER_GROUP}
)
SELECT d.host, d.group_id, d.url, f.changed,
    (epoch(f.started_at) - epoch(f.previous_success_at)) / {DAY} AS tau
FROM fetches f JOIN drawn d ON d.host = f.host AND d.url = f.url
WHERE f.kind = 'page' AND f.changed IS NOT NULL AND f.previous_success_at IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY d.host, d.url ORDER BY f.started_at DESC) <= {CHECKS_PER_PAGE}
ORDER BY d.host, d.group_id, d.url, f.started_at
"""

PREDICTED = f"""
SELECT predicted_change::DOUBLE AS chance, changed FROM fetches
WHERE kind = 'page' AND changed IS NOT NULL AND predicted_change IS NOT NULL
ORDER BY started_at DESC, fetch_id LIMIT {RELIABLE_CHECKS}
"""


@dg.asset(
    deps=["fetches", "links", "frontier"],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=DAILY,
    check_specs=[
        dg.AssetCheckSpec(
            "counts_add_up",
            asset="url_groups",
            blocking=True,
            description="Every page and every check is in exactly one group, and no group contradicts itself.",
        ),
        dg.AssetCheckSpec(
            "groups_have_a_template",
            asset="url_groups",
            blocking=True,
            description="A group that nobody can name is none.",
        ),
        dg.AssetCheckSpec(
            "few_groups_per_host",
            asset="url_groups",
            description=f"No host has more than {MOST_GROUPS} groups: templates would have failed to generalise.",
        ),
    ],
)
def url_groups(lake: LakeResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: a URL group, that is the pages of one host that share a path template, and what has been seen of
    them."""
    with lake.read(*GROUP_INPUTS) as reading:
        groups = reading.table(GROUPS)
        totals = reading.rows(TOTALS)[0]
    store = lake.open()
    version = store.overwrite("url_groups", groups, reading.inputs)
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "url_groups", version, reading.inputs),
            "groups": groups.num_rows,
            "hosts": len(set(groups["host"].to_pylist())),
            "pages_per_group": histogram("Groups by number of pages", "pages", groups["pages"], of="groups"),
            "dagster/column_lineage": _lineage(),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=[_counts_add_up(groups, totals), _have_a_template(groups), _few_groups(groups)],
    )


def _lineage() -> dg.TableColumnLineage:
    sources = {
        "template": ("fetches", "template"),
        "checks": ("fetches", "changed"),
        "changed": ("fetches", "changed"),
        "depth": ("fetches", "depth"),
        "fetch_ms": ("fetches", "duration_ms"),
        "wire_bytes": ("fetches", "wire_bytes"),
        "in_links": ("links", "dst_url"),
        "main_links": ("links", "position"),
        "known_urls": ("frontier", "group_id"),
    }
    return dg.TableColumnLineage(
        {name: [dg.TableColumnDep(dg.AssetKey(t), column)] for name, (t, column) in sources.items()}
    )


def _counts_add_up(groups: pa.Table, totals: dict[str, int]) -> dg.AssetCheckResult:
    sums = {name: int(groups[name].to_numpy().sum()) for name in ("pages", "checks", "changed")}
    pages, checks, changed, known = (
        groups[name].to_numpy() for name in ("pages", "checks", "changed", "known_urls")
    )
    contradicting = int(np.sum((changed > checks) | (known < pages) | (pages < 1)))
    repeated = groups.num_rows - groups.group_by(["host", "group_id"]).aggregate([]).num_rows
    return dg.AssetCheckResult(
        check_name="counts_add_up",
        passed=sums == totals and not contradicting and not repeated,
        metadata={
            **{f"{name}_in_groups": n for name, n in sums.items()},
            **{f"{name}_fetched": n for name, n in totals.items()},
            "contradicting_groups": contradicting,
            "repeated_groups": repeated,
        },
    )


def _have_a_template(groups: pa.Table) -> dg.AssetCheckResult:
    nameless = sum(not template for template in groups["template"].to_pylist())
    return dg.AssetCheckResult(
        check_name="groups_have_a_template", passed=nameless == 0, metadata={"without_template": nameless}
    )


def _few_groups(groups: pa.Table) -> dg.AssetCheckResult:
    by_host = groups.group_by("host").aggregate([("group_id", "count")])
    most = max(by_host["group_id_count"].to_pylist(), default=0)
    return dg.AssetCheckResult(
        check_name="few_groups_per_host",
        passed=most <= MOST_GROUPS,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"most_groups_of_a_host": most},
    )


@dg.asset(
    deps=["url_groups", "fetches"],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=DAILY,
    check_specs=[
        dg.AssetCheckSpec(
            "priors_are_proper",
            asset="change_rates",
            blocking=True,
            description="Every prior and rate is finite and above 0, and every rate lies in its interval.",
        ),
        dg.AssetCheckSpec(
            "predictions_hold",
            asset="change_rates",
            description="Of the last checks, about as many found a change as cells had thought they would.",
        ),
        dg.AssetCheckSpec(
            "reliable",
            asset="change_rates",
            description="In each tenth of the probability, as many checks found a change as cells had thought there.",
        ),
    ],
)
def change_rates(lake: LakeResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: how often the pages of one URL group change, as believed from each page's checks under the group's
    prior, with its interval, beside two classical estimates."""
    store = lake.open()
    groups_version = store.version("url_groups")
    at = {"url_groups": groups_version, **store.inputs_of("url_groups", groups_version)}
    with lake.read("url_groups", "fetches", at=at) as reading:
        rates = estimated_rates(reading)
        predicted = reading.table(PREDICTED)
    found = of_predictions(predicted)
    version = store.overwrite("change_rates", rates, reading.inputs)
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "change_rates", version, reading.inputs),
            **_rate_summary(rates),
            **reliability_summary(found),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=[
            _priors_are_proper(rates),
            _predictions_hold(predicted.slice(0, RECENT_CHECKS)),
            reliable(found),
        ],
    )


def estimated_rates(reading: Reading) -> pa.Table:
    """Rows of `change_rates`, by host and group; none before the first check of any page."""
    groups = reading.table("SELECT host, group_id, template FROM url_groups ORDER BY host, group_id")
    return rates_of(groups, reading.table(CHECKS))


def rates_of(groups: pa.Table, checks: pa.Table) -> pa.Table:
    """The same of any `groups` (host, group_id, template) and checks of their pages (rows as of `CHECKS`)."""
    if not checks.num_rows:
        return CHANGE_RATES.schema.empty_table()
    names = list(zip(groups["host"].to_pylist(), groups["group_id"].to_pylist(), strict=True))
    number = {name: g for g, name in enumerate(names)}
    of_check = np.array(
        [number[key] for key in zip(checks["host"].to_pylist(), checks["group_id"].to_pylist(), strict=True)]
    )
    # Rows are ordered by host, group and URL: a page ends where any of them changes.
    urls = np.array(checks["url"].to_pylist(), dtype=object)
    begins = np.concatenate(([True], (urls[1:] != urls[:-1]) | (of_check[1:] != of_check[:-1])))
    page, group = np.cumsum(begins) - 1, of_check[begins]
    tau = np.maximum(checks["tau"].to_numpy(), 0.0)
    changed = checks["changed"].to_numpy(zero_copy_only=False).astype(bool)
    found = estimate(History(page, tau, changed, len(group)), group, len(names))
    return _rows(groups, found, group, of_check, tau, changed)


def _rows(
    groups: pa.Table,
    found: Estimate,
    group: NDArray[np.int64],
    of_check: NDArray[np.int64],
    tau: NDArray[np.float64],
    changed: NDArray[np.bool_],
) -> pa.Table:
    n = groups.num_rows
    checks = np.bincount(of_check, minlength=n)
    changes = np.bincount(of_check, changed, n).astype(np.int64)
    interval = np.bincount(of_check, tau, n) / np.maximum(checks, 1)
    rates = group_rates(found, group)
    mean = found.prior_a / found.prior_b
    prior_a, prior_b = of_a_new_page(np.log(mean), found.doubt, found.prior_a)
    classical = [
        (bias_reduced_rate(c, x, t), naive_rate(c, x, t)) if c and t > 0 else (None, None)
        for c, x, t in zip(checks.tolist(), changes.tolist(), interval.tolist(), strict=True)
    ]
    columns = {
        **{name: groups[name] for name in ("host", "group_id", "template")},
        "pages": np.bincount(group, minlength=n),
        "checks": checks,
        "changed": changes,
        "unchanged": checks - changes,
        "prior_a": prior_a,
        "prior_b": prior_b,
        "rate": rates.mean,
        "rate_low": rates.low,
        "rate_high": rates.high,
        "cho_rate": [cho for cho, _ in classical],
        "naive_rate": [naive for _, naive in classical],
        "mean_interval": [t if c else None for c, t in zip(checks, interval, strict=True)],
    }
    return pa.table(columns, schema=CHANGE_RATES.schema)


def _rate_summary(rates: pa.Table) -> dict[str, Any]:
    seen = rates["checks"].to_numpy()
    return {
        "groups": rates.num_rows,
        "groups_never_checked": int(np.sum(seen == 0)),
        "checks": int(seen.sum()),
        "changed": int(rates["changed"].to_numpy().sum()),
        "rates": ranges(
            "Change rate of each group, with its 80 % interval",
            "checks",
            "changes per day",
            seen,
            *(rates[name].to_numpy() for name in ("rate", "rate_low", "rate_high")),
        ),
    }


def _priors_are_proper(rates: pa.Table) -> dg.AssetCheckResult:
    names = ("prior_a", "prior_b", "rate", "rate_high")
    values = np.array([rates[name].to_numpy() for name in names], np.float64)
    low, mean, high = (rates[name].to_numpy() for name in ("rate_low", "rate", "rate_high"))
    improper = int(np.sum(~np.isfinite(values) | (values <= 0)))
    # The mean of a belief with a long tail may lie above its 90th percentile, never below its 10th.
    outside = int(np.sum((mean < low) | (high < low)))
    return dg.AssetCheckResult(
        check_name="priors_are_proper",
        passed=not improper and not outside,
        metadata={"improper_values": improper, "rates_below_their_interval": outside},
    )


def _predictions_hold(predicted: pa.Table) -> dg.AssetCheckResult:
    chance = predicted["chance"].to_numpy()
    came = float(np.sum(predicted["changed"].to_numpy(zero_copy_only=False).astype(bool)))
    thought = float(chance.sum())
    by_chance = 3.0 * float(np.sqrt(np.sum(chance * (1 - chance))))
    return dg.AssetCheckResult(
        check_name="predictions_hold",
        passed=abs(thought - came) <= max(TOLERANCE * max(thought, came), by_chance),
        severity=dg.AssetCheckSeverity.WARN,
        description="" if len(chance) else "No page was fetched twice yet.",
        metadata={
            "checks": len(chance),
            "changes_expected": thought,
            "changes_found": came,
            "within_chance": by_chance,
        },
    )


ASSETS: tuple[dg.AssetsDefinition, ...] = (url_groups, change_rates, value_model, group_work)
