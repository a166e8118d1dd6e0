"""Group `link_graph`: who links to whom, host by host, and what that says about each host.

All tables stand on one version vector: `host_ranks` and `related_hosts` read `hosts` and `fetches` at the versions
that the graph was computed from. Decisions taken from the ranks belong to `assets/promotion.py`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from assets.automation import DAILY
from assets.plots import histogram, rank_curve, trend
from assets.related_hosts import GRAPH_INPUTS, GROUP, OWNERS, labels_of, numbered, related_hosts
from crawl_platform.graph.harmonic import harmonic
from crawl_platform.graph.host_rank import HostRanks, rank_hosts
from crawl_platform.graph.independence import independent_support, support
from crawl_platform.graph.independence import related_hosts as clusters_of
from crawl_platform.graph.shape import Shape, shape
from crawl_platform.graph.spam import MOST_EXCESS, set_by_strangers
from crawl_platform.lake.tables import HOST_RANKS
from resources.host_graph import Refreshed, keep, refresh, table_of
from resources.lake import LakeResource, Reading, version_metadata

SAMPLE_SEED = 20_071
"""Harmonic centrality is sampled on large graphs: always the same sample, so that a re-run agrees."""

PROBATION_DAYS = 7
"""How long a promoted host is read, after it was promoted last, before it counts as a supporter of others."""

PAST_PROBATION = f"""
SELECT host FROM hosts WHERE event IN ('seeded', 'promoted') GROUP BY host
HAVING max(happened_at) <= (SELECT max(started_at) FROM fetches) - INTERVAL {PROBATION_DAYS} DAY
"""

RECOUNTED = 5_000_000
"""Rows of `links` up to which the sum over all edges is compared with a count in the database: some seconds."""
STANDING = """
SELECT count(*) FILTER (state = 'seed') AS seed_hosts, count(*) FILTER (state = 'excluded') AS excluded_hosts,
    coalesce(sum(known_urls) FILTER (state = 'seed'), 0)::BIGINT AS frontier_urls
FROM hosts_now
"""
LINKS_BETWEEN_HOSTS = "SELECT count(*) FROM links_now WHERE src_host <> dst_host"


class GraphConfig(dg.Config):
    """`anew`: read all links, not only what has come since the last run. The result is the same."""

    anew: bool = False


@dg.asset(
    deps=["links", "fetches", "hosts"],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=DAILY,
    check_specs=[
        dg.AssetCheckSpec(
            "links_have_their_fetch",
            asset="link_graph",
            blocking=True,
            description="Referential integrity: the fetch that showed a link is in the lake, for every new link.",
        ),
        dg.AssetCheckSpec(
            "edges_add_up",
            asset="link_graph",
            blocking=True,
            description="Every link between hosts is in exactly one edge, and no edge contradicts itself.",
        ),
    ],
)
def link_graph(lake: LakeResource, config: GraphConfig) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: a directed edge between two hosts, with the number of links that are shown now. The horizon is
    included: hosts that are linked to but have not been read. Only what is new of `links` and `fetches` is read."""
    store = lake.open()
    inputs, commit_id = store.vector(tables=GRAPH_INPUTS)
    refreshed = refresh(store, inputs, anew=_reason(config, commit_id))
    edges = table_of(refreshed.graph)
    checks = [_links_have_their_fetch(refreshed), _edges_add_up(edges, _expected(lake, refreshed, inputs))]
    with lake.read("hosts", at=inputs) as reading:
        standing = reading.rows(STANDING)[0]
    found = refreshed.graph.edges.whole().shown()
    looks = shape(found.src, found.dst, len(refreshed.graph.hosts))
    sizes = _sizes(looks, edges, standing)
    refreshed = replace(refreshed, graph=refreshed.graph.grown(**sizes))
    version = store.overwrite("host_graph", edges, inputs)
    if commit_id is not None and all(check.passed for check in checks):
        keep(store, refreshed)
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "host_graph", version, inputs),
            **sizes,
            **_pictures(looks, refreshed.graph.growth),
            "links_read": refreshed.links,
            "built": f"anew: {refreshed.news.reason}" if refreshed.news.anew else "from what has come",
            "dagster/column_lineage": _edge_lineage(),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=checks,
    )


def _reason(config: GraphConfig, commit_id: int | None) -> str:
    """Before the first round of the committer the tables don't agree with each other: nothing can go on from that."""
    if config.anew:
        return "it was asked for"
    return "there is no commit yet" if commit_id is None else ""


def _expected(lake: LakeResource, refreshed: Refreshed, inputs: dict[str, int]) -> int:
    """Links between hosts: summed over pages; of few they are counted in the database instead."""
    if lake.open().rows_and_bytes("links", inputs["links"])[0] > RECOUNTED:
        return refreshed.graph.links()
    with lake.read("links", "fetches", at=inputs) as reading:
        return reading.number(LINKS_BETWEEN_HOSTS)


