"""Who may ask, how much, and how a refusal says what to do."""

import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from crawl_platform.api.limits import Limits, RateLimit
from crawl_platform.api.problems import MEDIA_TYPE
from crawl_platform.api.tokens import (
    ApiFile,
    Caller,
    Tokens,
    callers_of,
    parse_tokens,
    read_api_file,
    require_safe,
    write_api_file,
)
from crawl_platform.clock import ManualClock
from crawl_platform.errors import ConfigurationError
from tests.api.serving import AUTHORISED, READER, MadeUpFleet, serving


async def problem(answer: Any) -> tuple[int, str]:
    """(status, kind) of a refusal, which always says what to do."""
    body = await answer.json(content_type=MEDIA_TYPE)
    assert body["status"] == answer.status
    assert body["title"]
    assert body["detail"].endswith(".")
    return answer.status, body["type"].rpartition(":")[2]


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"Authorization": "Bearer wrong-token-of-length"},
        {"Authorization": "Basic YTpi"},
        {"Authorization": ""},
    ],
)
async def test_without_a_known_token_nothing_is_told_or_done(
    home: Path, fleet: MadeUpFleet, header: dict[str, str]
) -> None:
    async with serving(home, fleet) as api:
        looked = await api.get("/v1/status", headers=header)
        asked = await api.post("/v1/exclude", json={"host": "a.test"}, headers=header)

        assert await problem(looked) == await problem(asked) == (401, "unknown-token")
        assert looked.headers["WWW-Authenticate"].startswith("Bearer")
    assert fleet.published == []


async def test_a_token_for_reading_may_look_and_change_nothing(home: Path, fleet: MadeUpFleet) -> None:
    header = {"Authorization": f"Bearer {READER}"}

    async with serving(home, fleet) as api:
        looked = await api.get("/v1/status", headers=header)
        asked = await api.post("/v1/exclude", json={"host": "a.test"}, headers=header)

        assert looked.status == 200
        assert await problem(asked) == (403, "read-only-token")
    assert fleet.published == []


async def test_a_wrong_path_or_method_is_told_with_what_there_is(home: Path, fleet: MadeUpFleet) -> None:
    async with serving(home, fleet) as api:
        assert await problem(await api.get("/v1/nothing")) == (404, "no-such-path")
        wrong = await api.get("/v1/recrawl")
        assert await problem(wrong) == (405, "wrong-method")
        assert wrong.headers["Allow"] == "POST"


@pytest.mark.parametrize(
    ("body", "content_type", "refused"),
    [
        (b"{", "application/json", (400, "malformed-json")),
        (b"\xff\xfe", "application/json", (400, "malformed-json")),
        (b'{"host": "a.test"}', "text/plain", (415, "not-json")),
        (b'{"host": "a.test", "hots": 1}', "application/json", (422, "wrong-body")),
        (b'{"host": 7}', "application/json", (422, "wrong-body")),
        (b"{}", "application/json", (422, "wrong-body")),
        (b"[]", "application/json", (422, "wrong-body")),
        (b'{"host": "http://a.test/"}', "application/json", (422, "wrong-target")),
        (b'{"host": "a.test:8080"}', "application/json", (422, "wrong-target")),
        (b'{"host": "*.*.test"}', "application/json", (422, "wrong-target")),
        (b'{"host": "a.test", "reason": "' + b"x" * 1_001 + b'"}', "application/json", (422, "wrong-body")),
        (
            b'{"host": "a.test", "reason": "' + b"x" * 70_000 + b'"}',
            "application/json",
            (413, "body-too-large"),
        ),
    ],
)
async def test_a_body_that_is_none_is_refused_and_nothing_is_done(
    home: Path, fleet: MadeUpFleet, body: bytes, content_type: str, refused: tuple[int, str]
) -> None:
    async with serving(home, fleet) as api:
        answer = await api.post(
            "/v1/exclude", data=body, headers={**AUTHORISED, "Content-Type": content_type}
        )

        assert await problem(answer) == refused
    assert fleet.published == []


@pytest.mark.parametrize("key", ["", "x" * 201, "ä"])
async def test_a_key_that_is_none_is_refused(home: Path, fleet: MadeUpFleet, key: str) -> None:
    async with serving(home, fleet) as api:
        answer = await api.post(
            "/v1/exclude", json={"host": "a.test"}, headers={**AUTHORISED, "Idempotency-Key": key}
        )

        assert await problem(answer) == (400, "wrong-key")


async def test_who_asks_too_much_is_told_when_to_come_back(home: Path, fleet: MadeUpFleet) -> None:
    clock, limits = ManualClock(), Limits(rate=1.0, burst=3.0)

    async with serving(home, fleet, limits=limits, clock=clock) as api:
        answers = [await api.get("/v1/status", headers=AUTHORISED) for _ in range(4)]
        other = await api.get("/v1/status", headers={"Authorization": f"Bearer {READER}"})
        clock.advance(float(answers[3].headers["Retry-After"]))
        later = await api.get("/v1/status", headers=AUTHORISED)

        assert [answer.status for answer in answers] == [200, 200, 200, 429]
        assert await problem(answers[3]) == (429, "too-many-calls")
        assert (other.status, later.status) == (200, 200)


