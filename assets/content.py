"""Group `content`: what pages say: clusters of pages that say (nearly) the same.

The thresholds and how they were calibrated are in docs/decisions/0010-duplicate-thresholds.md. A page that says
what another one says is worth a fifth of itself to the crawl; the page known longest keeps its value. Values are
sent before the table is written, and only those that differ from what the table said: a run that dies between
the two sends them again, and a repeated run sends nothing.
"""

from collections import Counter
from datetime import timedelta
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.content_comparison import Compared, compare
from assets.plots import histogram, markdown_table
from crawl_platform.duplicates.duplicate_clusters import Member, unlike
from crawl_platform.fleet.messages import Worth
from crawl_platform.lake.tables import NEAR_DUPLICATES
from resources.fleet import FleetResource
from resources.lake import LakeResource, Reading, version_metadata

GROUP = "content"
OWNERS = ["team:crawl"]
INPUTS = ("pages", "fetches", "hosts")
DUPLICATE_SHARE = 0.2
"""What is left of the value of a page that says what another one says: it may come to differ."""
MANY_HOSTS = 5
"""A cluster of texts that are merely similar is looked at by a person if it spans more hosts than this."""
SHOWN_CLUSTERS = 15
CLUSTER_COLUMNS = ("stands for the cluster", "pages", "hosts", "least alike", "others")

VALUES = """
SELECT url, arg_min(value, started_at)::DOUBLE AS value FROM fetches
WHERE kind = 'page' AND value IS NOT NULL AND url IN (SELECT unnest(?::VARCHAR[])) GROUP BY url
"""
TOLD = "SELECT url, value, worth FROM near_duplicates"


