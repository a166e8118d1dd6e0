import json
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawl_platform.web import robots
from crawl_platform.web.robots import ALLOW_ALL, DISALLOW_ALL, MAX_BYTES, MAX_STARS, parse, status_rule
from tests.web.cases import own_cases, shared_cases, shared_path

LINES = st.lists(
    st.sampled_from(
        [
            "user-agent: *",
            "user-agent: foobot",
            "user-agent",
            "disallow: /",
            "allow: /a*b$",
            "disallow: /%zz",
            "#",
            "crawl-delay: x",
            "crawl-delay: 1e999",
            "crawl-delay: -1",
            "sitemap: \x00",
            ": : :",
            "\ufffe",
            "disallow: /" + "*a" * 50,
        ]
    ),
    max_size=12,
).map("\n".join)


@pytest.mark.parametrize("case", own_cases("robots.jsonl"), ids=lambda case: case["why"])
def test_verdict(case: dict[str, str]) -> None:
    rules = parse(case["robots"].encode())

    assert rules.allows(case["path"], case["agent"]) == case["allowed"]
    assert rules.allows(f"https://a.example{case['path']}#x", case["agent"]) == case["allowed"]


def test_the_standing_answers() -> None:
    assert ALLOW_ALL.allows("https://a.example/x", "foobot")
    assert not DISALLOW_ALL.allows("https://a.example/x", "foobot")
    assert not DISALLOW_ALL.allows("https://a.example", "foobot")


def test_crawl_delay_holds_for_the_agents_named_before_it() -> None:
    rules = parse(b"user-agent: a\ncrawl-delay: 5\nuser-agent: b\ncrawl-delay: 0.5\ndisallow: /x\n")

    assert rules.crawl_delay("a") == 5
    assert rules.crawl_delay("b") == 0.5
    assert rules.crawl_delay("c") is None


def test_of_several_crawl_delays_the_longest_holds() -> None:
    rules = parse(
        b"user-agent: *\ncrawl-delay: 2\ndisallow:\n\nuser-agent: *\ncrawl-delay: 7\ndisallow: /x\n"
    )

    assert rules.crawl_delay("foobot") == 7


@pytest.mark.parametrize("value", [b"soon", b"-1", b"nan", b"inf", b"1e999", b""])
def test_a_crawl_delay_that_is_no_time_is_none(value: bytes) -> None:
    assert parse(b"user-agent: *\ncrawl-delay: " + value).crawl_delay("foobot") is None


def test_a_named_agent_does_not_inherit_the_delay_of_all() -> None:
    assert (
        parse(b"user-agent: *\ncrawl-delay: 9\ndisallow:\nuser-agent: a\nallow: /").crawl_delay("a") is None
    )


def test_sitemaps_are_listed_once_in_order_wherever_they_stand() -> None:
    rules = parse(b"sitemap: http://a.example/2.xml\nuser-agent: *\ndisallow: /\nSitemap: http://a.example/1.xml\n"
                  b"sitemap: http://a.example/2.xml")  # fmt: skip

    assert rules.sitemaps == ["http://a.example/2.xml", "http://a.example/1.xml"]


def test_what_lies_beyond_500_kib_does_not_hold() -> None:
    rule = b"user-agent: *\ndisallow: /a\n"
    padding = b"#" + b"x" * (MAX_BYTES - len(rule) - 3) + b"\n"

    assert not parse(rule + padding * 2).allows("/a", "foobot")
    assert parse(padding * 2 + rule).allows("/a", "foobot")


def test_a_rule_cut_by_the_cap_is_dropped_not_shortened() -> None:
    head = b"user-agent: *\n"
    line = b"disallow: /private\n"
    padding = b"#" + b"x" * (MAX_BYTES - len(head) - 1 - 1 - len(b"disallow: /")) + b"\n"

    assert parse(head + padding + line).allows("/public", "foobot")


def test_bytes_that_are_no_utf_8_match_their_escapes() -> None:
    rules = parse(b"user-agent: *\ndisallow: /caf\xe9\n")

    assert not rules.allows("/caf%E9", "foobot")
    assert rules.allows("/caf%C3%A9", "foobot")


def test_utf_16_is_read() -> None:
    assert not parse("\ufeffuser-agent: *\ndisallow: /a".encode("utf-16-le")).allows("/a", "foobot")


@given(st.binary() | LINES.map(str.encode), st.text())
@example(b"user-agent: *\ndisallow: $", "/")
def test_parse_never_raises(body: bytes, path: str) -> None:
    rules = parse(body)

    assert rules.allows("/" + path, "foobot") in (True, False)
    assert rules.crawl_delay("foobot") is None or rules.crawl_delay("foobot") >= 0  # type: ignore[operator]


