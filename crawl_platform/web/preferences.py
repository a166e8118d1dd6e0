"""What a site prefers its content to be used for, said in five ways, brought to one vocabulary.

Sans-IO: text in, statements out (the lines of robots.txt are read by `web.robots`). A statement says yes or no to some
*categories of use* and nothing about the rest:

    search      an index that leads people to the page     ai-input    input of a generative model (answers, RAG)
    ai-train    training of generative models              ai-images   training on the images of a page
    tdm         text and data mining, training included    archive     keeping the page's bytes as a copy of it

Where it is said: `Content-Signal` in robots.txt (contentsignals.org), `Content-Usage` in robots.txt and as a response
header (draft-ietf-aipref-attach, -vocab), TDMRep (W3C community group report, May 2024: a well-known file, a header,
a meta element), and the robots directives `noai`, `noimageai` and `noarchive` (meta element, X-Robots-Tag).

Statements are combined as draft-ietf-aipref-vocab says: one "no" is a no, else one "yes" is a yes, else it is unknown.
Within TDMRep the closer word replaces the farther: the page's meta element, then the header, then the file.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from crawl_platform.web.robots import Robots

Says = dict[str, bool]
"""Category of use → whether it is welcome."""

CATEGORIES = ("search", "ai-input", "ai-train", "ai-images", "tdm", "archive")

_LABELS = {
    "search": ("search",),
    "ai-input": ("ai-input",), "ai-use": ("ai-input",), "ai-output": ("ai-input",),
    "ai-train": ("ai-train",), "train-ai": ("ai-train",), "train-genai": ("ai-train",), "genai": ("ai-train",),
    "tdm": ("tdm",),
    "bots": ("search", "ai-input", "ai-train", "tdm"),
}  # fmt: skip
"""Labels of Content-Signal and of Content-Usage (in its present and its earlier drafts) → our categories."""
_WORDS = {
    **dict.fromkeys(("yes", "y", "?1", "1", "true"), True),
    **dict.fromkeys(("no", "n", "?0", "0", "false"), False),
}
_DIRECTIVES = {
    "noai": ("ai-input", "ai-train"),
    "noimageai": ("ai-images",),
    "noarchive": ("archive",),
    "nocache": ("archive",),
}
MAX_TEXT = 4_096
"""Characters of one header or line that are read: a dozen categories need a tenth of it."""
MAX_RULES = 200
"""Rules of a tdmrep.json that are kept, at most `MAX_LOCATION` characters each."""
MAX_LOCATION = 500

_BARE = (
    r'"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*+"'  # string
    r"|:[A-Za-z0-9+/=]*+:"  # bytes
    r"|\?[01]|@?-?[0-9]{1,15}(?:\.[0-9]{1,3})?"  # boolean, date, number
    r"|[A-Za-z*][-A-Za-z0-9!#$%&'*+.^_`|~:/]*+"  # token
)
_KEY = r"[a-z*][-a-z0-9_.*]*+"
_PARAMETERS = rf"(?:;[ ]*+{_KEY}(?:=(?:{_BARE}))?)*+"
_member = re.compile(rf"({_KEY})(?:=({_BARE}|\([^()\"]*+\)))?{_PARAMETERS}").match
_comma = re.compile(r"[ \t]*+,[ \t]*+").match


class Statement(NamedTuple):
    """`source` is one of robots:content-signal, robots:content-usage, header:content-usage, header:tdmrep,
    meta:tdmrep, file:tdmrep, header:x-robots-tag, meta:robots."""

    source: str
    says: Says


def said_in_robots(robots: Robots, url: str, agent: str) -> tuple[Statement, ...]:
    """What a robots.txt says to `agent` about uses of `url`."""
    return (
        Statement("robots:content-signal", by_labels(robots.signals(url, agent))),
        Statement("robots:content-usage", by_labels(robots.usage(url, agent))),
    )


class Preferences(NamedTuple):
    """Combined statements: category → welcome or not, and whose word it is. What is in neither is unknown."""

    says: Says
    sources: Mapping[str, str]

    def of(self, category: str) -> bool | None:
        return self.says.get(category)

    def words(self) -> dict[str, str]:
        """Category → "yes" or "no", as the lake shows it."""
        return {category: "yes" if self.says[category] else "no" for category in self.says}


NOTHING_SAID = Preferences({}, {})


def by_labels(values: Mapping[str, str]) -> Says:
    """A statement from labels as they are written ("train-ai" → "n"). Unknown labels and values say nothing; where
    two labels mean the same, a no stays."""
    says: Says = {}
    for label, value in values.items():
        word = _WORDS.get(value.strip().lower())
        for category in _LABELS.get(label.strip().lower(), ()) if word is not None else ():
            says[category] = bool(word) and says.get(category, True)
    return says


def content_usage(text: str) -> Says:
    """A `Content-Usage` value: a structured-field dictionary (RFC 9651 §3.2) of `y` and `n`, like "train-ai=n".

    What is no dictionary says nothing, all of it (§4.2); of the parts of one that is, only those we know count.
    """
    return by_labels(_dictionary(text[:MAX_TEXT]) or {})


def _dictionary(text: str) -> dict[str, str] | None:
    """Keys and bare items of a dictionary as they are written; None if `text` is none."""
    found: dict[str, str] = {}
    text = text.strip(" ")
    at = 0
    while at < len(text):
        member = _member(text, at)
        if member is None:
            return None
        found[member[1]] = member[2] or "?1"
        at = member.end()
        if at == len(text):
            break
        comma = _comma(text, at)
        if comma is None or comma.end() == len(text):
            return None
        at = comma.end()
    return found


def robots_directives(directives: Iterable[str]) -> Says:
    """What `noai`, `noimageai`, `noarchive` (and its older name `nocache`) say among robots directives."""
    return {
        category: False
        for directive in directives
        for category in _DIRECTIVES.get(directive.strip().lower(), ())
    }


def tdm_reservation(text: str) -> Says:
    """`tdm-reservation` of a header or meta element: 1 reserves, 0 does not, anything else says nothing."""
    return {"tdm": text.strip() == "0"} if text.strip() in ("0", "1") else {}


class TdmRule(NamedTuple):
    """Paths that match `location` (a prefix with `*` and a final `$`, as in robots.txt) are reserved or not."""

    location: str
    reserved: bool


def parse_tdmrep(body: bytes) -> tuple[TdmRule, ...]:
    """The rules of a `/.well-known/tdmrep.json` in order. Never raises: what is no rule says nothing."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ()
    rules = found if isinstance(found, list) else [found]
    return tuple(rule for item in rules[: 10 * MAX_RULES] if (rule := _tdm_rule(item)) is not None)[
        :MAX_RULES
    ]


