"""What an answer to a sitemap's or feed's request means: which URLs it brings, which of its dates are news.

One reader per cell takes the answers in turn: the next file is not inflated before all of the last has been
delivered, so the entries of one are in memory, whatever sites send (`sitemap_room` bounds the bodies that wait). It
reads in a thread; the entries enter in portions, each with whatever epoch is open; the result, with all rows, comes
with the last one. So no step of the loop is long, and a crash on the way means that the file is read again. Of what
was listed before and is as it was nothing is written.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from crawl_platform.commit.staging import Row
from crawl_platform.digest.kind import kind_of
from crawl_platform.errors import StateError
from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fleet.epochs import Series
from crawl_platform.fleet.page_answers import PageAnswers
from crawl_platform.fleet.parts import Parts, redirect_target
from crawl_platform.fleet.rows import body_hash, link_row
from crawl_platform.fleet.sitemap_room import SitemapRoom
from crawl_platform.frontier.lease import Found, Lease, PageResult, value_at
from crawl_platform.frontier.listed import SITEMAP_WAITS, charge, sitemap_group, value_of
from crawl_platform.frontier.listing import Listing
from crawl_platform.frontier.records import (
    FASTLANE,
    FEED,
    FRESHLANE,
    KINDS,
    PAGE,
    SITEMAP,
    SitemapRecord,
    decode,
    listing_key,
    sitemap_key,
)
from crawl_platform.scheduling.change_rate import Gamma
from crawl_platform.web import feed
from crawl_platform.web.items import Entry
from crawl_platform.web.sitemap import Sitemap, may_list, parse
from crawl_platform.web.url import canonicalize, host_of

log = logging.getLogger(__name__)
PORTION = 500
"""Entries handed to an epoch at once."""
SAMPLED = 100
"""Later lastmods taken from one reading while the host's are not believed: enough to win trust back. Where it always
says "now", all 50,000 would be looked up each time."""
FEEDS = frozenset({*feed.GRAMMARS, "json"})
DEEPEST = 5
"""Depth beyond which the path of an entry says nothing more."""


class SitemapAnswers(PageAnswers):
    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._pages = PageAnswers(parts)
        self._room = SitemapRoom(parts.settings.sitemaps.large_at_once)
        self._arrived: asyncio.Queue[tuple[Lease, Response]] = asyncio.Queue()
        """Bounded by the room."""

    # room

    def enter(self, lease: Lease) -> bool:
        """Take a place for it before it is asked for; without one, it waits and False is returned. Whoever gets
        one calls `arrived`, or `left` if there is no answer."""
        settings = self._p.frontier.rules.of(lease.host).sitemaps
        if self._room.enter(lease, settings):
            return True
        self._p.frontier.set_aside(lease)
        if not self._room.wait(lease, settings):
            self._p.bulk.open.pages.append(
                PageResult(lease, self._p.clock.now(), "refused", SITEMAP_WAITS, group=lease.record.group)
            )
            self._p.bulk.touch(2)
        return False

    def left(self, lease: Lease) -> None:
        """Its place is free."""
        self._room.leave(lease.url)

    def cap(self, lease: Lease) -> int:
        """Bytes of its body."""
        return self._room.cap(lease.url)

    def call(self) -> None:
        """Those that waited and have room now may be claimed again."""
        now, boot = self._p.clock.now(), self._p.clock.boottime()
        for lease in self._room.call(boot):
            self._p.frontier.call_back(lease, now, boot)

    # reading

    @property
    def unread(self) -> int:
        """Answers that are asked for, wait or are being read."""
        return len(self._room)

    def arrived(self, lease: Lease, response: Response) -> None:
        """Its answer is to be read."""
        self._arrived.put_nowait((lease, response))

    async def all_read(self) -> None:
        """Wait until what has arrived is read."""
        await self._arrived.join()

    async def read_forever(self) -> None:
        """The one reader."""
        while True:
            await self._read_next()

    async def _read_next(self) -> None:
        lease, response = await self._arrived.get()
        try:
            await self.read(lease, response)
        except StateError:
            raise
        except Exception as error:
            log.exception("reading %s failed", lease.url)
            response.outcome, response.detail = Outcome.INTERNAL_ERROR, repr(error)[:300]
            self.failed(lease, response)
        finally:
            self.left(lease)
            self._arrived.task_done()

    async def read(self, lease: Lease, response: Response) -> None:
        """Carry out what the answer means: result and rows are in an open epoch when this returns."""
        state = self._p.frontier.hosts.get(lease.host)
        if state is not None:
            charge(state.record, response.started_at, len(response.body))
        if response.outcome is Outcome.OK:
            hashed = body_hash(response.body)
            if hashed == lease.record.body_hash:
                self._unchanged(lease, response, hashed)
            elif self._cut_small(lease, response):
                self._put_off(lease, response)
            else:
                await self._content_listed(lease, response, hashed)
        else:
            self.take(lease, response)

    def _cut_small(self, lease: Lease, response: Response) -> bool:
        """Whether it was cut where small ones end, and might have been read to its own end."""
        cap = self._room.cap(lease.url)
        size = max(len(response.body), len(response.wire))
        return response.truncated and cap <= size < self._p.frontier.rules.of(lease.host).sitemaps.body_cap

    def _prior(self, lease: Lease) -> Gamma:
        return self._p.frontier.revisits.sitemap_prior

    def _unchanged(self, lease: Lease, response: Response, hashed: int) -> None:
        record = lease.record
        result = self._result(lease, response, changed=False, body_hash=hashed, links_hash=record.links_hash)
        result.link_set = record.link_set
        result.posterior = self._posterior(lease, False, result.at)
        self._keep(lease, result, response)
        self._deliver(
            lease, result, self._p.fetch_id(), response,
            changed=False, body_hash=f"{hashed:016x}", link_set=record.link_set or None,
        )  # fmt: skip

    def _put_off(self, lease: Lease, response: Response) -> None:
        """It is large, and others are: it is asked for again when they have been read."""
        response.detail = "cut off: too many large ones are being read, it will be asked for again"
        result = self._result(lease, response)
        result.disposition, result.reason = "refused", SITEMAP_WAITS
        self._deliver(lease, result, self._p.fetch_id(), response)

    def _page(self, lease: Lease, response: Response) -> None:
        """A page has come in its place, and is one from now on: an apology, or where all that is gone leads to."""
        cap = self._p.settings.fetch.body_cap
        response.truncated = response.truncated or len(response.body) > cap
        response.body = response.body[:cap]
        page = msgspec.structs.replace(lease.record, kind=PAGE)
        self._pages.take(replace(lease, record=page, as_page=True), response)

    def _redirect(self, lease: Lease, response: Response) -> None:
        """Where it has moved to it is a sitemap (or feed) still, and speaks for the same hosts."""
        target = redirect_target(lease.url, response)
        if target is None:
            self.failed(lease, response)
            return
        record, known = lease.record, self._known(lease)
        result = self._result(lease, response)
        moved = Found(target, record.depth, record.value, record.hops + 1, kind=record.kind)
        result.found = [replace(moved, vouched=_vouched(lease, known), level=known.level)]
        self._deliver(lease, result, self._p.fetch_id(), response, redirect_to=target)

    def _known(self, lease: Lease) -> SitemapRecord:
        data = self._p.frontier.kv.get(
            sitemap_key(lease.shard, lease.host, sitemap_group(lease.host, lease.url))
        )
        return SitemapRecord(lease.url) if data is None else decode(data, SitemapRecord)

    async def _content_listed(self, lease: Lease, response: Response, hashed: int) -> None:
        p, record = self._p, lease.record
        group = sitemap_group(lease.host, lease.url)
        before = p.frontier.kv.get(listing_key(lease.shard, lease.host, group))
        state = p.frontier.hosts.get(lease.host)
        believed = state is not None and state.record.claims.believed
        task = _Task(lease, self._known(lease), p.fetch_id(), response.started_at, before, believed)
        most = p.frontier.rules.of(lease.host).sitemaps.entries_max
        news = await asyncio.to_thread(_read, task, response.body, most)
        if not news.named and kind_of(response.body, response.header("content-type") or None) == "html":
            self._page(lease, response)
            return
        series = p.fast if lease.lane in (FASTLANE, FRESHLANE) else p.bulk
        await self._hand_in(series, news.found)
        rows = await asyncio.to_thread(_rows, task, news.new)
        changed = None
        if record.last_success_at and record.body_hash:
            changed = news.shifted or (news.moved and believed)
        result = self._result(lease, response, changed=changed, body_hash=hashed, links_hash=news.digest)
        result.listed = news.listed
        result.link_set = task.fetch_id if news.new else record.link_set
        result.posterior = self._posterior(lease, changed, result.at)
        self._keep(lease, result, response)
        series = self._deliver(
            lease, result, task.fetch_id, response, changed=changed, body_hash=f"{hashed:016x}",
            link_set=result.link_set or None, entries=news.entries, hub=news.hub or None,
        )  # fmt: skip
        series.open.rows.add_all("links", rows, sum(map(len, news.new)) + len(rows) * (200 + len(lease.url)))

    async def _hand_in(self, series: Series, found: list[Found]) -> None:
        for start in range(0, len(found), PORTION):
            await series.room()
            portion = found[start : start + PORTION]
            series.open.found += portion
            series.touch(2 * len(portion))
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class _Task:
    """What the reading of one file needs to know; `before`: what it listed last time (`Listing`)."""

    lease: Lease
    known: SitemapRecord
    fetch_id: str
    at: float
    before: bytes | None
    believed: bool
    """Whether the host's lastmods are."""


