"""What kinds of things a page says it is about: the types of its JSON-LD (schema.org, mostly)."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

MAX_SCRIPTS = 20
MAX_TYPES = 10
MAX_LENGTH = 100_000
"""Characters of a script. Data of whole catalogues is longer, and no description of one page."""

_vocabulary = re.compile(r"https?://(?:www\.)?schema\.org/").match
_is_name = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}").fullmatch
# Some wrap data so that old browsers don't show it.
_wrapping = re.compile(
    r"\A\s*(?:<!--|(?://|/\*)?\s*<!\[CDATA\[(?:\s*\*/)?)|(?:-->|(?://|/\*)?\s*\]\]>(?:\s*\*/)?)\s*\Z"
)
# A page about one thing says so at the top, in a graph, or as its main entity.
_INWARD = ("@graph", "mainEntity", "mainEntityOfPage")


def declared_types(scripts: Iterable[str]) -> tuple[str, ...]:
    """The types that scripts of linked data declare, each once, in their order. Broken scripts declare none."""
    found: dict[str, None] = {}
    for script in list(scripts)[:MAX_SCRIPTS]:
        found |= dict.fromkeys(_types(_parsed(script), 0))
    return tuple(found)[:MAX_TYPES]


def _parsed(script: str) -> Any:
    if len(script) > MAX_LENGTH:
        return None
    try:
        return msgspec.json.decode(_wrapping.sub("", script).strip())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def _types(entity: Any, depth: int) -> Iterator[str]:
    if depth > 3:
        return
    if isinstance(entity, list):
        for one in entity[:100]:
            yield from _types(one, depth + 1)
    if isinstance(entity, dict):
        named = entity.get("@type")
        for name in named if isinstance(named, list) else [named]:
            if isinstance(name, str):
                vocabulary = _vocabulary(name)
                short = name[vocabulary.end() :] if vocabulary else name
                if _is_name(short):
                    yield short
        for inward in _INWARD:
            yield from _types(entity.get(inward), depth + 1)
