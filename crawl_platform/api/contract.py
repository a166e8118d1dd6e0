"""Every operation of the API, declared once: what it takes, what it answers, who may ask.

Bodies are checked against these types, and the OpenAPI document is generated from them.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from crawl_platform.fetch.signing import DIRECTORY_PATH, DIRECTORY_TYPE

KEY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"
MOST_BODY = 64 * 1024
"""Bytes of a request's body."""
LONGEST_URL = 4_096
LONGEST_KEY = 200

Access = Literal["open", "metrics", "read", "write"]
"""open: anybody; metrics: anybody where the API is bound to loopback, else a token; read: any token; write: a
token that may change things."""

Reason = Annotated[str, msgspec.Meta(max_length=1_000, description="Why. Kept with the request.")]


class RecrawlBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fetch a URL once, now. Its host has to be in the seed."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_URL, description="The page.")]
    reason: Reason = ""


class PromoteBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Move a host from the horizon into the seed, with the URLs that are known of it."""

    host: Annotated[
        str, msgspec.Meta(min_length=1, max_length=300, description="A host, like www.example.org.")
    ]
    reason: Reason = ""
    priority: Annotated[
        float,
        msgspec.Meta(ge=0, le=1_000, description="Of requests that wait, the higher goes first."),
    ] = 1.0


class ExcludeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Never fetch a host again, or take that back."""

    host: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=300, description="A host, or *.domain for it and all below it."
        ),
    ]
    reason: Reason = ""
    lift: Annotated[bool, msgspec.Meta(description="Take the exclusion of exactly this name back.")] = False


class Accepted(msgspec.Struct, frozen=True):
    """A request that was taken up. The same key with the same body gives the same answer again."""

    request_id: str
    kind: Literal["recrawl", "promote", "exclude", "lift"]
    target: Annotated[str, msgspec.Meta(description="URL, host or *.domain in its canonical form.")]
    requested_by: Annotated[str, msgspec.Meta(description="api: and the name of the token.")]
    requested_at: datetime
    state: Annotated[
        Literal["accepted", "waiting"],
        msgspec.Meta(
            description="accepted: handed to the fleet. waiting: the exchange was away; the request is "
            "kept in the lake, and a sensor hands it over when the exchange is back."
        ),
    ]
    location: Annotated[str, msgspec.Meta(description="Where to ask what became of it.")]
    idempotency_key: Annotated[str, msgspec.Meta(description="The key that was sent, or a new one.")]


class FetchFacts(msgspec.Struct, frozen=True):
    """The fetch that a request led to, a row of `fetches`."""

    fetch_id: str
    started_at: datetime
    outcome: str
    status: int | None
    changed: bool | None


class Standing(msgspec.Struct, frozen=True):
    """What became of a request."""

    request_id: str
    kind: str
    target: str
    requested_by: str
    requested_at: datetime
    reason: str
    state: Annotated[
        Literal["waiting", "accepted", "fetched", "promoted", "in_force", "refused"],
        msgspec.Meta(
            description="waiting: not handed over yet; accepted: handed over; fetched, promoted, in_force "
            "(an exclusion, or its lifting): done; refused: see detail."
        ),
    ]
    detail: str = ""
    fetch: FetchFacts | None = None


class Health(msgspec.Struct, frozen=True):
    """Whether what the API needs answers."""

    healthy: bool
    exchange: Annotated[str, msgspec.Meta(description="ok, or what is wrong.")]
    lake: Annotated[str, msgspec.Meta(description="ok, or what is wrong.")]


class ProblemDetails(msgspec.Struct, frozen=True):
    """What went wrong and what to do about it (RFC 9457)."""

    type: Annotated[str, msgspec.Meta(description="The kind of problem, a stable URN.")]
    title: str
    status: int
    detail: Annotated[str, msgspec.Meta(description="What to do.")]


@dataclass(frozen=True)
class Parameter:
    name: str
    place: Literal["query", "path", "header"]
    doc: str
    required: bool = True
    longest: int = 200


@dataclass(frozen=True)
class Operation:
    """`answers`: status → (type of the body, what it means). A type that is a string is a media type."""

    name: str
    method: Literal["GET", "POST"]
    path: str
    summary: str
    access: Access
    answers: dict[int, tuple[Any, str]]
    body: type[RecrawlBody] | type[PromoteBody] | type[ExcludeBody] | None = None
    parameters: tuple[Parameter, ...] = ()


KEY = Parameter(
    KEY_HEADER,
    "header",
    "Names the request: repeating it with the same body changes nothing and gives the same answer, whatever "
    "happened to the first attempt. Without it a new key is made and returned; then a repeat is a new request.",
    required=False,
    longest=LONGEST_KEY,
)
_ASKED = {
    200: (Accepted, "This key was seen before with this body: the answer of then."),
    202: (Accepted, "Accepted."),
}


def _asking(name: str, summary: str, body: Any) -> Operation:
    return Operation(name, "POST", f"/v1/{name}", summary, "write", _ASKED, body, (KEY,))


OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        _asking("recrawl", "Fetch a page of a seed host once, now.", RecrawlBody),
        _asking("promote", "Move a host into the seed.", PromoteBody),
        _asking("exclude", "Never fetch a host or *.domain again, or lift that.", ExcludeBody),
        Operation(
            "request",
            "GET",
            "/v1/requests/{request_id}",
            "What became of a request.",
            "read",
            {200: (Standing, "The request and its state.")},
            parameters=(Parameter("request_id", "path", "The id that the request was accepted with."),),
        ),
        Operation(
            "explain",
            "GET",
            "/v1/explain",
            "Everything that is known about a URL: its host, robots, place in the queue, fetches, and why.",
            "read",
            {200: (dict[str, Any], "The same facts as `crawl explain --json`.")},
            parameters=(Parameter("url", "query", "A URL or a host.", longest=LONGEST_URL),),
        ),
        Operation(
            "status",
            "GET",
            "/v1/status",
            "Processes, cells and the lake's last commit.",
            "read",
            {200: (dict[str, Any], "The same facts as `crawl status --json`.")},
        ),
        Operation(
            "openapi",
            "GET",
            "/v1/openapi.json",
            "This description.",
            "open",
            {200: (dict[str, Any], "OpenAPI 3.1.")},
        ),
        Operation(
            "keys",
            "GET",
            DIRECTORY_PATH,
            "The public keys that the crawl's requests are signed with, signed themselves (Web Bot Auth).",
            "open",
            {200: (DIRECTORY_TYPE, "A JWK set.")},
        ),
        Operation(
            "healthz",
            "GET",
            "/healthz",
            "Whether exchange and lake answer.",
            "open",
            {200: (Health, "Both answer."), 503: (Health, "One does not.")},
        ),
        Operation(
            "metrics",
            "GET",
            "/metrics",
            "The fleet in figures, for Prometheus.",
            "metrics",
            {200: ("text/plain", "Prometheus text format.")},
        ),
    )
}
