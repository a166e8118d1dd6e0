"""The link graph kept by what changes: `python -m bench.link_graph [--json] [--links 5000000] [--share 0.01]`.

A made-up crawl is written into a lake as the fleet does it: pages with 40 links each, 30 % of them to other hosts by a
power law, a host per 100 links, a tenth of them read. Then more comes: pages with `--share` as many links, half of them
pages that had other links before, and as many visits that find nothing new.

For the graph of hosts and for that of pages, each step has a process of its own, one after the other: a full build of
what was there at first, the update by what has come since (`--rounds` times, from the same state), and a full build of
everything. Steps read the lake and keep their arrays as the assets do. Told are CPU seconds (all threads), seconds by
the clock, and the peak of memory; the update's CPU time is compared with the second full build's, and their arrays
with each other.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.ranks import FIRST, context, verdict
from crawl_platform.lake.arrays import GRAPHS
from crawl_platform.lake.delta import STAGED, DeltaWriter, write_parquet
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES

Ints = NDArray[np.int64]

LINKS_PER_PAGE, LINKS_PER_HOST, READ, OUTSIDE = 40, 100, 0.1, 0.3
PAGES_AT_ONCE = 10_000
PATHS = 500
"""Different addresses that a host's links name, at most."""
BEGUN = datetime(2026, 1, 5, tzinfo=UTC)
MOST_SHARE = 0.05
"""Of a full build's time, for an update by a hundredth."""
GRAPHS_KEPT = ("hosts", "pages")
STEPS = ("full", "update", "again")