def _tdm_rule(item: Any) -> TdmRule | None:
    if not isinstance(item, dict):
        return None
    location, reservation = item.get("location", "/"), item.get("tdm-reservation")
    if not isinstance(location, str) or len(location) > MAX_LOCATION or str(reservation) not in ("0", "1"):
        return None
    return TdmRule(location if location.startswith(("/", "*")) else f"/{location}", str(reservation) == "1")


def tdm_file_says(rules: Iterable[TdmRule], path: str) -> Says:
    """What a tdmrep.json says of `path` (with its query): the first rule that matches counts."""
    for rule in rules:
        if _matches(rule.location, path):
            return {"tdm": not rule.reserved}
    return {}


def _matches(location: str, path: str) -> bool:
    """Glob by `str.find`, piece by piece: no pattern can be slow."""
    anchored = location.endswith("$")
    first, *pieces = (location[:-1] if anchored else location).split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    last = pieces.pop() if anchored and pieces else None
    for piece in pieces:
        found = path.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    if not anchored:
        return True
    return len(path) == at if last is None else len(path) - len(last) >= at and path.endswith(last)


_TDM_ORDER = ("meta:tdmrep", "header:tdmrep", "file:tdmrep")


def combine(statements: Iterable[Statement]) -> Preferences:
    """One preference from all statements about a page, with the source whose word it is (of equals, the first)."""
    said = [statement for statement in statements if statement.says]
    closest = next((name for name in _TDM_ORDER if any(s.source == name for s in said)), "")
    says: Says = {}
    sources: dict[str, str] = {}
    for source, statement in said:
        if source in _TDM_ORDER and source != closest:
            continue
        for category, welcome in statement.items():
            if category not in says or (says[category] and not welcome):
                says[category], sources[category] = welcome, source
    return Preferences(says, sources)