async def test_guesses_at_tokens_are_limited_and_hinder_nobody(home: Path, fleet: MadeUpFleet) -> None:
    limits = Limits(rate=1.0, burst=3.0)

    async with serving(home, fleet, limits=limits, clock=ManualClock()) as api:
        guesses = [
            await api.get("/v1/status", headers={"Authorization": f"Bearer {n:020}"}) for n in range(5)
        ]

        assert [answer.status for answer in guesses] == [401, 401, 401, 429, 429]
        assert (await api.get("/v1/status", headers=AUTHORISED)).status == 200


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    clock = ManualClock()
    limit = RateLimit(Limits(rate=10.0, burst=2.0), clock)
    limit.wait("crm")
    clock.advance(1_000.0)

    assert [limit.wait("crm") > 0 for _ in range(3)] == [False, False, True]


async def test_metrics_need_a_token_where_others_can_reach_them(home: Path, fleet: MadeUpFleet) -> None:
    async with serving(home, fleet, open_metrics=False) as api:
        assert await problem(await api.get("/metrics")) == (401, "unknown-token")
        assert (await api.get("/metrics", headers=AUTHORISED)).status == 200
        assert (await api.get("/healthz")).status == 200
    async with serving(home, fleet, open_metrics=True) as api:
        assert (await api.get("/metrics")).status == 200


async def test_the_log_has_one_line_per_call_and_no_token(
    home: Path, fleet: MadeUpFleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async with serving(home, fleet) as api:
        await api.get(
            "/v1/explain?url=http://a.test/?secret=1", headers={**AUTHORISED, "Idempotency-Key": "my-key"}
        )
        await api.get("/v1/status", headers={"Authorization": "Bearer almost-a-good-token"})

    lines = [record.getMessage() for record in caplog.records if record.name == "crawl_platform.api.server"]
    assert len(lines) == 2
    assert lines[0].startswith("GET /v1/explain 200 ")
    assert lines[0].endswith(" crm")
    assert lines[1].endswith(" -")
    for word in ("secret", "my-key", "almost-a-good-token", AUTHORISED["Authorization"].split()[1]):
        assert word not in "\n".join(lines)


def test_tokens_are_named_and_may_be_for_reading_only() -> None:
    callers = parse_tokens("crm:0123456789abcdef, grafana:fedcba9876543210:read")

    assert callers == {
        "0123456789abcdef": Caller("crm"),
        "fedcba9876543210": Caller("grafana", may_write=False),
    }
    assert Tokens(callers).caller("fedcba9876543210") == Caller("grafana", may_write=False)
    assert Tokens(callers).caller("fedcba9876543211") is None
    assert Tokens(callers).caller("") is None


@pytest.mark.parametrize(
    "text",
    [
        "0123456789abcdef",
        "crm:short",
        "crm:0123456789abcdef:write",
        "a b:0123456789abcdef",
        "a.b:0123456789abcdef",
        "crm:0123456789abcdef,crm:fedcba9876543210",
        "crm:0123456789abcdef,erp:0123456789abcdef",
    ],
)
def test_wrong_tokens_are_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_tokens(text)

    assert "0123456789abcdef" not in str(refused.value)
    assert "short" not in str(refused.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "crawl.example.org"])
def test_an_api_that_others_can_reach_needs_chosen_tokens(host: str) -> None:
    with pytest.raises(ConfigurationError, match="CRAWL_API_TOKENS"):
        require_safe(host, "")

    require_safe(host, "crm:0123456789abcdef")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_on_loopback_a_token_is_made_if_none_is_given(host: str) -> None:
    require_safe(host, "")


def test_the_token_that_is_made_is_kept_and_its_owners_alone(tmp_path: Path) -> None:
    callers, file = callers_of(tmp_path, "")
    write_api_file(tmp_path, file)

    again, _ = callers_of(tmp_path, "")
    assert again == callers
    assert list(callers.values()) == [Caller("operator")]
    assert stat.S_IMODE((tmp_path / "run" / "api.json").stat().st_mode) == 0o600


def test_chosen_tokens_are_not_written_down(tmp_path: Path) -> None:
    write_api_file(tmp_path, ApiFile("http://127.0.0.1:1", "operator", "made-at-first-start"))

    callers, file = callers_of(tmp_path, "crm:0123456789abcdef")
    write_api_file(tmp_path, file)

    assert set(callers) == {"0123456789abcdef"}
    assert read_api_file(tmp_path) == ApiFile("http://127.0.0.1:1")
