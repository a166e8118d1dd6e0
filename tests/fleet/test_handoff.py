"""A shard that is handed from cell to cell, by every interleaving of steps, deaths, orders and news that is tried."""

import random
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet import handoff
from crawl_platform.fleet.handoff import Do, Held, next_step, ordered
from crawl_platform.fleet.messages import ShardOwner
from crawl_platform.frontier import shard_state
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.kv import Batch
from tests.fleet.handing import NAMES, Cell, World

CELLS = st.integers(0, len(NAMES) - 1)


class Handing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @rule(cell=CELLS)
    def order(self, cell: int) -> None:
        self.world.order(NAMES[cell])

    @rule(cell=CELLS, times=st.integers(1, 6))
    def step(self, cell: int, times: int) -> None:
        for _ in range(times):
            self.world.cells[cell].step()
            self.world.check()

    @rule(cell=CELLS)
    def die(self, cell: int) -> None:
        self.world.cells[cell].die()

    @rule()
    def news(self) -> None:
        self.world.send()

    @rule(cell=CELLS)
    def read(self, cell: int) -> None:
        self.world.cells[cell].read()

    @rule(cell=CELLS)
    def claim(self, cell: int) -> None:
        self.world.cells[cell].claim()

    @rule(cell=CELLS)
    def land(self, cell: int) -> None:
        self.world.cells[cell].land()

    @rule(seconds=st.sampled_from([0.3, 1.1]))
    def wait(self, seconds: float) -> None:
        self.world.clock.advance(seconds)

    @invariant()
    def one_crawls(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        self.world.settle()
        self.world.check_end()


TestHanding = Handing.TestCase


def play(seed: int) -> None:
    """A history drawn by chance, longer than those above and quick to draw."""
    rng, world = random.Random(seed), World()
    for _ in range(350):
        cell = rng.choice(world.cells)  # one may stand still for long, while another does a lot
        moves: list[tuple[int, Callable[[], object]]] = [
            (1, lambda: world.order(rng.choice("AAABBBC"))),
            (12, lambda: steps(cell, rng.choice([1, 1, 2, 12]))),  # noqa: B023
            (1, cell.die),
            (2, world.send),
            (3, cell.read),
            (6, cell.claim),
            (3, cell.land),
            (1, lambda: world.clock.advance(rng.choice([0.3, 1.1]))),
        ]
        rng.choices([move for _, move in moves], [weight for weight, _ in moves])[0]()
        world.check()
    world.settle()
    world.check_end()


def steps(cell: Cell, number: int) -> None:
    for _ in range(number):
        cell.step()


SEEDS = range(20)


def test_nothing_is_lost_or_doubled_in_histories_drawn_by_chance() -> None:
    for seed in SEEDS:
        play(seed)


def broken() -> bool:
    """Whether some history shows it."""
    for seed in SEEDS:
        try:
            play(seed)
        except (AssertionError, KeyError):
            return True
    return False


def test_ablation_a_snapshot_before_the_cell_has_stopped_loses_what_comes_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handoff, "LEAVE", (Do.SNAPSHOT, Do.REST, Do.FORGET, Do.DRAIN))
    assert broken()


def test_ablation_a_cell_that_goes_on_after_it_has_said_that_it_drains_crawls_beside_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handoff, "LEAVE", (Do.REST, Do.SNAPSHOT, Do.DRAIN, Do.FORGET))
    assert broken()


def test_ablation_without_waiting_for_what_is_in_flight_pages_are_fetched_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handoff, "LEAVE", (Do.FORGET, Do.SNAPSHOT, Do.DRAIN))
    assert broken()


def test_ablation_a_cell_that_owns_a_shard_before_it_is_on_its_disk_loses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handoff, "TAKE", (Do.WIPE, Do.OWN, Do.TAKE))
    assert broken()


def test_ablation_without_wiping_first_what_was_left_of_earlier_times_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    back_before_it_was_wiped()

    monkeypatch.setattr(handoff, "TAKE", (Do.TAKE, Do.OWN))
    with pytest.raises(AssertionError, match="queues are not what records say"):
        back_before_it_was_wiped()


def back_before_it_was_wiped() -> None:
    """The shard comes back to a cell that still has its copy of before: pages have been fetched meanwhile."""
    world, (giver, taker, _) = with_urls(5)
    world.order("B")
    until(giver, lambda: bool(world.owner.snapshot))
    until(taker, lambda: taker.crawls)
    world.clock.advance(2.0)
    taker.claim()
    taker.land()
    world.order("A")
    until(taker, lambda: bool(world.owner.snapshot))
    world.settle()
    world.check_end()


def with_urls(number: int) -> tuple[World, list[Cell]]:
    world = World()
    for _ in range(number):
        world.send()
        world.cells[0].read()
    return world, world.cells


def until(cell: Cell, condition: Callable[[], bool]) -> None:
    while not condition():
        cell.step()


def test_ablation_a_giver_that_wipes_when_it_has_drained_loses_the_shard_if_the_move_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handoff, "LEAVE", (*handoff.LEAVE, Do.WIPE))
    assert broken()


def test_ablation_reading_the_inbox_from_its_end_loses_what_waits_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Cell, "_sequence", lambda cell: len(cell.world.stream))
    assert broken()


def test_ablation_a_taker_that_owes_no_delay_hurries_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Frontier.load_shard

    def at_once(frontier: Frontier, shard: int, now: float, boot: float) -> None:
        frontier.delay = lambda record, host: 0.0  # type: ignore[method-assign]
        load(frontier, shard, now, boot)
        del frontier.delay  # type: ignore[method-assign]

    monkeypatch.setattr(Frontier, "load_shard", at_once)
    assert broken()


def test_ablation_a_copy_that_is_not_told_from_the_real_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_back_in_the_midst()

    monkeypatch.setattr(shard_state, "take", lambda shard, name, portions: (_batch(p) for p in portions))
    with pytest.raises(AssertionError, match="B has kept a copy"):
        taken_back_in_the_midst()


def taken_back_in_the_midst() -> None:
    """The move is taken back while the other cell reads the file, and that one dies."""
    world, (giver, taker, _) = with_urls(5)
    world.order("B")
    until(giver, lambda: bool(world.owner.snapshot))
    until(taker, lambda: shard_state.stored(taker.kv, 0))
    world.order("A")
    taker.die()
    world.settle()
    world.check_end()


def _batch(portion: list[tuple[bytes, bytes]]) -> Batch:
    batch = Batch()
    for key, value in portion:
        batch.put(key, value)
    return batch


# words


def test_a_shard_on_its_way_goes_to_nobody_else_but_may_come_back() -> None:
    there = ShardOwner("A", "i", to="B", snapshot="0-x", sequence=7)

    with pytest.raises(ConfigurationError, match="on its way from A to B"):
        ordered(there, "C")
    assert ordered(there, "A") == ShardOwner("A", "i")
    assert ordered(ShardOwner("A", "i", to="B"), "C").to == "C"


def test_what_was_given_away_in_no_handoff_is_kept() -> None:
    """A table that was made anew says nothing about who has the better copy."""
    assert next_step(ShardOwner("B", "i"), "A", Held(stored=True)) == ()
    assert next_step(ShardOwner("B", "i", handed="0-x"), "A", Held(stored=True)) == (Do.WIPE,)


def test_a_cell_that_crawls_what_is_anothers_gives_up() -> None:
    assert next_step(ShardOwner("B", "i"), "A", Held(crawls=True)) == (Do.GIVE_UP,)
