"""One lease, from claim to result: resolve → admit → fetch → digest → result and rows.

The only place where a request leaves the house. Its host was reserved by the claim; the address is
reserved here, and both clocks are looked at once more in the same loop step as the write.
"""

import logging

from crawl_platform.admission.hosts import EXCLUDED, HostExcludedError
from crawl_platform.admission.politeness import next_backoff, retry_after
from crawl_platform.errors import OwnershipLostError, SiteError
from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import BACKS_OFF, Outcome
from crawl_platform.fleet.page_answers import PageAnswers
from crawl_platform.fleet.parts import Parts
from crawl_platform.fleet.robots_answers import RobotsAnswers
from crawl_platform.fleet.spending import Offer
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.lease import Lease, RobotsLease
from crawl_platform.frontier.records import encode, host_key

log = logging.getLogger(__name__)
ANOTHER_CELLS = 0.3
"""Seconds until a host whose address another cell uses is looked at again."""
SLOW = 5.0
"""Seconds of a request after which its host counts as unproven: it holds slots that others could use."""


class Worker:
    def __init__(self, parts: Parts) -> None:
        self._p = parts
        self._robots = RobotsAnswers(parts)
        self._pages = PageAnswers(parts)

    async def run(self, lease: Lease | RobotsLease) -> None:
        """Carry out one lease; the host goes back to the agenda in every case."""
        p = self._p
        try:
            response = await self._fetch(lease)
        except OwnershipLostError:
            self._give_back(lease)
            raise
        except HostExcludedError:
            self._give_back(lease)
            return
        if response is None:
            return
        try:
            if isinstance(lease, RobotsLease):
                self._robots.take(lease, response)
            else:
                self._pages.take(lease, response)
        except Exception as error:
            if isinstance(lease, RobotsLease):
                raise
            log.exception("digesting %s failed", lease.url)
            response.outcome, response.detail = Outcome.INTERNAL_ERROR, repr(error)[:300]
            self._pages.failed(lease, response)
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
            if p.frontier.book.state(lease.host) == EXCLUDED:
                raise HostExcludedError(f"{lease.host} was excluded while its request waited")
            p.gates.check_write(lease.host, address, p.clock.boottime())

        robots = isinstance(lease, RobotsLease)
        offer = None if robots else await p.spending.offer(lease.host)
        try:
            response = await p.client.get(
                lease.url,
                lease.host,
                address,
                on_write=on_write,
                headers=self._headers(lease, offer),
                cap=p.settings.politeness.robots_bytes if robots else p.settings.fetch.body_cap,
            )
        except (OwnershipLostError, HostExcludedError):
            self._next_in_line(p.gates.release_address(address))
            if offer is not None:
                await p.spending.settle(offer, None, sent=False)
            raise
        if offer is not None:
            answered = response.headers if response.status is not None else None
            await p.spending.settle(offer, answered, sent=response.sent)
        return response

    def _headers(self, lease: Lease | RobotsLease, offer: Offer | None) -> dict[str, str]:
        """What this request says beside the client's own headers: validators, a price, a signature over it."""
        priced = offer.headers if offer is not None else {}
        headers = priced | (_conditional(lease) if isinstance(lease, Lease) else {})
        signer = self._p.signer
        return headers | signer.headers(lease.url, priced) if signer is not None else headers

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
                p.tell(state, "backoff", detail=str(response.outcome), delay=wait)
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

    def _next_in_line(self, host: str | None) -> None:
        if host is not None:
            self._p.frontier.reschedule(host, self._p.clock.now(), self._p.clock.boottime())


def _conditional(lease: Lease) -> dict[str, str]:
    """If-None-Match and If-Modified-Since from the last success."""
    record = lease.record
    headers = {}
    if record.body_hash and record.etag:
        headers["If-None-Match"] = record.etag
    if record.body_hash and record.last_modified:
        headers["If-Modified-Since"] = record.last_modified
    return headers
