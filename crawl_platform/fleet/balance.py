"""Which shards are heavy, and which moves would even out what cells have to do. Numbers in, moves out.

What weighs is what was fetched lately: a shard costs its cell requests and pages, however many URLs wait in it.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from crawl_platform.clock import as_datetime
from crawl_platform.lake.lake import Lake

LATELY = timedelta(hours=1)
LEAST_GAIN = 0.1
"""Part of a cell's fair share by which the fullest cell must become lighter: a move costs some seconds of rest."""
HEAVY = 0.5
"""Part of a cell's fair share. Two such shards fill a cell, and no table of others evens that out."""
FETCHED = (
    "SELECT shard, count(*) AS fetches FROM fetches WHERE date >= $1::DATE AND started_at > $1 GROUP BY shard"
)


def fetched_lately(lake: Lake, now: float) -> dict[int, int]:
    """Fetches of the last hour by shard, as the lake has them; shards without any are left out. `now`: UTC seconds."""
    rows = lake.query(FETCHED, [as_datetime(now) - LATELY]).to_pylist()
    return {row["shard"]: row["fetches"] for row in rows}


def heavy_shards(loads: Mapping[int, float], cells: int) -> list[int]:
    """Those that alone are `HEAVY` of what a cell would have if all had the same; the heaviest first. Of one cell
    none is: there is nothing to even out."""
    fair = sum(loads.values()) / max(cells, 1)
    found = [shard for shard, load in loads.items() if cells > 1 and load > HEAVY * fair]
    return sorted(found, key=lambda shard: -loads[shard])


def evened_out(owners: Mapping[int, str], loads: Mapping[int, float], cells: Sequence[str]) -> dict[int, str]:
    """Moves (shard → cell) after which no cell of `cells` has much more than another. Shards without load count for
    little, so that those are even, too, and a cell that has nothing gets its part.

    From the fullest cell the heaviest shard that makes it lighter without making the emptiest as full, again and again.
    """
    total = sum(loads.values())
    least = max(total, 1.0) / max(len(owners), 1) / 10
    weights = {shard: loads.get(shard, 0.0) + least for shard in owners}
    holds = {cell: {shard for shard, owner in owners.items() if owner == cell} for cell in cells}
    worth = 1.5 * least if not total else LEAST_GAIN * sum(weights.values()) / len(cells)
    moves: dict[int, str] = {}
    for _ in owners:
        by_weight = sorted(cells, key=lambda cell: sum(weights[shard] for shard in holds[cell]))
        empty, full = by_weight[0], by_weight[-1]
        gap = sum(weights[s] for s in holds[full]) - sum(weights[s] for s in holds[empty])
        fitting = [shard for shard in holds[full] if weights[shard] < gap and len(holds[full]) > 1]
        if not fitting or (gap <= worth and holds[empty]):
            break
        shard = min(fitting, key=lambda one: (abs(gap / 2 - weights[one]), one))
        holds[full].remove(shard)
        holds[empty].add(shard)
        moves[shard] = empty
    return {shard: cell for shard, cell in moves.items() if owners[shard] != cell}
