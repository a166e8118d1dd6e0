"""A campaign of kills: real processes, killed (-9) at moments and in an order drawn from one seed, while cells crawl.

python -m tests.fleet.campaign --kills 100 [--seed N] [--dagster]

Nothing is waited for between two kills but that there is somebody to kill: processes die while they start, while
others are down, twice in a row, the supervisor in the midst of starting them. `everything` is the machine: supervisor
and children at one moment. Afterwards whatever is promised has to hold; the seed repeats order and pauses.
"""

import os
import random
import shutil
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import click

from crawl_platform.cli.run import companions
from crawl_platform.settings import Api, Commit, Orchestration, Politeness
from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.testing.invariants import (
    Death,
    committed_is_kept,
    committed_once,
    fetches_match_log,
    links_have_fetches,
    polite,
    redo_is_bounded,
    robots_first,
)
from crawl_platform.web.host import shard_of
from tests.fleet.checks import (
    asked,
    assert_brought_home,
    assert_drained,
    assert_each_row_has_its_request,
    recorded,
)
from tests.fleet.harness import Fleet
from tests.fleet.sites import Plan, World, serve
from tests.fleet.state import CellState

CELLS = ("cell-0", "cell-1")
VICTIMS = (*CELLS, "committer", "nats", "supervisor", "everything")
SHARDS = 8
DELAY = 0.05
EPOCH = Commit(epoch_seconds=1.0, fast_seconds=0.3, stats_seconds=5.0)
CLOSING = 6.0
"""Seconds that a request in flight, staging and the synced write may take on a busy machine."""
TOLD = 40
"""Broken promises that are told."""
FINISH = 300.0
"""Seconds in which the crawl has to come to its end after the last kill: a child that died often waits for 30 s."""
HIDDEN = 12
"""Pages of each host that only a host of the other cell links to: they come through the inbox or never."""


@dataclass(frozen=True)
class Shape:
    """How long and how hard. `pause`: seconds between two kills. `pages`: of each of four hosts."""

    kills: int
    seed: int
    pages: int
    pause: tuple[float, float] = (0.1, 2.5)
    dagster: bool = False

    @property
    def victims(self) -> list[str]:
        """Each at least once, in an order drawn by chance."""
        names = [*VICTIMS, *(["dagster"] if self.dagster else [])]
        rng = random.Random(self.seed)
        drawn = [*names, *rng.choices(names, k=max(self.kills - len(names), 0))][: self.kills]
        rng.shuffle(drawn)
        return drawn


@dataclass
class Outcome:
    """What the campaign did to the fleet, and what it cost."""

    shape: Shape
    deaths: list[Death] = field(default_factory=list)
    killed: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    rows: int = 0
    surplus: int = 0
    after_last: int = 0
    """Requests after the last kill: the campaign didn't outlast the crawl."""
    seconds: float = 0.0
    """Of killing."""
    recovery: float = 0.0
    """Seconds from the last kill to the end of the crawl and a clean stop."""

    def __str__(self) -> str:
        kills = ", ".join(f"{name} {count}" for name, count in sorted(self.killed.items()))
        return (
            f"seed {self.shape.seed}: {self.killed.total()} kills ({kills}) in {self.seconds:.0f} s; "
            f"{self.requests} requests, {self.rows} rows, {self.surplus} requests without a row "
            f"({len(self.deaths)} deaths of cells), {self.after_last} requests after the last kill, "
            f"{self.recovery:.0f} s from there to a clean stop"
        )


def run(shape: Shape, folder: Path) -> Outcome:
    """Crawl, kill, let it come to its end, stop, and check every promise. Raises `AssertionError`."""
    sections = {
        "fleet": FleetSettings(cells=len(CELLS), shards=SHARDS),
        "commit": EPOCH,
        "politeness": Politeness(host_delay=DELAY, address_delay=DELAY),
        "api": Api(enabled=False),
        "orchestration": Orchestration(port=_free_port()),
    }
    outcome = Outcome(shape)
    try:
        with (
            serve(folder, *_plans(shape.pages)) as world,
            Fleet(folder / "home", world.web, **sections) as fleet,
        ):
            _crawl_and_kill(fleet, outcome)
            check(fleet, world, outcome)
    except BaseException as error:
        error.add_note(f"campaign of {outcome}")
        raise
    return outcome