@dg.asset(
    deps=["pages", "fetches", "hosts"],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=dg.FreshnessPolicy.time_window(
        fail_window=timedelta(days=3), warn_window=timedelta(hours=30)
    ),
    check_specs=[
        dg.AssetCheckSpec(
            "one_cluster_per_page",
            asset="near_duplicates",
            blocking=True,
            description="No page is in two clusters, and each cluster has one representative and two pages or more.",
        ),
        dg.AssetCheckSpec(
            "members_are_alike",
            asset="near_duplicates",
            blocking=True,
            description="Each page has the text of another page of its cluster, or one similar enough, word for word.",
        ),
        dg.AssetCheckSpec(
            "few_hosts_without_equal_text",
            asset="near_duplicates",
            description="No cluster of merely similar texts spans many hosts: that would be a template, not a text.",
        ),
    ],
)
def near_duplicates(lake: LakeResource, fleet: FleetResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: a page of a cluster of pages that say (nearly) the same, and the page that stands for the cluster.
    Pages that say nothing, ask not to be indexed or are gone are left out."""
    store = lake.open()
    with lake.read(*INPUTS, also=("near_duplicates",)) as reading:
        compared = compare(reading)
        told = {row["url"]: row for row in reading.rows(TOLD)}
        rows = _rows(compared.members, _values(reading, compared.members, told))
    checks = [_one_cluster_per_page(rows), _members_are_alike(compared), _few_hosts(rows)]
    news = appraisals(rows, told)
    if all(check.passed for check in checks[:2]):
        if news:
            fleet.client().appraise(news)
        store.overwrite("near_duplicates", rows, reading.inputs)
    version = store.version("near_duplicates")
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "near_duplicates", version, reading.inputs),
            **compared.counts,
            **_summary(rows),
            "values_told": len(news),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=checks,
    )


def _values(reading: Reading, members: list[Member], told: dict[str, Any]) -> dict[str, float]:
    """Value of each member by itself. One that was told before is not asked again: its fetches may be gone."""
    urls = [member.page.url for member in members]
    values = {row["url"]: row["value"] for row in reading.rows(VALUES, [urls])}
    return values | {
        url: told[url]["value"] for url in urls if url in told and told[url]["value"] is not None
    }


def _rows(members: list[Member], values: dict[str, float]) -> pa.Table:
    rows = []
    for member in members:
        page, value = member.page, values.get(member.page.url)
        share = 1.0 if member.is_representative else DUPLICATE_SHARE
        rows.append(
            {
                "cluster_id": member.cluster_id,
                "url": page.url,
                "host": page.host,
                "fetch_id": page.fetch_id,
                "representative": member.representative,
                "is_representative": member.is_representative,
                "kind": member.kind,
                "similarity": member.similarity,
                "words": member.words,
                "size": member.size,
                "value": value,
                "worth": None if value is None else share * value,
            }
        )
    return pa.Table.from_pylist(rows, schema=NEAR_DUPLICATES.schema)


def appraisals(rows: pa.Table, told: dict[str, Any]) -> list[Worth]:
    """What the fleet has to hear: new duplicates are worth less, and what is none any more is worth its own value.

    `told` has the table's rows before, by URL: what the fleet heard last.
    """
    now = {row["url"]: row for row in rows.to_pylist()}
    news = [
        Worth(url, row["worth"], _why(row))
        for url, row in now.items()
        if row["worth"] is not None and row["worth"] != _heard(told.get(url), row["value"])
    ]
    freed = [
        Worth(url, row["value"], "no duplicate any more")
        for url, row in sorted(told.items())
        if url not in now and row["value"] is not None and row["worth"] != row["value"]
    ]
    return [*news, *freed]


def _heard(before: dict[str, Any] | None, value: float) -> float:
    """What the fleet believes a page is worth: its own value, unless it was told another."""
    heard: float | None = before["worth"] if before else None
    return value if heard is None else heard


def _why(row: dict[str, Any]) -> str:
    if row["is_representative"]:
        return "the page that stands for its duplicates"
    return f"duplicate of {row['representative']}"


def _summary(rows: pa.Table) -> dict[str, Any]:
    by_cluster: dict[str, list[dict[str, Any]]] = {}
    for row in rows.to_pylist():
        by_cluster.setdefault(row["cluster_id"], []).append(row)
    largest = sorted(by_cluster.values(), key=lambda members: (-len(members), members[0]["representative"]))
    return {
        "clusters": len(by_cluster),
        "pages_in_clusters": rows.num_rows,
        "pages_with_equal_text": sum(kind == "exact" for kind in rows["kind"].to_pylist()),
        "hosts_in_clusters": len(set(rows["host"].to_pylist())),
        "cluster_sizes": histogram(
            "Clusters by number of pages", "pages", [len(members) for members in largest], of="clusters"
        ),
        "largest_clusters": markdown_table(
            CLUSTER_COLUMNS, [_cluster_row(members) for members in largest[:SHOWN_CLUSTERS]]
        ),
    }


def _cluster_row(members: list[dict[str, Any]]) -> list[object]:
    others = [row["url"] for row in members if not row["is_representative"]]
    least = min(row["similarity"] for row in members)
    hosts = len({row["host"] for row in members})
    shown = ", ".join(others[:2]) + (", …" if len(others) > 2 else "")
    return [members[0]["representative"], len(members), hosts, f"{least:.2f}", shown]


def _one_cluster_per_page(rows: pa.Table) -> dg.AssetCheckResult:
    urls = rows["url"].to_pylist()
    sizes = Counter(rows["cluster_id"].to_pylist())
    leaders = Counter(row["cluster_id"] for row in rows.to_pylist() if row["is_representative"])
    odd = [name for name, size in sizes.items() if size < 2 or leaders[name] != 1]
    return dg.AssetCheckResult(
        check_name="one_cluster_per_page",
        passed=len(urls) == len(set(urls)) and not odd,
        metadata={"pages_in_several_clusters": len(urls) - len(set(urls)), "odd_clusters": len(odd)},
    )


def _members_are_alike(compared: Compared) -> dg.AssetCheckResult:
    wrong = unlike(compared.members, compared.texts)
    return dg.AssetCheckResult(
        check_name="members_are_alike", passed=not wrong, metadata={"texts_that_are_alone": len(wrong)}
    )


def _few_hosts(rows: pa.Table) -> dg.AssetCheckResult:
    hosts: dict[str, set[str]] = {}
    for row in rows.to_pylist():
        if row["kind"] == "near":
            hosts.setdefault(row["representative"], set()).add(row["host"])
    wide = sorted(name for name, found in hosts.items() if len(found) > MANY_HOSTS)
    return dg.AssetCheckResult(
        check_name="few_hosts_without_equal_text",
        passed=not wide,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"clusters": dg.MetadataValue.json(wide[:SHOWN_CLUSTERS])},
    )


ASSETS = (near_duplicates,)
