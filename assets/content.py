"""Group `content`: what pages say: clusters of pages that say (nearly) the same.

The thresholds and how they were calibrated are in docs/decisions/0010-duplicate-thresholds.md. What duplicates are
worth is for `page_values` to say: the page known longest stands for the others and keeps its value. `watched_pages`
are those that keep leading to new ones.
"""

from collections import Counter
from datetime import timedelta
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.content_comparison import Compared, compare
from assets.page_ranks import page_ranks
from assets.page_values import page_values
from assets.plots import histogram, markdown_table
from assets.watched_pages import watched_pages
from crawl_platform.duplicates.duplicate_clusters import Member, unlike
from crawl_platform.lake.tables import NEAR_DUPLICATES
from resources.lake import LakeResource, version_metadata

GROUP = "content"
OWNERS = ["team:crawl"]
INPUTS = ("pages", "fetches", "hosts")
MANY_HOSTS = 5
"""A cluster of texts that are merely similar is looked at by a person if it spans more hosts than this."""
SHOWN_CLUSTERS = 15
CLUSTER_COLUMNS = ("stands for the cluster", "pages", "hosts", "least alike", "others")


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
def near_duplicates(lake: LakeResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: a page of a cluster of pages that say (nearly) the same, and the page that stands for the cluster.
    Pages that say nothing, ask not to be indexed or are gone are left out."""
    store = lake.open()
    with lake.read(*INPUTS) as reading:
        compared = compare(reading)
    rows = _rows(compared.members)
    checks = [_one_cluster_per_page(rows), _members_are_alike(compared), _few_hosts(rows)]
    if all(check.passed for check in checks[:2]):
        store.overwrite("near_duplicates", rows, reading.inputs)
    version = store.version("near_duplicates")
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "near_duplicates", version, reading.inputs),
            **compared.counts,
            **_summary(rows),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=checks,
    )


def _rows(members: list[Member]) -> pa.Table:
    rows = [
        {
            "cluster_id": member.cluster_id,
            "url": member.page.url,
            "host": member.page.host,
            "fetch_id": member.page.fetch_id,
            "representative": member.representative,
            "is_representative": member.is_representative,
            "kind": member.kind,
            "similarity": member.similarity,
            "words": member.words,
            "size": member.size,
        }
        for member in members
    ]
    return pa.Table.from_pylist(rows, schema=NEAR_DUPLICATES.schema)


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


ASSETS = (near_duplicates, page_ranks, page_values, watched_pages)
