"""What counts as a change: MD5 over the visible text that is left when noise is taken out.

Markup itself never counts: scripts, styles, comments, attributes, tag names, white space. Of the text, regions
that say they are advertising, navigation, page furniture or hidden don't count, unless little else is left. In
what remains these are masked: dates, times and ages; version numbers; long hexadecimal and mixed tokens
(nonces); counters; copyright years. Everything else counts, plain numbers and prices included.
See docs/decisions/0003-fingerprint.md for what it was measured on.
"""

import hashlib
import re

from crawl_platform.digest.blocks import Block

_MONTH = (
    r"(?:jan(?:uary|\.)?|feb(?:ruary|\.)?|mar(?:ch|\.)?|apr(?:il|\.)?|may|june?|july?|aug(?:ust|\.)?"
    r"|sept?(?:ember|\.)?|oct(?:ober|\.)?|nov(?:ember|\.)?|dec(?:ember|\.)?)"
)
_DAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?\s+)?"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s?[ap]\.?m\b\.?)?(?:\s?(?:utc|gmt|[ce]e?s?t|p[sd]t|z)\b)?(?:\s?[+-]\d{2}:?\d{2}\b)?"
_noise = re.compile(
    "|".join(
        (
            rf"\b{_DAY}{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?\b",
            rf"\b{_DAY}\d{{1,2}}(?:st|nd|rd|th|\.)?\s+{_MONTH}(?:,?\s+\d{{4}})?\b",
            rf"\b{_MONTH},?\s+\d{{4}}\b",
            rf"\b\d{{4}}-\d\d?-\d\d?(?:T{_TIME})?",
            r"\b\d{1,4}[/.]\d{1,2}[/.]\d{2,4}\b",
            rf"\b{_TIME}",
            r"\b(?:\d+|an?|one|few)\s+(?:second|sec|minute|min|hour|hr|day|week|month|year)s?\s+ago\b",
            r"\b(?:version|ver|release|rev|revision|build|v)[.:]?\s?\d+(?:\.\d+)*(?:[-+.]?[a-z0-9]+)*\b",
            r"\b\d+(?:\.\d+)+(?=\s+(?:documentation|docs|manual|reference|release)\b)",
            r"(?<![\w.$€£¥])\d+(?:\.\d+){2,}(?:[-+][\w.]+)?",
            r"\b\d[\d,.]*[km]?\s+(?:views?|likes?|shares?|comments?|votes?|followers?|downloads?|reads?|online|visitors?)\b",
            r"(?:©|\(c\)|copyright)\s*(?:\d{4}(?:\s*[-–]\s*\d{4})?)?",
            r"\b(?=[a-z]*\d)(?=\d*[a-z])[0-9a-f]{12,}\b",
            r"\b(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{32,}\b",
        )
    ),
    re.IGNORECASE,
)
# A number that the page itself introduces as the version of what it documents ("Frob 15.18 Documentation") is
# masked wherever it stands alone.
_own_version = re.compile(r"\b(\d+(?:\.\d+)+)(?=\s+(?:documentation|docs|manual|reference)\b)", re.IGNORECASE).search

# Below that many characters the regions that count are no page by themselves.
_LEAST = 40


def visible(blocks: list[Block]) -> str:
    """The text that counts, white space collapsed."""
    counting = " ".join("".join("".join(block.chunks) for block in blocks if block.region.counts).split())
    if len(counting) >= _LEAST:
        return counting
    return " ".join("".join("".join(block.chunks) for block in blocks).split())


def mask(text: str) -> str:
    """`text` without what varies from fetch to fetch."""
    own = _own_version(text)
    if own:
        text = re.sub(rf"(?<![\w.]){re.escape(own[1])}(?![\w]|\.\d)", "", text)
    return _noise.sub("", text)


def fingerprint(title: str, blocks: list[Block]) -> str:
    """Hex MD5 of `title` and `blocks` without noise."""
    return of_bytes(mask(f"{title}\n{visible(blocks)}").encode("utf-8", "replace"))


def of_bytes(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
