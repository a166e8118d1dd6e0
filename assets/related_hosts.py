"""Group `link_graph`: hosts that belong together because they share an address or a registrable domain.

Evidence for people who judge a promotion. The votes of related hosts are counted in `host_ranks` from the same
signals; a check holds the two against each other.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.automation import DAILY
from assets.plots import histogram, markdown_table
from crawl_platform.graph import independence
from crawl_platform.graph.relations import Related, related
from crawl_platform.lake.tables import RELATED_HOSTS
from crawl_platform.web.host import registrable_domain
from resources.lake import LakeResource, Reading, version_metadata

GROUP = "link_graph"
OWNERS = ["team:crawl"]
GRAPH_INPUTS = ("links", "fetches", "hosts")
SHOWN_COMPONENTS = 15
COMPONENT_COLUMNS = ("hosts", "for example", "share", "seed", "horizon", "excluded")

ADDRESSES = "SELECT host, arg_max(address, started_at) AS address FROM fetches WHERE address IS NOT NULL GROUP BY host"
KNOWN_HOSTS = """
SELECT src_host AS host FROM host_graph UNION SELECT dst_host FROM host_graph UNION SELECT host FROM hosts
ORDER BY host
"""
STATES = "SELECT host, state FROM hosts_now"


def labels_of(reading: Reading, hosts: Sequence[str]) -> dict[str, list[str]]:
    """What each host can be known by: its registrable domain and the address last connected to.

    Whole networks are not used: unrelated sites share the front ends of a few large providers.
    """
    address = {row["host"]: row["address"] for row in reading.rows(ADDRESSES)}
    labels = {}
    for host in hosts:
        domain = registrable_domain(host)
        labels[host] = [f"domain:{domain}"] if domain is not None else []
        if host in address:
            labels[host].append(f"address:{address[host]}")
    return labels


def numbered(labels: dict[str, list[str]]) -> list[list[int]]:
    """The same as arrays, one per kind of label: a number per host, in the order of `labels`."""
    number: dict[str, int] = {}
    kinds = ("domain:", "address:")
    return [
        [
            next(
                (number.setdefault(label, len(number)) for label in known if label.startswith(kind)),
                independence.UNKNOWN,
            )
            for known in labels.values()
        ]
        for kind in kinds
    ]


@dg.asset(
    deps=["link_graph", "hosts", "fetches"],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python"},
    freshness_policy=DAILY,
    check_specs=[
        dg.AssetCheckSpec(
            "components_are_whole",
            asset="related_hosts",
            blocking=True,
            description="No host is in two components, and each has as many hosts as it says, two at least.",
        ),
        dg.AssetCheckSpec(
            "components_agree_with_votes",
            asset="related_hosts",
            blocking=True,
            description="The hosts that stand here together are those that have one vote between them in the ranks.",
        ),
    ],
)
def related_hosts(lake: LakeResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: a host of a component of hosts that share an address or a registrable domain, directly or through
    others. Hosts that stand alone are left out."""
    store = lake.open()
    graph_version = store.version("host_graph")
    at = {"host_graph": graph_version, **store.inputs_of("host_graph", graph_version)}
    with lake.read("host_graph", *GRAPH_INPUTS, at=at) as reading:
        hosts = [row["host"] for row in reading.rows(KNOWN_HOSTS)]
        states = {row["host"]: row["state"] for row in reading.rows(STATES)}
        labels = labels_of(reading, hosts)
    found = related(labels)
    version = store.overwrite("related_hosts", _rows(found, states), reading.inputs)
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "related_hosts", version, reading.inputs),
            "hosts": len(hosts),
            **_summary(found, states),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=[_components_are_whole(found), _components_agree_with_votes(found, labels)],
    )


def _rows(found: list[Related], states: dict[str, str]) -> pa.Table:
    rows = [
        {**row._asdict(), "shared": list(row.shared), "state": states.get(row.host, "horizon")}
        for row in found
    ]
    return pa.Table.from_pylist(rows, schema=RELATED_HOSTS.schema)


def _summary(found: list[Related], states: dict[str, str]) -> dict[str, Any]:
    sizes = {row.component: row.size for row in found}
    return {
        "components": len(sizes),
        "hosts_that_are_related": len(found),
        "largest_component": max(sizes.values(), default=0),
        "component_sizes": histogram(
            "Components by number of hosts", "hosts", list(sizes.values()), of="components"
        ),
        "largest_components": markdown_table(COMPONENT_COLUMNS, _largest(found, states)),
    }


def _largest(found: list[Related], states: dict[str, str]) -> list[list[object]]:
    shown: dict[int, list[Related]] = {}
    for row in found:
        if row.component <= SHOWN_COMPONENTS:
            shown.setdefault(row.component, []).append(row)
    lines: list[list[object]] = []
    for rows in shown.values():
        state = Counter(states.get(row.host, "horizon") for row in rows)
        ties = Counter(label for row in rows for label in row.shared)
        common = ", ".join(f"{label} ({n})" for label, n in ties.most_common(2))
        examples = ", ".join(row.host for row in rows[:3]) + (", …" if len(rows) > 3 else "")
        lines.append([len(rows), examples, common, state["seed"], state["horizon"], state["excluded"]])
    return lines


def _components_are_whole(found: list[Related]) -> dg.AssetCheckResult:
    members = Counter(row.component for row in found)
    wrong = sorted({row.component for row in found if row.size != members[row.component] or row.size < 2})
    repeated = len(found) - len({row.host for row in found})
    return dg.AssetCheckResult(
        check_name="components_are_whole",
        passed=not wrong and not repeated,
        metadata={"odd_components": len(wrong), "hosts_in_several_components": repeated},
    )


def _components_agree_with_votes(found: list[Related], labels: dict[str, list[str]]) -> dg.AssetCheckResult:
    """Two ways to the same components: networkx here, scipy where votes are counted."""
    voters = independence.related_hosts(numbered(labels), len(labels))
    _, where, sizes = np.unique(voters, return_inverse=True, return_counts=True)
    together = {host: int(cluster) for host, cluster in zip(labels, where, strict=True) if sizes[cluster] > 1}
    pairs = {(row.component, together.get(row.host, -1)) for row in found}
    apart = len(pairs) - len({row.component for row in found})
    missing = len(together.keys() ^ {row.host for row in found})
    return dg.AssetCheckResult(
        check_name="components_agree_with_votes",
        passed=not apart and not missing and len(pairs) == len(set(together.values())),
        metadata={"components_split": apart, "hosts_in_one_only": missing},
    )
