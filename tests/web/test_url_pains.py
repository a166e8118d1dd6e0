"""What users of other crawlers were hurt by, and what hostile pages try: the whole kind of each."""

import time

import pytest

from crawl_platform.web import url as urls
from crawl_platform.web.host import is_hostname, registrable_domain, shard_of
from crawl_platform.web.url import ROUNDS, Base, canonicalize, explain, host_of, origin_of, port_of, resolve
from tests.web.cases import shared_cases

AT = "https://old.host/a/b?c"

PAINS = [
    # A percent sign that is escaped stays escaped, however often it is looked at.
    ("http://x.host/Dia%25", "http://x.host/Dia%25"),
    ("http://x.host/100%", "http://x.host/100%"),
    ("http://x.host/%2541", "http://x.host/%2541"),
    ("http://x.host/%%34%31", "http://x.host/A"),
    # Literal addresses of version 6 keep their brackets and have one spelling.
    ("https://[2402::1]/", "https://[2402::1]/"),
    ("https://[2402:0:0::0001]:443/x", "https://[2402::1]/x"),
    ("https://[::ffff:1.2.3.4]:81/", "https://[::ffff:102:304]:81/"),
    ("https://[2402::1", None),
    ("https://2402::1/", None),
    ("https://[fe80::1%25eth0]/", None),
    # Parameters with brackets are accepted as browsers send them.
    ("http://x.host/search?tags[]=a&x[y]=1", "http://x.host/search?tags[]=a&x[y]=1"),
    ("http://x.host/[x]", "http://x.host/[x]"),
    # Tabs and newlines are taken out wherever they are, spaces only around.
    ("http://exa\tmple.com", "http://example.com/"),
    ("ht\ntp://exam\r\nple.com/a\tb?c\nd#e\tf", "http://example.com/ab?cd"),
    (" http://x.host/ ", "http://x.host/"),
    ("\x00\x1f http://x.host/p \x00", "http://x.host/p"),
    ("http://x.host/a b", "http://x.host/a%20b"),
    ("http://x .host/", None),
    # Hosts that other tools refuse.
    ("http://a_b.host/", "http://a_b.host/"),
    ("http://a-.host/", "http://a-.host/"),
    ("https://i❤.ws/", "https://xn--i-7iq.ws/"),
    ("https://I❤．WS。/", "https://xn--i-7iq.ws/"),
    ("http://FAẞ.example/", "http://xn--fa-hia.example/"),
    ("http://XN--a/", "http://xn--a/"),
    ("http://xn--té.example/", None),
    ("http://a‌b.example/", None),
    ("http://a%2eb.example/", "http://a.b.example/"),
    ("http://a%00b.example/", None),
    ("http://a%25b.example/", None),
    ("http://x|y.example/", None),
    # Numbers that are addresses: in any notation, and those that overflow are no host at all.
    ("http://0x7f.1/", "http://127.0.0.1/"),
    ("http://017700000001/", "http://127.0.0.1/"),
    ("http://2130706433/", "http://127.0.0.1/"),
    ("http://127。0。0。1/", "http://127.0.0.1/"),
    ("http://１２７.0.0.1/", "http://127.0.0.1/"),
    ("http://1.2.3.4.5/", None),
    ("http://256.1.1.1/", None),
    ("http://1.2.3.0x100/", None),
    ("http://a.0x/", None),
    ("http://1.2.3.4./", "http://1.2.3.4/"),
    # Quotes in a query.
    ("http://x.host/?p=%27%27", "http://x.host/?p=%27%27"),
    ("http://x.host/?p=''", "http://x.host/?p=%27%27"),
    ("http://x.host/'?p", "http://x.host/'?p"),
    # Ports, user info, slashes.
    ("http://x.host:/", "http://x.host/"),
    ("http://x.host:00080/", "http://x.host/"),
    ("http://x.host:65536/", None),
    ("http://x.host:8o/", None),
    ("https://u:p@w@x.host/@y", "https://x.host/@y"),
    ("http:\\\\x.host\\p?a\\b", "http://x.host/p?a\\b"),
    ("http:x.host/p", "http://x.host/p"),
    ("http:////x.host//p", "http://x.host//p"),
    ("http://x.host?q", "http://x.host/?q"),
    ("http:///", None),
    # What is no text at all.
    ("http://x.host/\ud800", "http://x.host/%EF%BF%BD"),
    ("http://x\ud800.host/", None),
    ("http://x.host/\U0001f600?\U0001f600", "http://x.host/%F0%9F%98%80?%F0%9F%98%80"),
]


@pytest.mark.parametrize(("text", "canonical"), PAINS, ids=lambda value: repr(value)[:40])
def test_a_url_is_read_as_browsers_read_it_and_known_by_one_name(text: str, canonical: str | None) -> None:
    assert canonicalize(text) == canonical
    assert canonical is None or canonicalize(canonical) == canonical


