import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawl_platform.web import url as urls
from crawl_platform.web.url import RULES, Base, canonicalize, explain, host_of, origin_of, resolve
from tests.web.cases import own_cases, shared_cases

PIECES = st.sampled_from(
    [
        "/",
        "//",
        ".",
        "..",
        "?",
        "&",
        "#",
        "=",
        ";",
        ":",
        "@",
        "%20",
        "%2e",
        "%2F",
        "%7e",
        "%zz",
        "%",
        "a",
        "B",
        "x9",
        "utm_source=1",
        "gclid",
        "sid=0123456789abcdef0",
        "sid=3",
        "jsessionid=Q",
        "PHPSESSID=1",
        "(S(abcdefghijklmnopqrstuv0))",
        "é",
        "日",
        '"',
        ">",
        "+",
        "\\",
        "\t",
        "|",
        "[",
        "]",
    ]
)
WILD_URLS = st.builds(
    lambda scheme, host, rest: scheme + host + "".join(rest),
    st.sampled_from(["http://", "https://", "HTTP:", ""]),
    st.sampled_from(
        ["a.example", "A.Example.", "u:p@a.example:80", "a.example:8080", "[::1]", "1.2.3", "xn--a", ""]
    ),
    st.lists(PIECES, max_size=12),
)


@pytest.mark.parametrize("case", own_cases("urls.jsonl"), ids=lambda case: case["url"])
def test_canonical_form_and_the_rules_behind_it(case: dict[str, object]) -> None:
    url = str(case["url"])

    assert canonicalize(url) == case["canonical"]
    assert explain(url) == case["rules"]


@given(WILD_URLS | st.text())
def test_canonicalize_is_idempotent(url: str) -> None:
    once = canonicalize(url)

    if once is not None:
        assert canonicalize(once) == once
        assert explain(once) == []


@given(WILD_URLS)
def test_the_quick_look_never_misses_a_rule(url: str) -> None:
    settled = resolve(url)

    if settled is not None:
        assert canonicalize(url) == urls._settle(settled, [])


@given(WILD_URLS | st.text())
def test_a_plain_url_is_what_the_parser_would_make_of_it(url: str) -> None:
    if urls._serialised(url):
        assert urls._parse(url, None) == url


@given(
    WILD_URLS, st.sampled_from(["http://a.example/b/c;d?e#f", "https://a.example/", "http://a.example:81/x/"])
)
def test_a_base_answers_like_resolve(href: str, base: str) -> None:
    assert Base(base).resolve(href) == resolve(href, base)


@given(WILD_URLS)
@example("http://1.2.3../")  # without both dots it would be an IPv4 address
def test_canonical_urls_keep_their_host(url: str) -> None:
    canonical = canonicalize(url)

    if canonical is not None:
        assert host_of(canonical).rstrip(".") == host_of(url).rstrip(".")


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_every_rule_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case for case in own_cases("urls.jsonl") if name in case["rules"]]
    assert cases, "a rule without a case"
    monkeypatch.setattr(urls, "RULES", tuple(rule for rule in RULES if rule.name != name))

    assert any(urls._settle(str(resolve(case["url"])), []) != case["canonical"] for case in cases)


def test_host_and_origin() -> None:
    assert host_of("https://Shop.Example:8443/x") == "shop.example"
    assert origin_of("https://Shop.Example:8443/x") == "https://shop.example:8443"
    assert origin_of("https://shop.example:443/x") == "https://shop.example"
    assert host_of("http://me@[::1]:80/x") == "[::1]"
    assert host_of("http://shop.example:99999/") == ""
    assert host_of("mailto:me@shop.example") == host_of("") == origin_of("//x") == ""


def test_only_http_resolves() -> None:
    assert resolve("//b.example/x", "https://a.example/") == "https://b.example/x"
    assert resolve("#top", "https://a.example/y?z") == "https://a.example/y?z#top"
    assert resolve("javascript:void(0)", "https://a.example/") is None
    assert resolve("x", None) is None
    assert resolve("\ud800", "https://a.example/") == "https://a.example/%EF%BF%BD"


@pytest.mark.parametrize("kind", ["whatwg-parse", "rfc3986-resolve"])
def test_public_cases_resolve(kind: str) -> None:
    rows = [row for row in shared_cases("urls/urls.shared.jsonl") if row["kind"] == kind]

    wrong = [row["id"] for row in rows if resolve(row["input"], row.get("base")) != _http(row["expected"])]

    assert rows
    assert wrong == []


def _http(expected: str | None) -> str | None:
    return expected if expected is not None and expected.startswith(("http://", "https://")) else None


def test_public_cases_host_to_ascii() -> None:
    rows = [row for row in shared_cases("urls/urls.shared.jsonl") if row["kind"] == "host-to-ascii"]

    wrong = [row["id"] for row in rows if host_of(f"https://{row['input']}/x") != (row["expected"] or "")]

    assert rows
    assert wrong == []


def test_public_cases_of_rfc_3986_normalisation_that_are_http() -> None:
    rows = [row for row in shared_cases("urls/urls.shared.jsonl") if row["kind"] == "rfc3986-normalize"]
    http = [row for row in rows if _http(row["expected"])]

    assert http
    assert [row["id"] for row in http if canonicalize(row["input"]) != row["expected"]] == []
