"""Heads that aiohttp's parser refuses, repaired without a socket."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawl_platform.fetch.head import looks_like_http, mend, oddities
from crawl_platform.fetch.oddities import Oddity


def test_a_head_is_mended_only_when_it_is_whole() -> None:
    raw = b"http/1.1 200 OK\r\nA : b\r\n\r\nbody"
    whole = raw.index(b"body")

    assert all(mend(raw[:n]) is None for n in range(whole))
    mended = mend(raw)
    assert mended is not None
    assert (mended.head, mended.start) == (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", whole)


def test_interim_heads_are_skipped() -> None:
    raw = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nbad\r\n\r\nbody"

    mended = mend(raw)

    assert mended is not None
    assert (mended.head, raw[mended.start :]) == (b"HTTP/1.1 200 OK\r\n\r\n", b"body")


@pytest.mark.parametrize(
    ("fields", "length"),
    [
        (b"Content-Length: 5", 5),
        (b"Content-Length: 5\r\nContent-Length: 7", 5),
        (b"Content-Length: x\r\nContent-Length: 7", 7),
        (b"Content-Length: +5", None),
        (b"Content-Length: 5\r\nTransfer-Encoding: chunked", None),
        (b"Transfer-Encoding: identity\r\nContent-Length: 5", 5),
        (b"A: b", None),
    ],
)
def test_a_mended_head_has_one_length_or_none(fields: bytes, length: int | None) -> None:
    mended = mend(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\n")

    assert mended is not None
    assert mended.length == length
    assert mended.head.lower().count(b"content-length") == (length is not None)


def test_a_value_can_not_smuggle_a_header_in() -> None:
    mended = mend(b"HTTP/1.1 200 OK\r\nA: b\rX-Injected: 1\r\nB: c\x00d\r\n\r\n")

    assert mended is not None
    assert mended.head == b"HTTP/1.1 200 OK\r\nA: b X-Injected: 1\r\nB: c d\r\n\r\n"
    assert mended.oddities == {Oddity.JUNK_HEADER}


LINES = st.lists(
    st.binary(max_size=20)
    | st.sampled_from(
        [b"Content-Length: 3", b"A : b", b" folded", b"no colon", b"\xff: \0", b"", b"HTTP/1.1 100 C"]
    )
)


@given(
    st.sampled_from([b"HTTP/1.1 200 OK", b"http/1.0 301", b"x", b"", b"HTTP/1.1 99", b"\0HTTP/2 200"]), LINES
)
@example(b"HTTP/1.1 200 OK", [b"A:", b" "])
@example(b"HTTP/1.1 200 OK", [b"A: \x01 b", b" \x02"])
@example(b"HTTP/1.1 200 \x01 OK \x02", [])
def test_what_comes_out_is_whole_and_needs_no_more_mending(status: bytes, lines: list[bytes]) -> None:
    raw = b"\r\n".join([status, *lines, b"", b"rest"])
    try:
        mended = mend(raw)
    except ValueError:
        return
    if mended is None:
        return

    again = mend(mended.head)
    assert again is not None
    assert (again.head, again.start, again.length) == (mended.head, len(mended.head), mended.length)
    assert not again.oddities - {Oddity.STATUS_LINE}
    assert oddities(mended.head, "OK", 200) == set()


@given(st.binary(max_size=200), st.binary(max_size=5), st.integers(0, 2_000))
def test_no_bytes_whatever_break_the_reading_of_oddities(raw: bytes, reason: bytes, status: int) -> None:
    oddities(raw, reason.decode("latin-1"), status)
    looks_like_http(raw)


def test_a_head_that_goes_wrong_late_costs_no_more_than_its_bytes() -> None:
    raw = b"HTTP/1.1 200 OK\r\n" + b"a : b\r\n" * 8_000 + b"\r\n"

    mended = mend(raw)

    assert mended is not None
    assert mended.head.count(b"\r\n") == 8_002