class _News(NamedTuple):
    """`found`: what was not listed before or has a later lastmod; `new`: URLs of the former. `shifted`: the set of
    locations is another one; `moved`: some lastmod is later; `named`: the file names something at all."""

    found: list[Found]
    new: list[str]
    listed: bytes
    digest: int
    entries: int
    shifted: bool
    moved: bool
    hub: str
    named: bool


def _read(task: _Task, body: bytes, most: int) -> _News:
    """Runs in a thread: touches nothing but its arguments."""
    lease = task.lease
    parsed = parse(body, lease.url, most=most)
    found = list(_found(task, parsed)) if lease.record.kind == SITEMAP or parsed.kind in FEEDS else []
    listing = Listing.of([one.url for one in found], [one.lastmod for one in found])
    difference = listing.since(Listing.decode(task.before))
    moved = difference.moved if task.believed else difference.moved[:SAMPLED]
    news = [found[place] for place in sorted((*difference.new, *moved))]
    shifted = bool(difference.new or difference.gone)
    hub = parsed.hubs[0] if parsed.hubs else ""
    return _News(
        news, [found[place].url for place in difference.new], listing.encode(), listing.digest(), len(listing),
        shifted, bool(difference.moved), hub,
        bool(parsed.entries or parsed.index),
    )  # fmt: skip


