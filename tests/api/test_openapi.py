"""The description is generated from what is validated, and answers are as described."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from crawl_platform.api import contract
from crawl_platform.api.openapi import document
from crawl_platform.api.server import Api, Setup
from crawl_platform.api.tokens import Tokens
from crawl_platform.clock import SystemClock
from crawl_platform.settings import Settings
from tests.api.serving import AUTHORISED, MadeUpFleet, serving


def schema(reference: dict[str, Any]) -> Draft202012Validator:
    """A validator of one schema of the document, its references resolved."""
    return Draft202012Validator({**reference, "components": document()["components"]})


def test_every_route_is_described_and_every_description_is_a_route(tmp_path: Path) -> None:
    setup = Setup(Settings(str(tmp_path)), Tokens({}), SystemClock(), open_metrics=True)
    routes = Api(setup).application().router.routes()

    served = {(r.method.lower(), r.resource.canonical) for r in routes if r.resource and r.method != "HEAD"}
    described = {(method, path) for path, item in document()["paths"].items() for method in item}
    assert served == described


def test_all_schemas_are_json_schema_of_2020_12() -> None:
    described = document()

    assert described["openapi"].startswith("3.1.")
    for component in described["components"]["schemas"].values():
        Draft202012Validator.check_schema({**component, "components": described["components"]})


@pytest.mark.parametrize(
    ("kind", "body", "fits"),
    [
        ("recrawl", {"url": "http://a.test/"}, True),
        ("recrawl", {"url": ""}, False),
        ("recrawl", {"uri": "http://a.test/"}, False),
        ("promote", {"host": "a.test", "priority": 2}, True),
        ("promote", {"host": "a.test", "priority": -1}, False),
        ("exclude", {"host": "a.test", "lift": "yes"}, False),
        ("exclude", {"host": "a.test", "lift": True, "reason": "x"}, True),
    ],
)
def test_the_described_schema_and_the_check_agree(kind: str, body: dict[str, Any], fits: bool) -> None:
    operation = contract.OPERATIONS[kind]
    described = document()["paths"][operation.path]["post"]["requestBody"]["content"]["application/json"]

    assert schema(described["schema"]).is_valid(body) == fits
    try:
        msgspec.json.decode(msgspec.json.encode(body), type=operation.body)
        accepted = True
    except msgspec.ValidationError:
        accepted = False
    assert accepted == fits


async def test_answers_are_as_described(home: Path, fleet: MadeUpFleet) -> None:
    paths = document()["paths"]

    async with serving(home, fleet) as api:
        served = await (await api.get("/v1/openapi.json")).json()
        accepted = await api.post("/v1/exclude", json={"host": "a.test"}, headers=AUTHORISED)
        told = await api.get((await accepted.json())["location"], headers=AUTHORISED)
        health = await api.get("/healthz")
        problem = await api.get("/v1/status")

        assert served == document()
        for answer, path, method in (
            (accepted, "/v1/exclude", "post"),
            (told, "/v1/requests/{request_id}", "get"),
            (health, "/healthz", "get"),
            (problem, "/v1/status", "get"),
        ):
            described = paths[path][method]["responses"][str(answer.status)]["content"][answer.content_type]
            schema(described["schema"]).validate(await answer.json(content_type=None))
