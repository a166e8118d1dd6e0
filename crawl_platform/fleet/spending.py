"""Paying for pages: what hosts have asked, and purses that all cells share.

The steps, numbered again in the code:

    1  a 402 names a price that we would pay: it is remembered for the host, and the page is asked for again
    2  before the next request to the host the price is reserved, in its purse and in the crawl's, by compare-and-swap
    3  the request repeats the price under our signature
    4  the answer says what it charged: the rest goes back

A crash between 2 and 4 leaves the amount reserved, and so does an answer that never came: what may have been spent
counts as spent, and no purse is overdrawn. Without the exchange nothing is reserved, and so nothing is paid.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from crawl_platform.admission.payment import (
    EXACT_PRICE,
    Asked,
    Money,
    Purse,
    asked_of,
    millionths,
    reserve,
    settle,
    would_pay,
)
from crawl_platform.clock import DAY, Clock, as_datetime
from crawl_platform.errors import ExchangeError, OwnershipLostError
from crawl_platform.fleet.exchange import directive_key
from crawl_platform.frontier.plan import OVER_BUDGET
from crawl_platform.settings import Payment

log = logging.getLogger(__name__)
BUCKET = "spending"
CRAWL = "crawl"
TRIES = 10
"""Of a compare-and-swap: more than cells that pay in the same millisecond."""
QUOTES = 10_000
"""Hosts whose price is remembered."""
QUOTE_LIFE = DAY
AGREED = "agreed"


class Purses(Protocol):
    """A bucket with compare-and-swap, as `fleet.exchange.Exchange` has."""

    async def get(self, bucket: str, key: str) -> tuple[bytes, int] | None: ...

    async def swap(self, bucket: str, key: str, value: bytes, revision: int) -> int: ...


class Offer(NamedTuple):
    """A price that is reserved for one request. The days are those of the purses that it was taken from."""

    host: str
    price: Money
    host_day: str
    crawl_day: str

    @property
    def headers(self) -> dict[str, str]:
        """What the request has to carry, and its signature to cover."""
        return {EXACT_PRICE: self.price.text}


@dataclass(slots=True)
class Quote:
    """A host's price until UTC second `until`. `barred`: the day on which nothing more is paid to it."""

    price: Money
    until: float
    barred: str = ""


class Spending:
    """`payment_of(host)`: the settings in force for a host; `day_budget` is the crawl's, in units."""

    def __init__(
        self, purses: Purses, payment_of: Callable[[str], Payment], day_budget: float, clock: Clock
    ) -> None:
        self._purses = purses
        self._payment_of = payment_of
        self._day_limit = millionths(day_budget)
        self._clock = clock
        self._quotes: OrderedDict[str, Quote] = OrderedDict()

    def answer(self, host: str, headers: Mapping[str, str]) -> tuple[str, str]:
        """(what becomes of a 402, for the lake; disposition of the page).

        (1) A price that would be paid makes the page wait for its next turn, or for the next day's budget.
        """
        asked = asked_of(headers)
        why = would_pay(asked.price, self._payment_of(host)) if asked.price is not None else ""
        if asked.price is None or why:
            return why or asked.x402 or asked.error, "gone"
        known = self._quotes.get(host)
        barred = known.barred if known is not None else ""
        if (
            known is not None
            and known.price == asked.price
            and asked.error not in ("", "MissingCrawlerPrice")
        ):
            barred = self._day()  # it asks what we offered, and refuses it
        self._remember(host, Quote(asked.price, self._clock.now() + QUOTE_LIFE, barred))
        return (OVER_BUDGET, "refused") if barred == self._day() else (AGREED, "retry")

    def _remember(self, host: str, quote: Quote) -> None:
        self._quotes[host] = quote
        self._quotes.move_to_end(host)
        if len(self._quotes) > QUOTES:
            self._quotes.popitem(last=False)

    def _day(self) -> str:
        return as_datetime(self._clock.now()).date().isoformat()

    async def offer(self, host: str) -> Offer | None:
        """(2) A reserved price for the next request to `host`; None if it has named none, or nothing may be paid."""
        quote = self._quotes.get(host)
        if quote is None or quote.until < self._clock.now() or quote.barred == self._day():
            return None
        payment = self._payment_of(host)
        if would_pay(quote.price, payment):
            return None
        try:
            return await self._reserve(host, quote, millionths(payment.host_budget))
        except ExchangeError as error:
            log.warning("%s is not paid: %s", host, error)
            return None

    async def _reserve(self, host: str, quote: Quote, host_limit: int) -> Offer | None:
        day, amount = self._day(), quote.price.millionths
        own = await self._change(_key(host), lambda purse: reserve(purse, day, amount, host_limit))
        if own is None:
            quote.barred = day
            return None
        whole = await self._change(CRAWL, lambda purse: reserve(purse, day, amount, self._day_limit))
        if whole is None:
            quote.barred = day
            await self._change(_key(host), lambda purse: settle(purse, own.day, amount, 0))
            return None
        return Offer(host, quote.price, own.day, whole.day)

    async def settle(self, offer: Offer, headers: Mapping[str, str] | None, *, sent: bool) -> None:
        """(4) The request is over. `headers`: the answer's; None if there was none; `sent`: it left this machine."""
        if sent and headers is None:
            return  # it may have been charged: it stays reserved
        asked = asked_of(headers) if headers is not None else Asked()
        charged = asked.charged.millionths if asked.charged is not None else 0
        if charged > offer.price.millionths:
            log.error("%s charged %s for %s", offer.host, asked.charged, offer.price.text)
            self._quotes.pop(offer.host, None)
        amount = offer.price.millionths
        try:
            await self._change(_key(offer.host), lambda purse: settle(purse, offer.host_day, amount, charged))
            await self._change(CRAWL, lambda purse: settle(purse, offer.crawl_day, amount, charged))
        except ExchangeError as error:
            log.warning("what %s did not charge stays reserved: %s", offer.host, error)

    async def _change(self, key: str, change: Callable[[Purse], Purse | None]) -> Purse | None:
        """Compare and swap until it is done. None if `change` refuses; raises `ExchangeError` if it can't be done."""
        for _ in range(TRIES):
            found = await self._purses.get(BUCKET, key)
            purse = _purse(key, found[0]) if found is not None else Purse()
            changed = change(purse)
            if changed is None or changed == purse:
                return changed
            try:
                revision = found[1] if found is not None else 0
                await self._purses.swap(BUCKET, key, msgspec.json.encode(changed), revision)
            except OwnershipLostError:
                continue
            return changed
        raise ExchangeError(f"the purse {key} is wanted by too many at once")


def _purse(key: str, data: bytes) -> Purse:
    try:
        return msgspec.json.decode(data, type=Purse)
    except msgspec.DecodeError as error:
        raise ExchangeError(f"the purse {key} can't be read: {error}") from error


def _key(host: str) -> str:
    return directive_key("host", host)
