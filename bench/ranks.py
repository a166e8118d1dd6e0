"""Ranks of hosts: `python -m bench.ranks [--json] [--hosts 1000000] [--edges 20000000] [--rounds 1] [--large]`.

A made-up power-law graph (in-degrees of exponent 2.33, out-degrees of exponent 3, hosts in random order) is written to
two files of 32-bit integers. Each contender maps them into a process of its own, with one thread: `ours` (ranks to 1e-8
in L1), igraph (its own tolerance; building its graph included) and networkx, which takes a graph of a twentieth of the
size. Contenders take turns, the least of the rounds counts. Time is CPU time of build and ranks; memory is the peak of
the whole process, with interpreter, libraries and the pages of the mapped files, which are told beside it.

`--large` ranks 20M hosts and 400M edges instead, and the graph of the given size for comparison: time per edge, and the
time of a fetch from a random place among as many values. Takes 5 GB in the temporary folder.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ends = NDArray[np.int32]

LARGE_HOSTS, LARGE_EDGES = 20_000_000, 400_000_000
NETWORKX_SHARE = 20
CHUNK = 2_000_000
TOLERANCE = 1e-8
MOST_TIME, MOST_MEMORY = 0.25, 0.3
"""Of igraph's."""
MOST_LARGE_GB, MOST_LARGE_TIME = 16.0, 2.0
FIRST = 10
"""The power law begins at the tenth host: no host has more than a few per cent of all links."""


def write_graph(folder: Path, hosts: int, edges: int, seed: int = 1) -> None:
    """Files `src` and `dst`. A host's chance to be an end falls with its place p: as p^-1/2 to link, p^-3/4 to be
    linked to. Degrees then have the exponent 1 + 1/that."""
    random = np.random.default_rng(seed)
    places = [random.permutation(hosts).astype(np.int32) for _ in range(2)]
    with (folder / "src").open("wb") as src, (folder / "dst").open("wb") as dst:
        for begin in range(0, edges, CHUNK):
            count = min(CHUNK, edges - begin)
            for file, place, power in ((src, places[0], 2), (dst, places[1], 4)):
                low, high = FIRST ** (1 / power), (hosts + FIRST) ** (1 / power)
                drawn = (low + random.random(count) * (high - low)) ** power - FIRST
                place[np.minimum(drawn.astype(np.int64), hosts - 1)].tofile(file)


def ours(src: Ends, dst: Ends, hosts: int) -> Any:
    from crawl_platform.graph.pagerank import pagerank

    return pagerank(src, dst, hosts, tol=TOLERANCE)


def igraph(src: Ends, dst: Ends, hosts: int) -> Any:
    from igraph import Graph

    return Graph(n=hosts, edges=np.column_stack([src, dst]).astype(np.int64), directed=True).pagerank()


def networkx(src: Ends, dst: Ends, hosts: int) -> Any:
    import networkx as nx

    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(hosts))
    graph.add_edges_from(zip(src.tolist(), dst.tolist(), strict=True))
    ranks = nx.pagerank(graph, tol=TOLERANCE / hosts)
    return [ranks[host] for host in range(hosts)]


CONTENDERS: dict[str, Callable[[Ends, Ends, int], Any]] = {
    "ours": ours,
    "igraph": igraph,
    "networkx": networkx,
}


def contend(name: str, folder: Path, hosts: int) -> dict[str, Any]:
    """What one contender took in this process; its ranks go to a file of its name."""
    src, dst = (np.memmap(folder / end, np.int32, "r") for end in ("src", "dst"))
    _import(name)
    before, begun, cpu = _peak_mb(), time.monotonic(), time.process_time()
    ranks = CONTENDERS[name](src, dst, hosts)
    told = {
        "contender": name,
        "hosts": hosts,
        "edges": len(src),
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.monotonic() - begun,
        "peak_mb": _peak_mb(),
        "of_it_before_mb": before,
        "of_it_input_mb": (src.nbytes + dst.nbytes) / 2**20,
        "fetch_ns": _fetch_ns(hosts),
    }
    np.save(folder / f"{name}.npy", np.asarray(ranks))
    return told


def _import(name: str) -> None:
    """Loading libraries and machine code isn't ranking."""
    from crawl_platform.graph.pagerank import warm

    few = np.array([0, 1], np.int32)
    warm() if name == "ours" else CONTENDERS[name](few, few[::-1].copy(), 2)


