"""What `crawl explain` says comes next for a URL that robots.txt keeps from being fetched."""

from datetime import UTC, datetime
from typing import Any

import pytest

from crawl_platform.cli.explain import _next

AGAIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("unreachable", "why"), [(None, "forbids it"), (AGAIN, "can't be had, so nothing may be fetched")]
)
def test_it_is_told_why_and_when_robots_txt_is_asked_again(unreachable: datetime | None, why: str) -> None:
    facts: dict[str, Any] = {
        "host": {"state": "seed"},
        "state": None,
        "window": None,
        "robots": {"verdict": "denied", "unreachable_since": unreachable, "expires_at": AGAIN},
    }

    assert _next(facts) == f"nothing: robots.txt {why}; it is read again after 2026-01-02 03:04:05"
