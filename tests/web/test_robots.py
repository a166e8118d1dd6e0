import json
import re
import time
import timeit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawl_platform.web import path_rules
from crawl_platform.web.path_rules import MAX_STARS
from crawl_platform.web.robots import ALLOW_ALL, DISALLOW_ALL, MAX_BYTES, Robots, parse, status_rule
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


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"10", 10), (b"0", 0), (b"0.5", 0.5), (b".5", 0.5), (b"1,5", 1.5), (b"7 s", 7), (b"30sec", 30), (b"10 # why", 10),
     (b"99999999999", 1e9), (b"9" * 400, 1e9), (b"10; 20", 10)],
)  # fmt: skip
def test_a_crawl_delay_as_sites_write_it(value: bytes, seconds: float) -> None:
    assert parse(b"user-agent: *\ncrawl-delay:" + value + b"\n").crawl_delay("foobot") == seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"1/10", 10), (b"30/1m", 2), (b"1/5s 0600-0845", 5), (b"1 / 2h", 7200), (b"0/5", None), (b"1/", None),
     (b"x/1", None), (b"1/5 0600-0845 UTC", 5), (b"1/2x", None)],
)  # fmt: skip
def test_a_request_rate_is_a_delay(value: bytes, seconds: float | None) -> None:
    assert parse(b"user-agent: *\nrequest-rate: " + value + b"\n").crawl_delay("foobot") == seconds


def test_of_a_crawl_delay_and_a_request_rate_the_slower_holds() -> None:
    assert parse(b"user-agent: *\nrequest-rate: 1/10\ncrawl-delay: 3").crawl_delay("foobot") == 10


@pytest.mark.parametrize(
    "record", [b"crawl-delay: 5", b"request-rate: 1/5", b"content-signal: search=yes", b"host: a.test"]
)
def test_a_record_that_is_no_rule_does_not_close_the_list_of_agents(record: bytes) -> None:
    rules = parse(b"user-agent: a\n" + record + b"\nuser-agent: b\ndisallow: /x\n")

    assert (rules.allows("/x", "a"), rules.allows("/x", "b")) == (False, False)


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


def test_a_byte_that_is_a_space_elsewhere_is_none_here() -> None:
    assert not parse("user-agent: *\ndisallow /\u00e0b".encode()).allows("/%C3%A0b/x", "foobot")


def test_utf_16_is_read() -> None:
    assert not parse("\ufeffuser-agent: *\ndisallow: /a".encode("utf-16-le")).allows("/a", "foobot")


@pytest.mark.long
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


PATTERN = st.lists(st.sampled_from(["/", "/", "a", "b", "ab", "*", "$", "?"]), min_size=1, max_size=6).map(
    "".join
)


@given(st.lists(st.tuples(PATTERN, st.booleans()), max_size=12), st.text("/ab?", max_size=12))
def test_of_many_rules_the_one_with_most_octets_that_matches_decides(
    rules: list[tuple[str, bool]], tail: str
) -> None:
    path = "/" + tail
    rules = [(path_rules.pattern_of(pattern), allow) for pattern, allow in rules]
    fitting = [(len(p), allow) for p, allow in rules if _as_regular_expression(p).match(path)]

    assert path_rules.PathRules(rules).allows(path) == max(fitting, default=(0, True))[1]


def _as_regular_expression(pattern: str) -> re.Pattern[str]:
    """The textbook's: slow on some patterns, and right."""
    anchored = pattern.endswith("$")
    body = ".*".join(map(re.escape, (pattern[:-1] if anchored else pattern).split("*")))
    return re.compile(body + (r"\Z" if anchored else ""), re.DOTALL)


def test_ten_thousand_rules_cost_about_what_ten_do() -> None:
    few, many = (
        parse(b"user-agent: *\n" + b"".join(b"disallow: /part-%05d/of/the/site\n" % n for n in range(size)))
        for size in (10, 12_000)
    )

    assert _seconds_of(many, "/part-00007/of/the/site/x") < 8 * _seconds_of(few, "/part-00007/of/the/site/x")


def test_wildcards_below_other_paths_cost_nothing() -> None:
    few, many = (
        parse(b"user-agent: *\n" + b"".join(b"disallow: /part-%05d/*.pdf$\n" % n for n in range(size)))
        for size in (10, MAX_STARS)
    )

    assert not many.allows("/part-00007/x.pdf", "foobot")
    assert _seconds_of(many, "/part-00007/x.html") < 8 * _seconds_of(few, "/part-00007/x.html")


def _seconds_of(rules: Robots, path: str) -> float:
    """The best of several: other processes share the machine."""
    rules.allows(path, "foobot")
    return min(timeit.repeat(lambda: rules.allows(path, "foobot"), number=200, repeat=7))


def test_prefixes_nested_in_one_another_are_no_trap() -> None:
    rules = parse(b"user-agent: *\n" + b"".join(b"disallow: /" + b"a" * n + b"\n" for n in range(900)))

    assert not rules.allows("/" + "a" * 2_000, "foobot")
    assert _seconds_of(rules, "/" + "a" * 899 + "!") < 200 * 0.005


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


PAINS = [
    ("Disallow: /*s=", "/?s=asd", False),
    ("Allow: /*/filter/page=*/$\nDisallow: /", "/1/filter/page=5/", True),
    ("Allow: /*/filter/page=*/$\nDisallow: /", "/1/filter/page=5/x", False),
    ("Disallow: /*%2F*", "/a/b", True),
    ("Disallow: /*%2F*", "/a%2fb", False),
    ("Disallow: /a # caf\udcdf", "/a", False),
]


@pytest.mark.parametrize(("rules", "path", "allowed"), PAINS)
def test_what_other_crawlers_got_wrong(rules: str, path: str, allowed: bool) -> None:
    body = f"User-agent: *\n{rules}\n".encode("utf-8", "surrogateescape")

    assert parse(body).allows(path, "foobot") is allowed


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xef\xbb", b"\xef\xbb\xbf\r\n"])
def test_a_byte_order_mark_does_not_lose_the_first_group(mark: bytes) -> None:
    assert not parse(mark + b"User-agent: *\nDisallow: /a\n").allows("/a", "foobot")


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


def test_contested_probes_of_real_files_follow_the_strict_reading() -> None:
    rows = shared_cases("robots/realworld_contested.shared.jsonl")
    files = {
        row["robots_file"]: parse(shared_path(f"robots/{row['robots_file']}").read_bytes()) for row in rows
    }

    wrong = [
        row for row in rows if files[row["robots_file"]].allows(row["url"], row["agent"]) != row["rfc_strict"]
    ]

    assert len(rows) == 90
    assert wrong == []


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
    monkeypatch.setattr(path_rules, "_ranked", lambda rules: {pattern: 4 + allow for pattern, allow in rules})

    assert any(parse(_body(row)).allows(row["url"], row["agent"]) != row["allowed"] for row in rows)
