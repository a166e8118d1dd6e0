"""robots.txt (RFC 9309): who may fetch what.

Theory of operation. `parse` turns lines into groups: consecutive `user-agent` lines name the members of a group
and only `allow`/`disallow` close that list (any other record, known or not, leaves it open: §2.2.4). The group
of one agent merges all groups that name its product token, else all groups of `*` (§2.2.1). Patterns and paths
are compared as octets, both brought to one form first (§2.2.2): non-ASCII octets are escaped, escapes of
unreserved octets are undone, the rest is upper case. The match with most octets wins, allow before disallow
(§2.2.2). Matching is by plain prefix and `str.find`, never by regular expression, so no pattern can be slow,
and a file with more wildcards than `MAX_STARS` is not matched at all, so no file can be.

What we accept beyond the grammar, as the large crawlers do: spaces before the colon, a missing colon, common
misspellings of the keys, product tokens with digits or trailing text (cut at the first other character).
"""

import re
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

MAX_BYTES = 500 * 1024
"""RFC 9309 §2.5: parse at least 500 KiB; what lies beyond is ignored."""

MAX_STARS = 4_000
"""Wildcards of one agent's rules: each costs up to 1 µs per URL, and a hostile file holds 250,000. With more
of them everything is disallowed, which breaks no rule of the site."""

Verdict = Literal["rules", "allow_all", "disallow_all"]

_KEYS = {
    "user-agent": "agent", "useragent": "agent", "user agent": "agent",
    "allow": "allow",
    "disallow": "disallow", "dissallow": "disallow", "dissalow": "disallow", "disalow": "disallow",
    "diasllow": "disallow", "disallaw": "disallow",
    "crawl-delay": "delay", "crawldelay": "delay", "crawl delay": "delay",
    "sitemap": "sitemap", "site-map": "sitemap",
}  # fmt: skip
_without_colon = re.compile(r"([A-Za-z-]+)[ \t]+(\S+)\Z").match
_SPACE = " \t\x0b\x0c"
_token = re.compile(r"[A-Za-z0-9_\-\x80-\xff]+").match
_odd_octet = re.compile(r"%[0-9A-Fa-f]{2}|[^\x21-\x7e]|[\"<>\\^`{|}]")
# In a query these mean the same plain or escaped; `&`, `=`, `+`, `#`, `*`, `$` and `%` do not.
_reserved = re.compile(r"%(21|27|28|29|2[cCfF]|3[aAbBfF]|40|5[bBdD])")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def status_rule(status: int | None) -> Verdict:
    """What the HTTP status of robots.txt says, after redirects (RFC 9309 §2.3.1).

    2xx: read the rules. 3xx that was not followed to an end, and 4xx: unavailable, everything is allowed. 5xx
    or no answer (None): unreachable, everything is disallowed.
    """
    if status is None or status >= 500 or status < 200:
        return "disallow_all"
    return "rules" if status < 300 else "allow_all"


@dataclass(slots=True)
class _Group:
    """`members` are lower-case product tokens (or "*"); `rules` are (pattern, allow) in file order.

    `delays` are (how many members had been named by then, seconds).
    """

    members: list[str] = field(default_factory=list)
    rules: list[tuple[str, bool]] = field(default_factory=list)
    delays: list[tuple[int, float]] = field(default_factory=list)

    def delay(self, member: str) -> float | None:
        """A delay holds for the members named so far; of several the longest."""
        at = self.members.index(member)
        return max((seconds for named, seconds in self.delays if named > at), default=None)


class Robots:
    """The rules of one robots.txt. Immutable; lookups for an agent are prepared once and kept."""

    __slots__ = ("_groups", "_prepared", "sitemaps")

    def __init__(self, groups: list[_Group], sitemaps: list[str]) -> None:
        self._groups = groups
        self._prepared: dict[str, tuple[_Matcher, float | None]] = {}
        self.sitemaps = sitemaps

    def allows(self, url: str, agent: str) -> bool:
        """Whether `agent` (product token or whole user-agent string) may fetch `url` (absolute, or a path)."""
        path = _path(url)
        return path == "/robots.txt" or self._of(agent)[0].allows(path)

    def crawl_delay(self, agent: str) -> float | None:
        """Seconds that the site asks `agent` to wait between requests; not in the RFC, uncapped here."""
        return self._of(agent)[1]

    def _of(self, agent: str) -> tuple["_Matcher", float | None]:
        found = self._prepared.get(agent)
        if found is None:
            octets = agent.encode("utf-8", "surrogateescape").decode("latin-1")
            found = self._prepared[agent] = self._prepare(_product(octets))
        return found

    def _prepare(self, product: str) -> tuple["_Matcher", float | None]:
        named = [group for group in self._groups if product in group.members]
        name = product if named else "*"
        groups = named or [group for group in self._groups if "*" in group.members]
        delays = [delay for group in groups if (delay := group.delay(name)) is not None]
        return _Matcher([rule for group in groups for rule in group.rules]), max(delays, default=None)


