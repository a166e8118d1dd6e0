"""Group `content`: who links to whom page by page, and how important that makes each page of the seed.

The graph is kept as arrays beside the lake, by what has come (`resources/page_graph.py`); its ranks are a table, from
which `page_values` takes importance. Ranks by which hosts are promoted are those of hosts: `assets/link_graph.py`.
"""

from datetime import timedelta
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.plots import histogram, markdown_table, rank_curve
from crawl_platform.graph.page_links import MAIN, STRENGTHS, importance, linking, starts
from crawl_platform.graph.pagerank import pagerank
from crawl_platform.lake.tables import PAGE_RANKS
from resources.lake import LakeResource, version_metadata
from resources.page_graph import Arcs, PageGraph, Refreshed, keep, refresh, rows_of

GROUP = "content"
OWNERS = ["team:crawl"]
INPUTS = ("links", "fetches", "hosts", "host_ranks")
MOST_ROWS = 5_000_000
"""Pages that have a row, those that rank first: some 400 MB while they are written."""
RECOUNTED = 5_000_000
"""Rows of `links` up to which arcs are counted in the database too."""
SHOWN = 10
TOLERANCE = 1e-8

FOLLOWED = ", ".join(f"'{place}'" for place in STRENGTHS)
ARCS = f"""
SELECT count(*) FROM (SELECT DISTINCT src_url, dst_url FROM links_now
    WHERE NOT coalesce(nofollow, false) AND coalesce(position, 'other') IN ({FOLLOWED}))
"""
SEED = "SELECT host FROM hosts_now WHERE state = 'seed'"
TRUST = "SELECT host, trust FROM host_ranks WHERE trust > 0"

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dg.asset(
    deps=["links", "fetches", "hosts", "host_ranks"],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=dg.FreshnessPolicy.time_window(
        fail_window=timedelta(days=3), warn_window=timedelta(hours=30)
    ),
    check_specs=[
        dg.AssetCheckSpec(
            "arcs_are_whole",
            asset="page_ranks",
            blocking=True,
            description="Every arc leads to a known page, no page has one twice, and there are as many as links say.",
        ),
        dg.AssetCheckSpec(
            "ranks_are_shares",
            asset="page_ranks",
            blocking=True,
            description="Ranks are shares of one, importance lies between 0 and 1, and each page has one row.",
        ),
    ],
)
def page_ranks(lake: LakeResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: a page of a seed host, read or not, with its PageRank and its importance. Readers start at front pages
    by the trust of their hosts; links count by where they stand. Only what is new of `links` and `fetches` is read."""
    store = lake.open()
    inputs, commit_id = store.vector(tables=INPUTS)
    refreshed = refresh(store, inputs, anew="" if commit_id is not None else "there is no commit yet")
    with lake.read("hosts", "host_ranks", at=inputs) as reading:
        seed = reading.table(SEED)["host"].to_pylist()
        trust = {row["host"]: row["trust"] for row in reading.rows(TRUST)}
    arcs = refreshed.graph.arcs()
    rows, without = ranked_pages(refreshed.graph, arcs, seed, trust)
    checks = [_arcs_are_whole(lake, refreshed, arcs), _ranks_are_shares(rows)]
    if all(check.passed for check in checks):
        store.overwrite("page_ranks", rows, inputs)
        if commit_id is not None:
            keep(store, refreshed)
    version = store.version("page_ranks")
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "page_ranks", version, inputs),
            **_counts(refreshed, arcs),
            "pages_without_a_row": without,
            **_pictures(rows),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=checks,
    )


def _counts(refreshed: Refreshed, arcs: Arcs) -> dict[str, Any]:
    told = refreshed.news
    return {
        "pages_linked_to": int(np.count_nonzero(linking(arcs.target, len(refreshed.graph.pages)))),
        "pages_read": len(arcs.page),
        "arcs": len(arcs.target),
        "links_read": refreshed.links,
        "built": f"anew: {told.reason}" if told.anew else "from what has come",
    }


def _arcs_are_whole(lake: LakeResource, refreshed: Refreshed, arcs: Arcs) -> dg.AssetCheckResult:
    versions, target = dict(refreshed.news.versions), arcs.target
    strange = int(np.count_nonzero(target >= len(refreshed.graph.pages)))
    inside = np.ones(len(target), bool)
    inside[arcs.ends[np.diff(arcs.ends, prepend=0) > 0] - 1] = False
    repeated = int(np.count_nonzero(inside[:-1] & (target[1:] <= target[:-1])))
    expected = len(target)
    if lake.open().rows_and_bytes("links", versions["links"])[0] <= RECOUNTED:
        with lake.read("links", "fetches", at=versions) as reading:
            expected = reading.number(ARCS)
    return dg.AssetCheckResult(
        check_name="arcs_are_whole",
        passed=not strange and not repeated and expected == len(target),
        metadata={"arcs_to_nowhere": strange, "arcs_out_of_order": repeated, "arcs_expected": expected},
    )


def ranked_pages(
    graph: PageGraph, arcs: Arcs, seed: list[str], trust: dict[str, float]
) -> tuple[pa.Table, int]:
    """(rows of `page_ranks`, pages left out). Only pages of `seed` hosts pass rank on; `trust`: by host."""
    names = graph.hosts.texts.combine_chunks()
    is_seed = pc.is_in(names, value_set=pa.array(seed, names.type)).to_numpy(zero_copy_only=False)
    chosen = is_seed[graph.page_host] & _has_name(graph)
    read, host = arcs.page, arcs.host
    if not chosen.any() or not len(read) or not is_seed[host].any():
        return PAGE_RANKS.schema.empty_table(), 0
    trusts = np.array([trust.get(name, 0.0) for name in names.to_pylist()]) * is_seed
    jump = np.zeros(len(graph.pages))
    jump[read] = starts(graph.are_front(read), host, trusts) * is_seed[host]
    src, dst = arcs.sources(), arcs.target
    strength = arcs.strength * is_seed[graph.page_host[src]]
    ranks = pagerank(src, dst, len(graph.pages), teleport=jump, weights=strength, tol=TOLERANCE)
    ids = np.flatnonzero(chosen)
    important = importance(ranks[ids])
    order = np.argsort(-ranks[ids], kind="stable")[:MOST_ROWS]
    was_read = np.zeros(len(graph.pages), bool)
    was_read[read] = True
    shown = ids[order]
    columns = {
        **rows_of(graph, shown),
        "read": was_read[shown],
        "rank": ranks[shown],
        "importance": important[order],
        "in_links": linking(dst, len(graph.pages), strength > 0)[shown],
        "main_links": linking(dst, len(graph.pages), strength == MAIN)[shown],
    }
    return pa.table({n: columns[n] for n in PAGE_RANKS.schema.names}).cast(PAGE_RANKS.schema), len(ids) - len(
        order
    )


def _has_name(graph: PageGraph) -> Flags:
    """Not of a page that has left."""
    named = np.zeros(len(graph.pages), bool)
    named[graph.pages.ids] = True
    return named


def _pictures(rows: pa.Table) -> dict[str, Any]:
    rank, read = rows["rank"].to_numpy(), rows["read"].to_numpy(zero_copy_only=False).astype(bool)
    first = rows.slice(0, SHOWN).to_pylist()
    return {
        "rank_distribution": rank_curve(
            "Rank of pages of the seed",
            {"read": rank[read], "not read": rank[~read]},
            {},
            of="page",
            y="rank",
        ),
        "in_links": histogram(
            "Pages by number of pages that link to them",
            "linking pages",
            rows["in_links"].to_numpy(),
            of="pages",
        ),
        "most_important": markdown_table(
            ("page", "rank", "pages that link to it"),
            [[row["url"], f"{row['rank']:.2e}", row["in_links"]] for row in first],
        ),
    }


def _ranks_are_shares(rows: pa.Table) -> dg.AssetCheckResult:
    rank, important = rows["rank"].to_numpy(), rows["importance"].to_numpy()
    wrong = int(np.sum(~(np.isfinite(rank) & (rank >= 0))) + np.sum(~((important >= 0) & (important <= 1))))
    total, repeated = float(rank.sum()), rows.num_rows - pc.count_distinct(rows["url"]).as_py()
    return dg.AssetCheckResult(
        check_name="ranks_are_shares",
        passed=not wrong and not repeated and total <= 1.0 + 1e-6,
        metadata={"wrong_values": wrong, "repeated_pages": repeated, "sum": total},
    )
