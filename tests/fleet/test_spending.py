"""Several cells pay from the same purses: whatever dies, fails or comes late, none is overdrawn."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.clock import DAY, ManualClock
from crawl_platform.errors import ExchangeError, OwnershipLostError
from crawl_platform.fleet.spending import AGREED, CRAWL, Offer, Spending
from crawl_platform.settings import Payment

PAYMENT = Payment(max_price=0.05, host_budget=0.10, day_budget=0.25)
ASKS = {"crawler-price": "USD 0.02", "crawler-error": "MissingCrawlerPrice"}
CHARGED = {"crawler-charged": "USD 0.02"}


class Bucket:
    """A bucket in memory that lets others run at every step, as the network does; `away`: it does not answer."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[bytes, int]] = {}
        self.away = False

    async def get(self, bucket: str, key: str) -> tuple[bytes, int] | None:
        await asyncio.sleep(0)
        if self.away:
            raise ExchangeError("away")
        return self.entries.get(key)

    async def swap(self, bucket: str, key: str, value: bytes, revision: int) -> int:
        await asyncio.sleep(0)
        if self.away:
            raise ExchangeError("away")
        if self.entries.get(key, (b"", 0))[1] != revision:
            raise OwnershipLostError(key)
        self.entries[key] = value, revision + 1
        return revision + 1


def paying(bucket: Bucket, clock: ManualClock, payment: Payment = PAYMENT) -> Spending:
    return Spending(bucket, lambda host: payment, payment.day_budget, clock)


async def pays(spending: Spending, host: str = "a.test") -> bool:
    """One request with whatever it offers; the site charges it."""
    offer = await spending.offer(host)
    if offer is None:
        return False
    await spending.settle(offer, CHARGED, sent=True)
    return True


async def test_nothing_is_paid_by_default() -> None:
    spending = paying(Bucket(), ManualClock(), Payment())

    assert spending.answer("a.test", ASKS) == ("declined", "gone")
    assert await spending.offer("a.test") is None


async def test_a_page_that_costs_something_is_asked_for_again_with_its_price() -> None:
    spending = paying(Bucket(), ManualClock())
    assert await spending.offer("a.test") is None, "the price is not known yet"

    assert spending.answer("a.test", ASKS) == (AGREED, "retry")
    offer = await spending.offer("a.test")

    assert offer is not None
    assert offer.headers == {"crawler-exact-price": "USD 0.02"}
    assert await spending.offer("b.test") is None


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({"crawler-price": "USD 0.06"}, "over_max_price"),
        ({"crawler-price": "EUR 0.02"}, "other_currency"),
        ({"crawler-error": "CrawlerForbidden"}, "CrawlerForbidden"),
        ({"crawler-price": "a lot"}, ""),
        ({}, ""),
    ],
)
async def test_what_is_not_paid_says_why(headers: dict[str, str], word: str) -> None:
    spending = paying(Bucket(), ManualClock())

    assert spending.answer("a.test", headers) == (word, "gone")
    assert await spending.offer("a.test") is None


async def test_a_budget_ends_and_begins_again_with_the_day() -> None:
    clock = ManualClock()
    spending = paying(Bucket(), clock)
    spending.answer("a.test", ASKS)

    assert [await pays(spending) for _ in range(7)] == [True] * 5 + [False] * 2
    assert spending.answer("a.test", ASKS) == ("over_budget", "refused")
    clock.advance(DAY)
    spending.answer("a.test", ASKS)
    assert await pays(spending)


async def test_the_crawls_budget_ends_too_and_takes_nothing_from_the_hosts() -> None:
    bucket = Bucket()
    spending = paying(bucket, ManualClock(), Payment(max_price=0.05, host_budget=0.10, day_budget=0.03))
    for host in ("a.test", "b.test"):
        spending.answer(host, ASKS)

    assert await pays(spending, "a.test")
    assert not await pays(spending, "b.test")
    spent = [value.decode() for key, (value, _) in bucket.entries.items() if key != CRAWL]
    assert sum('"spent":20000' in text for text in spent) == 1
    assert sum('"spent":0' in text for text in spent) == 1


async def test_what_was_not_charged_comes_back() -> None:
    spending = paying(Bucket(), ManualClock())
    spending.answer("a.test", ASKS)

    for _ in range(20):
        offer = await spending.offer("a.test")
        assert offer is not None
        await spending.settle(offer, {}, sent=True)
    offer = await spending.offer("a.test")
    assert offer is not None
    await spending.settle(offer, None, sent=False)
    assert [await pays(spending) for _ in range(6)] == [True] * 5 + [False]


async def test_an_answer_that_never_came_counts_as_paid() -> None:
    spending = paying(Bucket(), ManualClock())
    spending.answer("a.test", ASKS)

    for _ in range(5):
        offer = await spending.offer("a.test")
        assert offer is not None
        await spending.settle(offer, None, sent=True)
    assert await spending.offer("a.test") is None


async def test_a_site_that_refuses_its_own_price_is_left_alone_for_the_day() -> None:
    spending = paying(Bucket(), ManualClock())
    spending.answer("a.test", ASKS)
    assert await spending.offer("a.test") is not None

    refuses = {"crawler-price": "USD 0.02", "crawler-error": "PaymentFailed"}
    assert spending.answer("a.test", refuses) == ("over_budget", "refused")
    assert await spending.offer("a.test") is None


async def test_without_the_exchange_nothing_is_paid() -> None:
    bucket = Bucket()
    spending = paying(bucket, ManualClock())
    spending.answer("a.test", ASKS)

    bucket.away = True
    assert await spending.offer("a.test") is None
    bucket.away = False
    bucket.entries[CRAWL] = b"\xff no purse", 1
    assert await spending.offer("a.test") is None


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from(["paid", "free", "lost", "dies", "away"]), min_size=10, max_size=60),
)
def test_no_purse_is_overdrawn_whatever_happens(seed: int, endings: list[str]) -> None:
    """Four cells, three hosts. The truth is what the sites have charged."""
    asyncio.run(_many(random.Random(seed), endings))


async def _many(rng: random.Random, endings: list[str]) -> None:
    bucket, clock = Bucket(), ManualClock()
    cells = [paying(bucket, clock) for _ in range(4)]
    hosts = ["a.test", "b.test", "c.test"]
    charged = dict.fromkeys(hosts, 0)
    for cell in cells:
        for host in hosts:
            cell.answer(host, ASKS)

    async def visit(cell: Spending, host: str, ending: str) -> None:
        offer = await cell.offer(host)
        for _ in range(rng.randrange(5)):
            await asyncio.sleep(0)
        if offer is not None:
            await _end(cell, offer, ending)

    async def _end(cell: Spending, offer: Offer, ending: str) -> None:
        if ending != "free":
            charged[offer.host] += offer.price.millionths
        if ending in ("paid", "free"):
            await cell.settle(offer, CHARGED if ending == "paid" else {}, sent=True)
        elif ending == "lost":
            await cell.settle(offer, None, sent=True)
        elif ending == "away":
            bucket.away = True
            await cell.settle(offer, CHARGED, sent=True)
            bucket.away = False

    await asyncio.gather(*(visit(rng.choice(cells), rng.choice(hosts), ending) for ending in endings))
    assert all(amount <= 100_000 for amount in charged.values())
    assert sum(charged.values()) <= 250_000


async def test_without_reserving_purses_are_overdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: who looks without taking lets several cells spend the same money."""
    monkeypatch.setattr("crawl_platform.fleet.spending.reserve", lambda purse, day, amount, limit: purse)

    with pytest.raises(AssertionError):
        await _many(random.Random(1), ["paid"] * 60)
