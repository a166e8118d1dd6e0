"""The taxonomy: every outcome has a consequence, every status an outcome."""

import pytest

from crawl_platform.fetch.outcome import BACKS_OFF, DISPOSITIONS, Outcome, of_status


def test_every_outcome_has_a_disposition() -> None:
    assert set(DISPOSITIONS) == set(Outcome)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "ok"), (204, "ok"), (206, "ok"), (304, "not_modified"),
        (301, "redirect"), (302, "redirect"), (303, "redirect"), (307, "redirect"), (308, "redirect"),
        (300, "client_error"), (400, "client_error"), (401, "unauthorized"), (402, "payment_required"),
        (403, "unauthorized"), (404, "not_found"), (410, "gone"), (418, "client_error"), (451, "client_error"),
        (429, "rate_limited"), (500, "server_error"), (502, "server_error"), (503, "unavailable"),
        (599, "server_error"),
    ],
)  # fmt: skip
def test_outcome_of_a_status(status: int, outcome: str) -> None:
    assert of_status(status) == outcome


def test_no_status_is_without_an_outcome() -> None:
    assert {of_status(status) for status in range(100, 1_000)} <= set(Outcome)


def test_a_host_that_is_overloaded_or_out_of_reach_is_left_alone_and_a_missing_page_costs_it_nothing() -> (
    None
):
    assert {"rate_limited", "unavailable", "connection_lost", "read_timeout", "dns_failure"} <= BACKS_OFF
    assert not {"ok", "not_modified", "not_found", "redirect"} & BACKS_OFF


def test_only_what_may_heal_is_tried_again() -> None:
    gone = {outcome for outcome, what in DISPOSITIONS.items() if what == "gone"}

    assert gone == {
        "not_found",
        "gone",
        "unauthorized",
        "payment_required",
        "client_error",
        "bad_redirect",
        "unsafe_redirect",
        "bad_url",
    }
    assert all(DISPOSITIONS[outcome] == "retry" for outcome in BACKS_OFF)
