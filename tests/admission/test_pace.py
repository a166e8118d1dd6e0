"""The pace of one host: its table of transitions row by row, when answers count as slow, how it recovers."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from crawl_platform.admission import pace as pace_module
from crawl_platform.admission.pace import (
    STEADY,
    TRANSITIONS,
    Event,
    Pace,
    Pause,
    after,
    event_of,
    has_slowed,
    in_force,
    observed,
)
from crawl_platform.fetch.outcome import BACKS_OFF, DISPOSITIONS, Outcome
from crawl_platform.settings import Politeness

SETTINGS = Politeness(host_delay=1.0)
FLOOR = 1.0
SLOWED = Pace(delay=8.0, run=3, latency=10.0, usual=0.2)


# the table, row by row: (event, delay in force after it, run after it, what becomes of the pause)


@pytest.mark.parametrize(
    ("event", "delay", "run", "pause"),
    [
        (Event.HEALTHY, 8.0, 4, Pause.HALVES),
        (Event.SLOW, 12.0, 0, Pause.HALVES),
        (Event.FAILING, 8.0, 0, Pause.STAYS),
        (Event.BROKEN, 12.0, 0, Pause.DOUBLES),
        (Event.OVERLOADED, 16.0, 0, Pause.DOUBLES),
        (Event.UNREACHED, 8.0, 0, Pause.DOUBLES),
    ],
)
def test_a_row_of_the_table(event: Event, delay: float, run: int, pause: Pause) -> None:
    changed = after(SLOWED, event, FLOOR, SETTINGS)

    assert in_force(changed, FLOOR, SETTINGS) == delay
    assert changed.run == run
    assert TRANSITIONS[event].pause is pause


def test_every_event_has_a_row_in_the_table_and_in_the_documentation() -> None:
    text = pace_module.__doc__ or ""

    assert set(TRANSITIONS) == set(Event)
    for event, (slower, pause) in TRANSITIONS.items():
        row = next(line for line in text.splitlines() if line.strip().startswith(event.name))
        assert pause.value in row
        assert slower == 1.0 or f"× {slower:g}" in row


# events


@pytest.mark.parametrize(
    ("outcome", "sent", "event"),
    [
        (Outcome.OK, True, Event.HEALTHY),
        (Outcome.NOT_FOUND, True, Event.HEALTHY),
        (Outcome.REDIRECT, True, Event.HEALTHY),
        (Outcome.SERVER_ERROR, True, Event.FAILING),
        (Outcome.BAD_HTTP, True, Event.FAILING),
        (Outcome.RATE_LIMITED, True, Event.OVERLOADED),
        (Outcome.UNAVAILABLE, True, Event.OVERLOADED),
        (Outcome.READ_TIMEOUT, True, Event.BROKEN),
        (Outcome.CONNECTION_LOST, True, Event.BROKEN),
        (Outcome.CONNECT_REFUSED, False, Event.BROKEN),
        (Outcome.NO_SUCH_HOST, False, Event.UNREACHED),
        (Outcome.DNS_FAILURE, False, Event.UNREACHED),
        (Outcome.UNSAFE_ADDRESS, False, None),
        (Outcome.INTERNAL_ERROR, True, None),
    ],
)
def test_what_an_outcome_says_of_its_host(outcome: Outcome, sent: bool, event: Event | None) -> None:
    assert event_of(outcome, sent) is event


def test_every_outcome_that_backs_off_pauses_its_host_and_no_other_does() -> None:
    for outcome in DISPOSITIONS:
        event = event_of(outcome, True)
        pauses = event is not None and TRANSITIONS[event].pause is Pause.DOUBLES
        assert pauses == (outcome in BACKS_OFF), outcome


# slow answers


def answers(pace: Pace, *latencies: float) -> Pace:
    for latency in latencies:
        pace = observed(pace, latency)
    return pace


def test_answers_are_slow_beside_what_is_usual_for_the_host() -> None:
    quick, sluggish = answers(STEADY, *[0.1] * 50), answers(STEADY, *[2.0] * 50)

    assert has_slowed(answers(quick, 2.0), 2.0, FLOOR, SETTINGS)
    assert not has_slowed(answers(sluggish, 2.0), 2.0, FLOOR, SETTINGS)


def test_a_single_slow_answer_and_noise_of_the_network_are_no_slowing() -> None:
    quick = answers(STEADY, *[0.02] * 50)

    assert not has_slowed(quick, 60.0, FLOOR, SETTINGS)
    assert not has_slowed(answers(quick, 60.0), 0.02, FLOOR, SETTINGS)  # and the next one is quick again
    assert not has_slowed(
        answers(quick, *[0.3] * 20), 0.3, FLOOR, SETTINGS
    )  # 15 times as slow, but no burden
    assert not has_slowed(STEADY, 60.0, FLOOR, SETTINGS)  # nothing is usual yet


def test_a_slower_pace_gets_some_answers_to_show_before_the_next_step() -> None:
    slow = msgspec.structs.replace(answers(STEADY, *[0.1] * 50, 5.0, 5.0, 5.0), delay=2.0)

    verdicts = [has_slowed(msgspec.structs.replace(slow, run=run), 5.0, FLOOR, SETTINGS) for run in range(5)]

    assert verdicts == [False, False, False, True, True]


def test_a_slow_host_is_busy_with_us_a_fifth_of_the_time_at_most_and_not_left_alone_for_more_than_that() -> (
    None
):
    pace = Pace(latency=2.0, usual=0.1)
    for _ in range(30):
        pace = after(pace, Event.SLOW, FLOOR, SETTINGS)

    assert in_force(pace, FLOOR, SETTINGS) == pytest.approx(8.0)


# recovery


def test_recovery_waits_for_a_run_of_healthy_answers_and_adds_to_the_rate() -> None:
    pace = Pace(delay=10.0)
    rates = []
    for _ in range(3 * SETTINGS.recovery_run):
        pace = after(pace, Event.HEALTHY, FLOOR, SETTINGS)
        rates.append(round(1 / in_force(pace, FLOOR, SETTINGS), 3))

    assert rates == [0.1] * 4 + [0.15] * 5 + [0.2] * 5 + [0.25]


def test_a_failure_starts_the_run_again() -> None:
    pace = Pace(delay=10.0)
    for event in [Event.HEALTHY] * 4 + [Event.FAILING] + [Event.HEALTHY] * 4:
        pace = after(pace, event, FLOOR, SETTINGS)

    assert pace.delay == 10.0


def test_near_the_pace_at_which_it_was_overloaded_the_steps_are_small() -> None:
    near, past = Pace(delay=2.2, run=4, limit=2.0), Pace(delay=1.5, run=4, limit=2.0)

    gained = [1 / after(pace, Event.HEALTHY, FLOOR, SETTINGS).delay - 1 / pace.delay for pace in (near, past)]

    assert gained[0] < 0.2 * gained[1]


def test_a_host_back_at_its_floor_has_nothing_left_to_remember_but_its_latency() -> None:
    pace = after(Pace(delay=1.004, run=4, limit=1.0, latency=0.1, usual=0.1), Event.HEALTHY, FLOOR, SETTINGS)

    assert pace == Pace(latency=0.1, usual=0.1)


# over any sequence

EVENTS = st.lists(st.tuples(st.sampled_from(list(Event)), st.floats(0.001, 60)), max_size=120)


@given(EVENTS, st.floats(0.01, 120), st.floats(1, 100))
@examples(deadline=None, max_examples=60)
def test_the_delay_in_force_is_never_below_its_floor_nor_above_its_cap(
    events: list[tuple[Event, float]], floor: float, cap: float
) -> None:
    settings = Politeness(slowdown_cap=cap)
    pace = STEADY
    for event, latency in events:
        before = in_force(pace, floor, settings)
        pace = after(observed(pace, latency), event, floor, settings)
        delay = in_force(pace, floor, settings)
        assert floor <= delay <= floor * cap * (1 + 1e-9)
        if event is not Event.HEALTHY:
            assert delay >= before * (1 - 1e-9)  # nothing but a healthy answer makes us faster
        if TRANSITIONS[event].slower > 1 and event is not Event.SLOW:
            assert delay > before or delay >= floor * cap * (1 - 1e-9)


@given(EVENTS)
@examples(deadline=None, max_examples=30)
def test_a_host_that_stays_well_gets_back_to_its_floor(events: list[tuple[Event, float]]) -> None:
    pace = STEADY
    for event, _ in events:
        pace = after(pace, event, FLOOR, SETTINGS)
    for _ in range(2_000):
        pace = after(pace, Event.HEALTHY, FLOOR, SETTINGS)

    assert pace == STEADY


def test_a_floor_that_rises_or_falls_under_a_pace_is_obeyed() -> None:
    """robots.txt asks for another delay."""
    pace = Pace(delay=8.0)

    assert [in_force(pace, floor, SETTINGS) for floor in (0.1, 1.0, 20.0)] == [3.0, 8.0, 20.0]
