"""When a cell is given up: after long silence in which it could have been heard, and only for cells that live."""

import pytest

from crawl_platform.fleet.takeover import LIVES, LONGEST_GAP, LOOK_EVERY, Silence

PATIENCE = 100.0


class Watch:
    """Looks every `LOOK_EVERY` seconds; `beating` cells have a new heartbeat at each look."""

    def __init__(self) -> None:
        self.silence = Silence(PATIENCE)
        self.now = 1_000.0
        self.beats: dict[str, object] = {}
        self.lost: list[str] = []
        self.alive: list[str] = []

    def look(self, seconds: float, *beating: str, owners: tuple[str, ...] = ("a", "b")) -> "Watch":
        for _ in range(int(seconds / LOOK_EVERY)):
            self.now += LOOK_EVERY
            self.beats |= dict.fromkeys(beating, self.now)
            self.lost, self.alive = self.silence.look(self.beats, owners, self.now)
        return self


def test_a_cell_that_is_heard_is_never_given_up() -> None:
    watch = Watch().look(10 * PATIENCE, "a", "b")

    assert (watch.lost, watch.alive) == ([], ["a", "b"])


def test_one_that_falls_silent_is_given_up_after_the_patience_and_not_before() -> None:
    watch = Watch().look(50, "a", "b")

    watch.look(PATIENCE - LOOK_EVERY, "b")
    assert watch.lost == []
    watch.look(LOOK_EVERY, "b")

    assert (watch.lost, watch.alive) == (["a"], ["b"])


def test_one_that_is_heard_again_is_not_given_up() -> None:
    watch = Watch().look(50, "a", "b").look(PATIENCE - LOOK_EVERY, "b").look(LOOK_EVERY, "a", "b")

    assert watch.look(PATIENCE - LOOK_EVERY, "b").lost == []


def test_one_that_has_no_heartbeat_at_all_is_silent_since_we_watch() -> None:
    watch = Watch()

    assert watch.look(PATIENCE, "b").lost == []
    assert watch.look(LOOK_EVERY, "b").lost == ["a"]


def test_silence_in_which_nobody_could_be_heard_does_not_count() -> None:
    watch = Watch().look(50, "a", "b")
    watch.now += 50 * PATIENCE  # NATS is away

    watch.look(LOOK_EVERY)

    assert (watch.lost, watch.alive) == ([], [])
    assert watch.look(PATIENCE - LOOK_EVERY, "a", "b").lost == []


def test_ablation_silence_of_nats_would_be_taken_for_that_of_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_platform.fleet.takeover.LONGEST_GAP", float("inf"))
    watch = Watch().look(50, "a", "b")
    watch.now += 50 * PATIENCE

    assert watch.look(LOOK_EVERY).lost == ["a", "b"]


def test_only_those_that_were_heard_lately_are_given_shards() -> None:
    watch = Watch()
    watch.beats["a"] = watch.beats["b"] = 1.0  # old heartbeats, of cells that may have ended long ago

    assert watch.look(LOOK_EVERY).alive == []
    assert watch.look(LOOK_EVERY, "b").alive == ["b"]
    assert watch.look(2 * LIVES).alive == []
    assert LOOK_EVERY < LIVES < LONGEST_GAP


def test_a_cell_that_owns_nothing_is_not_given_up() -> None:
    watch = Watch().look(50, "a", "b").look(2 * PATIENCE, "b", owners=("b",))

    assert watch.lost == []
