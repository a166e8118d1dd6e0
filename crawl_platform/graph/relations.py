"""Hosts that belong together, as evidence for people: components of a graph of hosts and what they share.

The votes of related hosts are counted on arrays (`independence.py`): at 100,000 hosts scipy needs 8 ms where
networkx needs half a second. Here a component keeps its names and what ties it together.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import networkx as nx


class Related(NamedTuple):
    """A host of a component; `component` 1 is the largest, `size` counts its hosts, `shared` says what this host
    has in common with others, like address:192.0.2.1 or domain:example.org."""

    component: int
    host: str
    size: int
    shared: tuple[str, ...]


def related(labels: Mapping[str, Sequence[str]]) -> list[Related]:
    """Hosts in components of two or more, by component and name. `labels` has what each host can be known by."""
    graph: nx.Graph[tuple[str, str]] = nx.Graph()
    graph.add_edges_from(
        (("host", host), ("label", label)) for host in sorted(labels) for label in labels[host]
    )
    found = [sorted(_hosts(component)) for component in nx.connected_components(graph)]
    together = sorted((hosts for hosts in found if len(hosts) > 1), key=lambda hosts: (-len(hosts), hosts))
    return [
        Related(number, host, len(hosts), _shared(graph, labels[host]))
        for number, hosts in enumerate(together, start=1)
        for host in hosts
    ]


def _hosts(component: Iterable[tuple[str, str]]) -> list[str]:
    return [name for kind, name in component if kind == "host"]


def _shared(graph: "nx.Graph[tuple[str, str]]", labels: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(label for label in labels if graph.degree[("label", label)] > 1))
