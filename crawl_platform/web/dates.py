"""When something was modified, as sites write it: W3C datetime, RFC 5322, and what is meant to be one of them."""

import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

LONGEST = 64
"""Characters; no date is longer, and the RFC 5322 parser is not made for more."""

_w3c = re.compile(
    r"(\d{4})(?:([-/.]?)(\d\d?)(?:\2(\d\d?)"
    r"(?:[T ,]\s*(\d\d?):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?\s*(?:(Z|UTC|GMT)|([+-])(\d\d)(?::?(\d\d))?Z?)?)?)?)?\Z",
    re.IGNORECASE,
).match
_unix = re.compile(r"(\d{9,10})(\d{3})?\Z").match


def parse_date(text: str) -> datetime | None:
    """The moment that `text` names; UTC where it names no zone, the first moment of a day, month or year.

    None for what is no date, or one that no calendar has.
    """
    text = text.strip()
    if not text or len(text) > LONGEST or not text.isprintable():
        return None
    try:
        return _written(text)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def _written(text: str) -> datetime:
    seconds = _unix(text)
    if seconds:
        return datetime.fromtimestamp(int(seconds[1]), UTC)
    match = _w3c(text)
    if match is None:
        found = parsedate_to_datetime(text)
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    year, month, day, hour, minute, second = (
        int(match[group] or default) for group, default in ((1, 0), (3, 1), (4, 1), (5, 0), (6, 0), (7, 0))
    )
    offset = timedelta(hours=int(match[10] or 0), minutes=int(match[11] or 0))
    zone = timezone(-offset if match[9] == "-" else offset) if offset else UTC
    return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=zone)
