"""Crawler traps: URL shapes that a site can produce without end.

An ordered table of named filters over the canonical URL alone. A trap reason is data (the frontier counts and
drops the URL), so false alarms must be rare: each filter looks for something that no finite site needs.

Some shapes are harmless one by one and a trap by their number: `series_of` names the series that a URL belongs
to and how long it may get; the frontier counts per host (`frontier.series`).
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from crawl_platform.settings import Frontier, TrapName
from crawl_platform.web.url import port_of

# Ports of other protocols, to which no browser speaks HTTP (Fetch Standard, "port blocking").
_BAD_PORTS = frozenset((
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
    110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
    532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
    5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
))  # fmt: skip

# Years that a page about real events may show. Calendars that can be paged for ever leave this range after a
# few hundred clicks at most; the bounds are wide because a museum or a forecast is no trap.
_FIRST_YEAR, _LAST_YEAR = 1800, 2060

# A year, followed by a month, by month and day, or by the end of a parameter.
_year = re.compile(
    r"(?:[?&;][a-z_]{0,16}(?:date|month|year|day|week|cal|start|from|to|until)[a-z_]{0,16}=|/)"
    r"([0-9]{4})(?:(?=[/-](?:0?[1-9]|1[0-2])(?![0-9]))|(?=(?:0[1-9]|1[0-2])[0-3][0-9](?![0-9]))|(?=[&;]|\Z))",
    re.IGNORECASE,
).findall
_in_calendar = re.compile(
    r"calend|event|archive|agenda|schedule|diary|[?&;][a-z_]{0,16}(?:date|month|year)|/[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}(?![0-9])",
    re.IGNORECASE,
).search
# What may be a year, without which there is no position in a calendar; saves the searches on most URLs.
_year_in_path = re.compile(r"/[0-9]{4}").search
_year_in_value = re.compile(r"=[0-9]{4}").search
# 24 and more letters and digits with several of both: a token, not a word. Alone it may be a commit or a digest
# of a file; said to be a session it is one.
_session = re.compile(
    r"/(?:s|sid|sess|session(?:_?id)?)[/=_-](?=(?:[^/?]*[0-9]){4})(?=(?:[^/?]*[a-z]){4})[0-9a-z]{24,}/",
    re.IGNORECASE,
).search


def trap_reason(url: str, limits: Frontier, off: Collection[TrapName] = ()) -> TrapName | None:
    """Why the canonical `url` looks like a trap (one of `FILTERS`' names), or None. Filters `off` don't count."""
    for name, fires in FILTERS:
        if fires(url, limits) and name not in off:
            return name
    return None


def _may_be_year(url: str) -> bool:
    return _year_in_path(url) is not None or ("=" in url and _year_in_value(url) is not None)


def is_harmless(url: str, limits: Frontier) -> bool:
    """Whether a few cheap looks prove that no filter fires on the canonical `url`, and that it is of no series. May say
    no in vain, never yes in vain."""
    return (
        "?" not in url
        and url.find(":", 7) < 0
        and len(url) <= limits.max_url_length
        and url.count("/") <= limits.max_repeated_segments + 2
        and not _may_be_year(url)
        and not _session(url)
    )


def _bad_port(url: str, limits: Frontier) -> bool:
    return port_of(url) in _BAD_PORTS


def _too_long(url: str, limits: Frontier) -> bool:
    return len(url) > limits.max_url_length


def _too_many_parameters(url: str, limits: Frontier) -> bool:
    mark = url.find("?")
    return mark >= 0 and url.count("&", mark) + 1 > limits.max_parameters


def _repeats_segments(url: str, limits: Frontier) -> bool:
    """A segment occurs more than `max_repeated_segments` times (/a/b/a/b/a/b …: a relative-link loop)."""
    most = limits.max_repeated_segments
    path = url.partition("?")[0]
    if path.count("/") - 2 <= most:
        return False
    segments = [segment for segment in path.split("/")[3:] if segment]
    if len(segments) - len(set(segments)) < most:
        return False
    return max(Counter(segments).values(), default=0) > most


def _calendar_run(url: str, limits: Frontier) -> bool:
    """A calendar position far outside the years that pages are about."""
    if not _may_be_year(url):
        return False
    strange = any(not _FIRST_YEAR <= int(year) <= _LAST_YEAR for year in _year(url))
    return strange and _in_calendar(url) is not None


def _session_segment(url: str, limits: Frontier) -> bool:
    """A path segment that is a session token, followed by more path: every visit gets a new tree."""
    path = url.partition("?")[0]
    return ("/s" in path or "/S" in path) and _session(path) is not None


class Filter(NamedTuple):
    name: TrapName
    fires: Callable[[str, Frontier], bool]


FILTERS: tuple[Filter, ...] = (
    Filter("url-too-long", _too_long),
    Filter("bad-port", _bad_port),
    Filter("too-many-parameters", _too_many_parameters),
    Filter("repeated-segments", _repeats_segments),
    Filter("calendar-run", _calendar_run),
    Filter("session-segment", _session_segment),
)


class Series(NamedTuple):
    """URLs of one host that differ only in what a site can vary without end; `most` of them may enter."""

    name: TrapName
    key: str
    most: int


LEAST_VARIANTS = 100
"""However many parameters: a short list of choices is no explosion."""
_MONTH = r"(?:0?[1-9]|1[0-2]|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6})"
_DAY = r"(?:0?[1-9]|[12][0-9]|3[01])"
# A page that is a position in a calendar and nothing else: the date ends the path (what follows it in a path is an
# article), or stands in a parameter. `start=40` is a page of results.
_dated_path = re.compile(
    rf"/(?:1[89]|20)[0-9]{{2}}[/-]{_MONTH}(?:[/-]{_DAY})?(?:/(?:day|week|month|list|agenda)?)?(?:\?|\Z)",
    re.IGNORECASE,
).search
_dated_query = re.compile(
    r"[?&;][a-z_]{0,16}(?:date|month|day|week|cal|start|from|until)[a-z_]{0,16}="
    r"(?:1[89]|20)[0-9]{2}-?[01][0-9](?:-?[0-3][0-9])?(?:[&;]|\Z)",
    re.IGNORECASE,
).search
_year_parameter = re.compile(
    r"[?&;][a-z_]{0,16}year[a-z_]{0,16}=(?:1[89]|20)[0-9]{2}(?:[&;]|\Z)", re.IGNORECASE
).search
_month_parameter = re.compile(r"[?&;][a-z_]{0,16}month[a-z_]{0,16}=[a-z0-9]", re.IGNORECASE).search
_varying = re.compile(rf"[0-9]+|(?<=[/=-]){_MONTH}(?=[/&;?-]|\Z)", re.IGNORECASE).sub


def series_of(url: str, limits: Frontier) -> Iterator[Series]:
    """The series that the canonical `url` belongs to: a path with one set of parameters, a calendar."""
    path, mark, query = url.partition("?")
    if mark:
        names = sorted({part.partition("=")[0] for part in query.split("&")})
        most = max(limits.max_parameter_variants >> 2 * (len(names) - 1), LEAST_VARIANTS)
        yield Series("parameter-explosion", f"{path}?{'&'.join(names)}", most)
    if _may_be_year(url) and _is_position(path, url):
        yield Series("endless-calendar", _varying("#", url), limits.max_calendar_pages)


def _is_position(path: str, url: str) -> bool:
    if _dated_path(path):
        return True
    if "=" not in url:
        return False
    if _dated_query(url):
        return True
    return _year_parameter(url) is not None and _month_parameter(url) is not None
