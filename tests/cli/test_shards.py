"""`crawl shards` in words: what happens to a shard that is not simply crawled by its owner."""

from crawl_platform.cli.shards import _changes, _where
from crawl_platform.fleet.messages import ShardOwner


def test_shards_that_move_or_are_rebuilt_are_told() -> None:
    table = {
        0: ShardOwner("cell-0", "i"),
        1: ShardOwner("cell-0", "i", to="cell-1"),
        2: ShardOwner("cell-0", "i", lost="h"),
    }

    assert _changes(table) == {
        1: "is on its way from cell-0 to cell-1",
        2: "is rebuilt by cell-0: its state was gone",
    }


def test_each_stage_of_a_move_has_its_words() -> None:
    stages = {
        "is still with cell-0": ShardOwner("cell-0", "i", to="cell-1"),
        "waits to be taken": ShardOwner("cell-0", "i", to="cell-1", snapshot="1-x"),
        "is there": ShardOwner("cell-1", "j", handed="1-x"),
        "is on its way to cell-2": ShardOwner("cell-1", "j", to="cell-2"),
    }

    for words, owner in stages.items():
        assert _where(owner, "cell-1", dry_run=False) == words
    assert _where(ShardOwner("cell-0", "i"), "cell-1", dry_run=True) == "would move"
