"""Where a cell's CPU time goes: every second is counted once, and belongs to the innermost stage."""

import pytest

from crawl_platform.fleet.stages import COMMIT, DIGEST, FRONTIER, INFLATE, ROWS, WIRE, Stages


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at

    def on(self, seconds: float) -> None:
        self.at += seconds


def test_a_second_belongs_to_the_innermost_stage_and_the_rest_to_the_wire() -> None:
    clock = Hand()
    stages = Stages(clock)

    clock.on(5)
    with stages.of(ROWS):
        clock.on(1)
        with stages.of(DIGEST):
            clock.on(2)
        clock.on(1)
    clock.on(5)
    with stages.of(FRONTIER):
        clock.on(3)
    stages.add(INFLATE, 0.5)

    told = stages.shares(total=20.0)
    assert told == {ROWS: 2, DIGEST: 2, FRONTIER: 3, INFLATE: 0.5, COMMIT: 0, WIRE: 12.5}


def test_what_another_thread_does_leaves_the_loops_spans_alone() -> None:
    loop = Hand()
    stages = Stages(loop)

    with stages.of(FRONTIER):
        with stages.elsewhere(COMMIT):
            loop.on(4)
        loop.on(1)

    assert stages.shares(10.0)[COMMIT] == 4
    assert stages.shares(10.0)[FRONTIER] == 5


def test_an_error_closes_its_span() -> None:
    clock = Hand()
    stages = Stages(clock)

    def fail() -> None:
        clock.on(1)
        raise ValueError("bad page")

    with pytest.raises(ValueError, match="bad page"), stages.of(ROWS), stages.of(DIGEST):
        fail()
    clock.on(7)

    assert stages.shares(8.0)[DIGEST] == 1
    assert stages.shares(8.0)[WIRE] == 7
