"""Public graphs with known ranks, and a made-up web with a link farm."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

GRAPHS = Path(__file__).resolve().parents[3] / "shared" / "cases" / "graphs"
SUFFIX = ".shared.edges.tsv.gz"


def graph_names() -> list[str]:
    """Names of the public graphs; one placeholder that skips where they are absent."""
    return sorted(p.name.removesuffix(SUFFIX) for p in GRAPHS.glob(f"*{SUFFIX}")) or ["absent"]


def read_columns(path: Path) -> NDArray[np.float64]:
    return np.array(gzip.decompress(path.read_bytes()).split(), np.float64).reshape(-1, 2)


def read_graph(name: str) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    if name == "absent":
        pytest.skip("SHARED CASES ABSENT: graphs")
    nodes = {meta["name"]: meta["nodes"] for meta in json.loads((GRAPHS / "meta.shared.json").read_text())}
    arcs = read_columns(GRAPHS / f"{name}{SUFFIX}").astype(np.int64)
    return arcs[:, 0], arcs[:, 1], nodes[name]


def read_ranks(name: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    ranks = read_columns(GRAPHS / f"{name}.shared.pagerank085.tsv.gz")
    return ranks[:, 0].astype(np.int64), ranks[:, 1]


@dataclass
class Web:
    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    links: NDArray[np.int64]
    n: int
    trusted: NDArray[np.bool_]
    honest: NDArray[np.int64]
    farm: NDArray[np.int64]


def web_with_farms(seed: int, trusted: int = 60, honest: int = 400, farms: int = 5, pages: int = 200) -> Web:
    """Trusted hosts link to each other and to honest horizon hosts by popularity. Each farm is one target
    host, `pages` boosters that link to it in bulk, and a few links hijacked from trusted hosts."""
    random = np.random.default_rng(seed)
    popularity = 1.0 / np.arange(1, honest + 1)
    first_farm = trusted + honest
    n = first_farm + farms * (1 + pages)
    arcs: list[tuple[int, int, int]] = []
    for host in range(trusted):
        for target in random.choice(honest, 25, replace=False, p=popularity / popularity.sum()):
            arcs.append((host, trusted + int(target), int(random.integers(1, 20))))
        arcs += [(host, int(friend), 5) for friend in random.choice(trusted, 5, replace=False)]
    targets = first_farm + np.arange(farms) * (1 + pages)
    for target in targets.tolist():
        arcs += [(target + 1 + page, target, 50) for page in range(pages)]
        arcs += [(target, target + 1 + page, 1) for page in range(pages)]
        arcs += [(int(host), target, 1) for host in random.choice(trusted, 3, replace=False)]
    src, dst, links = np.array(arcs).T
    chosen = np.arange(n) < trusted
    return Web(src, dst, links, n, chosen, np.arange(trusted, first_farm), targets)