class _Matcher:
    """The rules of one agent: plain prefixes in a dict, tried by length; the few wildcards one by one."""

    __slots__ = ("_lengths", "_prefixes", "_wildcards")

    def __init__(self, rules: list[tuple[str, bool]]) -> None:
        self._prefixes: dict[str, bool] = {}
        wildcards: dict[str, bool] = {}
        for pattern, allow in rules:
            table = wildcards if "*" in pattern or pattern.endswith("$") else self._prefixes
            table[pattern] = table.get(pattern, False) or allow
        if sum(pattern.count("*") for pattern in wildcards) > MAX_STARS:
            self._prefixes, wildcards = {"": False}, {}
        self._lengths = sorted({len(prefix) for prefix in self._prefixes}, reverse=True)
        ordered = sorted(wildcards.items(), key=lambda rule: (-len(rule[0]), not rule[1]))
        self._wildcards = [_Wildcard.of(pattern, allow) for pattern, allow in ordered]

    def allows(self, path: str) -> bool:
        length, allow = self._longest_prefix(path)
        for rule in self._wildcards:
            if rule.length < length or (rule.length == length and allow):
                break
            if rule.length == length and not rule.allow:
                continue
            if rule.matches(path):
                return rule.allow
        return allow

    def _longest_prefix(self, path: str) -> tuple[int, bool]:
        for length in self._lengths:
            prefix = path[:length]
            allow = self._prefixes.get(prefix)
            if allow is not None:
                return len(prefix), allow
        return -1, True


class _Wildcard(NamedTuple):
    """Glob with `*` and a final `$` (§2.2.3), cut at its stars; `last` is what must end an anchored path."""

    length: int
    allow: bool
    first: str
    pieces: list[str]
    last: str | None

    @staticmethod
    def of(pattern: str, allow: bool) -> "_Wildcard":
        anchored = pattern.endswith("$")
        first, *pieces = (pattern[:-1] if anchored else pattern).split("*")
        if not anchored:
            return _Wildcard(len(pattern), allow, first, pieces, None)
        last = pieces.pop() if pieces else first
        return _Wildcard(len(pattern), allow, first, pieces, last)

    def matches(self, path: str) -> bool:
        """Leftmost piece by piece: O(len(path)) per piece."""
        if not path.startswith(self.first):
            return False
        if self.last is not None and not path.endswith(self.last):
            return False
        at = len(self.first)
        for piece in self.pieces:
            found = path.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        if self.last is None:
            return True
        starless = self.length == len(self.first) + 1
        return len(path) == at if starless else len(path) - len(self.last) >= at


def parse(body: bytes) -> Robots:
    """Read a robots.txt. Never raises: what is no rule is skipped, whatever the bytes."""
    groups: list[_Group] = []
    sitemaps: list[str] = []
    listing = False
    for key, value in _records(body):
        if key == "sitemap":
            sitemaps.append(_text(value))
        elif key == "agent":
            if not listing:
                groups.append(_Group())
                listing = True
            groups[-1].members.append(_member(value))
        elif groups and key == "delay":
            _note_delay(groups[-1], value)
        elif groups:
            listing = False
            if value:
                groups[-1].rules.append((_pattern(value), key == "allow"))
    return Robots(groups, list(dict.fromkeys(sitemaps)))


def _records(body: bytes) -> list[tuple[str, str]]:
    """(key, value) of every record we know, in order. Text is latin-1: one character per octet."""
    records = []
    for line in re.split(r"[\r\n]+", _decode(body)):
        line = line.partition("#")[0].strip(_SPACE)
        name, colon, value = line.partition(":")
        if not colon:
            pair = _without_colon(line)
            if not pair:
                continue
            name, value = pair.groups()
        key = _KEYS.get(name.strip(_SPACE).lower())
        if key:
            records.append((key, value.strip(_SPACE)))
    return records


def _decode(body: bytes) -> str:
    text = body[:MAX_BYTES]
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = text.decode("utf-16", "ignore").encode()
    if len(body) > MAX_BYTES:
        # A rule cut in the middle would say something else.
        text = text[: max(text.rfind(b"\n"), text.rfind(b"\r")) + 1]
    return text.removeprefix(b"\xef\xbb\xbf").decode("latin-1")


def _text(value: str) -> str:
    return value.encode("latin-1").decode("utf-8", "replace")


def _member(value: str) -> str:
    if value == "*" or value[:2] in ("* ", "*\t"):
        return "*"
    return _product(value)


def _product(agent: str) -> str:
    """The product token in lower case: all up to the first character that can't be in one."""
    token = _token(agent)
    return token[0].lower() if token else agent.lower()


def _note_delay(group: _Group, value: str) -> None:
    try:
        seconds = float(value)
    except ValueError:
        return
    if 0 <= seconds < float("inf"):
        group.delays.append((len(group.members), seconds))


def _octets(text: str) -> str:
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


def _pattern(value: str) -> str:
    """`$` inside is a literal, written as the path's is."""
    pattern = _octets(value)
    return pattern[:-1].replace("$", "%24") + pattern[-1]


def _path(url: str) -> str:
    """Path and query of `url` in the form that patterns have; special characters escaped (§2.2.3)."""
    if not url.startswith("/"):
        after = url.find("//") + 2
        cut = next((i for i in range(after, len(url)) if url[i] in "/?#"), len(url))
        url = url[cut:]
    path = url.partition("#")[0]
    if not path.startswith("/"):
        path = "/" + path
    octets = path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("latin-1")
    return _octets(octets).replace("*", "%2A").replace("$", "%24")


ALLOW_ALL = parse(b"")
DISALLOW_ALL = parse(b"user-agent: *\ndisallow: /")
