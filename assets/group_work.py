"""The asset `group_work`: the catalogue summed up by URL groups, once a day, so that no window has to look at URLs.

Pages of a group that are alike are one bucket: known ones by their change rate (steps of a factor of four), by their
age beside the interval after which a visit is worth its cost (less than half of it, less, up to twice, more), and by
value (a factor of sixteen); waiting ones by how long they have been known. Within a bucket moments are spread evenly
between the first and the last, and beliefs and values have their means. So a group has some dozens of buckets, be it of
a thousand pages or of ten million.
"""

from datetime import timedelta
from typing import Any

import dagster as dg
import pyarrow as pa

from crawl_platform.clock import DAY, Clock
from crawl_platform.frontier.lease import value_at
from crawl_platform.frontier.posterior import prior_of
from crawl_platform.lake.tables import GROUP_WORK
from crawl_platform.scheduling.change_rate import SMALLEST
from crawl_platform.settings import Refresh, Settings
from resources.lake import LakeResource, Reading, version_metadata

OWNERS = ["team:crawl"]
INPUTS = ("frontier", "change_rates", "cold_priors", "page_values")
MOST_BUCKETS = 100
"""Buckets of one group: 8 rates from once a year to once an hour, 4 ages and 3 values, did all of them occur in it."""

PRIOR = """
prior AS (
    SELECT host, group_id, prior_a, prior_b FROM cold_priors
    UNION ALL
    SELECT host, group_id, prior_a, prior_b FROM change_rates r ANTI JOIN cold_priors c USING (host, group_id)
)
"""
"""What is believed of a group's pages before they have a history."""

BELIEF = f"""
greatest(coalesce(q.prior_a, $prior_a) + da, {SMALLEST}) AS a,
greatest(coalesce(q.prior_b, $prior_b) + db, {SMALLEST} * coalesce(q.prior_b, $prior_b)) AS b
"""
"""Of a page with the increments `da` and `db`, with the prior of its group in `q`."""

WAIT = f"least(greatest({DAY} * b * (pow(1 - $least_change, -1 / a) - 1), $shortest), $longest)"
"""Seconds after which a visit is worth its cost."""

CATALOGUE = """
SELECT f.snapshot_at, f.shard, f.host, coalesce(f.group_id, 0) AS group_id,
    CASE f.state WHEN 'queued' THEN 'waiting' WHEN 'fetched' THEN 'known' ELSE 'over' END AS state,
    coalesce(v.told, f.value * CASE f.state WHEN 'queued' THEN coalesce(g.factor, 1) ELSE 1 END, $value)::DOUBLE
        AS value,
    coalesce(f.rate_a, 0)::DOUBLE AS da, coalesce(f.rate_b, 0)::DOUBLE AS db, epoch(f.snapshot_at) AS moment,
    coalesce(epoch(CASE f.state WHEN 'queued' THEN f.discovered_at ELSE f.last_success_at END), moment) AS since
FROM frontier_now f LEFT JOIN page_values v ON v.url = f.url
LEFT JOIN group_values g ON g.host = f.host AND g.group_id = f.group_id
WHERE coalesce(f.kind, 'page') = 'page'
"""
"""Each known URL. `value` of those that wait: what the fleet was told of each, or what its depth says times what the
group's read pages turned out to be worth beside that (`group_values`)."""


def bucketed(pages: str) -> str:
    """SQL: the buckets of the rows of the relation `pages`, which has the columns of `CATALOGUE`."""
    return f"""
    WITH {PRIOR}, belief AS (
        SELECT p.*, {BELIEF} FROM ({pages}) p LEFT JOIN prior q ON q.host = p.host AND q.group_id = p.group_id
    ), alike AS (
        SELECT *, state = 'known' AS known, {WAIT} AS wait,
            log2(greatest(moment - since, 1) / CASE WHEN known THEN wait ELSE 3600 END) AS age
        FROM belief
    )
    SELECT max(snapshot_at) AS snapshot_at, shard, host, group_id::INTEGER AS group_id, state, count(*) AS pages,
        avg(value) AS value, avg(da) AS rate_a, avg(db) AS rate_b,
        make_timestamptz((1e6 * min(since))::BIGINT) AS since_first,
        make_timestamptz((1e6 * max(since))::BIGINT) AS since_last
    FROM alike
    GROUP BY shard, host, group_id, state, CASE WHEN known THEN round(log2(a / b) / 2) END,
        CASE WHEN known THEN greatest(least(floor(age), 1), -2) WHEN state = 'waiting'
            THEN greatest(least(floor(age), 13), 0) END,
        CASE WHEN known THEN round(log2(greatest(value, 1e-6)) / 4) END
    """


