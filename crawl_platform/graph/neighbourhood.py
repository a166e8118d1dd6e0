"""The neighbourhood of one host in the link graph, small enough to be looked at, and where to draw each host.

The host stands in the middle, around it its supporters, and outside these the hosts that belong together with one
of them and those that several of them link to.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import networkx as nx
import numpy as np

Link = tuple[str, str]

MOST_SUPPORTERS = 10
MOST_RELATIVES = 6
MOST_NEIGHBOURS = 10
"""With the host itself 27 names at most: more can't be read."""
SEED = 20_071
RINGS = ((0.0, 0.0), (1.25, 1.05), (2.8, 1.95))
"""Half widths and heights: names are wide."""


class Neighbourhood(NamedTuple):
    """`links` are (from, to) among the hosts shown, `kin` pairs that belong together; `places` has (x, y) of each host
    and `rings` 0 for the middle, 1 for supporters, 2 for the others."""

    centre: str
    links: list[Link]
    kin: list[Link]
    places: dict[str, tuple[float, float]]
    rings: dict[str, int]


def neighbourhood(
    centre: str, supporters: Sequence[str], links: Iterable[Link], kin: Mapping[str, Sequence[str]]
) -> Neighbourhood:
    """What to show around `centre`.

    `supporters` link to it, the most important first; `links` are those of and among the hosts around it, and `kin` has
    the hosts that a host belongs together with. The same arguments give the same picture.
    """
    inner = [host for host in supporters if host != centre][:MOST_SUPPORTERS]
    known = sorted({link for link in links if link[0] != link[1]})
    relatives = _relatives([centre, *inner], kin)
    outer = [*relatives, *_neighbours(known, {centre, *inner, *relatives}, {centre, *inner})]
    shown: nx.DiGraph[str] = nx.DiGraph()
    shown.add_nodes_from([centre, *inner, *outer])
    shown.add_edges_from(link for link in known if link[0] in shown and link[1] in shown)
    shown.add_edges_from((host, centre) for host in inner)
    tied = sorted((host, other) for host in [centre, *inner] for other in kin.get(host, ()) if other in shown)
    rings = {centre: 0} | dict.fromkeys(inner, 1) | dict.fromkeys(outer, 2)
    return Neighbourhood(
        centre, sorted(shown.edges), _once(tied), _places(shown.to_undirected(), tied, rings), rings
    )


def _relatives(hosts: Sequence[str], kin: Mapping[str, Sequence[str]]) -> list[str]:
    """Those of the host in the middle first."""
    others = dict.fromkeys(other for host in hosts for other in kin.get(host, ()) if other not in hosts)
    return list(others)[:MOST_RELATIVES]


def _neighbours(links: Sequence[Link], shown: set[str], inner: set[str]) -> list[str]:
    """Hosts that most of the inner ones link to or are linked from, ties by name."""
    weight = Counter(dst for src, dst in links if src in inner and dst not in shown)
    weight.update(src for src, dst in links if dst in inner and src not in shown)
    ranked = sorted(weight.items(), key=lambda item: (-item[1], item[0]))
    return [host for host, _ in ranked[:MOST_NEIGHBOURS]]


def _once(pairs: Sequence[Link]) -> list[Link]:
    return sorted({(min(pair), max(pair)) for pair in pairs})


def _places(
    graph: "nx.Graph[str]", tied: Sequence[Link], rings: Mapping[str, int]
) -> dict[str, tuple[float, float]]:
    """Rings around the middle. A spring layout says in which order hosts stand on a ring, so that lines are short;
    on it they stand at equal distances, so that names don't overlap."""
    graph.add_edges_from(tied)
    spring = nx.spring_layout(
        graph, seed=SEED, pos=_start(rings), fixed=[h for h, r in rings.items() if r == 0]
    )
    angle = {host: float(np.arctan2(y, x)) for host, (x, y) in spring.items()}
    places = {}
    for ring, (width, height) in enumerate(RINGS):
        hosts = sorted((h for h in rings if rings[h] == ring), key=lambda host: (angle[host], host))
        first = angle[hosts[0]] if hosts else 0.0
        for i, host in enumerate(hosts):
            turn = first + 2 * np.pi * i / len(hosts)
            places[host] = (float(width * np.cos(turn)), float(height * np.sin(turn)))
    return places


def _start(rings: Mapping[str, int]) -> dict[str, tuple[float, float]]:
    """The middle at the origin and the others around it, in the order given."""
    around = [host for host, ring in rings.items() if ring]
    turns = 2 * np.pi * np.arange(len(around)) / max(1, len(around))
    start = dict(zip(around, zip(np.cos(turns).tolist(), np.sin(turns).tolist(), strict=True), strict=True))
    return start | {host: (0.0, 0.0) for host, ring in rings.items() if not ring}