def _links_have_their_fetch(refreshed: Refreshed) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name="links_have_their_fetch",
        passed=refreshed.orphans == 0,
        metadata={"links_without_fetch": refreshed.orphans, "links_read": refreshed.links},
    )


def _sizes(looks: Shape, edges: pa.Table, standing: dict[str, int]) -> dict[str, int]:
    """Of the graph, as Dagster draws them over time. The horizon: hosts that are linked to and were not read."""
    return {
        "hosts": len(looks.reach),
        "edges": edges.num_rows,
        "links": int(edges["links"].to_numpy().sum()),
        "horizon_hosts": int(np.sum(looks.leave == 0)),
        "components": len(looks.components),
        "largest_component": int(looks.components.max(initial=0)),
        **standing,
    }


def _pictures(looks: Shape, growth: Sequence[dict[str, int]]) -> dict[str, Any]:
    return {
        "in_links": histogram("Hosts by number of hosts that link to them", "linking hosts", looks.reach),
        "out_links": histogram(
            "Hosts by number of hosts that they link to", "linked hosts", looks.leave[looks.leave > 0]
        ),
        "component_sizes": histogram(
            "Components by number of hosts", "hosts", looks.components, of="components"
        ),
        **(_trends(growth) if len(growth) > 1 else {}),
    }


def _trends(growth: Sequence[dict[str, int]]) -> dict[str, Any]:
    moments = np.array([point["moment"] for point in growth], float)
    hours = (moments - moments.max()) / 3_600e6
    series = {name: [point[f"{name}_hosts"] for point in growth] for name in ("seed", "horizon")}
    edges, known = ([point[name] for point in growth] for name in ("edges", "frontier_urls"))
    return {
        "growth": trend("Hosts of the graph", "hosts", hours, series),
        "growth_of_edges": trend("Edges of the graph", "edges", hours, {"edges": edges}),
        "growth_of_the_frontier": trend("URLs known to the frontier", "URLs", hours, {"URLs": known}),
    }


def _edge_lineage() -> dg.TableColumnLineage:
    def links(column: str) -> list[dg.TableColumnDep]:
        return [dg.TableColumnDep(dg.AssetKey("links"), column)]

    return dg.TableColumnLineage(
        {
            "src_host": links("src_host"),
            "dst_host": links("dst_host"),
            "nofollow": links("nofollow"),
            "main": links("position"),
            "pages": links("src_url"),
            "first_seen": links("seen_at"),
            "last_seen": [dg.TableColumnDep(dg.AssetKey("fetches"), "started_at")],
        }
    )


def _edges_add_up(edges: pa.Table, expected: int) -> dg.AssetCheckResult:
    links, pages = edges["links"].to_numpy(), edges["pages"].to_numpy()
    nofollow, main, editorial = (edges[name].to_numpy() for name in ("nofollow", "main", "editorial"))
    pairs = edges.group_by(["src_host", "dst_host"]).aggregate([]).num_rows
    contradicting = int(
        np.sum(
            (pages > links)
            | (nofollow > links)
            | (main > links)
            | (editorial + nofollow > links)
            | (links <= 0)
        )
    )
    return dg.AssetCheckResult(
        check_name="edges_add_up",
        passed=bool(links.sum() == expected and pairs == edges.num_rows and contradicting == 0),
        metadata={
            "links_in_edges": int(links.sum()),
            "links_between_hosts": expected,
            "repeated_edges": edges.num_rows - pairs,
            "contradicting_edges": contradicting,
        },
    )


@dg.asset(
    deps=["link_graph", "hosts", "fetches"],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=DAILY,
    check_specs=[
        dg.AssetCheckSpec(
            "ranks_sum_to_one",
            asset="host_ranks",
            blocking=True,
            description="Trust and uniform rank are distributions: each sums to 1.",
        ),
        dg.AssetCheckSpec(
            "ranks_are_finite",
            asset="host_ranks",
            blocking=True,
            description="No rank is missing, infinite or negative, and each host is ranked once.",
        ),
    ],
)
def host_ranks(lake: LakeResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: a host in the last ranking, seed and horizon. Trust flows from the seed that operators chose, one
    vote per pair of hosts; the spam gate keeps out hosts whose links look like a link farm's."""
    store = lake.open()
    graph_version = store.version("host_graph")
    at = {"host_graph": graph_version, **store.inputs_of("host_graph", graph_version)}
    with lake.read("host_graph", *GRAPH_INPUTS, at=at) as reading:
        ranks = ranked_hosts(reading)
    version = store.overwrite("host_ranks", ranks, reading.inputs)
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "host_ranks", version, reading.inputs),
            **_rank_summary(ranks),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=[_ranks_sum_to_one(ranks), _ranks_are_finite(ranks)],
    )


