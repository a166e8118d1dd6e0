"""Answers that say what went wrong and what to do: RFC 9457 problem details."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from aiohttp import web

from crawl_platform.api.contract import ProblemDetails

MEDIA_TYPE = "application/problem+json"
URN = "urn:crawl-platform:problem:"


class Problem(Exception):
    """An answer that is not a success. `kind` is stable, for programs; `detail` says what to do."""

    def __init__(self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})

    def response(self) -> web.Response:
        body = ProblemDetails(URN + self.kind, HTTPStatus(self.status).phrase, self.status, self.detail)
        return web.Response(
            status=self.status, body=msgspec.json.encode(body), content_type=MEDIA_TYPE, headers=self.headers
        )


def of_http_error(error: web.HTTPException) -> Problem:
    """aiohttp's own refusals (no such path, wrong method, body too large) in our words."""
    if isinstance(error, web.HTTPNotFound):
        return Problem(404, "no-such-path", "There is nothing at this path: GET /v1/openapi.json lists all.")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return Problem(
            405, "wrong-method", f"{error.method} is not for this path: use {allowed}.", {"Allow": allowed}
        )
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return Problem(413, "body-too-large", "A body may have 64 KB.")
    return Problem(error.status, "http", error.reason)
