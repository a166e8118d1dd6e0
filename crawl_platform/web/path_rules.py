"""Allow and disallow patterns of one agent, prepared so that a verdict costs about the same for 5 rules and 10,000.

Theory of operation. Patterns and paths are strings of octets in one form (`pattern_of`, `path_of`). A rule's rank
is 2 × its octets, plus 1 for allow: the highest rank that matches wins (RFC 9309 §2.2.2). Three kinds of rules:

- *prefixes* (also those that only end in stars) lie sorted. Every string between a prefix of the path and the
  path itself starts with that prefix, so the last entry at or before the path either is its longest prefix or
  starts with it: one bisection, then up the entries' parents. An entry knows the best rank of itself and its
  parents, since whatever starts with it starts with them.
- *exact* rules (`/x$`) are a dictionary.
- *wildcards* hang at the entry of their first literal, so only those are tried whose first literal the path
  starts with; each has a longest literal that must occur in the path before its pieces are looked for, leftmost
  first. No regular expression sees a pattern, so none can be slow: O(path) for each piece.

Wildcards are bounded (`MAX_STARS`): each costs up to 1 µs for every URL, and a hostile file holds 250,000.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

MAX_STARS = 4_000
"""Stars of one agent's rules. With more of them everything is disallowed, which breaks no rule of the site."""

NO_RULE = 1
"""Rank of "no rule matches": the least there is, and allowed."""

_odd_octet = re.compile(r"%[0-9A-Fa-f]{2}|[^\x21-\x7e]|[\"<>\\^`{|}]")
# In a query these mean the same plain or escaped; `&`, `=`, `+`, `#`, `*`, `$` and `%` do not.
_reserved = re.compile(r"%(21|27|28|29|2[cCfF]|3[aAbBfF]|40|5[bBdD])")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_CHARACTERS = r"!&'()+,\-./0-9:;=?@A-Z\[\]_a-z~"
_PLAIN = rf"/[{_CHARACTERS}]*"
plain_path = re.compile(rf"(?:https?://[^/?#]*)?({_PLAIN})").fullmatch
"""Match whose group 1 is the path of a URL, or a path, that is in its one form already; else None."""
_plain_pattern = re.compile(rf"[/*][{_CHARACTERS}*]*+\$?").fullmatch


def path_of(url: str) -> str:
    """Path and query of `url` (absolute, or a path) in the form that patterns have (§2.2.2, §2.2.3)."""
    plain = plain_path(url)
    return plain[1] if plain is not None else _settled_path(url)


def _settled_path(url: str) -> str:
    if not url.startswith("/"):
        after = url.find("//") + 2
        cut = next((i for i in range(after, len(url)) if url[i] in "/?#"), len(url))
        url = url[cut:]
    path = url.partition("#")[0]
    if not path.startswith("/"):
        path = "/" + path
    octets = path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("latin-1")
    return _octets(octets).replace("*", "%2A").replace("$", "%24")


def pattern_of(value: str) -> str:
    """A rule's value (latin-1: a character per octet, not empty) in one form; `$` inside is a literal."""
    if _plain_pattern(value):
        return value
    pattern = _octets(value)
    return pattern[:-1].replace("$", "%24") + pattern[-1]


def _octets(text: str) -> str:
    """Non-ASCII octets escaped, escapes of unreserved octets undone, the other escapes in upper case."""
    if _odd_octet.search(text) is None:
        return text
    path, mark, query = text.partition("?")
    query = _reserved.sub(_unescape, query)
    return _odd_octet.sub(_octet, path + mark + query)


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def _octet(match: re.Match[str]) -> str:
    octet = match[0]
    if len(octet) == 1:
        return f"%{ord(octet):02X}"
    char = chr(int(octet[1:], 16))
    return char if char in _UNRESERVED else octet.upper()


