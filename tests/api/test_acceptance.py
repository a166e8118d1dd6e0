"""A request is taken up once, whatever is repeated, broken or concurrent."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from crawl_platform.api import acceptance
from crawl_platform.clock import SystemClock, as_datetime
from crawl_platform.errors import LakeError
from crawl_platform.fleet.messages import HostPolicy
from crawl_platform.lake.lake import Lake
from resources.requests import Cursor, append_requests, new_requests, refuse
from tests.api.serving import AUTHORISED, READER, MadeUpFleet, serving
from tests.lake.samples import commit, rows

Api = TestClient[Any, Any]


async def ask(api: Api, kind: str, body: dict[str, Any], key: str = "key-1") -> tuple[int, dict[str, Any]]:
    answer = await api.post(f"/v1/{kind}", json=body, headers={**AUTHORISED, "Idempotency-Key": key})
    return answer.status, await answer.json(content_type=None)


def audit(lake: Lake) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lake.query(
        "SELECT kind, target, requested_by, via, reason, priority FROM requests ORDER BY requested_at"
    ).to_pylist()
    return found


async def test_an_accepted_request_is_published_and_has_one_row(
    home: Path, lake: Lake, fleet: MadeUpFleet
) -> None:
    async with serving(home, fleet) as api:
        status, accepted = await ask(api, "recrawl", {"url": "http://A.test/x#y", "reason": "it changed"})

    assert status == 202
    assert accepted["state"] == "accepted"
    assert fleet.published == [("recrawl", "http://a.test/x", accepted["request_id"])]
    assert audit(lake) == [
        {"kind": "recrawl", "target": "http://a.test/x", "requested_by": "api:crm", "via": "exchange",
         "reason": "it changed", "priority": 1.0}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "body", "published"),
    [
        ("promote", {"host": "New.test", "priority": 3.5}, ("promote", "new.test")),
        ("exclude", {"host": "*.a.test"}, ("exclude", "*.a.test")),
        ("exclude", {"host": "a.test", "lift": True}, ("lift", "a.test")),
    ],
)
async def test_every_kind_is_published_under_its_id(
    home: Path, lake: Lake, fleet: MadeUpFleet, kind: str, body: dict[str, Any], published: tuple[str, str]
) -> None:
    async with serving(home, fleet) as api:
        status, accepted = await ask(api, kind, body)

    assert status == 202
    assert fleet.published == [(*published, accepted["request_id"])]
    assert [(row["kind"], row["target"]) for row in audit(lake)] == [published]


async def test_the_same_key_and_body_give_the_same_answer_and_nothing_more(
    home: Path, lake: Lake, fleet: MadeUpFleet
) -> None:
    async with serving(home, fleet) as api:
        first = await ask(api, "recrawl", {"url": "http://a.test/", "reason": ""})
        again = await ask(api, "recrawl", {"url": "http://A.test"})

    assert first[0] == 202
    assert again == (200, first[1])
    assert len(fleet.published) == len(audit(lake)) == 1


async def test_the_memory_of_keys_outlives_the_process(home: Path, lake: Lake, fleet: MadeUpFleet) -> None:
    async with serving(home, fleet) as api:
        first = await ask(api, "exclude", {"host": "a.test"})
    async with serving(home, fleet) as api:
        again = await ask(api, "exclude", {"host": "a.test"})
        other = await ask(api, "exclude", {"host": "b.test"})

    assert again == (200, first[1])
    assert other[0] == 409
    assert len(fleet.published) == len(audit(lake)) == 1


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("exclude", {"host": "b.test"}),
        ("exclude", {"host": "a.test", "reason": "another"}),
        ("exclude", {"host": "a.test", "lift": True}),
        ("promote", {"host": "a.test"}),
    ],
)
async def test_a_key_with_another_body_is_refused(
    home: Path, fleet: MadeUpFleet, kind: str, body: dict[str, Any]
) -> None:
    async with serving(home, fleet) as api:
        await ask(api, "exclude", {"host": "a.test"})

        status, problem = await ask(api, kind, body)

    assert (status, problem["type"].rpartition(":")[2]) == (409, "key-reused")
    assert len(fleet.published) == 1


async def test_keys_belong_to_their_token(home: Path, fleet: MadeUpFleet) -> None:
    mine = acceptance.request_of("crm", "1", acceptance.ExcludeBody("a.test"), 0.0).request_id
    theirs = acceptance.request_of("erp", "1", acceptance.ExcludeBody("a.test"), 0.0).request_id

    assert mine != theirs
    assert mine.startswith("api.crm.")


async def test_without_a_key_one_is_made_and_returned(home: Path, lake: Lake, fleet: MadeUpFleet) -> None:
    async with serving(home, fleet) as api:
        answers = [
            await api.post("/v1/exclude", json={"host": "a.test"}, headers=AUTHORISED) for _ in range(2)
        ]

    keys = {answer.headers["Idempotency-Key"] for answer in answers}
    assert [answer.status for answer in answers] == [202, 202]
    assert len(keys) == len(audit(lake)) == 2


async def test_concurrent_repeats_are_one_request(home: Path, lake: Lake, fleet: MadeUpFleet) -> None:
    fleet.slowness = 0.1

    async with serving(home, fleet) as api:
        answers = await asyncio.gather(*(ask(api, "exclude", {"host": "a.test"}) for _ in range(6)))

    assert sorted(status for status, _ in answers) == [200] * 5 + [202]
    assert len({answer["request_id"] for _, answer in answers}) == 1
    assert len(fleet.published) == len(audit(lake)) == 1


async def test_requests_that_come_together_share_few_commits(
    home: Path, lake: Lake, fleet: MadeUpFleet
) -> None:
    before = lake.version("requests")

    async with serving(home, fleet) as api:
        asked = (ask(api, "exclude", {"host": f"h{n}.test"}, f"key-{n}") for n in range(40))
        answers = await asyncio.gather(*asked)

    assert {status for status, _ in answers} == {202}
    assert len(audit(lake)) == 40
    assert lake.version("requests") - before < 40


async def test_what_the_fleet_refuses_leaves_no_row_and_the_key_free(
    home: Path, lake: Lake, fleet: MadeUpFleet
) -> None:
    async with serving(home, fleet) as api:
        status, problem = await ask(api, "recrawl", {"url": "http://horizon.test/"})
        fleet.seed.add("horizon.test")
        later, _ = await ask(api, "recrawl", {"url": "http://horizon.test/"})

    assert (status, problem["type"].rpartition(":")[2]) == (422, "not-possible")
    assert "promote it first" in problem["detail"]
    assert later == 202
    assert len(audit(lake)) == 1


async def test_a_row_that_fails_after_the_publication_is_completed_by_the_repeat(
    home: Path, lake: Lake, fleet: MadeUpFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise LakeError("the disk is full")

    async with serving(home, fleet) as api:
        with monkeypatch.context() as broken:
            broken.setattr(acceptance, "append_requests", full)
            failed, problem = await ask(api, "recrawl", {"url": "http://a.test/"})
        rows_between = audit(lake)
        repeated, accepted = await ask(api, "recrawl", {"url": "http://a.test/"})

    assert (failed, problem["type"].rpartition(":")[2]) == (503, "row-not-written")
    assert rows_between == []
    assert repeated == 202
    assert len(audit(lake)) == 1
    assert {request_id for _, _, request_id in fleet.published} == {accepted["request_id"]}


async def test_nothing_is_written_before_it_is_published(home: Path, lake: Lake, fleet: MadeUpFleet) -> None:
    seen: list[int] = []
    publish = fleet.exclude

    def look_first(pattern: str, *, request_id: str, reason: str) -> int:
        seen.append(len(audit(lake)))
        return publish(pattern, request_id=request_id, reason=reason)

    fleet.exclude = look_first  # type: ignore[method-assign]
    async with serving(home, fleet) as api:
        await ask(api, "exclude", {"host": "a.test"})

    assert seen == [0]
    assert len(audit(lake)) == 1


async def test_while_the_exchange_is_away_the_row_waits_for_a_sensor(
    home: Path, lake: Lake, fleet: MadeUpFleet
) -> None:
    fleet.away = True

    async with serving(home, fleet) as api:
        status, accepted = await ask(api, "exclude", {"host": "a.test"})
        standing = await api.get(accepted["location"], headers=AUTHORISED)
        told = await standing.json()

    assert (status, accepted["state"], told["state"]) == (202, "waiting", "waiting")
    waiting, _ = new_requests(lake, ("exclude",), Cursor())
    assert [(r.request_id, r.target) for r in waiting] == [(accepted["request_id"], "a.test")]


async def test_an_exclusion_is_not_lifted_behind_the_exchange(
    home: Path, lake: Lake, fleet: MadeUpFleet
) -> None:
    fleet.away = True

    async with serving(home, fleet) as api:
        status, problem = await ask(api, "exclude", {"host": "a.test", "lift": True})

    assert (status, problem["type"].rpartition(":")[2]) == (503, "exchange-away")
    assert audit(lake) == []


async def test_a_host_of_the_seed_is_not_promoted_again_but_a_repeat_is_completed(
    home: Path, lake: Lake, fleet: MadeUpFleet
) -> None:
    body = acceptance.PromoteBody("new.test")
    request_id = acceptance.request_of("crm", "key-1", body, 0.0).request_id
    fleet.policies["new.test"] = HostPolicy("new.test", "seed", False, request_id)  # the row was not written

    async with serving(home, fleet) as api:
        other, problem = await ask(api, "promote", {"host": "new.test"}, "key-2")
        repeat, _ = await ask(api, "promote", {"host": "new.test"}, "key-1")

    assert (other, repeat) == (422, 202)
    assert "in the seed already" in problem["detail"]
    assert len(audit(lake)) == 1


async def test_a_recrawl_is_told_with_its_fetch(home: Path, lake: Lake, fleet: MadeUpFleet) -> None:
    async with serving(home, fleet) as api:
        _, accepted = await ask(api, "recrawl", {"url": "http://a.test/"})
        before = await (await api.get(accepted["location"], headers=AUTHORISED)).json()
        day = SystemClock().now()
        fetch = {"request_id": accepted["request_id"], "outcome": "ok", "status": 200}
        commit(lake, "fetches", rows("fetches", 1, **fetch, date=as_datetime(day).date()), 1)
        after = await (await api.get(accepted["location"], headers=AUTHORISED)).json()

    assert before["state"] == "accepted"
    assert (after["state"], after["fetch"]["outcome"], after["fetch"]["status"]) == ("fetched", "ok", 200)


async def test_a_refusal_by_a_sensor_is_told_with_its_reason(
    home: Path, lake: Lake, fleet: MadeUpFleet
) -> None:
    fleet.away = True
    async with serving(home, fleet) as api:
        _, accepted = await ask(api, "recrawl", {"url": "http://elsewhere.test/"})
        waiting, _ = new_requests(lake, ("recrawl",), Cursor())
        refuse(lake, waiting[0], "elsewhere.test is on the horizon: promote it first", 1.0, "fastlane")
        told = await (await api.get(accepted["location"], headers=AUTHORISED)).json()

    assert told["state"] == "refused"
    assert "promote it first" in told["detail"]


async def test_an_exclusion_is_in_force_until_a_later_word(home: Path, fleet: MadeUpFleet) -> None:
    header = {"Authorization": f"Bearer {READER}"}
    async with serving(home, fleet) as api:
        _, accepted = await ask(api, "exclude", {"host": "a.test"})
        first = await (await api.get(accepted["location"], headers=header)).json()
        fleet.policies["a.test"] = HostPolicy("a.test", "lifted", False, "somebody-else")
        later = await (await api.get(accepted["location"], headers=header)).json()

    assert (first["state"], later["state"]) == ("in_force", "accepted")
    assert "later word" in later["detail"]


async def test_an_unknown_request_is_not_found(home: Path, lake: Lake, fleet: MadeUpFleet) -> None:
    async with serving(home, fleet) as api:
        answer = await api.get("/v1/requests/api.crm.0", headers=AUTHORISED)
        part = acceptance.request_of("crm", "key-1", acceptance.ExcludeBody("a.test"), 1.0)
        append_requests(lake, [part])
        prefix = await api.get(f"/v1/requests/{part.request_id[:-1]}", headers=AUTHORISED)

    assert answer.status == prefix.status == 404