@given(
    st.lists(st.sampled_from(list("/ab*$?=.")), max_size=8).map("".join),
    st.text("/ab?=.", max_size=12),
)
def test_patterns_match_as_the_textbook_regular_expression(pattern: str, tail: str) -> None:
    expression = re.escape(pattern).replace(r"\*", ".*")
    expression = expression[:-2] + r"\Z" if pattern.endswith("$") else expression
    path = "/" + tail

    ours = parse(f"user-agent: *\ndisallow: {pattern}".encode()).allows(path, "foobot")

    assert ours == (not pattern or re.match(expression, path, re.DOTALL) is None)


def test_no_pattern_is_slow() -> None:
    rules = parse(b"user-agent: *\ndisallow: /" + b"*a" * (MAX_STARS - 1) + b"b$\n")

    assert rules.allows("/" + "a" * 20_000, "foobot")


def test_a_file_with_more_wildcards_than_can_be_matched_disallows_everything() -> None:
    many = b"".join(b"disallow: /*a*b%d\n" % number for number in range(MAX_STARS // 2 + 1))
    rules = parse(b"user-agent: *\nallow: /\n" + many + b"\nuser-agent: foobot\nallow: /\n")

    assert not rules.allows("/", "another")
    assert rules.allows("/", "foobot"), "only the rules of the agent count"


def test_no_file_is_slow_to_read() -> None:
    agents = b"".join(b"user-agent: x%d\n" % number for number in range(10_000))
    begun = time.process_time()

    rules = parse(agents + b"crawl-delay: 1\n" * 10_000)

    assert rules.crawl_delay("x9999") == 1
    assert time.process_time() - begun < 5, "members times delays"


def test_a_delay_holds_for_the_members_named_before_it() -> None:
    rules = parse(b"user-agent: a\ncrawl-delay: 3\nuser-agent: b\ncrawl-delay: 2\ndisallow: /x")

    assert (rules.crawl_delay("a"), rules.crawl_delay("b"), rules.crawl_delay("c")) == (3, 2, None)


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(200, "rules"), (204, "rules"), (301, "allow_all"), (400, "allow_all"), (401, "allow_all"), (404, "allow_all"),
     (429, "allow_all"), (499, "allow_all"), (500, "disallow_all"), (503, "disallow_all"), (None, "disallow_all")],
)  # fmt: skip
def test_what_a_status_says(status: int | None, verdict: str) -> None:
    assert status_rule(status) == verdict


def test_public_statuses() -> None:
    rows = json.loads(shared_path("robots/fetch_status.json").read_text())["rows"]
    by_status = {row["status"]: row["result"] for row in rows if "status" in row}

    assert ("parse the rules" in by_status["2xx"]) == (status_rule(200) == "rules")
    assert ("MAY access" in by_status["400-499"]) == (status_rule(404) == "allow_all")
    assert ("complete disallow" in by_status["500-599 or network error"]) == (
        status_rule(None) == "disallow_all"
    )


def _body(row: dict[str, str]) -> bytes:
    if row.get("robots_encoding") == "latin-1-bytes":
        return row["robots"].encode("latin-1")
    return row["robots"].encode("utf-8", "surrogateescape")


def test_public_verdicts() -> None:
    rows = shared_cases("robots/verdicts.shared.jsonl")
    settled = [row for row in rows if row["rfc9309"] in ("agree", "agree-lenient", "extension")]

    wrong = [
        row["id"] for row in settled if parse(_body(row)).allows(row["url"], row["agent"]) != row["allowed"]
    ]

    assert len(settled) > 700
    assert wrong == []


def test_in_public_conflicts_we_follow_the_rfc() -> None:
    rows = [row for row in shared_cases("robots/verdicts.shared.jsonl") if row["rfc9309"] == "conflict"]

    assert rows
    assert [
        row["id"] for row in rows if parse(_body(row)).allows(row["url"], row["agent"]) != row["rfc_strict"]
    ] == []


def test_public_files_of_real_sites() -> None:
    rows = shared_cases("robots/realworld.shared.jsonl")
    files = {
        name: parse(shared_path(f"robots/{name}").read_bytes())
        for name in {row["robots_file"] for row in rows}
    }

    wrong = [
        row for row in rows if files[row["robots_file"]].allows(row["url"], row["agent"]) != row["allowed"]
    ]

    assert wrong == []


def test_public_pages_that_pose_as_robots_have_no_rules() -> None:
    folder = shared_path("robots/malformed")

    assert all(parse(path.read_bytes()).allows("https://a.example/x", "foobot") for path in folder.iterdir())


def test_without_preferring_the_longest_match_public_verdicts_break(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row for row in shared_cases("robots/verdicts.shared.jsonl") if row["rfc9309"] == "agree"]
    monkeypatch.setattr(robots._Matcher, "_longest_prefix", _shortest_prefix)

    assert any(parse(_body(row)).allows(row["url"], row["agent"]) != row["allowed"] for row in rows)


def _shortest_prefix(matcher: robots._Matcher, path: str) -> tuple[int, bool]:
    found = [length for length in reversed(matcher._lengths) if path[:length] in matcher._prefixes]
    return (found[0], matcher._prefixes[path[: found[0]]]) if found else (-1, True)