SUMMARY = f"{bucketed(CATALOGUE)} ORDER BY shard, host, group_id, state, since_first, since_last, value"
TOTALS = "SELECT count(*) AS urls FROM frontier_now WHERE coalesce(kind, 'page') = 'page'"


def believed(refresh: Refresh) -> dict[str, Any]:
    """Parameters of these queries."""
    unknown = prior_of(refresh.prior_shape, refresh.prior_rate)
    return {
        "shortest": refresh.interval_min,
        "longest": refresh.interval_max,
        "least_change": refresh.least_change,
        "value": value_at(1),
        "prior_a": unknown.a,
        "prior_b": unknown.b,
    }


@dg.asset(
    deps=["frontier", "change_rates", "value_model", "page_values"],
    group_name="change_rates",
    owners=OWNERS,
    kinds={"delta", "duckdb"},
    freshness_policy=dg.FreshnessPolicy.time_window(
        fail_window=timedelta(hours=72), warn_window=timedelta(hours=36)
    ),
    check_specs=[
        dg.AssetCheckSpec(
            "all_urls_counted",
            asset="group_work",
            blocking=True,
            description="Every known URL of the last snapshots is in exactly one bucket.",
        ),
        dg.AssetCheckSpec(
            "few_buckets_per_group",
            asset="group_work",
            description=f"No group has more than {MOST_BUCKETS} buckets: windows would cost what pages cost.",
        ),
    ],
)
def group_work(
    lake: LakeResource, crawl_settings: dg.ResourceParam[Settings], clock: dg.ResourceParam[Clock]
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: pages of one URL group that are alike, in the last snapshot of their shard. All that windows know of
    URLs, beside what was fetched since."""
    with lake.read(*INPUTS) as reading:
        buckets = summed_up(reading, crawl_settings.refresh)
        urls = reading.number(TOTALS)
    store = lake.open()
    version = store.overwrite("group_work", buckets, reading.inputs)
    per_group = buckets.group_by(["host", "group_id"]).aggregate([("pages", "count"), ("pages", "sum")])
    oldest = min(buckets["snapshot_at"].to_pylist(), default=None)
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "group_work", version, reading.inputs),
            "urls": urls,
            "groups": per_group.num_rows,
            **({"oldest_snapshot_age_seconds": clock.now() - oldest.timestamp()} if oldest else {}),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=[_all_counted(buckets, urls), _few_buckets(per_group)],
    )


def summed_up(reading: Reading, refresh: Refresh) -> pa.Table:
    """Rows of `group_work`."""
    found = reading.connection.execute(SUMMARY, believed(refresh)).to_arrow_table()
    return found.select(GROUP_WORK.schema.names).cast(GROUP_WORK.schema)


def _all_counted(buckets: pa.Table, urls: int) -> dg.AssetCheckResult:
    counted = int(buckets["pages"].to_numpy().sum())
    return dg.AssetCheckResult(
        check_name="all_urls_counted",
        passed=counted == urls,
        metadata={"urls": urls, "urls_in_buckets": counted},
    )


def _few_buckets(per_group: pa.Table) -> dg.AssetCheckResult:
    most = max(per_group["pages_count"].to_pylist(), default=0)
    return dg.AssetCheckResult(
        check_name="few_buckets_per_group",
        passed=most <= MOST_BUCKETS,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"most_buckets_of_a_group": most},
    )
