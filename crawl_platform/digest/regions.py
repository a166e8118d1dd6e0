"""What part of a page an element opens: by its tag, its ARIA role, or whole words of its class and id.

Class words are matched as whole tokens with a few customary affixes (`site-footer`, `nav-wrapper`), because
`has-sidebar` or `content-with-nav` on a wrapper says nothing about the wrapper. Of several the first kind in
`_WORDS` wins.
"""

import re
from functools import lru_cache
from typing import NamedTuple


class Region(NamedTuple):
    """`position` as in `Link.position`. `counts`: its text counts as a change. `content`: may be main text."""

    position: str
    counts: bool
    content: bool


OTHER = Region("other", True, True)
MAIN = Region("main", True, True)
NAV = Region("nav", False, False)
HEADER = Region("header", False, False)
FOOTER = Region("footer", False, False)
ASIDE = Region("aside", False, False)
COMMENTS = Region("comments", True, False)
NOISE = Region("other", False, False)
SILENT = Region("other", False, False)
"""What is no text of the page. Links in it are links all the same."""

REGIONS = (OTHER, MAIN, NAV, HEADER, FOOTER, ASIDE, COMMENTS, NOISE, SILENT)
"""By their number in the columns of blocks and links."""


def number_of(region: Region) -> int:
    return next(number for number, other in enumerate(REGIONS) if other is region)


BY_TAG = {"nav": NAV, "header": HEADER, "footer": FOOTER, "aside": ASIDE, "main": MAIN, "article": MAIN}
_BY_ROLE = {
    "navigation": NAV, "menu": NAV, "menubar": NAV, "banner": HEADER, "contentinfo": FOOTER, "complementary": ASIDE,
    "main": MAIN, "article": MAIN, "search": NAV, "alert": NOISE, "dialog": NOISE, "alertdialog": NOISE,
}  # fmt: skip

_WORDS = {
    "noise": (
        NOISE,
        r"ads?|advert\w*|adsense|adsbygoogle|adslot|adunit|dfp|gpt-ad|sponsor(?:ed|s|ship)?|promoted|taboola|outbrain"
        r"|cookies?|consent|gdpr|newsletter|popup|modal|timestamp|time-?ago"
        r"|view-?counts?|share-?counts?|hit-?counter|visually-hidden|sr-only|screen-reader-text",
    ),
    "comments": (COMMENTS, r"comments?|commentlist|disqus(?:_thread)?|respond|discussion"),
    "footer": (FOOTER, r"footer|navfooter|colophon|copyright|footnav"),
    "header": (HEADER, r"header|navheader|masthead|topbar|banner"),
    "nav": (
        NAV,
        r"nav|navbar|navigation|menu|submenu|breadcrumbs?|pagination|pager|toc|toolbar|skip-?links?|tabs|browsebar",
    ),
    "aside": (
        ASIDE,
        r"side-?bar|aside|widgets?|related|recommend(?:ed|ations?)|social|share|sharing|promo|trending"
        r"|most-?(?:read|popular)|tags?|tag-?list|author-?bio|read-?(?:more|next)",
    ),
    "main": (
        MAIN,
        r"main|content|maincontent|bodycontent|article|article-?body|post|post-?(?:body|content)"
        r"|entry|entry-?content|story|story-?body",
    ),
}  # fmt: skip
_BEFORE = (
    r"(?:(?:site|page|main|global|primary|secondary|top|bottom|left|right|js|the|sphinx|mobile)[-_]{1,2})?"
)
_AFTER = (
    r"(?:[-_]{1,2}(?:wrap(?:per)?|container|box|bar|list|menu|inner|outer|area|section|block|row|col|links?|items?"
    r"|\d+))*"
)
_marked = re.compile(
    _BEFORE + "(?:" + "|".join(f"(?P<{name}>{words})" for name, (_, words) in _WORDS.items()) + ")" + _AFTER,
    re.IGNORECASE,
).fullmatch
_RANKS = {region: rank for rank, (region, _) in enumerate(_WORDS.values())}
_hiding = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE).search


_rank = _RANKS.__getitem__
_MOST_WORDS = 20
_LONGEST_WORD = 60


def region_of(tag: str, role: str, classes: str, identifier: str, style: str) -> Region | None:
    """The region that an element opens, or None if it belongs to the one around it.

    `style` is the style attribute, or "hidden" if the element has that attribute.
    """
    if style and (style == "hidden" or _hiding(style)):
        return NOISE
    if role and role.lower() in _BY_ROLE:
        return _BY_ROLE[role.lower()]
    if tag in BY_TAG:
        return BY_TAG[tag]
    named = [region for word in f"{classes} {identifier}".split()[:_MOST_WORDS] if (region := _named(word))]
    return min(named, key=_rank) if named else None


@lru_cache(maxsize=16_384)
def _named(word: str) -> Region | None:
    match = _marked(word[:_LONGEST_WORD])
    return _WORDS[match.lastgroup][0] if match is not None and match.lastgroup else None
