"""Content-Encoding undone: every encoding, the cap on what comes out, bombs, cut and lying bodies."""

import contextlib
import gzip
import hashlib
import time
import tracemalloc
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.errors import SiteError
from crawl_platform.fetch.inflate import ACCEPTED, MEMBERS, inflate
from crawl_platform.fetch.outcome import Outcome

CAP = 250_000


def _raw_deflate(body: bytes) -> bytes:
    coder = zlib.compressobj(wbits=-15)
    return coder.compress(body) + coder.flush()


def _zstd_stream(body: bytes) -> bytes:
    """A frame without its content size in the header, as servers stream it."""
    coder = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return coder.compress(body) + coder.flush()


ENCODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "identity": ("identity", bytes),
    "no header": ("", bytes),
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZip ", gzip.compress),
    "deflate (zlib)": ("deflate", zlib.compress),
    "deflate (raw)": ("deflate", _raw_deflate),
    "br": ("br", lambda body: brotli.compress(body, quality=4)),
    "zstd": ("zstd", zstandard.compress),
    "zstd (streamed)": ("zstd", _zstd_stream),
}
COMPRESSED = [name for name, (encoding, _) in ENCODERS.items() if encoding not in ("", "identity")]
BIG = b"".join(hashlib.sha256(b"%d" % n).hexdigest().encode() for n in range(6_000))
"""384 kB that compress to a half: three blocks of zstd, which gives a block only when it is whole."""
PAGE = b"<html><body>" + b"".join(b"<p>paragraph %d</p>" % n for n in range(5_000)) + b"</body></html>"


@pytest.mark.parametrize("name", ENCODERS)
@given(body=st.binary(max_size=2_000) | st.just(PAGE))
@settings(max_examples=15, deadline=None)
def test_what_was_encoded_comes_out(name: str, body: bytes) -> None:
    encoding, encode = ENCODERS[name]

    inflated = inflate(encode(body), encoding, CAP)

    assert (inflated.body, inflated.truncated) == (body, False)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("cap", [1, 100, 65_536, len(PAGE) - 1])
def test_output_is_cut_at_the_cap_and_said_to_be(name: str, cap: int) -> None:
    encoding, encode = ENCODERS[name]

    inflated = inflate(encode(PAGE), encoding, cap)

    assert (inflated.body, inflated.truncated) == (PAGE[:cap], True)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_body_of_exactly_the_cap_is_whole(name: str) -> None:
    encoding, encode = ENCODERS[name]

    inflated = inflate(encode(PAGE), encoding, len(PAGE))

    assert (inflated.body, inflated.truncated) == (PAGE, False)


def _bomb(name: str) -> bytes:
    """50 MB of zeros in a few KB."""
    size = 50_000_000
    if name == "br":
        return bytes(brotli.compress(bytes(size), quality=1))
    if name.startswith("zstd"):
        return zstandard.compress(bytes(size))
    coder = zlib.compressobj(1, wbits={"gzip": 31, "deflate (zlib)": 15, "deflate (raw)": -15}[name])
    return b"".join([*(coder.compress(bytes(1_000_000)) for _ in range(50)), coder.flush()])


