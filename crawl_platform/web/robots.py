"""robots.txt (RFC 9309): who may fetch what.

Theory of operation. `parse` turns lines into groups: consecutive `user-agent` lines name the members of a group
and only `allow`/`disallow` close that list (any other record, known or not, leaves it open: §2.2.4). The group
of one agent merges all groups that name its product token, else all groups of `*` (§2.2.1). Patterns and paths
are compared as octets, both brought to one form first (§2.2.2); `path_rules` decides between those that match.

What we accept beyond the grammar, as the large crawlers do: spaces before the colon, a missing colon, common
misspellings of the keys, product tokens with digits or trailing text (cut at the first other character).

Records of a group that are no rules hold for the members named so far: `crawl-delay`, `request-rate`,
`content-signal` (contentsignals.org), `content-usage` (draft-ietf-aipref-attach). The last two are preferences
about what may be done with the pages, not about fetching them.
"""

import re
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from crawl_platform.web.path_rules import PathRules, path_of, pattern_of, plain_path

MAX_BYTES = 500 * 1024
"""RFC 9309 §2.5: parse at least 500 KiB; what lies beyond is ignored."""

MAX_PREFERENCES = 200
"""Records of preferences kept per group: each costs a look for every page, and no real site has ten."""

MAX_SITEMAPS = 5_000
"""Sitemaps kept. Real files name up to some hundreds."""

AGENTS = 32
"""Agents whose rules are kept prepared."""

Verdict = Literal["rules", "allow_all", "disallow_all"]
Kind = Literal["signal", "usage"]

_KEYS = {
    "Allow": "allow", "allow": "allow",
    "Disallow": "disallow", "disallow": "disallow", "dissallow": "disallow", "dissalow": "disallow",
    "disalow": "disallow", "diasllow": "disallow", "disallaw": "disallow",
    "user-agent": "agent", "useragent": "agent", "user agent": "agent",
    "crawl-delay": "delay", "crawldelay": "delay", "crawl delay": "delay",
    "request-rate": "rate",
    "sitemap": "sitemap", "site-map": "sitemap",
    "content-signal": "signal", "content-signals": "signal",
    "content-usage": "usage",
}  # fmt: skip
_RULES = frozenset({"allow", "disallow"})
_SPACE = " \t\x0b\x0c"
_NAMES = "|".join(sorted(_KEYS, key=len, reverse=True))
_records = re.compile(
    rf"^[{_SPACE}]*({_NAMES})(?:[{_SPACE}]*:|([{_SPACE}]+)(?![{_SPACE}:]))([^\n#]*)",
    re.MULTILINE | re.IGNORECASE | re.ASCII,
).findall
"""(key, "" or the spaces that stand for a missing colon, value) of every record we know, in order."""
_one_word = re.compile(rf"[^{_SPACE}]+").fullmatch
_token = re.compile(r"[A-Za-z0-9_\-\x80-\xff]+").match
_seconds = re.compile(
    r"(\d+(?:[.,]\d*)?|[.,]\d+)[ \t]*(?:s|sec|secs|seconds?)?(?![^ \t;,])", re.IGNORECASE
).match
_rate = re.compile(r"(\d{1,9})[ \t]*/[ \t]*(\d{1,9})[ \t]*([smh]?)(?![^ \t])", re.IGNORECASE).match
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_preference = re.compile(r"([A-Za-z*][\w.*-]*)[ \t]*=[ \t]*\"?([\w.?*-]+)", re.ASCII).findall
REFUSALS = frozenset({"n", "no", "?0", "0", "false"})


def status_rule(status: int | None) -> Verdict:
    """What the HTTP status of robots.txt says, after redirects (RFC 9309 §2.3.1).

    2xx: read the rules. 3xx that was not followed to an end, and 4xx: unavailable, everything is allowed. 5xx
    or no answer (None): unreachable, everything is disallowed.
    """
    if status is None or status >= 500 or status < 200:
        return "disallow_all"
    return "rules" if status < 300 else "allow_all"


class _Preference(NamedTuple):
    """One record, for the members named by then (`named` of them) and the paths that `fits` does not allow."""

    named: int
    kind: Kind
    length: int
    fits: PathRules | None
    """None: every path."""
    values: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Notes:
    """Records of a group that are no rules. `delays` are (how many members had been named by then, seconds)."""

    delays: list[tuple[int, float]] = field(default_factory=list)
    preferences: list[_Preference] = field(default_factory=list)


