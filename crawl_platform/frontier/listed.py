"""What the frontier makes of sitemaps and feeds: which may enter, and what their lastmod does to known pages.

A sitemap or feed is a known URL of its host with a kind, so that queues, politeness and revisits are those of pages.
Its bounds are its own: how many a host may have, how deep indexes may nest, how many bytes of them are read a day.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from crawl_platform.clock import DAY
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.lease import Found, PageResult, value_at
from crawl_platform.frontier.records import (
    FETCHED,
    NO_LANE,
    PAGE,
    REFRESH,
    SITEMAP,
    HostRecord,
    SitemapRecord,
    UrlRecord,
    decode,
    encode,
    listing_key,
    sitemap_key,
)
from crawl_platform.scheduling.lastmod import claims_change, credible, learned
from crawl_platform.scheduling.templates import group_id
from crawl_platform.settings import Sitemaps
from crawl_platform.web.url import canonicalize, host_of, resolve

if TYPE_CHECKING:  # it looks at the frontier, which looks at the budgets here
    from crawl_platform.frontier.overlay import Overlay

SITEMAP_BUDGET, SITEMAP_WAITS = "sitemap_budget", "sitemap_waits"
"""Why a sitemap was put off: its host's bytes of the day are used up; too many large ones are being read."""
MOST_NAMED = 1_000
"""Sitemaps taken from one robots.txt."""
MOST_VOUCHED = 100
"""Hosts whose robots.txt may name one sitemap."""


def named_by_robots(origin: str, lines: Sequence[str]) -> list[Found]:
    """The sitemaps that `lines` of the robots.txt of `origin` name, the first ones first: its host vouches for
    them."""
    urls = (resolve(line, origin + "/robots.txt") for line in lines[:MOST_NAMED])
    found = dict.fromkeys(url for line in urls if line and (url := canonicalize(line)))
    vouched = (host_of(origin),)
    return [
        Found(url, 1, value_of(0, place), kind=SITEMAP, vouched=vouched) for place, url in enumerate(found)
    ]


def value_of(level: int, place: int) -> float:
    """What a sitemap is worth, by the indexes above it and by its place among others: with one after another
    worth less, pages have their turns between those of a long index."""
    return value_at(level) / (1 + place / 8)


def sitemap_group(host: str, sitemap: str) -> int:
    """Number of the group of URLs of `host` that a sitemap or feed lists."""
    return group_id(host, f"listed by {sitemap}")


