"""Which pages of a host belong to the crawl: scopes by path and pattern, and by depth.

Theory of operation. A pattern is what robots.txt has: the beginning of path and query, `*` for any run of characters,
`$` for the end. So scopes are the machinery of `web.path_rules` with its two verdicts changed over: of two patterns of
the same length *allow* wins there, and *exclude* has to win here. The longest pattern that matches decides; where none
does, a page is inside unless there are patterns to include. Depths are rules as well, made anew for each step between
the limits that they name: at k clicks a pattern is for or against, by its limit.
"""

from bisect import bisect_left
from collections.abc import Iterable

from crawl_platform.settings import Scope as ScopeSettings
from crawl_platform.web.path_rules import PathRules, path_of, pattern_of

OUT_OF_SCOPE, TOO_DEEP = "out_of_scope", "too_deep"
EVERYTHING = "/"
"""The shortest pattern: every path begins with it."""


class Scope:
    """The scope of a host with these settings; `max_depth`: clicks from a root where no pattern says otherwise."""

    __slots__ = ("_deep", "_limits", "_max_depth", "_outside", "_settings")

    def __init__(self, settings: ScopeSettings, max_depth: int) -> None:
        self._settings = settings
        self._max_depth = max_depth
        self._outside = _rules_of(settings) if settings.include or settings.exclude else None
        self._limits = sorted({*settings.depths.values(), max_depth}) if settings.depths else []
        self._deep = [_depth_rules(settings.depths, max_depth, limit) for limit in self._limits]

    def reason(self, url: str, depth: int) -> str:
        """Why a page with the canonical `url`, so many clicks from a root, does not belong; empty if it does."""
        if self._outside is not None and self._outside.allows(path_of(url)):
            return OUT_OF_SCOPE
        if not self._limits:
            return TOO_DEEP if depth > self._max_depth else ""
        step = bisect_left(self._limits, depth)
        return "" if step < len(self._limits) and self._deep[step].allows(path_of(url)) else TOO_DEEP

    def in_words(self, url: str, depth: int) -> str:
        """The same in words, with the pattern that decides; empty if the page belongs."""
        path = path_of(url)
        if self._outside is not None and self._outside.allows(path):
            pattern = _longest(self._settings.exclude, path)
            return f"scope.exclude has {pattern}" if pattern else "it matches no pattern of scope.include"
        if not self.reason(url, depth):
            return ""
        pattern = _longest(self._settings.depths, path)
        setting = f"scope.depths {pattern}" if pattern else "frontier.max_depth"
        most = self._settings.depths.get(pattern, self._max_depth)
        return f"{depth} clicks from a root, {setting} allows {most}"


def _rules_of(settings: ScopeSettings) -> PathRules:
    """Rules that *allow* what lies outside."""
    rules = [(form, True) for form in map(form_of, settings.exclude)]
    rules += [(form, False) for form in map(form_of, settings.include or (EVERYTHING,))]
    # Where no rule matches PathRules allows: that is outside, as it has to be beside patterns to include.
    return PathRules(rules)


def _depth_rules(depths: dict[str, int], max_depth: int, depth: int) -> PathRules:
    """Rules that allow what may lie so deep."""
    known = {EVERYTHING: max_depth, **depths}
    return PathRules((form_of(pattern), most >= depth) for pattern, most in known.items())


def form_of(pattern: str) -> str:
    """A pattern as it is written in settings, in the form that rules have."""
    return pattern_of(pattern.encode().decode("latin-1"))


def _longest(patterns: Iterable[str], path: str) -> str:
    """The longest pattern that matches; empty if none does."""
    matching = [p for p in patterns if not PathRules([(form_of(p), False)]).allows(path)]
    return max(matching, key=lambda pattern: len(form_of(pattern)), default="")
