"""The OpenAPI 3.1 document, generated from `contract`: what is validated is what is described."""

from typing import Any

import msgspec

from crawl_platform import __version__
from crawl_platform.api.contract import (
    KEY_HEADER,
    MOST_BODY,
    OPERATIONS,
    REPLAYED_HEADER,
    Operation,
    Parameter,
    ProblemDetails,
)
from crawl_platform.api.problems import MEDIA_TYPE

_REFERENCE = "#/components/schemas/{name}"
_TOKEN = {"token": {"type": "http", "scheme": "bearer", "description": "A token of this API."}}
_ASKING_PROBLEMS = {
    400: "The body is not JSON, or the key is none.",
    409: "The key was used with another body.",
    413: f"The body has more than {MOST_BODY:,} bytes.",
    415: "The body is not application/json.",
    422: "The body is wrong, or what it asks for is not possible.",
    503: "The lake, or what can't do without the exchange, is away: repeat with the same key.",
}
_TOKEN_PROBLEMS = {
    401: "No token, or an unknown one.",
    403: "This token may only look.",
    429: "Too many calls: see Retry-After.",
}
_OTHER_PROBLEMS: dict[str, dict[int, str]] = {
    "request": {404: "No such request."},
    "keys": {404: "Requests are not signed, or the key is not here."},
    "explain": {
        422: "No URL that can be crawled.",
        503: "The lake or the exchange is away, or too many wait.",
    },
    "status": {503: "The lake is away."},
}


def document() -> dict[str, Any]:
    """The whole document."""
    types = _types()
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    by_type = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS.values():
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Crawl fleet",
            "version": __version__,
            "description": "Ask the fleet of one crawl for something, and see what it does.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _TOKEN},
    }


def _types() -> list[Any]:
    found: dict[Any, None] = {ProblemDetails: None}
    for operation in OPERATIONS.values():
        if operation.body is not None:
            found[operation.body] = None
        for type_, _ in operation.answers.values():
            if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
                found[type_] = None
    return list(found)


def _operation(operation: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    answers = {
        str(status): _answer(type_, text, schemas, operation)
        for status, (type_, text) in operation.answers.items()
    }
    problem = {"content": {MEDIA_TYPE: {"schema": schemas[ProblemDetails]}}}
    answers |= {
        str(status): {"description": text, **problem} for status, text in sorted(_problems(operation).items())
    }
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [_parameter(parameter) for parameter in operation.parameters],
        "responses": answers,
        "security": [] if operation.access == "open" else [{"token": []}],
    }
    if operation.access == "metrics":
        described["security"] = [{}, {"token": []}]
    if operation.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schemas[operation.body]}},
        }
    return described


def _problems(operation: Operation) -> dict[int, str]:
    problems = {} if operation.access == "open" else dict(_TOKEN_PROBLEMS)
    if operation.access in ("read", "metrics"):
        problems.pop(403, None)
    return problems | (_ASKING_PROBLEMS if operation.body else {}) | _OTHER_PROBLEMS.get(operation.name, {})


def _answer(type_: Any, text: str, schemas: dict[Any, Any], operation: Operation) -> dict[str, Any]:
    if isinstance(type_, str):
        return {"description": text, "content": {type_: {"schema": {"type": "string"}}}}
    schema = schemas.get(type_, {"type": "object"})
    described: dict[str, Any] = {"description": text, "content": {"application/json": {"schema": schema}}}
    if operation.body is not None:
        described["headers"] = {
            KEY_HEADER: {"schema": {"type": "string"}, "description": "The key of this request."},
            REPLAYED_HEADER: {"schema": {"type": "string"}, "description": "true on a repeat."},
            "Location": {"schema": {"type": "string"}, "description": "Where to ask what became of it."},
        }
    return described


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.doc,
        "schema": {"type": "string", "minLength": 1, "maxLength": parameter.longest},
    }
