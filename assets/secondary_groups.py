"""Group `change_rates`: groups that overlap those of the path templates, by what pages say they are and where links to
them stand.

A page has one primary group, its template, which carries prior and allocation. Beside it there are the types that its
content declares (JSON-LD), and the positions of links that lead to it (nav, main, footer; sitemap and feed, which list
it). Such a group tells what its template does not: that offers change daily wherever they stand. Ids are hashes of the
names, and so the same for ever; a host has as many groups as `MOST` says, those with most pages.
"""

from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.automation import DAILY
from assets.change_rates import CHECKS_PER_PAGE, PAGES, PAGES_PER_GROUP, rates_of
from crawl_platform.clock import DAY
from crawl_platform.lake.tables import SECONDARY_GROUPS
from crawl_platform.scheduling.templates import group_id
from resources.lake import LakeResource, Reading, version_metadata

INPUTS = ("fetches", "links", "pages")
MOST = 12
"""Groups of one host and kind: a site declares a handful of types, and links stand in nine positions."""

MEMBERS = f"""
CREATE OR REPLACE TEMP TABLE member AS
WITH {PAGES}, named AS (
    SELECT url, 'type' AS kind, unnest(list_distinct(entity_types)) AS name FROM pages_now
    UNION ALL
    SELECT DISTINCT dst_url, 'position', position FROM links_now WHERE position IS NOT NULL
), sized AS (
    SELECT p.host, n.kind, n.name FROM named n JOIN page p ON p.url = n.url GROUP BY p.host, n.kind, n.name
    QUALIFY row_number() OVER (PARTITION BY p.host, n.kind ORDER BY count(*) DESC, n.name) <= {MOST}
)
SELECT p.host, n.kind, n.name, p.url, p.group_id, p.template, p.checks, p.changed
FROM named n JOIN page p ON p.url = n.url JOIN sized s ON s.host = p.host AND s.kind = n.kind AND s.name = n.name
"""
"""One row per page and group; a page may be in many."""

GROUPS = """
WITH shared AS (
    SELECT host, kind, name, group_id, arg_max(template, url) AS template, count(*) AS pages FROM member GROUP BY ALL
)
SELECT m.host, m.kind, m.name, count(*) AS pages, sum(m.checks)::BIGINT AS checks, sum(m.changed)::BIGINT AS changed,
    any_value(s.groups) AS primary_groups, any_value(s.template) AS primary_template,
    any_value(s.most) / count(*) AS primary_share
FROM member m JOIN (
    SELECT host, kind, name, count(*) AS groups, max(pages) AS most, arg_max(template, row(pages, template)) AS template
    FROM shared GROUP BY host, kind, name
) s ON s.host = m.host AND s.kind = m.kind AND s.name = m.name
GROUP BY m.host, m.kind, m.name ORDER BY m.host, m.kind, m.name
"""

CHECKS = f"""
WITH drawn AS (
    SELECT host, kind, name, url FROM member WHERE checks > 0
    QUALIFY row_number() OVER (PARTITION BY host, kind, name ORDER BY hash(url), url) <= {PAGES_PER_GROUP}
)
SELECT d.host, d.kind, d.name, d.url, f.changed,
    (epoch(f.started_at) - epoch(f.previous_success_at)) / {DAY} AS tau
FROM fetches f JOIN drawn d ON d.host = f.host AND d.url = f.url
WHERE f.kind = 'page' AND f.changed IS NOT NULL AND f.previous_success_at IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY d.host, d.kind, d.name, d.url ORDER BY f.started_at DESC) <= {CHECKS_PER_PAGE}
ORDER BY d.host, d.kind, d.name, d.url, f.started_at
"""


@dg.asset(
    deps=list(INPUTS),
    group_name="change_rates",
    owners=["team:crawl"],
    kinds={"delta", "python"},
    freshness_policy=DAILY,
    check_specs=[
        dg.AssetCheckSpec(
            "few_and_distinct",
            asset="secondary_groups",
            blocking=True,
            description=f"No host has more than {MOST} groups of a kind, and none has the number of another.",
        )
    ],
)
def secondary_groups(lake: LakeResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: pages of one host that declare one type, or to which links in one position lead, whatever their
    templates; with how often they change."""
    with lake.read(*INPUTS) as reading:
        rows = overlapping(reading)
    store = lake.open()
    version = store.overwrite("secondary_groups", rows, reading.inputs)
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "secondary_groups", version, reading.inputs),
            "hosts": len(set(rows["host"].to_pylist())),
            "types": int(np.sum(np.array(rows["kind"].to_pylist(), object) == "type")),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=[_few_and_distinct(rows)],
    )


def overlapping(reading: Reading) -> pa.Table:
    """Rows of `secondary_groups`; rates are null before the first check of any page."""
    reading.connection.execute(MEMBERS)
    groups = reading.table(GROUPS)
    numbers = _numbers(groups)
    checks = reading.table(CHECKS)
    rates = rates_of(
        groups.select(["host"]).append_column("group_id", numbers).append_column("template", groups["name"]),
        checks.select(["host", "url", "changed", "tau"]).append_column("group_id", _numbers(checks)),
    )
    known = {(row["host"], row["group_id"]): row for row in rates.to_pylist() if row["checks"]}
    found = [known.get(key, {}) for key in zip(groups["host"].to_pylist(), numbers.to_pylist(), strict=True)]
    columns: dict[str, Any] = {name: groups[name] for name in groups.column_names}
    columns |= {name: [row.get(name) for row in found] for name in ("rate", "rate_low", "rate_high")}
    columns["group_id"] = numbers
    ordered = {name: columns[name] for name in SECONDARY_GROUPS.schema.names}
    return pa.table(ordered, schema=SECONDARY_GROUPS.schema)


def _numbers(table: pa.Table) -> pa.Array:
    """Numbers of the groups that the rows name."""
    named = zip(*(table[name].to_pylist() for name in ("host", "kind", "name")), strict=True)
    return pa.array([group_id(host, f"{kind} {name}") for host, kind, name in named], pa.int32())


def _few_and_distinct(rows: pa.Table) -> dg.AssetCheckResult:
    by_kind = rows.group_by(["host", "kind"]).aggregate([("name", "count")])
    most = max(by_kind["name_count"].to_pylist(), default=0)
    repeated = rows.num_rows - rows.group_by(["host", "group_id"]).aggregate([]).num_rows
    return dg.AssetCheckResult(
        check_name="few_and_distinct",
        passed=most <= MOST and not repeated,
        metadata={"most_groups_of_a_kind": most, "repeated_numbers": repeated},
    )


ASSETS = (secondary_groups,)
