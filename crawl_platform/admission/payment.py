"""Pages that cost something (HTTP 402): what a site asks, whether we would pay, and a ledger that is never overdrawn.

Prices as Cloudflare's pay per crawl writes them: a 402 names one in `crawler-price: USD 0.01`; the request that pays
repeats it in `crawler-exact-price` under our signature; the answer that was paid for says `crawler-charged`; what went
wrong is in `crawler-error`. x402 (`payment-required`, base64 of JSON) is recognised and recorded, never paid.

Money is in millionths of the currency's unit, rounded up. The ledger has a purse per host and one for the crawl, each
for one UTC day. An amount is *reserved* before the request that may cost it is sent and given back only when an
answer has come that did not charge it: what a crash leaves behind counts as spent.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

import msgspec

from crawl_platform.settings import Payment

PRICE, CHARGED, ERROR = "crawler-price", "crawler-charged", "crawler-error"
EXACT_PRICE = "crawler-exact-price"
X402 = "payment-required"
MILLIONTHS = 1_000_000
_money = re.compile(r"([A-Z]{3}) ([0-9]{1,9}(?:\.[0-9]{1,12})?)").fullmatch
_error_word = re.compile(r"[A-Za-z0-9_-]{1,60}").match
MAX_X402 = 16_384


class Money(NamedTuple):
    """`text` is what the site wrote: a payment has to repeat it exactly."""

    currency: str
    millionths: int
    text: str

    @property
    def amount(self) -> float:
        """In units of the currency."""
        return self.millionths / MILLIONTHS


def parse_money(value: str) -> Money | None:
    """A price or charge; None if it is none."""
    found = _money(value.strip())
    if found is None:
        return None
    exact = Decimal(found[2]) * MILLIONTHS
    return Money(found[1], int(exact.to_integral_value(ROUND_CEILING)), value.strip())


class Asked(NamedTuple):
    """What an answer says about money. `scheme`: crawler-price, x402 or "" (it says nothing)."""

    scheme: str = ""
    price: Money | None = None
    charged: Money | None = None
    error: str = ""
    x402: str = ""
    """The first offer of x402, like "25000 of 0x833… on eip155:8453": units of an asset that we do not know."""


_NOTHING = Asked()


def asked_of(headers: Mapping[str, str]) -> Asked:
    """The price facts of an answer; `headers` by lower-case name. Never raises."""
    price, charged = parse_money(headers.get(PRICE, "")), parse_money(headers.get(CHARGED, ""))
    found = _error_word(headers.get(ERROR, "").strip())
    error = found[0] if found else ""
    if price or charged or error:
        return Asked("crawler-price", price, charged, error)
    told = headers.get(X402)
    offer = _x402_offer(told) if told else ""
    return Asked("x402", x402=offer) if offer else _NOTHING


def _x402_offer(value: str) -> str:
    """The first way to pay in an x402 header in words; empty if it is no such header."""
    try:
        accepts = json.loads(base64.b64decode(value[:MAX_X402], validate=True))["accepts"]
        offer = accepts[0]
        words = f"{offer['amount']} of {offer['asset']} on {offer['network']}"
    except (binascii.Error, ValueError, RecursionError, LookupError, TypeError):
        return ""
    return words[:200].encode("utf-8", "replace").decode()


def would_pay(price: Money | None, settings: Payment) -> str:
    """Why `price` is not paid ("declined", "other_currency", "over_max_price"); empty if it would be."""
    if not settings.pays or price is None:
        return "declined"
    if price.currency != settings.currency:
        return "other_currency"
    return "over_max_price" if price.millionths > millionths(settings.max_price) else ""


def millionths(amount: float) -> int:
    """A limit from the settings, rounded down."""
    return int(Decimal(str(amount)) * MILLIONTHS)


class Purse(msgspec.Struct, frozen=True):
    """What was spent (or may have been) on `day` (UTC, ISO 8601), in millionths."""

    day: str = ""
    spent: int = 0


def reserve(purse: Purse, day: str, amount: int, limit: int) -> Purse | None:
    """The purse with `amount` taken out of it; None if that would exceed `limit`.

    A new day begins with a full purse. A `day` before the purse's (a clock that is behind) is charged to the purse's.
    """
    if day > purse.day:
        purse = Purse(day)
    spent = purse.spent + amount
    return Purse(purse.day, spent) if amount >= 0 and spent <= limit else None


def settle(purse: Purse, reserved_on: str, reserved: int, charged: int) -> Purse:
    """The purse after an answer: what was reserved and not charged goes back, if its day is still the same.

    A charge beyond what was reserved (a site that breaks the protocol) is booked in full.
    """
    if purse.day != reserved_on:
        return purse
    return Purse(purse.day, max(purse.spent - reserved + charged, 0))
