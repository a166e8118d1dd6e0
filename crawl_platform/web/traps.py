"""Crawler traps: URL shapes that a site can produce without end.

An ordered table of named filters over the canonical URL alone. A trap reason is data (the frontier counts and
drops the URL), so false alarms must be rare: each filter looks for something that no finite site needs.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from crawl_platform.settings import Frontier

# Years that a page about real events may show. Calendars that can be paged for ever leave this range after a
# few hundred clicks at most; the bounds are wide because a museum or a forecast is no trap.
_FIRST_YEAR, _LAST_YEAR = 1800, 2060

_calendar = re.compile(
    # /calendar/2199/03, /events/2199-03-01, ?month=2199-03, ?date=21990301, ?year=2199
    r"(?:[?&;](?:[a-z_]*(?:date|month|year|day|week|cal|start|from|to|until)[a-z_]*)=|/)"
    r"(\d{4})(?:(?=[/-](?:0?[1-9]|1[0-2])(?!\d))|(?=(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?!\d))|(?=[&;#]|\Z))",
    re.IGNORECASE,
)
_in_calendar = re.compile(
    r"calend|event|archive|agenda|schedule|diary|/\d{4}/\d|[?&;][a-z_]*(?:date|month|year)", re.I
)
# 24 and more characters of mixed hex or base-36, at least four digits and four letters: a token, not a word.
_token_segment = re.compile(
    r"/(?=(?:[^/?]*\d){4})(?=(?:[^/?]*[a-z]){4})(?:sid|sess(?:ion)?)?[=_-]?[0-9a-z]{24,}(?=/)", re.I
)
_session_word = re.compile(r"/(?:s|sid|session|sess)[/=_-]?\Z", re.I)


def trap_reason(url: str, limits: Frontier) -> str | None:
    """Why the canonical `url` looks like a trap (one of `FILTERS`' names), or None."""
    for name, fires in FILTERS:
        if fires(url, limits):
            return name
    return None


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
    return len(segments) - len(set(segments)) >= most and any(segments.count(s) > most for s in set(segments))


def _calendar_run(url: str, limits: Frontier) -> bool:
    """A calendar position far outside the years that pages are about."""
    if not _in_calendar.search(url):
        return False
    return any(not _FIRST_YEAR <= int(year) <= _LAST_YEAR for year in _calendar.findall(url))


def _session_segment(url: str, limits: Frontier) -> bool:
    """A path segment that is a session token, followed by more path: every visit gets a new tree."""
    match = _token_segment.search(url.partition("?")[0], 8)
    if match is None:
        return False
    return "=" in match[0] or bool(_session_word.search(url[: match.start() + 1]))


class Filter(NamedTuple):
    name: str
    fires: Callable[[str, Frontier], bool]


FILTERS: tuple[Filter, ...] = (
    Filter("url-too-long", _too_long),
    Filter("too-many-parameters", _too_many_parameters),
    Filter("repeated-segments", _repeats_segments),
    Filter("calendar-run", _calendar_run),
    Filter("session-segment", _session_segment),
)