class _Group:
    """`members` are lower-case product tokens (or "*"); `rules` are (pattern, allow) in file order."""

    __slots__ = ("members", "notes", "rules")

    def __init__(self) -> None:
        self.members: list[str] = []
        self.rules: list[tuple[str, bool]] = []
        self.notes: _Notes | None = None
        """None: there are none. Most groups have none, and a file may have 20,000 groups."""

    def delay(self, member: str) -> float | None:
        """A delay holds for the members named so far; of several the longest."""
        if self.notes is None:
            return None
        at = self.members.index(member)
        return max((seconds for named, seconds in self.notes.delays if named > at), default=None)

    def preferred(self, member: str) -> list[_Preference]:
        if self.notes is None:
            return []
        at = self.members.index(member)
        return [preference for preference in self.notes.preferences if preference.named > at]


class _Prepared(NamedTuple):
    """All that the file says to one agent."""

    rules: PathRules
    delay: float | None
    preferences: list[_Preference]


class Robots:
    """The rules of one robots.txt. Immutable; lookups for an agent are prepared once and kept."""

    __slots__ = ("_groups", "_prepared", "sitemaps", "size")

    def __init__(self, groups: list[_Group], sitemaps: list[str], octets: int, records: int) -> None:
        """`octets` and `records`: size of the file."""
        self._groups = groups
        self._prepared: dict[str, _Prepared] = {}
        self.sitemaps = sitemaps
        self.size = 1_000 + 2 * octets + 450 * records
        """Bytes of memory, at most about, with the rules of one agent prepared."""

    def allows(self, url: str, agent: str) -> bool:
        """Whether `agent` (product token or whole user-agent string) may fetch `url` (absolute, or a path)."""
        plain = plain_path(url)
        path = plain[1] if plain is not None else path_of(url)
        rules = (self._prepared.get(agent) or self._of(agent)).rules
        return rules.allows(path) or path == "/robots.txt"

    def crawl_delay(self, agent: str) -> float | None:
        """Seconds that the site asks `agent` to wait between requests (`crawl-delay`, `request-rate`; of several
        the longest); not in the RFC, uncapped here."""
        return self._of(agent).delay

    def preferences(self, url: str, agent: str) -> dict[str, str]:
        """What the site says to `agent` about uses of `url`, as written, in lower case: {"ai-train": "no"}.

        `signals` and `usage` in one; where both name a use, a refusal counts. Silence is no key.
        """
        return _refusals_first([self.signals(url, agent), self.usage(url, agent)])

    def signals(self, url: str, agent: str) -> dict[str, str]:
        """`Content-Signal` for `url`: search, ai-input, ai-train → yes or no (others as they come)."""
        return self._preferred("signal", url, agent)

    def usage(self, url: str, agent: str) -> dict[str, str]:
        """`Content-Usage` for `url`: train-ai, search, … → y or n (others as they come)."""
        return self._preferred("usage", url, agent)

    def _preferred(self, kind: Kind, url: str, agent: str) -> dict[str, str]:
        """Of the records whose pattern matches, those with the longest pattern; a refusal counts."""
        candidates = [p for p in self._of(agent).preferences if p.kind == kind]
        if not candidates:
            return {}
        path = path_of(url)
        fitting = [p for p in candidates if p.fits is None or not p.fits.allows(path)]
        longest = max((preference.length for preference in fitting), default=0)
        return _refusals_first([dict(p.values) for p in fitting if p.length == longest])

    def _of(self, agent: str) -> _Prepared:
        found = self._prepared.get(agent)
        if found is None:
            if len(self._prepared) >= AGENTS:
                self._prepared.clear()
            octets = agent.encode("utf-8", "surrogateescape").decode("latin-1")
            found = self._prepared[agent] = self._prepare(_product(octets))
        return found

    def _prepare(self, product: str) -> _Prepared:
        named = [group for group in self._groups if product in group.members]
        name = product if named else "*"
        groups = named or [group for group in self._groups if "*" in group.members]
        delays = [delay for group in groups if (delay := group.delay(name)) is not None]
        return _Prepared(
            PathRules(rule for group in groups for rule in group.rules),
            max(delays, default=None),
            [preference for group in groups for preference in group.preferred(name)],
        )


