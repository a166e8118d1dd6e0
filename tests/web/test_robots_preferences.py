"""Preferences about uses of pages in robots.txt: Content-Signal and Content-Usage as plain data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.web.robots import parse

BODY = b"""User-agent: *
Content-Signal: search=yes, ai-train=no
Content-Usage: train-ai=n
Content-Usage: /open/ train-ai=y, search=y
Allow: /

User-agent: FriendBot
Content-signal: AI-Input=YES
Disallow: /private
"""


def test_signals_hold_for_the_agents_of_their_group() -> None:
    robots = parse(BODY)

    assert robots.signals("https://a.test/x", "foobot") == {"search": "yes", "ai-train": "no"}
    assert robots.signals("https://a.test/x", "friendbot/2.0") == {"ai-input": "yes"}


def test_the_record_with_the_longest_path_that_matches_speaks_about_a_page() -> None:
    robots = parse(BODY)

    assert robots.usage("https://a.test/x", "foobot") == {"train-ai": "n"}
    assert robots.usage("https://a.test/open/x", "foobot") == {"train-ai": "y", "search": "y"}


def test_both_kinds_are_one_dictionary_in_which_a_refusal_counts() -> None:
    robots = parse(
        b"user-agent: *\ncontent-signal: search=yes, ai-train=no\ncontent-usage: search=n, train-ai=y\n"
    )

    assert robots.preferences("/", "foobot") == {"search": "n", "ai-train": "no", "train-ai": "y"}


def test_of_two_records_about_the_same_paths_a_refusal_counts() -> None:
    robots = parse(b"user-agent: *\ncontent-signal: search=no\ncontent-signal: search=yes, ai-train=yes\n")

    assert robots.signals("/", "foobot") == {"search": "no", "ai-train": "yes"}


def test_a_record_holds_for_the_members_named_before_it() -> None:
    robots = parse(b"user-agent: a\ncontent-signal: search=no\nuser-agent: b\ndisallow: /x\n")

    assert (robots.signals("/", "a"), robots.signals("/", "b")) == ({"search": "no"}, {})


def test_silence_is_no_preference() -> None:
    assert parse(b"user-agent: *\ndisallow: /x\n").preferences("/", "foobot") == {}
    assert parse(b"content-signal: search=no\n").preferences("/", "foobot") == {}, "no group to belong to"


@pytest.mark.parametrize(
    ("value", "stated"),
    [
        ("search=yes,ai-train=no", {"search": "yes", "ai-train": "no"}),
        ("search = yes ; ai-train = no", {"search": "yes", "ai-train": "no"}),
        ("/ search=yes", {"search": "yes"}),
        ("/*.html$ search=yes", {}),
        ('train-ai="n"', {"train-ai": "n"}),
        ("train-ai=?0", {"train-ai": "?0"}),
        ("use=reference", {"use": "reference"}),
        ("search", {}),
        ("=no, , ===", {}),
        ("/only-a-path", {}),
        ("", {}),
    ],
)
@pytest.mark.parametrize("key", ["Content-Signal", "content-usage", "CONTENT-SIGNAL "])
def test_values_as_sites_write_them(key: str, value: str, stated: dict[str, str]) -> None:
    assert parse(f"user-agent: *\n{key}: {value}\n".encode()).preferences("/a", "foobot") == stated


@given(st.binary(max_size=60), st.text(max_size=20))
def test_no_value_is_an_error(value: bytes, path: str) -> None:
    stated = parse(b"user-agent: *\ncontent-usage: " + value).preferences("/" + path, "foobot")

    assert all(use and answer for use, answer in stated.items())


def test_thousands_of_records_are_cut_off() -> None:
    robots = parse(
        b"user-agent: *\n" + b"".join(b"content-usage: /%d/ search=n\n" % n for n in range(20_000))
    )

    assert robots.usage("/7/x", "foobot") == {"search": "n"}
    assert robots.usage("/19999/x", "foobot") == {}
