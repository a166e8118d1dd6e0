"""What sites say about the use of their content, in every way they can say it."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.web.preferences import (
    CATEGORIES,
    MAX_RULES,
    Statement,
    TdmRule,
    by_labels,
    combine,
    content_usage,
    parse_tdmrep,
    robots_directives,
    tdm_file_says,
    tdm_reservation,
)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"search": "yes", "ai-train": "no"}, {"search": True, "ai-train": False}),
        ({"ai-train": "no", "use": "reference"}, {"ai-train": False}),
        ({"Search": "YES", "ai-input": "false"}, {"search": True, "ai-input": False}),
        ({"ai-train": "yes", "train-ai": "n"}, {"ai-train": False}),
        ({"ai-train": "maybe", "profit": "no"}, {}),
        ({}, {}),
    ],
)
def test_labels_as_sites_write_them(values: dict[str, str], says: dict[str, bool]) -> None:
    assert by_labels(values) == says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("train-ai=n", {"ai-train": False}),
        ("train-ai=y, search=n", {"ai-train": True, "search": False}),
        ("ai-use=n,  train-ai=n", {"ai-input": False, "ai-train": False}),
        ("train-ai=n;exceptions=nil, other=(a b), x=:aGk=:, y=4.5, z", {"ai-train": False}),
        ("train-ai=y, train-ai=n", {"ai-train": False}),
        ("bots=n", {"search": False, "ai-input": False, "ai-train": False, "tdm": False}),
        ("train-ai", {"ai-train": True}),
        ("train-ai=?0", {"ai-train": False}),
        ('train-ai="n"', {}),
    ],
)
def test_content_usage(text: str, says: dict[str, bool]) -> None:
    assert content_usage(text) == says


@pytest.mark.parametrize(
    "text", ["train-ai=n,", "Train-AI=n", "train-ai = n", "train-ai=n search=n", ",", "=n"]
)
def test_what_is_no_dictionary_says_nothing(text: str) -> None:
    assert content_usage(text) == {}


def test_robots_directives() -> None:
    assert robots_directives(["index", "NoAI"]) == {"ai-input": False, "ai-train": False}
    assert robots_directives(["noimageai", " noarchive "]) == {"ai-images": False, "archive": False}
    assert robots_directives(["all", "max-snippet:20"]) == {}


@pytest.mark.parametrize(
    ("text", "says"), [("1", {"tdm": False}), (" 0 ", {"tdm": True}), ("2", {}), ("", {})]
)
def test_tdm_reservation(text: str, says: dict[str, bool]) -> None:
    assert tdm_reservation(text) == says


def test_the_first_rule_of_a_tdm_file_that_matches_counts() -> None:
    rules = parse_tdmrep(
        json.dumps(
            [
                {"location": "/open/", "tdm-reservation": 0},
                {"location": "/*.pdf$", "tdm-reservation": 1, "tdm-policy": "https://a.test/policy"},
                {"location": "/exactly$", "tdm-reservation": "1"},
                {"location": "/broken", "tdm-reservation": 3},
                {"tdm-reservation": True},
                "text",
            ]
        ).encode()
    )

    assert [rule.location for rule in rules] == ["/open/", "/*.pdf$", "/exactly$"]
    assert tdm_file_says(rules, "/open/a.pdf") == {"tdm": True}
    assert tdm_file_says(rules, "/a/b.pdf") == {"tdm": False}
    assert tdm_file_says(rules, "/a/b.pdf?x") == {}
    assert tdm_file_says(rules, "/exactly") == {"tdm": False}
    assert tdm_file_says(rules, "/exactly/not") == {}


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[" * 100_000, b"\xff\xfe", b"9" * 5_000, b"null", b'[{"a":1}]']
)
def test_a_file_that_is_no_tdm_file_says_nothing(body: bytes) -> None:
    assert parse_tdmrep(body) == ()


def test_a_tdm_file_takes_bounded_memory_and_time() -> None:
    hostile = [{"location": "/" + "*a" * 240 + "$", "tdm-reservation": 1}] * 4_000
    rules = parse_tdmrep(json.dumps(hostile).encode())
    assert len(rules) == MAX_RULES

    begun = time.process_time()
    assert tdm_file_says(rules, "/" + "a" * 2_000) == {"tdm": False}
    assert tdm_file_says(rules, "/" + "a" * 200) == {}
    assert time.process_time() - begun < 0.5


def test_one_no_beats_every_yes_and_is_told_with_its_source() -> None:
    combined = combine(
        [
            Statement("robots:content-signal", {"search": True, "ai-train": True}),
            Statement("header:content-usage", {"ai-train": False}),
            Statement("meta:robots", {"ai-train": False, "archive": False}),
        ]
    )

    assert combined.words() == {"search": "yes", "ai-train": "no", "archive": "no"}
    assert combined.sources["ai-train"] == "header:content-usage"
    assert combined.of("ai-input") is None


def test_of_the_words_of_tdmrep_the_closest_to_the_page_counts() -> None:
    file = Statement("file:tdmrep", {"tdm": False})
    header = Statement("header:tdmrep", {"tdm": True})
    meta = Statement("meta:tdmrep", {"tdm": False})

    assert combine([file]).of("tdm") is False
    assert combine([file, header]).of("tdm") is True
    assert combine([file, header, meta]).of("tdm") is False
    assert combine([header, Statement("header:content-usage", {"tdm": False})]).of("tdm") is False


SAYS = st.dictionaries(st.sampled_from(CATEGORIES), st.booleans())
SOURCES = st.sampled_from(["robots:content-signal", "header:content-usage", "meta:robots"])


@settings(max_examples=40)
@given(st.lists(st.builds(Statement, SOURCES, SAYS)))
def test_combining_is_the_most_restrictive_and_needs_no_order(statements: list[Statement]) -> None:
    combined = combine(statements)

    for category in CATEGORIES:
        words = {s.says[category] for s in statements if category in s.says}
        assert combined.of(category) == (None if not words else False not in words)
    assert combine(reversed(statements)).says == combined.says


@settings(max_examples=40)
@given(st.text(), st.binary())
def test_no_text_is_a_crash_or_an_unknown_category(text: str, body: bytes) -> None:
    for says in (content_usage(text), robots_directives([text]), tdm_reservation(text)):
        assert set(says) <= set(CATEGORIES)
    assert tdm_file_says(parse_tdmrep(body), text) in ({}, {"tdm": True}, {"tdm": False})
    assert tdm_file_says([TdmRule(text, True)], text.replace("*", "").removesuffix("$")) in (
        {},
        {"tdm": False},
    )


@settings(max_examples=40)
@given(
    st.dictionaries(st.sampled_from(["train-ai", "search", "ai-use", "tdm", "bots"]), st.sampled_from("yn"))
)
def test_a_dictionary_says_what_its_labels_say(values: dict[str, str]) -> None:
    assert content_usage(", ".join(f"{key}={value}" for key, value in values.items())) == by_labels(values)


def test_a_hostile_header_costs_little() -> None:
    begun = time.process_time()
    for text in (
        "a" * 100_000,
        "a=(" + "b " * 50_000,
        "a;" * 50_000,
        'a="' + "\\" * 100_000,
        "a=b" + "*" * 100_000,
    ):
        content_usage(text)
    assert time.process_time() - begun < 0.2
