"""From a seed to a web: hosts with names and addresses, their sites, and who links to whom.

Nothing is arranged for one seed: every strong horizon host gets its independent supporters by construction.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from crawl_platform.simulation import chance
from crawl_platform.simulation.host import NAMELESS, Host, Ports
from crawl_platform.simulation.page import Link, Position
from crawl_platform.simulation.roster import HORIZON, TRUSTED, Row
from crawl_platform.simulation.sites.farm import Farm
from crawl_platform.simulation.sites.mirror import Mirror
from crawl_platform.simulation.sites.moved import Moved
from crawl_platform.simulation.sites.site import Ground, Site
from crawl_platform.simulation.words import TOPICS, hostname

_SECURE_SHARE = 0.25
"""Share of hosts that speak TLS."""
_OPEN = {"forum": (2, "ugc nofollow"), "blog": (2, ""), "news": (1, "ugc")}
"""Kinds of trusted hosts with user content: how many farm hosts strangers advertise there, with which rel."""
_HONEST_TOPICS = tuple(t for t in TOPICS if t != "bargains")


@dataclass(frozen=True, slots=True)
class Planned:
    row: Row
    host: Host


def build(seed: int, ground: Ground, scale: float, ports: Ports) -> dict[str, Site]:
    """All sites by host name, linked."""
    planned = list(_hosts(seed, scale, ports))
    sites = _sites(planned, ground)
    _link(seed, planned, sites)
    return sites


def _hosts(seed: int, scale: float, ports: Ports) -> Iterator[Planned]:
    names: set[str] = set()
    block = 0
    for number, row in enumerate((*TRUSTED, *HORIZON)):
        for i in range(max(row.least, round(row.count * scale))):
            rng = chance.rng(seed, "host", number, i)
            if not row.shared or i == 0:
                block += 1
            name = _name(row, i, rng, names)
            names.add(name)
            yield Planned(row, _host(seed, row, name, _address(seed, row, block, i), rng, scale, ports))


def _name(row: Row, i: int, rng: random.Random, taken: set[str]) -> str:
    if row.role == "trusted":
        return f"{row.kind}-{i + 1}.test"
    topic = "bargains" if row.role == "farm" else rng.choice(_HONEST_TOPICS)
    while (name := hostname(rng, topic)) in taken:
        pass
    return name


def _address(seed: int, row: Row, block: int, i: int) -> str:
    """A /24 of its own per host; farms crowd into one, tenants into one address."""
    net = 16 + chance.key(seed, "net") % 200
    if row.role == "farm":
        return f"127.{net}.250.{9 if row.shared else 10 + i}"
    return f"127.{net + block // 250}.{block % 250}.7"


def _host(
    seed: int, row: Row, name: str, address: str, rng: random.Random, scale: float, ports: Ports
) -> Host:
    resolves = row.traits.get("fault") not in NAMELESS
    return Host(
        name=name,
        kind=row.kind,
        role=row.role,
        address=address if resolves else "",
        ports=ports,
        pages=max(1, round(rng.randint(*row.pages) * min(1.0, scale))),
        popularity=rng.lognormvariate(0.0, 1.0),
        topic="bargains" if row.role == "farm" else rng.choice(_HONEST_TOPICS),
        scheme="https" if not row.shared and rng.random() < _SECURE_SHARE else "http",
        **row.traits,
    )


def _sites(planned: Sequence[Planned], ground: Ground) -> dict[str, Site]:
    sites: dict[str, Site] = {}
    for p in planned:
        if p.row.family is Mirror:
            sites[p.host.name] = Mirror(p.host, ground, sites["manual-1.test"])
        elif p.row.family is Moved:
            sites[p.host.name] = Moved(p.host, ground, sites["plain-1.test"])
        else:
            sites[p.host.name] = p.row.family(p.host, ground)
    farms = tuple(s for s in sites.values() if isinstance(s, Farm))
    for farm in farms:
        farm.accomplices = tuple(f for f in farms if f is not farm)
    return sites


def _link(seed: int, planned: Sequence[Planned], sites: dict[str, Site]) -> None:
    """Hand every site its links to others."""
    edges = sorted(set(_edges(seed, planned)))
    by_source: dict[str, list[str]] = {}
    for source, target in edges:
        by_source.setdefault(source, []).append(target)
    for source, targets in by_source.items():
        _place_links(seed, sites[source], [sites[t] for t in targets])
    _hijack(seed, planned, sites)


def _edges(seed: int, planned: Sequence[Planned]) -> Iterator[tuple[str, str]]:
    supporters = [p.host for p in planned if p.row.supporter]
    horizon = [p.host for p in planned if p.row.role in ("honest-horizon", "weak-horizon")]
    for p in planned:
        name, role = p.host.name, p.row.role
        rng = chance.rng(seed, "edges", name)
        if role in ("honest-horizon", "gone-horizon"):
            count = 2 + min(5, int(p.host.popularity))
            yield from ((s.name, name) for s in _choose(rng, supporters, count))
        elif role == "weak-horizon":
            yield (rng.choice(supporters).name, name)
        elif role == "remote-horizon":
            yield from ((s.name, name) for s in _choose(rng, horizon, 3))
        elif role == "trusted":
            others = [s for s in supporters if s.name != name]
            yield from ((s.name, name) for s in _choose(rng, others, 2))
        if role in ("honest-horizon", "weak-horizon"):
            others = [h for h in (*horizon, *supporters) if h.name != name]
            yield from ((name, h.name) for h in _choose(rng, others, 4))


def _choose(rng: random.Random, hosts: Sequence[Host], count: int) -> Iterable[Host]:
    """`count` distinct hosts, the popular ones more often (Efraimidis & Spirakis 2006)."""
    return sorted(hosts, key=lambda h: rng.random() ** (1 / h.popularity), reverse=True)[:count]


def _place_links(seed: int, site: Site, targets: Sequence[Site]) -> None:
    """Every target gets one link on a hub (so within two clicks of the root), and may be cited elsewhere."""
    hubs = site.hubs()
    placed: dict[str, list[Link]] = {}
    citations: list[Link] = []
    for target in targets:
        rng = chance.rng(seed, "link", site.host.name, target.host.name)
        anchor = f"{target.host.name.removesuffix('.test')} on {target.host.topic}"
        if hubs:
            position: Position = "aside" if rng.random() < 0.25 else "main"
            link = Link(target.host.url(rng.choice(target.entries())), anchor, position)
            placed.setdefault(rng.choice(hubs), []).append(link)
        citations.append(Link(target.host.url(rng.choice(target.entries())), anchor))
    site.outward = {path: tuple(links) for path, links in placed.items()}
    site.citations = tuple(citations)


def _hijack(seed: int, planned: Sequence[Planned], sites: dict[str, Site]) -> None:
    """Strangers advertise farms in the comments of trusted hosts: some marked ugc, on one kind not at all."""
    farms = [p.host for p in planned if p.row.role == "farm"]
    for p in planned:
        if p.row.role != "trusted" or p.row.kind not in _OPEN:
            continue
        rng = chance.rng(seed, "hijack", p.host.name)
        count, rel = _OPEN[p.row.kind]
        sites[p.host.name].injected = tuple(
            Link(farm.url(rng.choice(("/", "/p/1"))), "best bonus offer", "comments", rel)
            for farm in rng.sample(farms, count)
        )
