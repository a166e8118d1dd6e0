"""The clocks of hosts and addresses: a table of transitions, and what holds over any schedule."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.admission import politeness
from crawl_platform.admission.politeness import Gates, ImpoliteError, next_backoff, retry_after
from crawl_platform.settings import Politeness

DELAY = 1.0
SETTINGS = Politeness(host_delay=DELAY, address_delay=0.5)
HOST, ADDRESS = "a.test", "192.0.2.1"


def open_gates() -> Gates:
    """Gates taken over so long ago that every clock has run out at 100.0."""
    return Gates(SETTINGS, 0.0)


def begin(gates: Gates, host: str, address: str, now: float) -> None:
    gates.take_host(host, now)
    assert gates.take_address(address, now)
    gates.check_write(host, address, now)


# transitions of one host: (what happens, when) … → when it may be fetched next


@pytest.mark.parametrize(
    ("steps", "ready_at"),
    [
        ([], DELAY),
        ([("take", 100.0)], math.inf),
        ([("take", 100.0), ("end", 103.0)], 104.0),
        ([("take", 100.0), ("end with 7 s", 103.0)], 110.0),
        ([("take", 100.0), ("end with 0.1 s", 103.0)], 104.0),
        ([("take", 100.0), ("release", 100.5)], DELAY),
        ([("hold", 150.0)], 150.0),
        ([("hold", 150.0), ("hold", 120.0)], 150.0),
        ([("take", 100.0), ("hold", 150.0), ("end", 103.0)], 150.0),
        ([("take", 100.0), ("end", 103.0), ("take", 104.0), ("end", 104.5)], 105.5),
    ],
)
def test_when_a_host_may_be_fetched_next(steps: list[tuple[str, float]], ready_at: float) -> None:
    gates = open_gates()
    for what, at in steps:
        if what == "take":
            gates.take_host(HOST, at)
        elif what == "release":
            gates.release_host(HOST)
        elif what == "hold":
            gates.hold_host(HOST, at)
        else:
            delay = {"end": 0.0, "end with 7 s": 7.0, "end with 0.1 s": 0.1}[what]
            gates.end(HOST, None, at, delay)

    assert gates.host_ready_at(HOST) == ready_at


def test_whoever_takes_over_counts_every_host_and_address_as_fetched_at_that_moment() -> None:
    gates = Gates(SETTINGS, 500.0)

    assert gates.host_ready_at("met later.test") == 500.0 + DELAY
    assert gates.address_ready_at(ADDRESS) == 500.5
    with pytest.raises(ImpoliteError):
        gates.take_host(HOST, 500.9)
    assert not gates.take_address(ADDRESS, 500.4)


def test_a_host_is_never_taken_twice() -> None:
    gates = open_gates()
    gates.take_host(HOST, 100.0)

    with pytest.raises(ImpoliteError):
        gates.take_host(HOST, 1_000.0)


def test_an_address_is_given_to_one_request_at_a_time() -> None:
    gates = open_gates()

    assert gates.take_address(ADDRESS, 100.0)
    assert not gates.take_address(ADDRESS, 100.0)
    assert gates.address_ready_at(ADDRESS) == math.inf
    gates.end(HOST, ADDRESS, 101.0, 0.0)
    assert not gates.take_address(ADDRESS, 101.4)
    assert gates.take_address(ADDRESS, 101.5)


def test_an_address_given_back_unused_owes_no_delay() -> None:
    gates = open_gates()
    gates.take_address(ADDRESS, 100.0)

    gates.release_address(ADDRESS)

    assert gates.take_address(ADDRESS, 100.0)


def test_an_address_taken_over_from_another_process_counts_as_fetched_at_that_moment() -> None:
    gates = open_gates()

    gates.take_over_address(ADDRESS, 100.0)

    assert gates.address_ready_at(ADDRESS) == 100.5
    assert not gates.address_busy(ADDRESS)
    assert gates.take_address(ADDRESS, 100.5)
    assert gates.address_busy(ADDRESS)
    gates.take_over_address(ADDRESS, 50.0)
    gates.release_address(ADDRESS)
    assert gates.address_ready_at(ADDRESS) == 100.5  # never earlier than it was


def test_the_line_for_an_address_is_first_come_first_served_and_nobody_stands_in_it_twice() -> None:
    gates = open_gates()
    gates.take_address(ADDRESS, 100.0)
    for host in ("b", "c", "b", "d"):
        gates.wait_for_address(ADDRESS, host)

    called = [gates.release_address(ADDRESS)]
    for n in range(3):
        assert gates.take_address(ADDRESS, 101.0 + n)
        called.append(gates.end(HOST, ADDRESS, 101.0 + n, 0.0))

    assert called == ["b", "c", "d", None]


# the last look


@pytest.mark.parametrize(
    "prepare",
    [
        lambda gates: None,
        lambda gates: gates.take_host(HOST, 100.0),
        lambda gates: gates.take_address(ADDRESS, 100.0),
        lambda gates: (begin(gates, HOST, ADDRESS, 100.0), gates.hold_host(HOST, 200.0)),
        lambda gates: (begin(gates, HOST, ADDRESS, 100.0), gates.end(HOST, ADDRESS, 100.1, 0.0)),
    ],
    ids=["nothing reserved", "host only", "address only", "held meanwhile", "already ended"],
)
def test_a_write_that_would_be_too_early_is_stopped(prepare: object) -> None:
    gates = open_gates()
    prepare(gates)  # type: ignore[operator]

    with pytest.raises(ImpoliteError):
        gates.check_write(HOST, ADDRESS, 100.2)


def test_a_write_with_both_clocks_in_hand_passes() -> None:
    begin(open_gates(), HOST, ADDRESS, 100.0)


# over any schedule

HOSTS = ("a", "b", "c", "d")
ADDRESS_OF = {"a": "1", "b": "1", "c": "1", "d": "2"}
Steps = list[tuple[str, float, float, float]]
STEPS: st.SearchStrategy[Steps] = st.lists(
    st.tuples(
        st.sampled_from(HOSTS),
        st.floats(0.0, 2.0),  # time until the next try
        st.floats(0.0, 3.0),  # how long the request takes
        st.floats(0.0, 2.0),  # delay the host asks for
    ),
    max_size=60,
)


def play(gates: Gates, steps: Steps) -> list[tuple[str, float, float, float]]:
    """Try to fetch at random moments, several hosts at once; returns (host, start, end, delay owed after)."""
    now, done = 100.0, []
    in_flight: list[tuple[float, str, float, float]] = []
    for host, pause, took, delay in steps:
        now += pause
        for end, other, start, owed in sorted(entry for entry in in_flight if entry[0] <= now):
            gates.end(other, ADDRESS_OF[other], end, owed)
            in_flight.remove((end, other, start, owed))
        if gates.host_ready_at(host) > now or not gates.take_address(ADDRESS_OF[host], now):
            continue
        gates.take_host(host, now)
        gates.check_write(host, ADDRESS_OF[host], now)
        in_flight.append((now + took, host, now, delay))
        done.append((host, now, now + took, max(delay, DELAY)))
    return done


def too_close(done: list[tuple[str, float, float, float]]) -> list[str]:
    """Violations per host (its delay) and per address (0.5 s), measured from end to start."""
    found = []
    for by, owed_of in ((lambda h: h, None), (ADDRESS_OF.__getitem__, SETTINGS.address_delay)):
        last: dict[str, tuple[float, float]] = {}
        for host, start, end, delay in done:
            before = last.get(by(host))
            if before is not None and start < before[0] + before[1] - 1e-9:
                found.append(f"{by(host)} at {start}")
            last[by(host)] = (end, delay if owed_of is None else owed_of)
    return found


@given(STEPS)
@settings(deadline=None)
def test_no_two_requests_overlap_nor_start_closer_than_the_delay(steps: Steps) -> None:
    assert too_close(play(open_gates(), steps)) == []


BUSY: Steps = [("a", 0.1, 0.3, 0.0), ("a", 0.1, 0.3, 0.0), ("b", 0.1, 0.3, 0.0), ("a", 0.1, 0.1, 0.0)] * 5


class LyingGates(Gates):
    """Says that every host and address is free, and looks the other way."""

    def host_ready_at(self, host: str) -> float:
        return 0.0

    def take_host(self, host: str, now: float) -> None:
        self._host(host).busy = True

    def take_address(self, address: str, now: float, host: str = "") -> bool:
        gate = self._address(address)
        gate.started.append(now)
        gate.not_before = max(gate.free, default=gate.not_before)
        return True


def test_ablation_gates_that_lie_are_caught_by_the_last_look() -> None:
    with pytest.raises(ImpoliteError):
        play(LyingGates(SETTINGS, 0.0), BUSY)


def test_ablation_without_the_last_look_the_schedule_is_impolite_and_seen_to_be() -> None:
    class Blind(LyingGates):
        def check_write(self, host: str, address: str, now: float) -> None:
            return

    assert too_close(play(Blind(SETTINGS, 0.0), BUSY))


# back-off


def test_back_off_doubles_from_its_first_value_up_to_its_cap() -> None:
    settings = Politeness(backoff_first=5.0, backoff_cap=60.0)
    current, waits = 0.0, []
    for _ in range(6):
        current, wait = next_backoff(current, None, settings)
        waits.append(wait)

    assert waits == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]


@pytest.mark.parametrize(
    ("asked", "wait"),
    [(None, 10.0), (0.0, 10.0), (7.0, 10.0), (600.0, 600.0), (1e9, 3_600.0), (math.inf, 3_600.0)],
)
def test_a_retry_after_that_asks_for_more_is_honoured_up_to_its_cap(asked: float | None, wait: float) -> None:
    settings = Politeness(backoff_first=5.0, backoff_cap=300.0, retry_after_cap=3_600.0)

    assert next_backoff(5.0, asked, settings) == (10.0, wait)


@given(st.floats(0, 1e6), st.none() | st.floats(0, 1e9))
@settings(deadline=None)
def test_back_off_never_shrinks_below_its_first_value_nor_leaves_its_caps(
    current: float, asked: float | None
) -> None:
    settings = Politeness()
    backoff, wait = next_backoff(current, asked, settings)

    assert settings.backoff_first <= backoff <= settings.backoff_cap
    assert backoff <= wait <= max(settings.backoff_cap, settings.retry_after_cap)


# Retry-After

NOW = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Fri, 15 Jan 2027 08:02:00 GMT", 120.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("²", None),
        ("٣", None),
        ("9" * 5_000, math.inf),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@given(
    st.text(max_size=60)
    | st.from_regex(r"[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,5} \d\d:\d\d:\d\d .{0,6}")
)
@settings(deadline=None)
def test_no_retry_after_whatever_is_more_than_nonsense(value: str) -> None:
    seconds = retry_after(value, NOW)

    assert seconds is None or seconds >= 0


# bounds


def test_the_clocks_of_a_host_that_moves_from_address_to_address_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(politeness, "SWEPT", 100)
    gates = Gates(SETTINGS, 0.0)
    most = 0
    for n in range(2_000):
        now = 100.0 + n
        assert gates.take_address(f"address {n}", now)
        gates.end(HOST, f"address {n}", now, 0.0)
        most = max(most, len(gates._addresses))

    assert most <= 101
    assert gates.address_ready_at("address 1999") == 2_099.5  # what has not run out is kept


def test_a_clock_that_was_dropped_is_as_free_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(politeness, "SWEPT", 1)
    gates = open_gates()
    gates.take_address("busy", 100.0)
    gates.take_address("done", 100.0)
    gates.end(HOST, "done", 100.0, 0.0)
    gates.wait_for_address("awaited", HOST)

    gates._sweep_at = 0
    gates.sweep(200.0)

    assert set(gates._addresses) == {"busy", "awaited"}
    assert gates.take_address("done", 200.0)
    assert not gates.take_address("busy", 200.0)


def test_the_clocks_of_hosts_that_come_once_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(politeness, "SWEPT", 100)
    gates = open_gates()
    gates.take_host("busy.test", 100.0)
    gates.hold_host("held.test", 1e9)
    most = 0
    for n in range(2_000):
        now = 100.0 + n
        gates.take_host(f"host-{n}.test", now)
        gates.end(f"host-{n}.test", None, now, 0.0)
        most = max(most, len(gates._hosts))

    assert most <= 102
    assert gates.host_ready_at("busy.test") == math.inf
    assert gates.host_ready_at("held.test") == 1e9
    assert gates.host_ready_at("host-1999.test") == 2_099 + DELAY
    assert gates.host_ready_at("host-0.test") <= 2_099, "a clock that was dropped is as free as it was"
