"""What every stage of a cell's work needs, put together by the cell once, and what they all do with it."""

from collections.abc import Callable
from dataclasses import dataclass

from crawl_platform.admission.politeness import Gates
from crawl_platform.clock import Clock
from crawl_platform.commit.outbox import Outbox
from crawl_platform.fetch.client import HttpClient, Response
from crawl_platform.fetch.dns import DnsCache
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fetch.signing import Signer
from crawl_platform.fleet.addresses import AddressBook
from crawl_platform.fleet.epochs import Series
from crawl_platform.fleet.rows import Origin, host_row
from crawl_platform.fleet.spending import Spending
from crawl_platform.fleet.telemetry import Telemetry
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.hosts import HostState
from crawl_platform.settings import Settings


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
    signer: Signer | None
    """None: requests are not signed."""
    spending: Spending
    fence: Callable[[], None]
    """Raises `OwnershipLostError` when this cell may no longer fetch."""

    def fetch_id(self) -> str:
        """A new id: unique in the lake."""
        self.outbox.fetches += 1
        return f"{self.outbox.incarnation[:12]}-{self.outbox.fetches:x}"

    def tell(self, state: HostState, event: str, **facts: object) -> None:
        """An event row of a host, with the epoch that its request belongs to. A guest is no host of the crawl."""
        if state.guest:
            return
        record = state.record
        row = host_row(
            state.host, state.shard, self.clock.now(), event, self.frontier.book.state(state.host), self.origin.cell,
            trusted=record.trusted, known_urls=record.known, **facts,
        )  # fmt: skip
        self.bulk.open.rows.add("hosts", row)
        self.bulk.touch()


def redirect_target(url: str, response: Response) -> str | None:
    """Canonical target of a redirect; None if there is none."""
    return response.redirect_to if response.outcome is Outcome.REDIRECT else None