def parse(body: bytes) -> Robots:
    """Read a robots.txt. Never raises: what is no rule is skipped, whatever the bytes."""
    groups: list[_Group] = []
    sitemaps: dict[str, None] = {}
    patterns: dict[str, str] = {}
    group: _Group | None = None
    listing = False
    records = _records(_decode(body))
    for name, spaces, text in records:
        value = text.strip(_SPACE)
        if spaces and not _is_one_word(name, value):
            continue
        key = _KEYS.get(name) or _KEYS[name.lower()]
        if key in _RULES:
            if group is not None:
                listing = False
                if value:
                    # Sites repeat their rules for one agent after the other.
                    pattern = patterns.get(value) or patterns.setdefault(value, pattern_of(value))
                    group.rules.append((pattern, key == "allow"))
        elif key == "agent":
            if group is None or not listing:
                group = _Group()
                groups.append(group)
                listing = True
            group.members.append(_member(value))
        elif key == "sitemap":
            if len(sitemaps) < MAX_SITEMAPS:
                sitemaps[value.encode("latin-1").decode("utf-8", "replace")] = None
        elif group is not None:
            _note(group, key, value)
    return Robots(groups, list(sitemaps), len(body), len(records))


def _is_one_word(name: str, value: str) -> bool:
    """Without a colon only "key value" is a record: more words are prose ("allow all robots to …")."""
    return " " not in name and _one_word(value) is not None


def whole_lines(body: bytes) -> bytes:
    """A body that was cut off somewhere, without its last line: cut in the middle, a rule would say something else."""
    return body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]


def _decode(body: bytes) -> str:
    """Text is latin-1: one character per octet, so that no byte can void the file."""
    text = whole_lines(body[:MAX_BYTES]) if len(body) >= MAX_BYTES else body
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = text.decode("utf-16", "ignore").encode()
    for mark in (b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"):
        text = text.removeprefix(mark)
    return text.replace(b"\r", b"\n").decode("latin-1")


def _member(value: str) -> str:
    if value == "*" or value[:2] in ("* ", "*\t"):
        return "*"
    return _product(value)


def _product(agent: str) -> str:
    """The product token in lower case: all up to the first character that can't be in one."""
    if agent.isalnum():
        return agent.lower()
    token = _token(agent)
    return token[0].lower() if token else agent.lower()


def _note(group: _Group, key: str, value: str) -> None:
    """A record that is no rule: for the members named so far."""
    named = len(group.members)
    notes = group.notes = group.notes or _Notes()
    if key in ("signal", "usage"):
        if len(notes.preferences) < MAX_PREFERENCES:
            notes.preferences.append(_preference_of(named, "signal" if key == "signal" else "usage", value))
        return
    seconds = _delay(value) if key == "delay" else _interval(value)
    if seconds is not None:
        notes.delays.append((named, seconds))


def _delay(value: str) -> float | None:
    """Seconds of a crawl-delay: "10", "0.5", "1,5", "10 s"; None for what is no time."""
    found = _seconds(value)
    return min(float(found[1].replace(",", ".")), 1e9) if found else None


def _interval(value: str) -> float | None:
    """Seconds per request of a request-rate ("1/10", "30/1m 0600-0845"); the hours of the day are left out, so the
    rate counts at all hours."""
    found = _rate(value)
    if not found or int(found[1]) == 0:
        return None
    return int(found[2]) * _UNITS[found[3].lower()] / int(found[1])


def _preference_of(named: int, kind: Kind, value: str) -> _Preference:
    """Of "[/path] use=answer, use=answer"; what is no such pair is left out."""
    pattern = ""
    if value[:1] in ("/", "*"):
        head = re.split(r"[ \t]", value, maxsplit=1)[0]
        pattern, value = pattern_of(head), value[len(head) :]
    values = tuple((use.lower(), answer.lower()) for use, answer in _preference(value))
    return _Preference(named, kind, len(pattern), PathRules([(pattern, False)]) if pattern else None, values)


def _refusals_first(stated: list[dict[str, str]]) -> dict[str, str]:
    """All in one; of several answers about a use a refusal counts, else the first."""
    merged: dict[str, str] = {}
    for answers in stated:
        for use, answer in answers.items():
            if use not in merged or (answer in REFUSALS and merged[use] not in REFUSALS):
                merged[use] = answer
    return merged


ALLOW_ALL = parse(b"")
DISALLOW_ALL = parse(b"user-agent: *\ndisallow: /")
