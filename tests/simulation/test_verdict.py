"""The verdict on a log: a good one passes, each kind of bad one is seen."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.simulation.log import Entry, RequestLog
from crawl_platform.simulation.verdict import forbidden, overlaps, read_log, short_gaps, tolerance, touched
from crawl_platform.simulation.web import SyntheticWeb


def _entry(
    start: float, end: float, host: str = "a.test", address: str = "127.0.0.1", path: str = "/"
) -> Entry:
    return Entry(
        host, address, 80, path, "GET", "tester", 1e9 + start, 1e9 + end, start, end, 200, "response"
    )


POLITE = [_entry(0, 0.2), _entry(1.0, 1.4), _entry(2.0, 2.1)]


def test_a_polite_log_passes() -> None:
    assert overlaps(POLITE) == []
    assert short_gaps(POLITE, 1.0) == []
    assert list(touched(POLITE)) == ["a.test"]


def test_overlapping_requests_to_a_host_are_seen() -> None:
    (pair,) = overlaps([_entry(0, 2), _entry(1.5, 1.6), _entry(2.0, 2.1)])

    assert (pair.key, pair.first.start_boot, pair.second.start_boot) == ("a.test", 0, 1.5)
    assert pair.by == pytest.approx(0.5)


def test_a_long_request_overlaps_all_that_start_within_it() -> None:
    assert len(overlaps([_entry(0, 10), _entry(1, 2), _entry(3, 4), _entry(10, 11)])) == 2


def test_two_hosts_at_one_address_overlap_by_address_only() -> None:
    log = [_entry(0, 1), _entry(0.5, 0.6, host="b.test")]

    assert overlaps(log, by="host") == []
    assert len(overlaps(log, by="address")) == 1


def test_the_order_of_lines_does_not_matter() -> None:
    log = [_entry(1.5, 1.6), _entry(0, 2)]

    assert len(overlaps(log)) == len(overlaps(log[::-1])) == 1


def test_starts_that_are_too_close_are_seen() -> None:
    (pair,) = short_gaps([_entry(0, 0.1), _entry(0.9, 1.0), _entry(2.0, 2.1)], 1.0)

    assert pair.by == pytest.approx(0.1)


def test_the_tolerance_is_a_quarter_of_the_delay_and_at_most_20_ms() -> None:
    assert tolerance(1.0) == 0.020
    assert tolerance(0.04) == 0.01
    assert short_gaps([_entry(0, 0.1), _entry(0.981, 1)], 1.0) == []
    assert len(short_gaps([_entry(0, 0.1), _entry(0.979, 1)], 1.0)) == 1
    assert len(short_gaps([_entry(0, 0.1), _entry(0.981, 1)], 1.0, allowance=0.0)) == 1


def test_delays_may_differ_per_host() -> None:
    log = [_entry(t, t, host=h) for h in ("a.test", "b.test", "c.test") for t in (0.0, 1.0)]

    found = short_gaps(log, {"a.test": 1.0, "b.test": 2.0})

    assert [p.key for p in found] == ["b.test"]


def test_a_stepped_wall_clock_does_not_hide_or_invent_anything() -> None:
    early = msgspec.structs.replace(_entry(1.0, 1.1), start=0.0, end=0.1)

    assert short_gaps([_entry(0, 0.1), early], 1.0) == []


def test_paths_that_robots_forbids_are_seen_and_robots_itself_is_not() -> None:
    web = SyntheticWeb(1, 0.0, scale=0.2)
    paths = ("/robots.txt", "/links", "/about", "/x/4.html")
    log = [_entry(i, i, host="restricted-1.test", path=p) for i, p in enumerate(paths)]

    assert [e.path for e in forbidden(log, web)] == ["/links", "/x/4.html"]
    assert [e.path for e in forbidden([_entry(0, 0, host="robots5xx-1.test")], web)] == ["/"]


def test_touched_gives_the_first_time() -> None:
    log = [_entry(5, 6), _entry(2, 3), _entry(9, 9, host="b.test")]

    assert touched(log) == {"a.test": 1e9 + 2, "b.test": 1e9 + 9}


def test_a_log_reads_back_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = RequestLog(path)
    for entry in POLITE:
        log.write(entry)
    with path.open("ab") as file:
        file.write(b'{"host":"half a li')

    assert read_log(path) == POLITE
    assert read_log(tmp_path / "none.jsonl") == []


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 3)), max_size=12))
def test_overlaps_are_empty_exactly_if_no_two_requests_share_a_moment(
    spans: list[tuple[float, float]],
) -> None:
    log = [_entry(s, s + d) for s, d in spans]
    ordered = sorted(log, key=lambda e: e.start_boot)

    shared = any(b.start_boot < a.end_boot for i, a in enumerate(ordered) for b in ordered[i + 1 :])

    assert bool(overlaps(log)) == shared