def _fetch_ns(hosts: int) -> float:
    """CPU time to fetch one of as many values as there are hosts, at random; least of three."""
    values, costs = np.ones(hosts), []
    places = np.random.default_rng(2).integers(0, hosts, 2_000_000, np.int32)
    held = np.empty(len(places))
    for _ in range(3):
        cpu = time.process_time()
        values.take(places, out=held, mode="clip")
        costs.append(time.process_time() - cpu)
    return min(costs) / len(places) * 1e9


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(name: str, folder: Path, hosts: int) -> dict[str, Any]:
    """`contend` in a process of its own, with one thread. A new interpreter: a fork would inherit the peak."""
    one = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    command = [sys.executable, "-m", "bench.ranks", "--contender", name, "--folder", str(folder)]
    command += ["--hosts", str(hosts)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, **one})
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def least(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    return min(rounds, key=lambda told: float(told["cpu_s"]))


def compare(folder: Path, hosts: int, edges: int, rounds: int) -> dict[str, Any]:
    write_graph(folder, hosts, edges)
    few = folder / "few"
    few.mkdir()
    write_graph(few, max(hosts // NETWORKX_SHARE, 2), max(edges // NETWORKX_SHARE, 1))
    taken: dict[str, list[dict[str, Any]]] = {"ours": [], "igraph": [], "networkx": [], "ours_few": []}
    for _ in range(rounds):
        for name in ("ours", "igraph"):
            taken[name].append(apart(name, folder, hosts))
        for key, name in (("networkx", "networkx"), ("ours_few", "ours")):
            taken[key].append(apart(name, few, max(hosts // NETWORKX_SHARE, 2)))
    best = {name: least(found) for name, found in taken.items()}
    mine, other = best["ours"], best["igraph"]
    return {
        "taken": list(best.values()),
        "l1_to_igraph": _distance(folder, "igraph"),
        "l1_to_networkx": _distance(few, "networkx"),
        "networkx_times_ours": best["networkx"]["cpu_s"] / best["ours_few"]["cpu_s"],
        "verdicts": [
            verdict("time of igraph's", mine["cpu_s"] / other["cpu_s"], MOST_TIME),
            verdict("peak memory of igraph's", mine["peak_mb"] / other["peak_mb"], MOST_MEMORY),
        ],
    }


def _distance(folder: Path, name: str) -> float:
    return float(np.abs(np.load(folder / "ours.npy") - np.load(folder / f"{name}.npy")).sum())


def compare_large(folder: Path, hosts: int, edges: int, rounds: int, share: float) -> dict[str, Any]:
    large = folder / "large"
    large.mkdir()
    write_graph(folder, hosts, edges)
    write_graph(large, round(LARGE_HOSTS * share), round(LARGE_EDGES * share))
    before = [apart("ours", folder, hosts) for _ in range(rounds)]
    big = apart("ours", large, round(LARGE_HOSTS * share))
    small = least([*before, *(apart("ours", folder, hosts) for _ in range(rounds))])
    per_edge = [told["cpu_s"] / told["edges"] for told in (small, big)]
    return {
        "taken": [small, big],
        "ns_per_edge": [cost * 1e9 for cost in per_edge],
        "fetch_times": big["fetch_ns"] / small["fetch_ns"],
        "verdicts": [
            verdict("GB at the peak", big["peak_mb"] / 1024, MOST_LARGE_GB),
            verdict("time per edge of the small graph's", per_edge[1] / per_edge[0], MOST_LARGE_TIME),
        ],
    }


def verdict(what: str, found: float, most: float) -> dict[str, Any]:
    return {"what": what, "found": round(found, 3), "at_most": most, "met": found <= most}


def context() -> dict[str, Any]:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(pages / 2**30, 1),
        "load": os.getloadavg(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--hosts", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--large", action="store_true", help="20M hosts, 400M edges")
    parser.add_argument(
        "--share", type=float, default=1.0, help="of them that --large takes, on a small machine"
    )
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.contender:
        print(json.dumps(contend(chosen.contender, chosen.folder, chosen.hosts)))
        return
    with tempfile.TemporaryDirectory(prefix="bench-ranks-") as folder:
        given = (Path(folder), chosen.hosts, chosen.edges, chosen.rounds)
        found = compare_large(*given, chosen.share) if chosen.large else compare(*given)
        told = {"context": context(), **found}
    print(json.dumps(told) if chosen.json else "\n".join(f"{key}: {json.dumps(told[key])}" for key in told))


if __name__ == "__main__":
    main()
