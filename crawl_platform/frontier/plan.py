"""What an epoch changes in the frontier: results and inbox messages in, one atomic batch out.

A plan is computed from the store and changes nothing. The cell writes its batch together with the manifest
(the commit point) and then lets the frontier `absorb` it. So a crash before the write changes nothing at
all, and one after it loses nothing.
"""

from collections.abc import Iterable, Sequence

from crawl_platform.admission.hosts import EXCLUDED, SEED
from crawl_platform.admission.preferences import BY_PAGE
from crawl_platform.admission.scopes import OUT_OF_SCOPE, TOO_DEEP
from crawl_platform.admission.service import Reason
from crawl_platform.clock import DAY
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.lease import Found, Lease, PageResult, RobotsResult, value_at
from crawl_platform.frontier.links import Links
from crawl_platform.frontier.listed import (
    SITEMAP_BUDGET,
    SITEMAP_WAITS,
    Listed,
    named_by_robots,
    pulled_rank,
    sitemap_group,
)
from crawl_platform.frontier.overlay import AGE_OF_FULL_VALUE, Overlay, Plan, forget_content, is_dead
from crawl_platform.frontier.records import (
    DISCOVERY,
    DROPPED,
    FASTLANE,
    FETCHED,
    FRESHLANE,
    GONE,
    NO_LANE,
    PAGE,
    QUEUED,
    REFRESH,
    RobotsRecord,
    UrlRecord,
    encode,
    listing_key,
    manifest_label,
    robots_key,
    url_key,
)
from crawl_platform.frontier.seen import digest_of
from crawl_platform.scheduling.templates import group_id, template_of
from crawl_platform.settings import Promises
from crawl_platform.web.url import host_of

OVER_BUDGET = "over_budget"
LOOKED_AT_AGAIN = {
    Reason.ROBOTS: DAY, Reason.ORIGIN_UNREACHABLE: DAY / 24, Reason.ORIGIN_GIVEN_UP: 7 * DAY,
    EXCLUDED: DAY, OUT_OF_SCOPE: DAY, TOO_DEEP: DAY, Reason.POLICY: 7 * DAY, BY_PAGE: 7 * DAY,
    OVER_BUDGET: DAY, SITEMAP_BUDGET: DAY, SITEMAP_WAITS: 60.0,
}  # fmt: skip
"""Seconds after which a URL that was turned away is looked at again, by its reason up to a colon. By then robots.txt is
read anew (RFC 9309 2.4): a site that forbade everything by mistake, or a use that it allows now, is not lost for good;
a scope may be wider, the day has a new budget, and the policy about uses may be another one. A look is no request: as
long as nothing has changed, the URL waits as long again."""
FRESH_LINKS = 32
"""New links of one visit of a watched page that are fetched at once, at most; the others wait like any link."""
PAGES_AT_ONCE = 64
"""Pages whose links are looked up together."""