class _Wildcard(NamedTuple):
    """A glob (§2.2.3) after its first literal: `pieces` in order, then, if anchored, `last` at the very end."""

    rank: int
    key: str
    start: int
    pieces: tuple[str, ...]
    last: str | None

    @staticmethod
    def of(pattern: str, rank: int) -> tuple[str, "_Wildcard"]:
        """(first literal, the rest)."""
        anchored = pattern.endswith("$")
        first, *rest = (pattern[:-1] if anchored else pattern).split("*")
        last = rest.pop() if anchored else None
        pieces = tuple(piece for piece in rest if piece)
        key = max((*pieces, last or ""), key=len)
        return first, _Wildcard(rank, key, len(first), pieces, last)

    def matches(self, path: str) -> bool:
        """Whether the rest of `path`, which starts with the first literal and has the key somewhere, fits."""
        at = self.start
        for piece in self.pieces:
            found = path.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        last = self.last
        return last is None or (len(path) - len(last) >= at and path.endswith(last))


class PathRules:
    """The verdicts of one set of (pattern, allow) rules, patterns as `pattern_of` returns them."""

    __slots__ = ("_exact", "_parents", "_prefixes", "_ranks", "_wild_at", "_wildcards")

    def __init__(self, rules: Iterable[tuple[str, bool]]) -> None:
        self._exact: dict[str, int] = {}
        prefixes: dict[str, int] = {}
        wildcards: dict[str, list[_Wildcard]] = {}
        stars = 0
        for pattern, rank in _ranked(rules).items():
            if "*" not in pattern and pattern[-1] != "$":
                prefixes[pattern] = max(rank, prefixes[pattern]) if pattern in prefixes else rank
                continue
            stem = (pattern[:-1] if pattern.endswith("*$") else pattern).rstrip("*")
            if "*" in stem:
                first, wildcard = _Wildcard.of(pattern, rank)
                wildcards.setdefault(first, []).append(wildcard)
                stars += pattern.count("*")
                if stars > MAX_STARS:
                    break
            elif stem.endswith("$"):
                self._exact[stem[:-1]] = rank
            else:
                prefixes[stem] = max(rank, prefixes.get(stem, 0))
        if stars > MAX_STARS:
            self._exact, prefixes, wildcards = {}, {"": 2}, {}
        self._build(prefixes, wildcards)

    def _build(self, prefixes: dict[str, int], wildcards: dict[str, list[_Wildcard]]) -> None:
        """Index -1 means "none": the last element of `_ranks` and `_wild_at` is for it."""
        self._prefixes = sorted({*prefixes, *wildcards})
        self._parents: list[int] = []
        self._ranks: list[int] = []
        self._wild_at: list[int] = []
        self._wildcards: dict[int, list[_Wildcard]] = {}
        stack: list[int] = []
        for index, prefix in enumerate(self._prefixes):
            while stack and not prefix.startswith(self._prefixes[stack[-1]]):
                stack.pop()
            parent = stack[-1] if stack else -1
            stack.append(index)
            rank = prefixes.get(prefix, NO_RULE)
            wild_at = index if prefix in wildcards else -1
            if parent >= 0:
                rank = max(rank, self._ranks[parent])
                wild_at = wild_at if wild_at >= 0 else self._wild_at[parent]
            self._parents.append(parent)
            self._ranks.append(rank)
            self._wild_at.append(wild_at)
        for first, hanging in wildcards.items():
            self._wildcards[bisect_right(self._prefixes, first) - 1] = sorted(hanging, key=lambda w: -w.rank)
        self._ranks.append(NO_RULE)
        self._wild_at.append(-1)

    def allows(self, path: str) -> bool:
        """Whether `path` (as `path_of` returns it) may be fetched."""
        prefixes = self._prefixes
        at = bisect_right(prefixes, path) - 1
        while at >= 0 and not path.startswith(prefixes[at]):
            at = self._parents[at]
        best = self._ranks[at]
        if self._exact and (rank := self._exact.get(path, 0)) > best:
            best = rank
        at = self._wild_at[at]
        while at >= 0:
            for wildcard in self._wildcards[at]:
                if wildcard.rank <= best:
                    break
                if wildcard.key in path and wildcard.matches(path):
                    best = wildcard.rank
                    break
            parent = self._parents[at]
            at = self._wild_at[parent] if parent >= 0 else -1
        return best & 1 == 1


def _ranked(rules: Iterable[tuple[str, bool]]) -> dict[str, int]:
    """Pattern → rank; of the same pattern twice, allow wins."""
    ranks: dict[str, int] = {}
    for pattern, allow in rules:
        rank = 2 * len(pattern) + allow
        if rank > ranks.get(pattern, 0):
            ranks[pattern] = rank
    return ranks
