"""Prices, whether they would be paid, and purses that are never overdrawn."""

import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from crawl_platform.admission.payment import (
    Asked,
    Money,
    Purse,
    asked_of,
    millionths,
    parse_money,
    reserve,
    settle,
    would_pay,
)
from crawl_platform.errors import ConfigurationError
from crawl_platform.settings import HostRule, Payment, Settings, Signing

PAYING = Payment(max_price=0.02, host_budget=1.0, day_budget=5.0)


@pytest.mark.parametrize(
    ("text", "money"),
    [
        ("USD 0.01", ("USD", 10_000)),
        ("EUR 12", ("EUR", 12_000_000)),
        (" USD 0.0000001 ", ("USD", 1)),
        ("USD 999999999.999999", ("USD", 999_999_999_999_999)),
    ],
)
def test_prices(text: str, money: tuple[str, int]) -> None:
    found = parse_money(text)
    assert found is not None
    assert (found.currency, found.millionths, found.text) == (*money, text.strip())


@pytest.mark.parametrize(
    "text", ["", "0.01", "usd 0.01", "USD -1", "USD 1e9", "USD 1,5", "USD ١", "USD 1\n", "$1"]
)
def test_what_is_no_price(text: str) -> None:
    assert parse_money(text) is None or "\n" in text


def test_an_answer_says_what_it_costs_and_what_went_wrong() -> None:
    assert asked_of({"crawler-price": "USD 0.01"}) == Asked("crawler-price", parse_money("USD 0.01"))
    assert asked_of({"crawler-charged": "USD 0.01"}).charged == parse_money("USD 0.01")
    assert asked_of({"crawler-error": "PaymentFailed: no card"}).error == "PaymentFailed"
    assert asked_of({"content-type": "text/html"}) == Asked()


def test_x402_is_recognised() -> None:
    offer = {"scheme": "exact", "amount": "25000", "asset": "0xabc", "network": "eip155:8453"}
    header = base64.b64encode(json.dumps({"x402Version": 2, "accepts": [offer]}).encode()).decode()

    assert asked_of({"payment-required": header}) == Asked("x402", x402="25000 of 0xabc on eip155:8453")
    for broken in (
        "",
        "%%%",
        base64.b64encode(b'{"accepts": []}').decode(),
        base64.b64encode(b"[" * 9_000).decode(),
    ):
        assert asked_of({"payment-required": broken}) == Asked()


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(["crawler-price", "crawler-charged", "payment-required"]), st.text()))
def test_no_header_is_a_crash(headers: dict[str, str]) -> None:
    asked_of(headers)


@pytest.mark.parametrize(
    ("price", "payment", "why"),
    [
        ("USD 0.01", Payment(), "declined"),
        ("USD 0.01", Payment(max_price=1.0, host_budget=1.0), "declined"),
        ("EUR 0.01", PAYING, "other_currency"),
        ("USD 0.021", PAYING, "over_max_price"),
        ("USD 0.02", PAYING, ""),
    ],
)
def test_what_is_paid(price: str, payment: Payment, why: str) -> None:
    assert would_pay(parse_money(price), payment) == why


def test_paying_needs_a_signature_and_the_crawls_budget_is_no_hosts() -> None:
    with pytest.raises(ConfigurationError, match="signed"):
        Settings(home="/nowhere", payment=PAYING).validate()
    signing = Signing(enabled=True, agent="https://crawler.test")
    Settings(home="/nowhere", payment=PAYING, signing=signing).validate()
    with pytest.raises(ConfigurationError, match="day_budget"):
        Settings(home="/nowhere", hosts=(HostRule("a.test", payment={"day_budget": 1.0}),)).validate()
    with pytest.raises(ConfigurationError, match="negative"):
        Settings(home="/nowhere", hosts=(HostRule("a.test", payment={"max_price": -1.0}),)).validate()


def test_limits_are_read_as_they_are_written() -> None:
    assert millionths(0.1) == 100_000
    assert millionths(0.07) == 70_000


# the ledger


def test_a_new_day_has_a_full_purse_and_a_clock_behind_does_not() -> None:
    spent = Purse("2026-01-02", 900)

    assert reserve(spent, "2026-01-03", 200, 1_000) == Purse("2026-01-03", 200)
    assert reserve(spent, "2026-01-01", 200, 1_000) is None
    assert reserve(spent, "2026-01-01", 100, 1_000) == Purse("2026-01-02", 1_000)


def test_what_was_not_charged_comes_back_to_its_own_day_only() -> None:
    purse = Purse("2026-01-02", 500)

    assert settle(purse, "2026-01-02", 300, 0) == Purse("2026-01-02", 200)
    assert settle(purse, "2026-01-02", 300, 300) == purse
    assert settle(purse, "2026-01-01", 300, 0) == purse
    assert settle(purse, "2026-01-02", 300, 700) == Purse("2026-01-02", 900), (
        "a site that breaks the protocol"
    )


class Spenders(RuleBasedStateMachine):
    """Cells that reserve, are charged at most that, settle, or die in between, over days; one purse for them all."""

    open = Bundle("open")
    LIMIT = 1_000

    def __init__(self) -> None:
        super().__init__()
        self.purse = Purse()
        self.day = 1
        self.charged: dict[str, int] = {}

    @rule(target=open, amount=st.integers(0, 400), behind=st.integers(0, 1))
    def reserves(self, amount: int, behind: int) -> tuple[str, int] | None:
        taken = reserve(self.purse, f"{max(self.day - behind, 1):03}", amount, self.LIMIT)
        if taken is None:
            return None
        self.purse = taken
        return taken.day, amount

    @rule(hold=consumes(open), share=st.floats(0, 1), dies=st.booleans())
    def is_answered(self, hold: tuple[str, int] | None, share: float, dies: bool) -> None:
        if hold is None:
            return
        day, amount = hold
        charged = int(amount * share)
        self.charged[day] = self.charged.get(day, 0) + charged
        if not dies:  # else nobody settles: the amount stays taken
            self.purse = settle(self.purse, day, amount, charged)

    @rule()
    def a_day_passes(self) -> None:
        self.day += 1

    @invariant()
    def never_overdrawn(self) -> None:
        assert all(total <= self.LIMIT for total in self.charged.values())
        assert self.charged.get(self.purse.day, 0) <= self.purse.spent <= self.LIMIT


TestSpenders = Spenders.TestCase
TestSpenders.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


def test_a_price_keeps_the_text_that_has_to_be_repeated() -> None:
    assert parse_money("USD 0.010") == Money("USD", 10_000, "USD 0.010")