def over_budget(record: HostRecord, now: float, settings: Sitemaps) -> bool:
    """Whether the host's sitemaps have brought all the bytes that a day may bring."""
    return record.sitemap_day == int(now // DAY) and record.sitemap_bytes >= settings.bytes_per_day


def charge(record: HostRecord, now: float, size: int) -> None:
    """Count the bytes of one that was read."""
    today = int(now // DAY)
    if record.sitemap_day != today:
        record.sitemap_day, record.sitemap_bytes = today, 0
    record.sitemap_bytes += size


class Listed:
    """The part of one plan that is about sitemaps and what they list."""

    def __init__(
        self, overlay: "Overlay", batch: Batch, now: float, settings: Callable[[str], Sitemaps]
    ) -> None:
        self._overlay = overlay
        self._batch = batch
        self._now = now
        self._settings = settings
        self._known: dict[bytes, SitemapRecord] = {}

    # entering

    def refusal(self, host: str, found: Found) -> str | None:
        """Why a sitemap or feed does not enter; None for what may, and for pages."""
        if found.kind == PAGE:
            return None
        settings = self._settings(host)
        if found.level > settings.max_level:
            return "sitemap_too_deep"
        return "too_many_sitemaps" if self._overlay.host(host).sitemaps >= settings.max_known else None

    def entered(self, host: str, entry: UrlRecord, found: Found) -> None:
        """A new URL: note where it came from, and what it is if it is no page."""
        entry.lastmod = credible(found.lastmod, self._now)
        if found.kind != PAGE:
            self._overlay.host(host).sitemaps += 1
            self._vouch(host, found)
        if found.sitemap:
            entry.second_group = self._named(host, found.sitemap)

    def again(self, host: str, found: Found) -> None:
        """A known URL is listed, or named as a sitemap."""
        if found.kind == PAGE and not found.sitemap:
            return
        record = self._overlay.load(host, found.url)
        if record is None:
            return
        if found.kind != PAGE and self._becomes_sitemap(host, record, found):
            self._overlay.fetch_anew(host, found.url, record)
        origin = record.second_group
        if found.sitemap not in ("", found.url) and not origin:
            record.second_group = self._named(host, found.sitemap)
        if self._heard(host, found, record) or record.second_group != origin:
            if record.lane != NO_LANE:  # what its place says of it is another thing now
                self._overlay.requeue(host, found.url, record, record.lane, record.rank)
            self._overlay.store(host, found.url, record)

    def _becomes_sitemap(self, host: str, record: UrlRecord, found: Found) -> bool:
        """Whether it has to be read for what it was not known to be, or not known to speak for."""
        if record.kind == PAGE:
            key = sitemap_key(self._overlay.shard(host), host, sitemap_group(host, found.url))
            tried = self._sitemap(key) is not None and found.sitemap != found.url
            if tried or self.refusal(host, found) is not None:
                return False
            record.kind = found.kind
            self._overlay.host(host).sitemaps += 1
            self._vouch(host, found)
            return True
        return self._vouch(host, found) and record.last_success_at > 0.0

    def _vouch(self, host: str, found: Found) -> bool:
        """Keep who speaks for the sitemap; whether that is more than was known."""
        key = sitemap_key(self._overlay.shard(host), host, sitemap_group(host, found.url))
        known = self._sitemap(key)
        hosts = known.vouched if known else ()
        more = tuple(name for name in found.vouched if name not in hosts)[: MOST_VOUCHED - len(hosts)]
        if known is not None and not more:
            return False
        level = min(known.level, found.level) if known is not None else found.level
        self._put(key, SitemapRecord(found.url, hosts + more, level))
        self._batch.delete(listing_key(self._overlay.shard(host), host, sitemap_group(host, found.url)))
        return True

    def _named(self, host: str, sitemap: str) -> int:
        """The group of what it lists of `host`, which it can be found by."""
        group = sitemap_group(host, sitemap)
        key = sitemap_key(self._overlay.shard(host), host, group)
        if self._sitemap(key) is None:
            self._put(key, SitemapRecord(sitemap))
        return group

    def _sitemap(self, key: bytes) -> SitemapRecord | None:
        if key not in self._known:
            data = self._overlay.get(key)
            if data is None:
                return None
            self._known[key] = decode(data, SitemapRecord)
        return self._known[key]

    def _put(self, key: bytes, record: SitemapRecord) -> None:
        self._known[key] = record
        self._batch.put(key, encode(record))

    # lastmod

    def _heard(self, host: str, found: Found, record: UrlRecord) -> bool:
        """A lastmod of a known URL; whether it was news. The visit of one that claims a change is brought forward
        if the host is believed."""
        said = credible(found.lastmod, self._now)
        if said <= record.lastmod:
            return False
        claim = record.last_success_at > 0.0 and claims_change(said, record.lastmod, record.last_success_at)
        record.lastmod = said
        if claim and not record.pulled and self._settings(host).lastmod:
            owner = self._overlay.host(host)
            first, record.claimed = record.claimed == 0.0, owner.claims.chance
            waits = record.state == FETCHED and record.lane == REFRESH and not record.fails
            record.pulled = waits and owner.pulled < owner.claims.most_pulled
            owner.pulled += record.pulled
            if record.lane != NO_LANE and (first or record.pulled):
                self._overlay.requeue(
                    host, found.url, record, record.lane, pulled_rank(record) or record.rank
                )
        return True

    def visited(self, result: PageResult, record: UrlRecord) -> None:
        """The visit of a page has ended well or for good: what was claimed of it has shown itself."""
        if not record.claimed or (record.fails and record.state == FETCHED):
            return
        owner = self._overlay.host(result.lease.host)
        kept = result.changed
        if record.kind == PAGE and kept is not None and result.disposition == "success":
            owner.claims = learned(owner.claims, kept)
        owner.pulled = max(owner.pulled - record.pulled, 0)
        record.claimed, record.pulled = 0.0, False

    def proved_a_page(self, host: str, record: UrlRecord) -> None:
        """What was taken for a sitemap or feed is a page: a redirect to the root, an apology."""
        if record.kind != PAGE:
            record.kind = PAGE
            self._overlay.host(host).sitemaps -= 1

    def keep(self, result: PageResult) -> None:
        """Store what a sitemap or feed lists now."""
        if result.listed is not None:
            lease = result.lease
            group = sitemap_group(lease.host, lease.url)
            self._batch.put(listing_key(lease.shard, lease.host, group), result.listed)


def pulled_rank(record: UrlRecord) -> int:
    """Place in the refresh queue (milliseconds) of a page whose visit is brought forward: in front of those that
    only time makes due. 0 if it is not."""
    return int(record.last_success_at * 1000) if record.pulled else 0