def _crawl_and_kill(fleet: Fleet, outcome: Outcome) -> None:
    shape, rng = outcome.shape, random.Random(outcome.shape.seed)
    fleet.companions = companions(fleet.settings, dagster=shape.dagster)
    fleet.start()
    fleet.seed()
    fleet.wait_requests(20)
    begun = time.monotonic()
    for victim in shape.victims:
        time.sleep(rng.uniform(*shape.pause))
        _kill(fleet, victim, outcome)
    outcome.seconds = time.monotonic() - begun
    last = fleet.clock.boottime()
    fleet.wait_up()
    fleet.wait_quiet(FINISH)
    fleet.stop()
    outcome.recovery = fleet.clock.boottime() - last
    outcome.after_last = sum(1 for entry in fleet.requests() if entry.start_boot > last)


def _plans(pages: int) -> list[Plan]:
    """Two hosts of each cell; each has pages that only a host of the other cell links to."""
    hosts = [_host_of_cell(word, parity) for word in ("east", "west") for parity in (0, 1)]
    hidden = [f"x{number}.html" for number in range(1, HIDDEN + 1)]
    return [
        Plan(host, pages, hidden=HIDDEN, abroad=tuple((hosts[number ^ 1], page) for page in hidden))
        for number, host in enumerate(hosts)
    ]


def _host_of_cell(word: str, parity: int) -> str:
    """A host name whose shard is even (cell-0) or odd (cell-1)."""
    names = (f"{word}{n}.test" for n in range(100))
    return next(name for name in names if shard_of(name, SHARDS) % 2 == parity)


def _kill(fleet: Fleet, victim: str, outcome: Outcome) -> None:
    outcome.killed[victim] += 1
    if victim == "supervisor":
        fleet.kill_supervisor()
    elif victim == "everything":
        at = fleet.kill_everything()
        outcome.deaths += [
            _death(name, at, fleet.copy_of_state(name)) for name in CELLS if _has_state(fleet, name)
        ]
        fleet.process = fleet.spawn_supervisor()
    elif victim in CELLS:
        fleet.wait_up()
        state = fleet.kill_cell(victim)
        outcome.deaths.append(_death(victim, fleet.clock.boottime(), state))
    else:
        fleet.wait_up()
        fleet.kill(victim)


def _has_state(fleet: Fleet, name: str) -> bool:
    return (fleet.home / "cells" / name / "state").exists()


def _death(name: str, at: float, state: CellState) -> Death:
    return Death(name, at, state.incarnation, state.last)


def check(fleet: Fleet, world: World, outcome: Outcome) -> None:
    """Nothing lost, nothing doubled, nothing made up, nobody hurried, little done twice. Tells all that is broken."""
    log, fetches = fleet.requests(), fleet.fetches()
    outcome.requests, outcome.rows = len(log), len(fetches)
    outcome.surplus = (asked(log) - recorded(fetches)).total()
    violations = [
        *committed_once(fleet.lake),
        *committed_is_kept(fleet.lake, outcome.deaths),
        *links_have_fetches(fleet.lake),
        *fetches_match_log(fleet.lake, log, surplus=outcome.surplus),
        *redo_is_bounded(fleet.lake, log, outcome.deaths, EPOCH.epoch_seconds + CLOSING),
        *polite(log, DELAY),
        *robots_first(log),
    ]
    broken = [f"{one.invariant}: {one.detail}" for one in violations]
    broken += _failed(lambda: assert_each_row_has_its_request(log, fetches))
    broken += _failed(lambda: assert_brought_home(fleet, *world.sites.values()))
    broken += _failed(lambda: assert_drained(fleet))
    assert not broken, "\n".join([f"{len(broken)} broken promises:", *broken[:TOLD]])


def _failed(check: Callable[[], None]) -> list[str]:
    """What a check says when it fails."""
    try:
        check()
    except AssertionError as error:
        return [str(error)]
    return []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def new_seed() -> int:
    return int.from_bytes(os.urandom(4), "big")


@click.command()
@click.option("--kills", default=100, show_default=True, type=click.IntRange(1))
@click.option("--seed", type=int, help="Of an earlier campaign; a new one by default.")
@click.option(
    "--pages", default=1200, show_default=True, type=click.IntRange(1), help="Of each of four hosts."
)
@click.option("--dagster", is_flag=True, help="Run Dagster beside the fleet, and kill it too.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    help="Folder to leave everything in; else left only if it fails.",
)
def main(kills: int, seed: int | None, pages: int, dagster: bool, keep: Path | None) -> None:
    """Kill processes of a crawl at random and check that nothing is lost, doubled or rude."""
    shape = Shape(kills, new_seed() if seed is None else seed, pages, dagster=dagster)
    click.echo(f"seed {shape.seed}")
    folder = Path(tempfile.mkdtemp(prefix="campaign-")) if keep is None else keep
    folder.mkdir(parents=True, exist_ok=True)
    try:
        click.echo(str(run(shape, folder)))
    except BaseException as error:
        error.add_note(f"all of it is in {folder}")
        raise
    if keep is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