@pytest.mark.parametrize("name", ["gzip", "deflate (raw)", "br", "zstd"])
def test_a_bomb_costs_no_more_memory_than_the_cap(name: str) -> None:
    bomb = _bomb(name)
    tracemalloc.start()

    inflated = inflate(bomb, ENCODERS[name][0], CAP)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(inflated.body), inflated.truncated) == (CAP, True)
    assert peak < 20 * CAP


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_cut_body_gives_what_could_be_read_and_says_so(name: str) -> None:
    encoding, encode = ENCODERS[name]
    wire = encode(BIG)

    inflated = inflate(wire[: len(wire) * 9 // 10], encoding, len(BIG))

    assert inflated.truncated
    assert inflated.body
    assert BIG.startswith(inflated.body)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_wire_that_was_cut_by_us_is_truncated_whatever_came_out(name: str) -> None:
    encoding, encode = ENCODERS[name]
    wire = encode(PAGE)

    assert inflate(wire[:-1], encoding, CAP, complete=False).truncated
    assert inflate(wire, encoding, CAP, complete=False).truncated


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("body", [b"<!doctype html><p>plain", b"  <html>", b"User-agent: *\nDisallow: /\n"])
def test_a_header_that_lies_over_a_plain_body_is_not_believed(encoding: str, body: bytes) -> None:
    inflated = inflate(body, encoding, CAP)

    assert (inflated.body, inflated.encoding, inflated.truncated) == (body, "identity", False)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_garbage_is_bad_encoding(encoding: str) -> None:
    with pytest.raises(SiteError) as error:
        inflate(b"\xff\x00\xfe\x01" * 50, encoding, CAP)

    assert error.value.outcome is Outcome.BAD_ENCODING


@pytest.mark.parametrize(
    "encoding", ["compress", "gzip, br", "nonsense" * 100, "gzip, compress", "br,br,br,br"]
)
def test_an_encoding_we_did_not_ask_for_is_bad_encoding(encoding: str) -> None:
    with pytest.raises(SiteError) as error:
        inflate(b"\x00", encoding, CAP)

    assert error.value.outcome is Outcome.BAD_ENCODING


def test_a_body_that_ends_before_its_first_byte_is_bad_encoding() -> None:
    with pytest.raises(SiteError):
        inflate(gzip.compress(PAGE)[:12], "gzip", CAP)


@pytest.mark.parametrize("name", COMPRESSED)
def test_an_empty_body_is_empty_with_or_without_its_frame(name: str) -> None:
    encoding, encode = ENCODERS[name]

    assert inflate(b"", encoding, CAP).body == b""
    assert inflate(encode(b""), encoding, CAP).body == b""


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate", "br", "zstd", "", "identity"]))
@settings(deadline=None)
def test_no_body_whatever_raises_anything_but_a_site_error(wire: bytes, encoding: str) -> None:
    with contextlib.suppress(SiteError):
        assert len(inflate(wire, encoding, 1_000).body) <= 1_000


def test_we_ask_only_for_what_we_can_undo() -> None:
    for encoding in ACCEPTED.split(", "):
        encode = next(e for e_name, e in ENCODERS.values() if e_name == encoding)
        assert inflate(encode(PAGE), encoding, CAP).body == PAGE


def test_every_member_of_a_gzip_file_is_read() -> None:
    wire = gzip.compress(b"<p>first") + gzip.compress(b" second") + b"\0\0 padding"

    assert inflate(wire, "gzip", 1_000).body == b"<p>first second"


def test_members_together_stay_under_the_cap() -> None:
    wire = gzip.compress(b"a" * 600) * 3

    found = inflate(wire, "gzip", 1_000)

    assert len(found.body) == 1_000
    assert found.truncated


# several encodings on top of one another


def test_encodings_come_off_in_the_reverse_of_their_order() -> None:
    wire = zstandard.compress(brotli.compress(gzip.compress(PAGE)))

    inflated = inflate(wire, "gzip, br,identity, ZSTD", CAP)

    assert (inflated.body, inflated.truncated, inflated.encoding) == (PAGE, False, "gzip, br, zstd")
    assert inflate(wire, inflated.encoding, CAP).body == PAGE, "the stored wire can be read again"


def test_a_stacked_header_over_fewer_layers_gives_what_is_there() -> None:
    inflated = inflate(gzip.compress(PAGE), "br, gzip", CAP)

    assert (inflated.body, inflated.encoding) == (PAGE, "gzip")
    assert inflated.oddities == {"stacked_encoding", "false_encoding"}


def test_the_cap_holds_for_every_layer() -> None:
    bomb = gzip.compress(gzip.compress(bytes(50_000_000), 1), 1)
    tracemalloc.start()

    inflated = inflate(bomb, "gzip, gzip", CAP)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(inflated.body) <= CAP
    assert inflated.truncated
    assert peak < 20 * CAP


# time and memory of hostile ones


@pytest.mark.parametrize("name", ["gzip", "deflate (zlib)", "br", "zstd"])
def test_a_bomb_takes_no_longer_than_a_page_of_the_cap(name: str) -> None:
    """The same output from a bomb as from a page: the ratio does not count, only what comes out."""
    encoding, encode = ENCODERS[name]
    page, bomb = encode(bytes(CAP)), _bomb(name)

    def seconds(wire: bytes) -> float:
        begun = time.perf_counter()
        inflate(wire, encoding, CAP)
        return time.perf_counter() - begun

    assert min(seconds(bomb) for _ in range(5)) < 20 * min(seconds(page) for _ in range(5)) + 0.002


def test_a_frame_that_asks_for_more_memory_than_the_standard_allows_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    coder = zstandard.ZstdCompressor(compression_params=parameters, level=1).compressobj()
    wire = coder.compress(hashlib.sha256(b"x").digest() * 10) + coder.flush()

    with pytest.raises(SiteError):
        inflate(wire, "zstd", CAP)


def test_all_frames_of_a_zstd_body_are_read() -> None:
    wire = zstandard.compress(b"<p>first") + _zstd_stream(b" second")

    assert (inflate(wire, "zstd", CAP).body, inflate(wire, "zstd", CAP).truncated) == (
        b"<p>first second",
        False,
    )
    assert inflate(wire[:-3], "zstd", CAP).truncated


def test_members_without_end_are_cut() -> None:
    wire = gzip.compress(b"x", 1) * (MEMBERS + 10)

    inflated = inflate(wire, "gzip", CAP)

    assert (len(inflated.body), inflated.truncated) == (MEMBERS, True)