def ranked_hosts(reading: Reading) -> pa.Table:
    """Rows of `host_ranks`, by host; none while no trusted host or no edge is known.

    Only edges with an editorial link vote: comments say what strangers want, marked as such or not. A host that
    was promoted lately passes trust on but is nobody's supporter: else one farm that got in would let in the rest.
    A host that was demoted has no vote.
    """
    edges = reading.table("SELECT * FROM host_graph ORDER BY src_host, dst_host")
    known = {row["host"]: row for row in reading.rows("SELECT host, state, trusted FROM hosts_now")}
    ends = [edges["src_host"], edges["dst_host"]]
    hosts = sorted({*known, *(host for end in ends for host in pc.unique(end).to_pylist())})
    states = [known[h]["state"] if h in known else "horizon" for h in hosts]
    trusted = np.array(
        [bool(h in known and known[h]["trusted"] and known[h]["state"] == "seed") for h in hosts]
    )
    if not trusted.any() or not edges.num_rows:
        return HOST_RANKS.schema.empty_table()
    every_src, every_dst = (pc.index_in(end, value_set=pa.array(hosts)).to_numpy() for end in ends)
    editorial = edges["editorial"].to_numpy()
    demoted = np.array([host in known and known[host]["state"] == "horizon" for host in hosts])
    votes = (editorial > 0) & ~demoted[every_src]
    src, dst, n = every_src[votes], every_dst[votes], len(hosts)
    ranks = rank_hosts(src, dst, editorial[votes], n, trusted)
    cluster = clusters_of(numbered(labels_of(reading, hosts)), n)
    has_standing = trusted | (_past_probation(reading, hosts) & (np.array(states) == "seed"))
    proven = has_standing[src]
    asked = has_standing[every_src]
    strangers = set_by_strangers(every_src[asked], every_dst[asked], editorial[asked] > 0, n)
    by_strangers = strangers.excess >= MOST_EXCESS
    columns = {
        "host": hosts,
        "state": states,
        "trusted": trusted,
        "trust": ranks.trust,
        "uniform": ranks.uniform,
        "spam_mass": ranks.spam_mass,
        "eligible": ranks.eligible & ~by_strangers,
        "support": support(src, dst, n),
        "independent_support": independent_support(src[proven], dst[proven], n, cluster),
        "harmonic": harmonic(src, dst, n, random=np.random.default_rng(SAMPLE_SEED)),
        "position": _positions(hosts, states, ranks),
        "per_supporter": ranks.per_supporter,
        "vouched": ranks.vouched,
        "doubt": ranks.doubt,
        "strangers": strangers.hosts,
        "by_strangers": by_strangers,
    }
    return pa.table(columns, schema=HOST_RANKS.schema)


def _past_probation(reading: Reading, hosts: list[str]) -> NDArray[np.bool_]:
    """Which hosts have been seed for long enough, by the time of the last fetch (so a re-run agrees)."""
    proven = {row["host"] for row in reading.rows(PAST_PROBATION)}
    return np.array([host in proven for host in hosts])


def _positions(hosts: list[str], states: list[str], ranks: HostRanks) -> list[int | None]:
    """1 = the most trusted horizon host, ties by name; None for others."""
    horizon = sorted(
        (i for i, s in enumerate(states) if s == "horizon"), key=lambda i: (-ranks.trust[i], hosts[i])
    )
    place = {i: position for position, i in enumerate(horizon, start=1)}
    return [place.get(i) for i in range(len(hosts))]


def _rank_summary(ranks: pa.Table) -> dict[str, Any]:
    trust, state = ranks["trust"].to_numpy(), np.array(ranks["state"].to_pylist(), dtype=str)
    eligible = np.array(ranks["eligible"].to_pylist(), dtype=bool)
    gated = (state == "horizon") & ~eligible
    series = {
        "seed": trust[state == "seed"],
        "horizon, eligible": trust[(state == "horizon") & eligible],
        "horizon, fails the gate": trust[gated],
    }
    return {
        "hosts": ranks.num_rows,
        "horizon_hosts": int(np.sum(state == "horizon")),
        "fail_the_spam_gate": int(np.sum(gated)),
        "rank_distribution": rank_curve("Trust by rank", series, {}),
    }


def _ranks_sum_to_one(ranks: pa.Table) -> dg.AssetCheckResult:
    sums = {name: float(ranks[name].to_numpy().sum()) for name in ("trust", "uniform")}
    return dg.AssetCheckResult(
        check_name="ranks_sum_to_one",
        passed=not ranks.num_rows or all(abs(total - 1.0) < 1e-6 for total in sums.values()),
        description=""
        if ranks.num_rows
        else "Nothing to rank yet: no trusted host, or no link between hosts.",
        metadata=sums,
    )


def _ranks_are_finite(ranks: pa.Table) -> dg.AssetCheckResult:
    values = np.array([ranks[name].to_numpy() for name in ("trust", "uniform", "harmonic")])
    wrong = int(np.sum(~np.isfinite(values) | (values < 0)))
    repeated = ranks.num_rows - len(set(ranks["host"].to_pylist()))
    return dg.AssetCheckResult(
        check_name="ranks_are_finite",
        passed=wrong == 0 and repeated == 0,
        metadata={"wrong_values": wrong, "hosts_ranked_twice": repeated},
    )


ASSETS = (
    link_graph,
    host_ranks,
    related_hosts,
)