class MadeUpLake:
    """Writes rounds of the committer into `lake`."""

    def __init__(self, lake: Lake, links: int) -> None:
        self.lake, self.random = lake, np.random.default_rng(1)
        count = max(links // LINKS_PER_HOST, 10)
        numbers = self.random.permutation(count)
        self.hosts = pa.array([f"{'www.' * (n % 3 == 0)}site-{n}.example" for n in numbers.tolist()])
        self.pages = max(links // LINKS_PER_PAGE, 10)
        self.page_host = self._places(self.pages, max(int(count * READ), 2), 2)
        self.sets = np.zeros(self.pages, np.int64)
        self.fetches = self.rounds = 0

    def _places(self, count: int, among: int, power: int) -> Ints:
        """Drawn by a power law."""
        low, high = FIRST ** (1 / power), (among + FIRST) ** (1 / power)
        drawn = (low + self.random.random(count) * (high - low)) ** power - FIRST
        found: Ints = np.minimum(drawn.astype(np.int64), among - 1)
        return found

    def visit(self, pages: Ints, *, changed: bool) -> None:
        """Rounds in which these pages are read; `changed`: they show other links than before."""
        for begin in range(0, len(pages), PAGES_AT_ONCE):
            part = pages[begin : begin + PAGES_AT_ONCE]
            ids = np.arange(self.fetches, self.fetches + len(part))
            self.fetches += len(part)
            if changed:
                self.sets[part] = ids
            self._commit(
                {"fetches": self._fetches(part, ids), "links": self._links(part, ids) if changed else None}
            )

    def _times(self, ids: Ints) -> pa.Array:
        return pa.array(ids * 100_000 + int(BEGUN.timestamp() * 1e6)).cast(pa.timestamp("us", "UTC"))

    def _fetches(self, pages: Ints, ids: Ints) -> pa.Table:
        host = self.hosts.take(pa.array(self.page_host[pages]))
        known = {
            "fetch_id": _ids(ids), "url": _urls(host, pages), "host": host, "kind": "page", "lane": "discovery",
            "outcome": "ok", "started_at": self._times(ids), "link_set": _ids(self.sets[pages]), "shard": 0,
            "cell": "cell-0", "incarnation": "made-up", "manifest": 1, "series": "bulk",
        }  # fmt: skip
        return _filled("fetches", known, len(pages))

    def _links(self, pages: Ints, ids: Ints) -> pa.Table:
        n = len(pages) * LINKS_PER_PAGE
        src = np.repeat(self.page_host[pages], LINKS_PER_PAGE)
        away = self.random.random(n) < OUTSIDE
        dst = np.where(away, self._places(n, len(self.hosts), 4), src)
        to = self.hosts.take(pa.array(dst))
        source = pa.array(np.repeat(np.arange(len(pages)), LINKS_PER_PAGE))
        host = self.hosts.take(pa.array(self.page_host[pages]))
        places = pa.array(["main", "nav", "footer", "comments"])
        known = {
            "fetch_id": _ids(ids).take(source), "src_url": _urls(host, pages).take(source),
            "src_host": host.take(source), "dst_url": _urls(to, self._places(n, PATHS, 4)), "dst_host": to,
            "position": places.take(pa.array(self.random.choice(4, n, p=[0.5, 0.3, 0.15, 0.05]))),
            "nofollow": pa.array(self.random.random(n) < 0.05), "anchor": "read more",
            "seen_at": self._times(ids).take(source), "cell": "cell-0",
        }  # fmt: skip
        return _filled("links", known, n)

    def _commit(self, tables: dict[str, pa.Table | None]) -> None:
        self.rounds += 1
        versions = {}
        for name, rows in tables.items():
            table, root = TABLES[name], self.lake.path(name)
            files = (
                [] if rows is None else [write_parquet(table, rows, root / STAGED / f"{self.rounds}.parquet")]
            )
            versions[name] = DeltaWriter(root, table).commit(files, {"made-up/bulk": self.rounds}, {})
        self.versions = versions

    def publish(self, number: int) -> None:
        """The version vector, once: a row of `commits` per round would only cost time here."""
        row = {
            "commit_id": number, "committed_at": BEGUN + timedelta(days=number), "manifests": ["made-up"],
            "versions": list(self.versions.items()), "quarantined": [], "rows": [], "date": BEGUN.date(),
        }  # fmt: skip
        self.lake.append("commits", pa.Table.from_pylist([row], schema=TABLES["commits"].schema))


def _ids(numbers: Ints) -> pa.Array:
    return pc.binary_join_element_wise("01JB-", pa.array(numbers + 10**9).cast(pa.string()), "")


def _urls(hosts: pa.Array, numbers: Ints) -> pa.Array:
    section, page = pa.array(numbers % 17).cast(pa.string()), pa.array(numbers).cast(pa.string())
    return pc.binary_join_element_wise(
        "https://", hosts, "/section-", section, "/an-article-", page, ".html", ""
    )


def _filled(name: str, known: dict[str, Any], count: int) -> pa.Table:
    """Rows with these columns, single values repeated, and nothing in the others."""
    given = {**known, "date": BEGUN.date()}
    columns = []
    for field in TABLES[name].schema:
        value = given.get(field.name)
        made = value if isinstance(value, pa.Array) else pa.repeat(pa.scalar(value, field.type), count)
        columns.append(made.cast(field.type))
    return pa.table(columns, schema=TABLES[name].schema)


def write_lake(root: Path, links: int, share: float) -> list[dict[str, int]]:
    """The lake, and its versions before and after the news."""
    lake = Lake(root)
    lake.create(8)
    made = MadeUpLake(lake, links)
    new = max(int(made.pages * share), 2)
    made.visit(np.arange(made.pages - new // 2), changed=True)
    made.publish(1)
    before = made.versions
    again = made.random.choice(made.pages - new // 2, new - new // 2 + new, replace=False)
    made.visit(np.append(np.arange(made.pages - new // 2, made.pages), again[new:]), changed=True)
    made.visit(again[:new], changed=False)
    made.publish(2)
    return [before, made.versions]


def step(graph: str, name: str, root: Path, versions: dict[str, int]) -> dict[str, Any]:
    """One step in this process: the state beside the lake is gone on from, or not."""
    from crawl_platform.graph.host_links import warm
    from resources import host_graph, page_graph

    warm()
    kept = host_graph if graph == "hosts" else page_graph
    lake, begun, cpu = Lake(root), time.monotonic(), time.process_time()
    refreshed: Any = kept.refresh(lake, versions, anew="" if name == "update" else "a step of the benchmark")
    read = time.process_time()
    kept.keep(lake, refreshed)
    return {
        "graph": graph,
        "step": name,
        "anew": refreshed.news.anew,
        "links_read": refreshed.links,
        "cpu_s": round(time.process_time() - cpu, 2),
        "of_it_to_keep_s": round(time.process_time() - read, 2),
        "wall_s": round(time.monotonic() - begun, 2),
        "peak_mb": round(_peak_mb()),
        **_sizes(refreshed.graph),
    }


def _sizes(graph: Any) -> dict[str, int]:
    layers = (
        (graph.edges.base, graph.edges.top) if hasattr(graph, "edges") else (graph.sets.base, graph.sets.top)
    )
    sizes = [len(layer.pair if hasattr(layer, "pair") else layer.target) for layer in layers]
    names = {name: len(getattr(graph, name)) for name in ("hosts", "pages") if hasattr(graph, name)}
    return {**names, "arcs": sizes[0], "arcs_that_changed": sizes[1]}


def _peak_mb() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(graph: str, name: str, root: Path, versions: dict[str, int]) -> dict[str, Any]:
    """`step` in a process of its own: its peak is nobody else's."""
    os.sync()  # what was copied before is not written out at the step's expense
    command = [
        sys.executable,
        "-m",
        "bench.link_graph",
        "--graph",
        graph,
        "--step",
        name,
        "--root",
        str(root),
    ]
    done = subprocess.run([*command, "--versions", json.dumps(versions)], check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare(folder: Path, links: int, share: float, rounds: int) -> dict[str, Any]:
    root = folder / "lake"
    before, after = write_lake(root, links, share)
    return {
        "links": links,
        "lake_mb": round(sum(path.stat().st_size for path in root.rglob("*.parquet")) / 2**20),
        **{graph: compare_graph(folder, graph, before, after, rounds) for graph in GRAPHS_KEPT},
    }


def compare_graph(
    folder: Path, graph: str, before: dict[str, int], after: dict[str, int], rounds: int
) -> dict[str, Any]:
    root, state, kept, other = folder / "lake", folder / "lake" / GRAPHS, folder / "kept", folder / "other"
    first = apart(graph, "full", root, before)
    shutil.copytree(state, kept)
    updates = []
    for _ in range(rounds):
        shutil.rmtree(state)
        shutil.copytree(kept, state)
        updates.append(apart(graph, "update", root, after))
    (other / "lake").mkdir(parents=True)
    shutil.copytree(state, other / "lake" / GRAPHS)
    again = apart(graph, "again", root, after)
    best = min(updates, key=lambda told: float(told["cpu_s"]))
    found = {
        "steps": [first, best, again],
        "state_mb": round(sum(path.stat().st_size for path in state.rglob("*.*")) / 2**20),
        "arrays_that_differ": list(differences(graph, Lake(other / "lake"), Lake(root))),
        "verdict": verdict("CPU time of a full build's", best["cpu_s"] / again["cpu_s"], MOST_SHARE),
        "clock_of_a_full_builds": round(best["wall_s"] / again["wall_s"], 4),
    }
    for used in (state, kept, other):
        shutil.rmtree(used)
    return found


def differences(graph: str, one: Lake, other: Lake) -> Iterator[str]:
    """Arrays that the states of two lakes don't have in common, layers laid together."""
    from resources import host_graph, page_graph

    found: list[Any] = [(host_graph if graph == "hosts" else page_graph).load(lake) for lake in (one, other)]
    graphs = [loaded[0] for loaded in found]
    layered = [name for name in ("sets", "edges") if hasattr(graphs[0], name)]
    for name in layered:
        whole = [getattr(graph, name).whole() for graph in graphs]
        for column in (
            "page",
            "host",
            "moment",
            "link_set",
            "ends",
            "target",
            "pair",
            "counts",
            "first",
            "last",
        ):
            if hasattr(whole[0], column) and not np.array_equal(*(getattr(w, column) for w in whole)):
                yield f"{name}.{column}"
    # A page that nothing links to any more leaves only with a full build.
    for name in ("hosts", "pages"):
        if hasattr(graphs[0], name):
            mine, full = (getattr(graph, name) for graph in graphs)
            place, known = mine.places(full.keys)
            if not known.all() or not np.array_equal(mine.ids[place], full.ids):
                yield name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--links", type=int, default=5_000_000)
    parser.add_argument("--share", type=float, default=0.01, help="of the links that come anew")
    parser.add_argument("--rounds", type=int, default=3, help="updates, of which the least counts")
    parser.add_argument("--graph", choices=GRAPHS_KEPT, help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--versions", type=json.loads, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.step:
        print(json.dumps(step(chosen.graph, chosen.step, chosen.root, chosen.versions)))
        return
    with tempfile.TemporaryDirectory(prefix="bench-link-graph-") as folder:
        told = {"context": context(), **compare(Path(folder), chosen.links, chosen.share, chosen.rounds)}
    print(json.dumps(told) if chosen.json else "\n".join(f"{key}: {json.dumps(told[key])}" for key in told))


if __name__ == "__main__":
    main()
