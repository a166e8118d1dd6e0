"""Which moves even out what cells have to do."""

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.clock import ManualClock
from crawl_platform.commit.committer import Committer
from crawl_platform.fleet.balance import evened_out, fetched_lately, heavy_shards
from crawl_platform.testing.builders import fetched, staged_manifest, tiny_lake

CELLS = ("cell-0", "cell-1", "cell-2")


def owned(*cells: str) -> dict[int, str]:
    return dict(enumerate(cells))


def after(owners: dict[int, str], moves: dict[int, str]) -> dict[int, str]:
    return {**owners, **moves}


def weights(owners: dict[int, str], loads: dict[int, float]) -> Counter[str]:
    found: Counter[str] = Counter(dict.fromkeys(CELLS, 0))
    for shard, cell in owners.items():
        found[cell] += loads.get(shard, 0)
    return found


def test_a_cell_that_comes_new_gets_its_part_of_the_shards() -> None:
    owners = owned(*["cell-0", "cell-1"] * 32)

    moves = evened_out(owners, {}, CELLS)

    assert set(moves.values()) == {"cell-2"}
    assert sorted(Counter(after(owners, moves).values()).values()) == [21, 21, 22]


def test_what_was_fetched_weighs_and_not_the_number_of_shards() -> None:
    owners = owned("cell-0", "cell-0", "cell-0", "cell-1", "cell-1", "cell-1", "cell-2")
    loads = {0: 900.0, 1: 300.0, 2: 300.0, 3: 10.0, 4: 10.0, 5: 10.0, 6: 10.0}

    moves = evened_out(owners, loads, CELLS)

    assert sorted(weights(after(owners, moves), loads).values()) == [40, 600, 900]


def test_a_table_that_is_even_stays_as_it_is() -> None:
    owners = owned(*CELLS * 5)

    assert evened_out(owners, dict.fromkeys(owners, 100.0), CELLS) == {}


def test_a_little_is_not_worth_a_move() -> None:
    owners = owned(*CELLS * 5)

    assert evened_out(owners, {0: 104.0, **dict.fromkeys(range(1, 15), 100.0)}, CELLS) == {}


@given(
    st.dictionaries(st.integers(0, 40), st.sampled_from(CELLS), min_size=3),
    st.dictionaries(st.integers(0, 40), st.floats(0, 1000), max_size=40),
)
def test_no_cell_is_fuller_afterwards_than_the_fullest_was(
    owners: dict[int, str], loads: dict[int, float]
) -> None:
    moves = evened_out(owners, loads, CELLS)

    assert all(owners[shard] != cell for shard, cell in moves.items())
    held = {shard: load for shard, load in loads.items() if shard in owners}
    before, now = weights(owners, held), weights(after(owners, moves), held)
    slack = max(sum(held.values()), 1.0) / 10
    assert max(now.values()) <= max(before.values()) + slack
    assert not {*owners.values()} - {*after(owners, moves).values()}, "no cell is left without a shard"


def test_a_shard_that_alone_is_half_of_what_a_cell_should_have_is_heavy() -> None:
    assert heavy_shards({1: 60.0, 2: 20.0, 3: 20.0, 4: 100.0}, 2) == [4, 1]
    assert heavy_shards({1: 60.0, 2: 20.0}, 1) == []
    assert heavy_shards({}, 2) == []


def test_what_was_fetched_lately_is_of_the_last_hour(tmp_path: Path) -> None:
    clock, lake = ManualClock(), tiny_lake(tmp_path, 4)
    committer = Committer(lake, clock, redeliver=lambda manifest: None, max_age=1e9)
    ages = {"a": (1, 10.0), "b": (1, 3_500.0), "c": (1, 3_700.0), "d": (3, 0.0)}
    rows = [
        fetched(name, f"https://{name}.test/", clock.now() - age, shard=shard)
        for name, (shard, age) in ages.items()
    ]
    committer.offer([staged_manifest(lake, 1, rows, at=clock.now())])
    committer.round()

    assert fetched_lately(lake, clock.now()) == {1: 2, 3: 1}