REFERENCES = [
    ("///fr.host/p", "https://fr.host/p"),
    ("//fr.host/p", "https://fr.host/p"),
    ("/\\fr.host/p", "https://fr.host/p"),
    ("\\p", "https://old.host/p"),
    (" http://x/ ", "http://x/"),
    ("\n/p\n", "https://old.host/p"),
    ("?p=%27%27", "https://old.host/a/b?p=%27%27"),
    ("", "https://old.host/a/b?c"),
    ("#", "https://old.host/a/b?c#"),
    ("https:p", "https://old.host/a/p"),
    ("http:p", "http://p/"),
    ("../../../p", "https://old.host/p"),
    ("%2e%2E/p", "https://old.host/p"),
    ("a:b", None),
    ("javascript:alert(1)", None),
    ("data:text/html,x", None),
    ("blob:https://old.host/1", None),
    ("//", None),
    ("http://", None),
    ("tel:+1", None),
]


@pytest.mark.parametrize(("reference", "target"), REFERENCES, ids=lambda value: repr(value)[:30])
def test_a_reference_is_resolved_as_browsers_resolve_it(reference: str, target: str | None) -> None:
    assert resolve(reference, AT) == target
    assert Base(AT).resolve(reference) == target


def test_a_base_that_holds_no_text_is_read_like_a_reference_that_does_not() -> None:
    assert resolve("x\ud800", "http://a.host/\udfff/") == "http://a.host/%EF%BF%BD/x%EF%BF%BD"
    assert resolve("x", "mailto:me") is None


def test_a_trimmed_link_is_no_loop() -> None:
    page = "http://x/"

    assert canonicalize(str(Base(page).resolve(" http://x/"))) == page


@pytest.mark.parametrize("kind", ["whatwg-parse", "rfc3986-resolve"])
def test_a_base_answers_the_public_cases_like_resolve(kind: str) -> None:
    rows = [row for row in shared_cases("urls/urls.shared.jsonl") if row["kind"] == kind]
    compared = 0

    for row in rows:
        base = resolve(row["base"]) if row.get("base") else None
        if base is not None:
            compared += 1
            assert Base(base).resolve(row["input"]) == resolve(row["input"], base), row["id"]

    assert compared


def test_all_public_urls_are_canonical_after_one_step() -> None:
    rows = shared_cases("urls/urls.shared.jsonl")
    canonical = {url for row in rows if (url := canonicalize(str(row["input"])))}

    assert len(canonical) > 250
    assert [url for url in canonical if canonicalize(url) != url or explain(url)] == []
    assert [url for url in canonical if not host_of(url) or not origin_of(url).startswith("http")] == []


def test_host_and_port_of_a_url_that_holds_no_text() -> None:
    assert host_of("http://x.host/\ud800") == "x.host"
    assert port_of("http://[2402::1]:81/") == 81
    assert port_of("http://[2402::1]/") is None


def test_every_host_of_a_url_has_a_shard_and_a_domain() -> None:
    for text, canonical in PAINS:
        if canonical is not None:
            host = host_of(canonical)
            assert 0 <= shard_of(host, 64) < 64, text
            assert registrable_domain(host)
            assert is_hostname(host) or host.startswith("["), text


# hostile


def test_a_url_that_is_never_settled_is_none() -> None:
    endless = "http://x.host/" + "%3" * 50 + "34"

    assert canonicalize(endless) is None
    assert canonicalize("http://x.host/" + "%3" * (ROUNDS - 1) + "34") == "http://x.host/34"


def test_ablation_without_a_bound_on_rounds_the_same_url_takes_as_many_as_it_is_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fired: list[str] = []
    monkeypatch.setattr(urls, "ROUNDS", 1_000)

    assert urls._settle("http://x.host/" + "%3" * 50 + "34", fired) == "http://x.host/34"
    assert len(fired) == 50


PIECES = [
    "%20", "%3", "%41", "%c3", "?%20", "gclid%20&", "&", "?", "#", ";sid=1", "/(s(", "/(s(aaaaaaaaaaaaaaaaaaaaaaaa))",
    "../", "/..;sid=1", "s=0&", "s=0a-", "utm_", "utm_a&", "@", ":", "[", "\\", "a.", "xn--a.", "é.", "\t", "日",
]  # fmt: skip


@pytest.mark.parametrize("start", ["http://x.host/", "http://x.host/?", "http://"])
@pytest.mark.parametrize("piece", PIECES)
def test_the_time_for_a_url_grows_with_its_length_and_no_faster(start: str, piece: str) -> None:
    def seconds(size: int) -> float:
        url = start + piece * (size // len(piece)) + "a"
        begun = time.process_time()
        canonicalize(url)
        host_of(url)
        return time.process_time() - begun

    assert min(seconds(40_000) for _ in range(2)) < 40 * min(seconds(4_000) for _ in range(4)) + 0.002
