"""Two cells and four hosts whose pages are linked across the cells: shards move, and what must hold then."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from crawl_platform.fleet.messages import ShardOwner
from crawl_platform.fleet.ordering import order_moves, read_table
from crawl_platform.settings import Commit
from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.testing.invariants import (
    committed_once,
    fetches_match_log,
    links_have_fetches,
    polite,
    robots_first,
)
from crawl_platform.web.host import shard_of
from tests.fleet.checks import assert_brought_home, assert_drained, surplus
from tests.fleet.harness import DELAY, Fleet, eventually, fetch_from
from tests.fleet.sites import Plan, World, serve

SHARDS = 8
EPOCH = Commit(epoch_seconds=0.4, fast_seconds=0.2, stats_seconds=5.0)
PAGES, HIDDEN = 150, 8
HOSTS = [
    next(f"{word}{n}.test" for n in range(100) if shard_of(f"{word}{n}.test", SHARDS) % 2 == parity)
    for word in ("east", "west")
    for parity in (0, 1)
]
"""Of cell-0, cell-1, cell-0, cell-1."""
SHARD = shard_of(HOSTS[0], SHARDS)


@contextmanager
def crossed(folder: Path, pages: int = PAGES, **sections: msgspec.Struct) -> Iterator[tuple[World, Fleet]]:
    """A fleet of two cells that is not started yet. Each host has pages that only a host of the other cell links to."""
    hidden = [f"x{number}.html" for number in range(1, HIDDEN + 1)]
    plans = [
        Plan(host, pages, hidden=HIDDEN, abroad=tuple((HOSTS[number ^ 1], page) for page in hidden))
        for number, host in enumerate(HOSTS)
    ]
    with serve(folder, *plans) as world:
        settings = {
            "fleet": FleetSettings(cells=2, shards=SHARDS),
            "commit": EPOCH,
            "fetch": fetch_from(world.web, total_timeout=5.0),
            **sections,
        }
        with Fleet(folder / "home", world.web, **settings) as fleet:
            yield world, fleet


def table(fleet: Fleet) -> dict[int, ShardOwner]:
    return read_table(fleet.home / "run" / "nats.json")


def order(fleet: Fleet, shard: int, cell: str) -> None:
    order_moves(fleet.home / "run" / "nats.json", {shard: cell})


def wait_moved(fleet: Fleet, shard: int, cell: str, within: float = 60.0) -> float:
    def there() -> bool:
        owner = table(fleet)[shard]
        return (owner.cell, owner.to) == (cell, "")

    return eventually(there, within, f"{cell} has shard {shard}", 0.05)


def assert_sound(fleet: Fleet, world: World) -> None:
    """Of a fleet that has come to its end and was stopped: nothing lost, doubled or made up, nobody hurried."""
    log = fleet.requests()
    extra = surplus(log, fleet.fetches()).total()
    broken = [
        *committed_once(fleet.lake),
        *links_have_fetches(fleet.lake),
        *fetches_match_log(fleet.lake, log, surplus=extra),
        *polite(log, DELAY),
        *robots_first(log),
    ]
    assert broken == [], "\n".join(f"{one.invariant}: {one.detail}" for one in broken[:20])
    assert_brought_home(fleet, *world.sites.values())
    assert_drained(fleet)
