"""Which pages of a host belong to the crawl, by pattern and depth."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.admission.rules import HostRules
from crawl_platform.admission.scopes import OUT_OF_SCOPE, TOO_DEEP, Scope
from crawl_platform.errors import ConfigurationError
from crawl_platform.settings import CONFIG_NAME, HostRule, Settings, load, save
from crawl_platform.settings import Scope as ScopeSettings

PATTERN = st.tuples(
    st.sampled_from("/*"),
    st.lists(st.sampled_from(["/", "a", "b", "ab", "*", "?"]), max_size=5).map("".join),
    st.sampled_from(["", "$"]),
).map("".join)
PATH = st.text("/ab?", max_size=10).map(lambda tail: "/" + tail)


def expression(pattern: str) -> re.Pattern[str]:
    """The textbook's: slow on some patterns, and right."""
    body = ".*".join(map(re.escape, pattern.removesuffix("$").split("*")))
    return re.compile(body + (r"\Z" if pattern.endswith("$") else ""))


def longest(patterns: list[str], path: str) -> int:
    return max((len(p) for p in patterns if expression(p).match(path)), default=0)


@given(st.lists(PATTERN, max_size=5), st.lists(PATTERN, max_size=5), PATH)
def test_the_longest_pattern_decides_and_of_two_as_long_the_one_that_excludes(
    include: list[str], exclude: list[str], path: str
) -> None:
    scope = Scope(ScopeSettings(tuple(include), tuple(exclude)), 32)

    inside, outside = longest(include or ["/"], path), longest(exclude, path)
    assert scope.reason("https://a.test" + path, 0) == ("" if inside > outside else OUT_OF_SCOPE)
    assert bool(scope.in_words("https://a.test" + path, 0)) == (inside <= outside)


@given(st.dictionaries(PATTERN, st.integers(0, 4), max_size=5), st.integers(0, 4), PATH, st.integers(0, 6))
def test_the_longest_pattern_says_how_deep_a_page_may_lie(
    depths: dict[str, int], max_depth: int, path: str, depth: int
) -> None:
    scope = Scope(ScopeSettings(depths=depths), max_depth)

    known = {"/": max_depth, **depths}
    length = longest(list(known), path)
    deepest = max(most for p, most in known.items() if len(p) == length and expression(p).match(path))
    assert scope.reason("https://a.test" + path, depth) == (TOO_DEEP if depth > deepest else "")


@pytest.mark.parametrize(
    ("path", "depth", "words"),
    [
        ("/docs/en/x", 1, ""),
        ("/blog/", 1, "it matches no pattern of scope.include"),
        ("/docs/old/x", 1, "scope.exclude has /docs/old/"),
        ("/docs/old/faq/x", 1, ""),
        ("/docs/en/x.pdf", 1, "scope.exclude has *.pdf$"),
        ("/docs/en/x.pdf?page=2", 1, ""),
        ("/docs/api/x", 3, "3 clicks from a root, scope.depths /docs/api/ allows 2"),
        ("/docs/en/x", 33, "33 clicks from a root, frontier.max_depth allows 32"),
        ("/docs/%7Eada/x", 1, "scope.exclude has /docs/~ada/"),
    ],
)
def test_it_is_told_which_pattern_decides(path: str, depth: int, words: str) -> None:
    include = ("/docs/", "/docs/old/faq/")
    exclude = ("/docs/old/", "*.pdf$", "/docs/~ada/")
    scope = Scope(ScopeSettings(include, exclude, {"/docs/api/": 2}), 32)

    assert scope.in_words(f"https://a.test{path}", depth) == words
    assert bool(scope.reason(f"https://a.test{path}", depth)) == bool(words)


def test_a_host_has_the_scope_of_its_last_entry_and_hosts_alike_share_one() -> None:
    general = HostRule("*.test", scope={"exclude": ["/private/"], "depths": {"/deep/": 1}})
    own = HostRule("b.test", scope={"exclude": ["/"]})
    rules = HostRules(Settings(home="", scope=ScopeSettings(exclude=("*?print=",)), hosts=(general, own)))

    def reason(host: str, path: str, depth: int = 0) -> str:
        return rules.scope(host).reason(f"https://{host}{path}", depth)

    assert reason("elsewhere.org", "/x?print=1") == OUT_OF_SCOPE
    assert reason("a.test", "/private/x") == OUT_OF_SCOPE
    assert reason("a.test", "/x?print=1") == ""  # a list takes the place of the one before it
    assert reason("b.test", "/") == OUT_OF_SCOPE
    assert reason("b.test", "/deep/x", 2) == OUT_OF_SCOPE
    assert rules.scope("a.test") is rules.scope("c.test")


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ('exclude = ["docs/"]', "a pattern is the beginning of a path"),
        ('include = ["/a b"]', "a pattern is the beginning of a path"),
        ('exclude = ["https://a.test/x"]', "a pattern is the beginning of a path"),
        ('depths = {"/x" = -1}', "can't be negative"),
        ('exclud = ["/x"]', "did you mean 'exclude'"),
        (f"exclude = {['*a*b'] * 101}", "202 stars; at most 2000 and 200"),
    ],
)
def test_a_scope_that_makes_no_sense_is_refused(tmp_path: Path, scope: str, said: str) -> None:
    (tmp_path / CONFIG_NAME).write_text(f'[[hosts]]\nmatch = "a.test"\nscope.{scope}\n')
    with pytest.raises(ConfigurationError, match=said):
        load(tmp_path)

    (tmp_path / CONFIG_NAME).write_text(f"[scope]\n{scope}\n")
    with pytest.raises(ConfigurationError, match=said):
        load(tmp_path)


def test_a_scope_that_is_saved_is_loaded_again(tmp_path: Path) -> None:
    rule = HostRule("a.test", scope={"include": ["/x"], "depths": {'/"y"': 2}})
    settings = Settings(home=str(tmp_path), scope=ScopeSettings(depths={"/forum/": 3}), hosts=(rule,))

    save(settings)

    assert load(tmp_path) == settings
