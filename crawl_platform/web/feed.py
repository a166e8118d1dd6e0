"""Feeds: RSS 0.9 to 2.0, RSS 1.0 (RDF), Atom and JSON Feed 1.1, as far as a crawler needs them.

Of an Atom entry every link counts, whatever its `rel`: they are all pages of that entry. An RSS item without a link
is where its `guid` says, unless that says that it is no permalink (RSS 2.0, "guid"); an RDF item without one is
where its `rdf:about` says. A feed may name a hub that tells of news (W3C WebSub §4) and the next page of an archive
(RFC 5005 §3).
"""

import msgspec

from crawl_platform.web.dates import parse_date
from crawl_platform.web.items import Entry, Field, Grammar, Locate, first_date

DATES = ("updated", "modified", "lastmod", "pubdate", "date", "published", "issued", "created")
"""When an item was last changed, else when it came out."""


def _entries(fields: list[Field], bare: str, locate: Locate) -> list[Entry]:
    found = [url for link in fields if link.name == "link" and (url := _target(link, locate))]
    found = found or [url for other in fields if (url := locate(_stands_in(other)))][:1]
    date = first_date(fields, DATES)
    return [Entry(url, date) for url in dict.fromkeys(found)]


def _target(link: Field, locate: Locate) -> str | None:
    return locate(link.attribute("href") or link.text)


def _stands_in(found: Field) -> str:
    """What the field says of where an item without a link is; '' if nothing."""
    if found.name == "item":
        text = found.attribute("rdf:about") or found.attribute("about")
    elif found.name == "guid" and found.attribute("ispermalink").strip().lower() != "false":
        text = found.text
    else:
        return ""
    return text if text.startswith(("http://", "https://", "/")) else ""


_WANTED = frozenset({"link", "guid", *DATES})
_RSS = Grammar("item", _WANTED, _entries, frozenset({"link"}))
GRAMMARS = {
    "rss": _RSS,
    "rdf": _RSS,
    "feed": Grammar("entry", _WANTED, _entries, frozenset({"link"})),
}
"""By root element."""


def linked(outside: list[Field], rel: str, locate: Locate) -> tuple[str, ...]:
    """Targets of the feed's own links with that `rel`, in order and each once."""
    named = (link for link in outside if rel in link.attribute("rel").lower().split())
    return tuple(dict.fromkeys(url for link in named if (url := locate(link.attribute("href")))))


MAX_JSON = 4_000_000
"""Characters of a JSON feed: it is no JSON before its end, so all of it is held."""


class _JsonItem(msgspec.Struct):
    url: str | None = None
    external_url: str | None = None
    date_modified: str | None = None
    date_published: str | None = None


class _JsonHub(msgspec.Struct):
    url: str = ""


class _JsonFeed(msgspec.Struct):
    version: str
    items: list[_JsonItem] = []
    hubs: list[_JsonHub] = []
    next_url: str | None = None


def read_json(text: str, locate: Locate) -> tuple[list[Entry], tuple[str, ...], tuple[str, ...]] | None:
    """Entries, hubs and next pages of a JSON feed (jsonfeed.org 1.1); None for what is none."""
    try:
        found = msgspec.json.decode(text, type=_JsonFeed)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    if "jsonfeed.org" not in found.version:
        return None
    entries = []
    for item in found.items:
        date = parse_date(item.date_modified or "") or parse_date(item.date_published or "")
        urls = dict.fromkeys(url for link in (item.url, item.external_url) if link and (url := locate(link)))
        entries += [Entry(url, date) for url in urls]
    hubs = tuple(url for hub in found.hubs if hub.url and (url := locate(hub.url)))
    following = locate(found.next_url) if found.next_url else None
    return entries, hubs, (following,) if following else ()
