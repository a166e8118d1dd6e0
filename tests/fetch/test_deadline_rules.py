"""Deadlines of an answer's phases and its least rate, without a clock or a socket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.fetch.deadlines import Deadlines
from crawl_platform.settings import Fetch

SETTINGS = Fetch(
    first_byte_timeout=5.0,
    head_timeout=8.0,
    read_timeout=4.0,
    total_timeout=30.0,
    min_rate=10.0,
    rate_window=6.0,
)
Event = tuple[float, int]
"""(seconds after the write, bytes)"""


def ending(events: list[Event], headed_at: float | None, until: float = 100.0) -> tuple[str, float] | None:
    """How and when an answer with these pieces is cut off, looking only when it is due."""
    deadlines = Deadlines(SETTINGS, 0.0)
    waiting = sorted(
        [*((at, size, False) for at, size in events), *([(headed_at, 0, True)] if headed_at else [])]
    )
    while deadlines.due() <= until:
        while waiting and waiting[0][0] <= deadlines.due():
            at, size, headed = waiting.pop(0)
            if headed:
                deadlines.phase(True)
            else:
                deadlines.received(size, at)
        now = deadlines.due()
        error = deadlines.verdict(now)
        if error is not None:
            return error.outcome, now
    return None


def steadily(every: float, size: int, until: float = 100.0) -> list[Event]:
    return [(every * n, size) for n in range(1, int(until / every))]


@pytest.mark.parametrize(
    ("events", "headed_at", "expected"),
    [
        ([], None, ("first_byte_timeout", 5.0)),
        ([(4.0, 1_000)], None, ("read_timeout", 8.0)),
        (steadily(1.0, 100), None, ("too_slow", 8.0)),  # a head in drips
        (steadily(1.0, 100), 1.0, ("too_slow", 30.0)),  # fast enough, but without an end
        (steadily(1.0, 5), 1.0, ("too_slow", 7.0)),  # below the least rate
        ([(1.0, 1_000), (4.9, 1)], 1.0, ("read_timeout", 8.9)),
        (
            [(1.0, 1_000), *[(1.0 + 3 * n, 1) for n in range(1, 9)]],
            1.0,
            ("too_slow", 13.0),
        ),  # at first all, then drips
    ],
)
def test_each_phase_has_its_end(
    events: list[Event], headed_at: float | None, expected: tuple[str, float]
) -> None:
    assert ending(events, headed_at) == expected


@given(
    st.lists(st.tuples(st.floats(0.01, 60.0), st.integers(1, 10_000)), max_size=30),
    st.floats(0.01, 60.0) | st.none(),
)
def test_no_answer_outlives_the_total(events: list[Event], headed_at: float | None) -> None:
    end = ending(events, headed_at)

    assert end is not None
    assert end[1] <= SETTINGS.total_timeout


@given(st.integers(60, 10_000))
def test_an_answer_that_keeps_the_rate_is_cut_off_by_the_total_alone(size: int) -> None:
    assert ending(steadily(1.0, size), 1.0) == ("too_slow", 30.0)


def test_ablation_without_a_least_rate_a_drip_lives_until_the_total() -> None:
    class Patient(Deadlines):
        def _rate(self, now: float) -> None:
            self._mark = (now, 0)

    drip, patient = Deadlines(SETTINGS, 0.0), Patient(SETTINGS, 0.0)
    for deadlines in (drip, patient):
        deadlines.received(5, 1.0)
        deadlines.phase(True)
        for second in range(2, 8):
            deadlines.received(5, float(second))

    assert drip.verdict(7.0) is not None
    assert patient.verdict(7.0) is None
