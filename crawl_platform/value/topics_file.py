"""The topics file (TOML): what the crawl is for, as a person writes it. All that is wrong is told at once, by line.

[[topics]]
name = "wind power"
weight = 1.0                      # -1 (not wanted) to 1; 1 unless said otherwise
phrases = ["wind turbine*", "offshore wind"]
urls = ["example.org/wind/*"]     # patterns, without https://
types = ["Dataset"]               # what pages say they are about (JSON-LD)

[[entities]]
name = "Siemens Gamesa"           # the name of an entity is one of its phrases
phrases = ["Gamesa"]
"""

import difflib
import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xxhash

from crawl_platform.errors import ConfigurationError
from crawl_platform.settings import Value
from crawl_platform.value.topics import Topic, Topics, phrase_of

MOST_BYTES = 5_000_000
MOST_ENTRIES = 5_000
MOST_TOLD = 20
"""Faults that are told; all are counted."""
KEYS = ("name", "weight", "phrases", "urls", "types")
TABLES = ("topics", "entities")
_header = re.compile(r"\s*\[\[\s*(topics|entities)\s*\]\]").match
_key = re.compile(r"""\s*["']?([\w-]+)["']?\s*=""").match
_multiline = re.compile(r'"""|\'\'\'').search


def read_topics(path: Path) -> Topics:
    """The topics of a file. Raises `ConfigurationError` that tells every fault with its line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from error
    return parse_topics(data, str(path))


def topics_of(home: Path, settings: Value) -> Topics:
    """The topics of the crawl at `home`; none where there is no file. Raises `ConfigurationError` for one that is no
    good, or was named in the settings and is not there."""
    path = home / settings.topics
    if settings.topics == Value().topics and not path.exists():
        return Topics(())
    return read_topics(path)


def parse_topics(data: bytes, name: str) -> Topics:
    """The same of a file's bytes; `name` is what errors call it."""
    if len(data) > MOST_BYTES:
        raise ConfigurationError(f"{name} has {len(data):,} bytes: at most {MOST_BYTES:,} are read")
    try:
        text = data.decode("utf-8-sig")
        written = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigurationError(f"{name}, line {line}: not UTF-8") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{name} is not valid TOML: {error}") from error
    entries = list(_entries(written, text))
    faults = [*_faults_of_file(written, entries), *_faults(entries)]
    if faults:
        told = [f"{name}, {fault}" for fault in faults[:MOST_TOLD]]
        more = [f"… and {len(faults) - MOST_TOLD} more"] if len(faults) > MOST_TOLD else []
        raise ConfigurationError("\n".join([*told, *more]))
    return Topics(tuple(entry.topic() for entry in entries), xxhash.xxh3_64_hexdigest(data))


class Entry:
    """One table of the file as written, and where it stands."""

    def __init__(self, kind: str, number: int, values: Any, lines: dict[str, int]) -> None:
        self.kind, self.number, self.values, self._lines = kind, number, values, lines

    def at(self, key: str = "") -> str:
        """Where `key` is written, for people: the line, or the entry where its line can't be told."""
        line = self._lines.get(key) or self._lines.get("")
        return f"line {line}" if line else f"entry {self.number} of {self.kind}"

    def topic(self) -> Topic:
        values = self.values
        phrases = [*([values["name"]] if self.kind == "entities" else ()), *values.get("phrases", ())]
        return Topic(
            values["name"].strip(),
            float(values.get("weight", 1.0)),
            tuple(dict.fromkeys(phrases)),
            tuple(pattern.partition("://")[2] or pattern for pattern in values.get("urls", ())),
            tuple(values.get("types", ())),
        )


def _entries(written: dict[str, Any], text: str) -> Iterator[Entry]:
    places = {kind: list(_places(text, kind)) for kind in TABLES}
    for kind in TABLES:
        listed = written.get(kind)
        found = listed if isinstance(listed, list) else []
        known = places[kind] if len(places[kind]) == len(found) else [{} for _ in found]
        for number, (values, lines) in enumerate(zip(found, known, strict=True), 1):
            yield Entry(kind, number, values, lines)


def _places(text: str, wanted: str) -> Iterator[dict[str, int]]:
    """Lines of each `[[wanted]]` table and of its keys. Texts over several lines could look like either: with one
    of these in the file no lines are told."""
    if _multiline(text):
        return
    lines: dict[str, int] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        header, key = _header(line), _key(line)
        if header or line.lstrip().startswith("["):
            if lines is not None:
                yield lines
            lines = {"": number} if header and header[1] == wanted else None
        elif lines is not None and key:
            lines.setdefault(key[1], number)
    if lines is not None:
        yield lines


def _faults_of_file(written: dict[str, Any], entries: list[Entry]) -> Iterator[str]:
    for name in written.keys() - set(TABLES):
        yield f"{name}: no such table; there are [[topics]] and [[entities]]"
    for kind in TABLES:
        if not isinstance(written.get(kind, []), list):
            yield f"{kind}: write [[{kind}]] above each entry"
    if not entries and written.keys() <= set(TABLES):
        yield "line 1: names neither [[topics]] nor [[entities]]"
    if len(entries) > MOST_ENTRIES:
        yield f"{entries[MOST_ENTRIES].at()}: more than {MOST_ENTRIES:,} entries"


def _faults(entries: list[Entry]) -> Iterator[str]:
    """What is wrong with the entries, in their order."""
    seen: dict[str, Entry] = {}
    for entry in entries:
        if not isinstance(entry.values, dict):
            yield f"{entry.at()}: an entry is a table with a name"
            continue
        yield from _faults_of_names(entry)
        name = entry.values.get("name")
        if isinstance(name, str) and name.strip() in seen:
            yield f"{entry.at('name')}: {name!r} is there already ({seen[name.strip()].at('name')})"
        elif isinstance(name, str):
            seen[name.strip()] = entry
        yield from _faults_of_weight(entry)
        yield from _faults_of_lists(entry)


def _faults_of_names(entry: Entry) -> Iterator[str]:
    for key in entry.values.keys() - set(KEYS):
        close = difflib.get_close_matches(key, KEYS, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(KEYS)}"
        yield f"{entry.at(key)}: {key} is nothing that an entry has; {hint}"
    name = entry.values.get("name")
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        yield f"{entry.at('name')}: an entry needs a name, one line of text"


def _faults_of_weight(entry: Entry) -> Iterator[str]:
    weight = entry.values.get("weight", 1.0)
    number = isinstance(weight, int | float) and not isinstance(weight, bool) and math.isfinite(weight)
    if not number or not -1.0 <= weight <= 1.0 or weight == 0:
        yield f"{entry.at('weight')}: weight must be a number from -1 to 1, and not 0 (not {weight!r})"


def _faults_of_lists(entry: Entry) -> Iterator[str]:
    said = 0
    for key in ("phrases", "urls", "types"):
        values = entry.values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            yield f"{entry.at(key)}: {key} must be a list of texts"
            continue
        said += len(values)
        for value in values:
            if not value.strip(" */"):
                yield f"{entry.at(key)}: {value!r} in {key} would stand for everything"
            elif key == "phrases" and phrase_of("", value) is None:
                yield f"{entry.at(key)}: {value!r} in phrases has no word"
    name = entry.values.get("name")
    if entry.kind == "topics" and not said:
        yield f"{entry.at()}: a topic needs phrases, urls or types to be found by"
    if entry.kind == "entities" and isinstance(name, str) and phrase_of("", name) is None:
        yield f"{entry.at('name')}: the name of an entity is looked for, and {name!r} has no word"