class Planner:
    """Builds one plan. `series` and `manifest` are stamped on the URLs whose rows that manifest carries."""

    def __init__(self, frontier: Frontier, now: float, series: str = "", manifest: int = 0) -> None:
        self._frontier = frontier
        self._now = now
        self._series = series
        self._manifest = manifest
        self._over = Overlay(frontier, now)
        self.plan = self._over.plan
        self._listed = Listed(self._over, self.plan.batch, now, lambda host: frontier.rules.of(host).sitemaps)
        self._links = Links(frontier, self._over, self._listed, now)

    def finish(self) -> Plan:
        """The plan, with the records of the hosts it touched in its batch."""
        return self._over.finish()

    # results

    def pages(self, results: Sequence[PageResult]) -> None:
        """Apply ended page fetches, in order; links are looked up for many pages at once."""
        for start in range(0, len(results), PAGES_AT_ONCE):
            some = results[start : start + PAGES_AT_ONCE]
            self._links.foresee(found.url for result in some for found in result.found)
            for result in some:
                self.page(result)

    def page(self, result: PageResult) -> None:
        """Apply an ended page fetch: state, posterior, next due time, discoveries."""
        lease = result.lease
        record = self._over.leased(lease)
        self.plan.released.append(lease)
        asked_again = _asked_again(lease.record, record)
        if asked_again:
            self.plan.still_queued.add(lease.host)
        redelivered = asked_again and lease.record.body_hash != 0 and record.body_hash == 0
        if not asked_again:
            self._over.unqueue(lease.host, lease.url, record)
            record.request_id = ""
        first, dead = record.last_success_at == 0.0, is_dead(record)
        if lease.as_page:
            self._listed.proved_a_page(lease.host, record)
        self._judge(result, record)
        self._listed.visited(result, record)
        self._listed.keep(result)
        record.group = result.group or self._group(lease.host, lease.url)
        if redelivered:
            forget_content(record)
        record.series, record.manifest = self._series, self._manifest
        if not asked_again:
            self._queue_again(lease.host, lease.url, record)
        self._over.store(lease.host, lease.url, record)
        if (
            record.kind != lease.record.kind
        ):  # what was fetched as a page turned out to be a sitemap meanwhile
            self._over.fetch_anew(lease.host, lease.url, record)
        if first and record.last_success_at > 0:
            self._over.host(lease.host).fetched += 1
            self.plan.first_fetches += 1
        self._over.count_dead(lease.host, is_dead(record) - dead)
        self._learn_order(result)
        self._links.foresee(found.url for found in result.found)
        self._links.fresh = FRESH_LINKS if record.every and not first else 0
        for found in result.found:
            # A redirect to what the host's rules take for the same URL: followed as it stands, or it never arrives.
            as_it_is = result.disposition == "redirect" and self._links.form(found.url) == lease.url
            self._links.enter(found, lease.host, as_it_is=as_it_is)
        self._links.fresh = 0

    def _learn_order(self, result: PageResult) -> None:
        """What an ended fetch tells about the order of parameters at its host."""
        lease = result.lease
        if "&" not in lease.url or self._frontier.rules.of(lease.host).urls.sort_parameters != "learned":
            return
        known = self._links.order(lease.host)
        order = known
        if result.disposition == "redirect":
            for found in result.found:
                order = order.redirected(lease.url, found.url)
        elif result.disposition == "success":
            order = order.visited(lease.url, result.fingerprint, result.at)
        if order is not known:
            self._over.host(lease.host).order = order

    def _judge(self, result: PageResult, record: UrlRecord) -> None:
        if result.disposition in ("success", "redirect"):
            label = manifest_label(self._series, self._manifest)
            if result.link_set != record.link_set:
                record.links_in = label
            if result.changed is not False:
                record.page_in = label
            if result.posterior is not None:
                record.rate_a, record.rate_b = result.posterior
            record.state, record.fails, record.reason = FETCHED, 0, result.reason
            record.last_success_at = result.at
            record.body_hash, record.links_hash = result.body_hash, result.links_hash
            record.fingerprint, record.link_set = result.fingerprint, result.link_set
            record.etag, record.last_modified = result.etag, result.last_modified
            record.types = record.types if result.types is None else result.types
        elif result.disposition == "gone":
            record.state, record.reason = GONE, result.reason
        elif result.disposition == "refused":
            record.state, record.reason = DROPPED, result.reason
        else:
            record.fails += 1
            record.reason = result.reason
            most = self._frontier.limits(result.lease.host).max_attempts
            if record.fails >= most and record.last_success_at == 0.0:
                record.state = GONE

    def _queue_again(self, host: str, url: str, record: UrlRecord) -> None:
        again = LOOKED_AT_AGAIN.get(record.reason.partition(":")[0])
        if record.state == DROPPED and again is not None:
            wait, lane = again, REFRESH if record.last_success_at else DISCOVERY
        elif record.state in (GONE, DROPPED):
            return
        elif record.fails:
            wait = self._frontier.limits(host).retry_delay * 2 ** min(record.fails - 1, 10)
            lane = REFRESH if record.last_success_at else DISCOVERY
        elif record.every:
            wait, lane = record.every, FRESHLANE
        else:
            self._over.enqueue(host, url, record, REFRESH, self._due(host, record))
            return
        self._over.enqueue(host, url, record, lane, int((self._now + wait) * 1000))

    def _due(self, host: str, record: UrlRecord) -> int:
        """When (milliseconds) a page that was fetched is due for its next visit."""
        if record.pulled:
            return pulled_rank(record)
        frontier = self._frontier
        state = frontier.hosts.get(host)
        threshold = state.threshold if state is not None else 0.0
        age = frontier.revisits.interval(self._over.shard(host), host, record, threshold)
        return int((record.last_success_at + age) * 1000)

    def _group(self, host: str, url: str) -> int:
        return group_id(host, template_of(url, self._over.host(host).shapes))

    def denied(self, lease: Lease) -> None:
        """A claimed URL is not fetched, for the reason that its lease names: for good, or for now."""
        self.page(PageResult(lease, self._now, "refused", lease.refused))

    def robots(self, result: RobotsResult, crawl_delay: float) -> None:
        """Keep a robots answer; it is in force from now on."""
        lease = result.lease
        record = RobotsRecord(
            result.rule,
            result.fetched_at or result.at,
            result.expires_at,
            result.body,
            result.unreachable_since,
            result.failures,
        )
        self.plan.batch.put(robots_key(lease.shard, lease.origin), encode(record))
        self._over.host(lease.host).crawl_delay = crawl_delay
        if self._frontier.rules.of(lease.host).sitemaps.sitemaps:
            for found in named_by_robots(lease.origin, result.sitemaps):
                self.discover(found, lease.host)

    # entries

    def discover(self, found: Found, by: str | None = None, *, as_it_is: bool = False) -> str:
        """Let a URL in if it belongs, and say what became of it (`Links.enter`)."""
        return self._links.enter(found, by, as_it_is=as_it_is)

    def discover_all(self, found: Sequence[Found], by: str | None = None, *, as_it_is: bool = False) -> None:
        """The same for many: what is known of them is looked up at once."""
        self._links.foresee(one.url for one in found)
        for one in found:
            self._links.enter(one, by, as_it_is=as_it_is)

    def admit(self, host: str, urls: Iterable[Found], *, trusted: bool, decision_id: str) -> bool:
        """A host enters the seed, with its known URLs. Returns whether that is news."""
        if self._frontier.book.state(host) == EXCLUDED:
            return False
        self.plan.admitted.add(host)
        self._links.admitted()
        record = self._over.host(host)
        news = not record.in_seed
        if news:
            record.admitted, record.excluded, record.trusted = True, False, trusted
            record.decision_id, record.since = decision_id, self._now
        self.discover_all(list(urls))
        return news

    def exclude(self, host: str) -> None:
        """Note that the exclusion of a host has been written down; its queue stays, and is never claimed."""
        self._over.host(host).excluded = True

    def recrawl(self, url: str, request_id: str) -> str:
        """Put a URL of a seed host into the fastlane. Returns queued, horizon or excluded."""
        host, url, record, verdict = self._asked_for(url)
        if record is None:
            return verdict
        self._over.unqueue(host, url, record)
        self._over.revive(host, record)
        record.request_id = request_id
        self._over.enqueue(host, url, record, FASTLANE, int(self._now * 1000))
        self._over.store(host, url, record)
        return "queued"

    def _asked_for(self, url: str) -> tuple[str, str, UrlRecord | None, str]:
        """Host, URL as it is known there, its record (a new one, if need be), and queued; no record, and what its host
        is instead, if it may not be fetched."""
        host = host_of(url)
        url = self._links.form(url)
        state = self._over.state(host)
        if state != SEED or self._frontier.book.bars(host, url):
            return host, url, None, state if state != SEED else EXCLUDED
        record = self._over.load(host, url)
        if record is None:
            record = UrlRecord(value=value_at(0), group=self._group(host, url), discovered_at=self._now)
            self._over.host(host).known += 1
            self.plan.new_urls += 1
            self.plan.digests.append(digest_of(url_key(self._frontier.book.shard(host), host, url)))
        return host, url, record, "queued"

    def watch(self, url: str, every: float) -> str:
        """Visit a page of a seed host every so many seconds from now on, for the links that it brings; 0: as any
        other page again. Returns queued, horizon or excluded."""
        host, url, record, verdict = self._asked_for(url)
        if record is None:
            return verdict
        record.every = max(every, self._frontier.refresh.watch_min) if every > 0 else 0.0
        if record.lane != FASTLANE:  # else it comes into its lane after that
            self._over.unqueue(host, url, record)
            self._over.revive(host, record)
            if record.every:
                due = record.last_success_at + record.every
                self._over.enqueue(host, url, record, FRESHLANE, int(max(due, self._now) * 1000))
            elif record.last_success_at:
                self._over.enqueue(host, url, record, REFRESH, self._due(host, record))
            else:
                self._over.enqueue(host, url, record, DISCOVERY, self._over.discovery_rank(record.value))
        self._over.store(host, url, record)
        return "queued"

    def drop(self, host: str, url: str, record: UrlRecord, reason: str) -> None:
        """Take a known URL (`record`: as it is stored) out of its queue for good; it stays known."""
        record = self._over.records.setdefault(url_key(self._frontier.book.shard(host), host, url), record)
        before = is_dead(record)
        self._over.unqueue(host, url, record)
        record.state, record.reason = DROPPED, reason
        self._over.count_dead(host, is_dead(record) - before)
        self._over.store(host, url, record)

    def known(self, host: str, url: str) -> UrlRecord | None:
        """The record of a URL as the plan has left it; None if it is not known."""
        return self._over.load(host, url)

    def redeliver(self, host: str, url: str) -> None:
        """Rows of a known URL were quarantined: fetch it again now, as if it had never been seen."""
        record = self._over.load(host, url)
        if record is None:
            return
        self._over.unqueue(host, url, record)
        self._over.revive(host, record)
        forget_content(record)
        if record.kind != PAGE:
            shard = self._frontier.book.shard(host)
            self.plan.batch.delete(listing_key(shard, host, sitemap_group(host, url)))
        self._over.enqueue(host, url, record, FASTLANE, int(self._now * 1000))
        self._over.store(host, url, record)

    def queue_anew(self, host: str, url: str, record: UrlRecord) -> None:
        """A page waits where it waited, under the promises of today."""
        self._over.requeue(host, url, record, record.lane, record.rank)
        self._over.store(host, url, record)

    def promised(self, host: str, promises: Promises) -> None:
        """All pages of the host are queued by these promises."""
        record = self._over.host(host)
        record.within, record.first_within = promises.within, promises.first_within
        record.within_by_type = promises.types

    def appraise(self, url: str, value: float, reason: str) -> bool:
        """A known URL is worth `value` from now on; its place in the queue is what it would be, had that been
        known before. Returns whether that is news."""
        host = host_of(url)
        if self._frontier.book.shard(host) not in self._frontier.shards:
            return False
        record = self._over.load(host, url)
        if record is None or (record.value, record.worth) == (value, reason):
            return False
        before, lane, rank = record.value, record.lane, record.rank
        record.value, record.worth = value, reason
        if lane != NO_LANE:
            self._over.unqueue(host, url, record)
            if record.state == QUEUED and lane == DISCOVERY and not record.fails:
                rank += int(AGE_OF_FULL_VALUE * (before - value) * 1000)
            elif record.state == FETCHED and lane == REFRESH and not record.fails:
                rank = self._due(host, record)
            self._over.enqueue(host, url, record, lane, rank)
        self._over.store(host, url, record)
        return True


def _asked_again(claimed: UrlRecord, stored: UrlRecord) -> bool:
    """Whether a request or redelivery has queued the URL anew since it was claimed: that fetch is still owed."""
    return stored.lane == FASTLANE and (stored.lane, stored.rank, stored.request_id) != (
        claimed.lane,
        claimed.rank,
        claimed.request_id,
    )