def _rows(task: _Task, new: list[str]) -> list[Row]:
    """`links` of what is listed for the first time. Made last: while the entries enter, they would lie in memory."""
    lease = task.lease
    position = KINDS[lease.record.kind]
    return [link_row(task.fetch_id, lease.url, url, task.at, position, "", False, "") for url in new]


def _found(task: _Task, parsed: Sitemap) -> Iterator[Found]:
    """The locations that it may speak of, canonical. Of a feed they are links like others, wherever they lead."""
    lease, record = task.lease, task.lease.record
    vouched = _vouched(lease, task.known)
    level = task.known.level + 1
    for entry in parsed.entries:
        lastmod = _seconds(entry)
        for loc in (entry.loc, *(url for _, url in entry.alternates)):
            url = canonicalize(loc)
            if url is None or (record.kind == SITEMAP and not may_list(lease.url, url, vouched)):
                continue
            depth = _depth_of(url) if record.kind == SITEMAP else max(record.depth, 1)
            # What a sitemap may list its own host has agreed to: no stranger has named it.
            agreed = (host_of(url),) if record.kind == SITEMAP else ()
            yield Found(
                url, depth, value_at(depth), sitemap=lease.url, lastmod=lastmod, vouched=agreed, anchor=""
            )
            lastmod = 0.0  # it is the page's own, not that of its translations
    for place, entry in enumerate(parsed.index):
        url = canonicalize(entry.loc)
        if url is None or host_of(url) not in (lease.host, *vouched):
            continue
        child = Found(
            url, 1, value_of(level, place), kind=SITEMAP, sitemap=lease.url, lastmod=_seconds(entry)
        )
        yield replace(child, vouched=vouched, level=level)
    for url in parsed.following:
        page = canonicalize(url)
        if page is not None and host_of(page) == lease.host:
            yield Found(page, record.depth, value_at(level), kind=FEED, sitemap=lease.url, level=level)


def _vouched(lease: Lease, known: SitemapRecord) -> tuple[str, ...]:
    return known.vouched if lease.record.kind == SITEMAP else ()


def _depth_of(url: str) -> int:
    """Clicks from the root, guessed by the path: nobody has followed a link to it yet."""
    segments = url.partition("?")[0].rstrip("/").count("/") - 2
    return min(max(segments, 1), DEEPEST)


def _seconds(entry: Entry) -> float:
    return max(entry.lastmod.timestamp(), 0.0) if entry.lastmod is not None else 0.0
