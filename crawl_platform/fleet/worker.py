"""One lease, from claim to result: resolve → admit → fetch → digest → result and rows.

The only place where a request leaves the house. Its host was reserved by the claim; the address is
reserved here, and both clocks are looked at once more in the same loop step as the write.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from crawl_platform.admission.politeness import Gates, next_backoff, retry_after
from crawl_platform.clock import Clock
from crawl_platform.commit.outbox import Outbox
from crawl_platform.commit.staging import Row
from crawl_platform.digest import Digest, digest
from crawl_platform.errors import OwnershipLostError, SiteError
from crawl_platform.fetch.client import HttpClient, Response
from crawl_platform.fetch.dns import DnsCache
from crawl_platform.fetch.outcome import BACKS_OFF, DISPOSITIONS, Outcome
from crawl_platform.fleet.addresses import AddressBook
from crawl_platform.fleet.epochs import Series
from crawl_platform.fleet.rows import Origin, body_hash, fetch_row, host_row, link_row, page_facts, page_row
from crawl_platform.fleet.telemetry import Telemetry
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.lease import Found, Lease, PageResult, RobotsLease, RobotsResult, value_at
from crawl_platform.frontier.posterior import posterior_after, predicted_change
from crawl_platform.frontier.records import FASTLANE, FRESHLANE, encode, host_key
from crawl_platform.scheduling.change_rate import Gamma
from crawl_platform.scheduling.templates import group_id, template_of
from crawl_platform.settings import Settings
from crawl_platform.web.robots import status_rule
from crawl_platform.web.url import canonicalize, resolve

log = logging.getLogger(__name__)
ANOTHER_CELLS = 0.3
"""Seconds until a host whose address another cell uses is looked at again."""
SLOW = 5.0
"""Seconds of a request after which its host counts as unproven: it holds slots that others could use."""
LinkSet = dict[tuple[str, str, str], tuple[bool, str]]
"""(canonical target, position, rel) → (nofollow, anchor of the first such link)."""


@dataclass(slots=True)
class Parts:
    """What a worker works with."""

    settings: Settings
    clock: Clock
    frontier: Frontier
    gates: Gates
    dns: DnsCache
    client: HttpClient
    outbox: Outbox
    bulk: Series
    fast: Series
    telemetry: Telemetry
    origin: Origin
    addresses: AddressBook
    fence: Callable[[], None]
    """Raises `OwnershipLostError` when this cell may no longer fetch."""


class Worker:
    def __init__(self, parts: Parts) -> None:
        self._p = parts

    async def run(self, lease: Lease | RobotsLease) -> None:
        """Carry out one lease; the host goes back to the agenda in every case."""
        p = self._p
        try:
            response = await self._fetch(lease)
        except OwnershipLostError:
            self._give_back(lease)
            raise
        if response is None:
            return
        try:
            if isinstance(lease, RobotsLease):
                self._robots(lease, response)
            else:
                self._page(lease, response)
        except Exception as error:
            if isinstance(lease, RobotsLease):
                raise
            log.exception("digesting %s failed", lease.url)
            response.outcome, response.detail = Outcome.INTERNAL_ERROR, repr(error)[:300]
            self._failed(lease, response)
        p.frontier.landed(lease.host, p.clock.now(), p.clock.boottime())

    async def _fetch(self, lease: Lease | RobotsLease) -> Response | None:
        """The response, or None if the address is busy and the lease was handed back."""
        p = self._p
        try:
            address = await p.dns.address(lease.host)
        except SiteError as error:
            response = Response(Outcome(error.outcome), error.detail, started_at=p.clock.now())
            self._ended(lease, None, response)
            return response
        p.frontier.addresses[lease.host] = address
        if not p.addresses.holds(address) and not await p.addresses.ask(address):
            self._give_back(lease)
            p.frontier.agenda.put(lease.host, p.clock.boottime() + ANOTHER_CELLS)
            return None
        if not p.gates.take_address(address, p.clock.boottime()):
            self._give_back(lease)
            p.frontier.await_address(address, lease.host, p.clock.boottime())
            return None
        response = await self._request(lease, address)
        self._ended(lease, address, response)
        return response

    async def _request(self, lease: Lease | RobotsLease, address: str) -> Response:
        p = self._p

        def on_write() -> None:
            p.fence()
            p.gates.check_write(lease.host, address, p.clock.boottime())

        robots = isinstance(lease, RobotsLease)
        try:
            return await p.client.get(
                lease.url,
                lease.host,
                address,
                on_write=on_write,
                headers={} if isinstance(lease, RobotsLease) else _conditional(lease),
                cap=p.settings.politeness.robots_bytes if robots else p.settings.fetch.body_cap,
            )
        except OwnershipLostError:
            self._next_in_line(p.gates.release_address(address))
            raise

    def _give_back(self, lease: Lease | RobotsLease) -> None:
        """No request was sent: host and lease are free again. The host still has to go back to the agenda."""
        p = self._p
        p.gates.release_host(lease.host)
        p.frontier.hand_back(lease)
        p.frontier.hosts[lease.host].in_flight = False

    def _ended(self, lease: Lease | RobotsLease, address: str | None, response: Response) -> None:
        """The request is over: start both delays, back off if the host is unwell."""
        p = self._p
        boot, now = p.clock.boottime(), p.clock.now()
        state = p.frontier.hosts.get(lease.host)
        delay = state.record.crawl_delay if state is not None else 0.0
        self._next_in_line(p.gates.end(lease.host, address, boot, delay))
        p.telemetry.fetched(response)
        if state is None:
            return
        record = state.record
        state.unproven = response.outcome in BACKS_OFF or response.duration > SLOW
        if self._origins_own_trouble(lease, response):
            return
        if response.outcome in BACKS_OFF:
            asked = retry_after(response.header("retry-after"), now)
            news = not record.backoff
            record.backoff, wait = next_backoff(record.backoff, asked, p.settings.politeness)
            record.not_before = now + wait
            p.gates.hold_host(lease.host, boot + wait)
            if news:
                self._tell(state, "backoff", detail=str(response.outcome), delay=wait)
            batch = Batch()
            batch.put(host_key(state.shard, lease.host), encode(record))
            p.frontier.kv.write(batch)
        elif record.backoff:
            record.backoff = (
                record.backoff / 2 if record.backoff > p.settings.politeness.backoff_first else 0.0
            )

    def _origins_own_trouble(self, lease: Lease | RobotsLease, response: Response) -> bool:
        """Nobody listens at this origin, but the host answers at another: a wrong port is no reason to
        leave the whole host alone."""
        nobody = response.outcome in (Outcome.CONNECT_REFUSED, Outcome.CONNECT_TIMEOUT, Outcome.TLS_FAILURE)
        return nobody and isinstance(lease, RobotsLease) and self._p.frontier.robots.reachable(lease.host)

    def _tell(self, state: HostState, event: str, **facts: object) -> None:
        """An event row of a host, with the epoch that its request belongs to."""
        p, record = self._p, state.record
        row = host_row(
            state.host, state.shard, p.clock.now(), event, p.frontier.book.state(state.host), p.origin.cell,
            trusted=record.trusted, known_urls=record.known, **facts,
        )  # fmt: skip
        p.bulk.open.rows.add("hosts", row)
        p.bulk.touch()

    def _next_in_line(self, host: str | None) -> None:
        if host is not None:
            self._p.frontier.reschedule(host, self._p.clock.now(), self._p.clock.boottime())

    def _fetch_id(self) -> str:
        self._p.outbox.fetches += 1
        return f"{self._p.outbox.incarnation[:12]}-{self._p.outbox.fetches:x}"

    # robots

    def _robots(self, lease: RobotsLease, response: Response) -> None:
        p = self._p
        now = p.clock.now()
        fetch_id = self._fetch_id()
        target = self._redirect_target(lease.url, response)
        series = p.bulk
        series.open.rows.add(
            "fetches", fetch_row(fetch_id, "robots", lease, response, p.origin, redirect_to=target)
        )
        series.touch()
        if response.outcome is Outcome.REDIRECT and p.frontier.follow_robots(
            lease, target, p.settings.fetch.robots_redirects
        ):
            return
        complete = response.outcome not in (Outcome.REDIRECT, Outcome.BAD_REDIRECT)
        rule = status_rule(response.status) if complete else "allow_all"
        if rule == "rules" and response.outcome is not Outcome.OK:
            rule = "disallow_all"
        unwell = rule == "disallow_all" or response.outcome in BACKS_OFF
        life = p.settings.politeness.robots_retry if unwell else p.settings.politeness.robots_ttl
        body = response.body if rule == "rules" else b""
        crawl_delay = p.frontier.robots.store(lease.origin, rule, body, now + life)
        result = RobotsResult(lease, now, rule, body, now + life)
        series.open.robots.append((result, crawl_delay))
        state = p.frontier.hosts.get(lease.host)
        if state is not None:
            state.record.crawl_delay = crawl_delay
            delay = max(crawl_delay, p.settings.politeness.host_delay)
            self._tell(state, "robots", robots_status=rule, delay=delay, detail=str(response.outcome))
            p.gates.hold_host(lease.host, p.clock.boottime() + crawl_delay)

    def _redirect_target(self, url: str, response: Response) -> str | None:
        if response.outcome is not Outcome.REDIRECT:
            return None
        target = resolve(response.header("location"), url)
        canonical = canonicalize(target) if target else None
        if canonical is None:
            response.outcome = Outcome.BAD_REDIRECT
            response.detail = f"Location: {response.header('location')[:200]!r}"
        return canonical

    # pages

    def _page(self, lease: Lease, response: Response) -> None:
        if response.outcome is Outcome.NOT_MODIFIED and lease.record.body_hash:
            self._unchanged(lease, response, lease.record.body_hash)
        elif response.outcome is Outcome.OK:
            hashed = body_hash(response.body)
            if hashed == lease.record.body_hash:
                self._unchanged(lease, response, hashed)
            else:
                self._content(lease, response, hashed)
        elif response.outcome is Outcome.REDIRECT:
            self._redirect(lease, response)
        else:
            self._failed(lease, response)

    def _result(self, lease: Lease, response: Response, **facts: object) -> PageResult:
        disposition = DISPOSITIONS[response.outcome]
        return PageResult(lease, response.started_at, disposition, str(response.outcome), **facts)  # type: ignore[arg-type]

    def _deliver(
        self, lease: Lease, result: PageResult, fetch_id: str, response: Response, **facts: object
    ) -> Series:
        """Put the result and its fetch row into the epoch of the lease's lane."""
        p = self._p
        series = p.fast if lease.lane in (FASTLANE, FRESHLANE) else p.bulk
        window = p.frontier.windows.in_force(lease.shard, result.at)
        rates = result.posterior or (lease.record.rate_a, lease.record.rate_b)
        template = self._template(lease)
        result.group = group_id(lease.host, template)
        row = fetch_row(
            fetch_id, "page", lease, response, p.origin,
            **page_facts(lease, window.window_id if window else None),
            group_id=result.group, template=template, rate_a=rates[0], rate_b=rates[1],
            predicted_change=predicted_change(lease.record, result.at, self._prior(lease)), **facts,
        )  # fmt: skip
        series.open.rows.add("fetches", row, 400)
        series.open.pages.append(result)
        series.touch(2 + 2 * len(result.found))
        return series

    def _keep(self, lease: Lease, result: PageResult, response: Response) -> None:
        """What a success brings for the next conditional request."""
        result.etag = response.header("etag")[:500] or lease.record.etag
        result.last_modified = response.header("last-modified")[:100] or lease.record.last_modified

    def _posterior(self, lease: Lease, changed: bool | None, at: float) -> tuple[float, float]:
        return posterior_after(lease.record, changed, at, self._prior(lease))

    def _prior(self, lease: Lease) -> Gamma:
        group = group_id(lease.host, self._template(lease))
        return self._p.frontier.revisits.priors.of(lease.shard, lease.host, group)

    def _template(self, lease: Lease) -> str:
        """The URL's group by what its host has taught so far: not always the one that it was queued with."""
        state = self._p.frontier.hosts.get(lease.host)
        return template_of(lease.url, state.record.shapes if state is not None else {})

    def _unchanged(self, lease: Lease, response: Response, hashed: int) -> None:
        record = lease.record
        result = self._result(lease, response, changed=False, body_hash=hashed, links_hash=record.links_hash)
        result.fingerprint, result.link_set = record.fingerprint, record.link_set
        result.posterior = self._posterior(lease, False, result.at)
        self._keep(lease, result, response)
        self._deliver(
            lease, result, self._fetch_id(), response,
            changed=False, fingerprint=record.fingerprint or None, body_hash=f"{hashed:016x}",
            link_set=record.link_set or None,
        )  # fmt: skip

    def _content(self, lease: Lease, response: Response, hashed: int) -> None:
        record = lease.record
        facts = digest(response.body, lease.url, response.header("content-type") or None)
        fetch_id = self._fetch_id()
        changed = facts.fingerprint != record.fingerprint if record.fingerprint else None
        links = self._link_set(facts, facts.nofollow or "nofollow" in response.header("x-robots-tag").lower())
        links_hash = _hash_links(links)
        same_links = bool(record.link_set) and links_hash == record.links_hash
        result = self._result(
            lease, response, changed=changed, body_hash=hashed, links_hash=links_hash,
            fingerprint=facts.fingerprint, link_set=record.link_set if same_links else fetch_id,
        )  # fmt: skip
        result.posterior = self._posterior(lease, changed, result.at)
        self._keep(lease, result, response)
        # All rows are made before the first is delivered: an error in one must not leave half of a page.
        link_rows: list[Row] = []
        if not same_links:
            result.found = self._followed(lease, facts, links)
            link_rows = [
                link_row(fetch_id, lease.url, target, result.at, position, rel, barred, anchor)
                for (target, position, rel), (barred, anchor) in links.items()
            ]
        page = page_row(fetch_id, lease, response, facts) if changed is not False else None
        series = self._deliver(
            lease, result, fetch_id, response,
            changed=changed, fingerprint=facts.fingerprint, body_hash=f"{hashed:016x}", link_set=result.link_set,
        )  # fmt: skip
        for row in link_rows:
            series.open.rows.add("links", row, 200 + len(row["dst_url"]) + len(lease.url))
        if page is not None:
            series.open.rows.add("pages", page, 500 + len(response.body))

    def _link_set(self, facts: Digest, nofollow: bool) -> LinkSet:
        """The page's links by canonical target, so that a session id in a URL doesn't make a new set."""
        links: LinkSet = {}
        for link in facts.links:
            target = canonicalize(link.url)
            if target is None:
                continue
            links.setdefault((target, link.position, link.rel), (nofollow or link.nofollow, link.anchor))
            if len(links) >= self._p.settings.frontier.max_urls_per_page:
                break
        return links

    def _followed(self, lease: Lease, facts: Digest, links: LinkSet) -> list[Found]:
        """What of a new link set may enter the frontier."""
        depth = lease.record.depth + 1
        value = value_at(depth)
        follow: dict[str, Found] = {}
        for (target, _, _), (barred, _) in links.items():
            if not barred:
                follow.setdefault(target, Found(target, depth, value))
        for pointer in (facts.meta_refresh, facts.canonical, *facts.frames):
            target_url = canonicalize(pointer) if pointer else None
            if target_url is not None:
                follow.setdefault(target_url, Found(target_url, depth, value, lease.record.hops + 1))
        return list(follow.values())

    def _redirect(self, lease: Lease, response: Response) -> None:
        target = self._redirect_target(lease.url, response)
        if target is None:
            self._failed(lease, response)
            return
        record = lease.record
        result = self._result(lease, response)
        result.found = [Found(target, record.depth, record.value, record.hops + 1)]
        fetch_id = self._fetch_id()
        result.link_set = fetch_id
        row = link_row(fetch_id, lease.url, target, result.at, "redirect", "", False, "")
        series = self._deliver(lease, result, fetch_id, response, redirect_to=target, link_set=fetch_id)
        series.open.rows.add("links", row)

    def _failed(self, lease: Lease, response: Response) -> None:
        result = self._result(lease, response)
        self._deliver(lease, result, self._fetch_id(), response)


def _conditional(lease: Lease) -> dict[str, str]:
    """If-None-Match and If-Modified-Since from the last success."""
    record = lease.record
    headers = {}
    if record.body_hash and record.etag:
        headers["If-None-Match"] = record.etag
    if record.body_hash and record.last_modified:
        headers["If-Modified-Since"] = record.last_modified
    return headers


def _hash_links(links: LinkSet) -> int:
    """Order and anchors don't count: the same links again are the same set."""
    lines = ("\t".join((*key, str(barred))) for key, (barred, _) in links.items())
    return body_hash("\n".join(sorted(lines)).encode())
