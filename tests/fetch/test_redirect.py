"""Where a Location leads, as servers really write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.errors import SiteError
from crawl_platform.fetch.client import HttpClient
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fetch.redirect import LOCATION_CAP, location, redirect_to
from crawl_platform.fetch.safety import AddressGuard
from crawl_platform.web.url import canonicalize
from tests.fetch.asking import get
from tests.fetch.servers import answers, reply, serving

PAGE = "https://site.test/a/b?c=d"


@pytest.mark.parametrize(
    ("written", "target"),
    [
        (b"https://other.test/x", "https://other.test/x"),
        (b"/x", "https://site.test/x"),
        (b"x?y=z", "https://site.test/a/x?y=z"),
        (b"?y=z", "https://site.test/a/b?y=z"),
        (b"//other.test/x", "https://other.test/x"),
        (b"///fr.host/p", "https://fr.host/p"),
        (b"https:/other.test/p", "https://site.test/other.test/p"),
        (b"/x#part", "https://site.test/x"),
        (b"#part", PAGE),
        (b"/p?p=%27%27", "https://site.test/p?p=%27%27"),
        (b"/caf\xc3\xa9", "https://site.test/caf%C3%A9"),  # UTF-8
        (b"/caf\xe9?q=\xe9", "https://site.test/caf%E9?q=%E9"),  # Latin-1: the bytes as they are
        (b"/caf%E9/\xff%ff", "https://site.test/caf%E9/%FF%FF"),
        (b"https://m\xc3\xbcnchen.test/", "https://xn--mnchen-3ya.test/"),
        (b"/two words", "https://site.test/two%20words"),
        (b" \t/x ", "https://site.test/x"),
        (b"HTTPS://Other.TEST:443/x", "https://other.test/x"),
        (b"http://site.test:8080/x", "http://site.test:8080/x"),
    ],
)
def test_a_location_is_read_as_browsers_do(written: bytes, target: str) -> None:
    header = location(written.decode("utf-8", "surrogateescape"))

    assert redirect_to(header, PAGE, AddressGuard()) == target


@pytest.mark.parametrize(
    ("written", "path", "oddities"),
    [
        (b"/caf\xe9", "/caf%E9", {"raw_location"}),
        (b"/two words", "/two%20words", {"raw_location"}),
        (b" /x ", "/x", set()),
    ],
)
async def test_bytes_beyond_ascii_arrive_as_they_were_sent(
    client: HttpClient, written: bytes, path: str, oddities: set[str]
) -> None:
    head = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + written + b"\r\n\r\n"
    async with serving(answers(head)) as server:
        response = await get(client, server.url("/a"))

    assert (response.outcome, response.redirect_to) == (Outcome.REDIRECT, server.url(path))
    assert response.oddities == oddities


async def test_of_several_locations_the_first_counts(client: HttpClient) -> None:
    answer = reply("301 Moved", b"", "Location: /first", "Location: /second")
    async with serving(answers(answer)) as server:
        response = await get(client, server.url())

    assert (response.redirect_to or "").endswith("/first")
    assert response.oddities == {"several_locations"}


@pytest.mark.parametrize(
    ("written", "outcome"),
    [
        ("", Outcome.BAD_REDIRECT),
        ("http://", Outcome.BAD_REDIRECT),
        ("http://a b.test/", Outcome.BAD_REDIRECT),
        ("http://x.test:99999/", Outcome.BAD_REDIRECT),
        ("/" + "x" * LOCATION_CAP, Outcome.BAD_REDIRECT),
        ("file:///etc/passwd", Outcome.UNSAFE_REDIRECT),
        ("FTP://x.test/", Outcome.UNSAFE_REDIRECT),
        ("gopher://127.0.0.1:11211/_stats", Outcome.UNSAFE_REDIRECT),
        ("javascript:alert(1)", Outcome.UNSAFE_REDIRECT),
        ("data:text/html,hi", Outcome.UNSAFE_REDIRECT),
        ("http://127.0.0.1/", Outcome.UNSAFE_REDIRECT),
        ("http://2130706433/", Outcome.UNSAFE_REDIRECT),
        ("http://0x7f.1/", Outcome.UNSAFE_REDIRECT),
        ("http://169.254.169.254/latest/meta-data/", Outcome.UNSAFE_REDIRECT),
        ("http://[::1]/", Outcome.UNSAFE_REDIRECT),
        ("http://[::ffff:10.0.0.1]/", Outcome.UNSAFE_REDIRECT),
        ("http://localhost/", Outcome.UNSAFE_REDIRECT),
        ("http://a.localhost/", Outcome.UNSAFE_REDIRECT),
    ],
)
def test_a_redirect_that_leads_nowhere_or_home_is_an_outcome(written: str, outcome: Outcome) -> None:
    with pytest.raises(SiteError) as error:
        redirect_to(written, PAGE, AddressGuard())

    assert error.value.outcome == outcome
    assert len(error.value.detail) < 300


async def test_a_redirect_to_itself_with_a_cookie_is_recorded_like_any_other(client: HttpClient) -> None:
    async with serving(answers(reply("302 Found", b"", "Location: /x", "Set-Cookie: seen=1"))) as server:
        first, second = await get(client, server.url("/x")), await get(client, server.url("/x"))

    assert [first.redirect_to, second.redirect_to] == [server.url("/x")] * 2
    assert not any(b"ookie" in head for head in server.heads)


@given(st.binary(max_size=60))
def test_any_bytes_in_a_location_are_a_url_or_an_outcome(written: bytes) -> None:
    header = location(written.decode("utf-8", "surrogateescape"))

    assert header.isascii() or not written.isascii()
    try:
        target = redirect_to(header, PAGE, AddressGuard())
    except SiteError:
        return
    assert canonicalize(target) == target
