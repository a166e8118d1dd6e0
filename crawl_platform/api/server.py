"""The HTTP server: every operation of `contract` behind the same gate.

The gate asks who it is, how much they have asked, and turns whatever goes wrong into a problem that says
what to do. One line of log per call, without tokens, keys or query strings.
"""

import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import duckdb
import msgspec
from aiohttp import web

from crawl_platform.api.acceptance import Acceptance, Body
from crawl_platform.api.contract import (
    KEY_HEADER,
    LONGEST_KEY,
    LONGEST_URL,
    MOST_BODY,
    OPERATIONS,
    REPLAYED_HEADER,
    Accepted,
    Health,
    Operation,
)
from crawl_platform.api.limits import Limits, RateLimit
from crawl_platform.api.metrics import Metrics
from crawl_platform.api.openapi import document
from crawl_platform.api.problems import Problem, of_http_error
from crawl_platform.api.standing import standing_of
from crawl_platform.api.threads import Threads
from crawl_platform.api.tokens import Caller, Tokens
from crawl_platform.clock import Clock, as_datetime
from crawl_platform.errors import ConfigurationError, CrawlError, PlatformError
from crawl_platform.fetch.signing import Directory, directory, key_path, load_key
from crawl_platform.fleet.client import FleetClient
from crawl_platform.fleet.explain import Sources, explain_url
from crawl_platform.fleet.report import fleet_report
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Settings
from resources.requests import Request

log = logging.getLogger(__name__)
Answer = web.StreamResponse
Handler = Callable[[web.Request, Caller], Awaitable[Answer]]
NOBODY = Caller("", may_write=False)
KEYS_KEPT = 60.0
"""Seconds for which the key directory is served as it was read."""
HEALTH_KEPT = 1.0
"""Seconds that an answer of /healthz holds: whoever asks more often gets the same."""
_OPERATION = web.RequestKey("operation", str)
_CALLER = web.RequestKey("caller", str)


@dataclass(frozen=True)
class Setup:
    """`open_metrics`: whether /metrics answers without a token."""

    settings: Settings
    tokens: Tokens
    clock: Clock
    open_metrics: bool
    limits: Limits = field(default_factory=Limits)


class Api:
    """The operations, and the state that they share."""

    def __init__(self, setup: Setup, client: Callable[[], FleetClient] | None = None) -> None:
        """`client` makes the fleet's client for one call; by default that of the crawl's own exchange."""
        self._setup = setup
        self._clock = setup.clock
        self._lake = Lake(setup.settings.lake_root)
        self._threads = Threads("api", 8, 200)
        self._explains = Threads("explain", setup.limits.explains, setup.limits.explains_waiting)
        self._rate = RateLimit(setup.limits, setup.clock)
        self._client = client or self._own_client
        self._metrics = Metrics(self._lake, self._client, setup.clock)
        most_urls = setup.settings.orchestration.promotion_urls
        self._acceptance = Acceptance(self._lake, self._client, setup.clock, self._threads, most_urls)
        self._health: tuple[float, Health] | None = None
        self._directory: tuple[float, Directory] | None = None
        self._description = msgspec.json.format(msgspec.json.encode(document()), indent=2)

    def application(self) -> web.Application:
        """The aiohttp application; its threads end with it."""
        application = web.Application(client_max_size=MOST_BODY, middlewares=[self._gate])
        handlers: dict[str, Handler] = {
            "recrawl": self._ask,
            "promote": self._ask,
            "exclude": self._ask,
            "request": self._request,
            "explain": self._explain,
            "status": self._status,
            "openapi": self._openapi,
            "keys": self._keys,
            "healthz": self._healthz,
            "metrics": self._metrics_text,
        }
        for operation in OPERATIONS.values():
            handler = self._guarded(operation, handlers[operation.name])
            application.router.add_route(operation.method, operation.path, handler)

        async def close(_: web.Application) -> None:
            self._threads.close()
            self._explains.close()

        application.on_cleanup.append(close)
        application.on_response_prepare.append(_sign)
        return application

    def _own_client(self) -> FleetClient:
        endpoint = self._setup.settings.root / "run" / "nats.json"
        return FleetClient(endpoint, self._lake.n_shards, self._clock)

    # the gate

    @web.middleware
    async def _gate(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[Answer]]
    ) -> Answer:
        began = self._clock.boottime()
        try:
            response = await handler(request)
        except Problem as problem:
            response = problem.response()
        except web.HTTPException as error:
            response = of_http_error(error).response()
        except ConfigurationError as error:
            response = Problem(422, "not-possible", f"{error}.").response()
        except (PlatformError, duckdb.Error) as error:
            log.error("%s %s: %s", request.method, request.path[:200], error)
            response = _away(error).response()
        except Exception:
            log.exception("%s %s died of a bug", request.method, request.path[:200])
            response = Problem(500, "bug", "This is a bug of ours; the API's log has it.").response()
        took = self._clock.boottime() - began
        operation = request.get(_OPERATION, "none")
        self._metrics.answered(operation, response.status, took)
        log.info(
            "%s %s %d %.0f ms %s",
            request.method[:20],
            request.rel_url.raw_path[:200],
            response.status,
            took * 1000,
            request.get(_CALLER) or "-",
        )
        return response

    def _guarded(self, operation: Operation, handler: Handler) -> Callable[[web.Request], Awaitable[Answer]]:
        async def guarded(request: web.Request) -> Answer:
            request[_OPERATION] = operation.name
            caller = self._who(operation, request)
            request[_CALLER] = caller.name
            return await handler(request, caller)

        return guarded

    def _who(self, operation: Operation, request: web.Request) -> Caller:
        """Who asks, if they may. Raises `Problem` 401, 403 or 429."""
        if operation.access == "open" or (operation.access == "metrics" and self._setup.open_metrics):
            return NOBODY
        caller = self._setup.tokens.caller(_presented(request))
        self._require_room("" if caller is None else caller.name)
        if caller is None:
            raise Problem(
                401,
                "unknown-token",
                "Send `Authorization: Bearer <token>` with a token of this API (run/api.json in the crawl's "
                "folder, or CRAWL_API_TOKENS).",
                {"WWW-Authenticate": 'Bearer realm="crawl"'},
            )
        if operation.access == "write" and not caller.may_write:
            raise Problem(403, "read-only-token", f"The token {caller.name!r} may look, but change nothing.")
        return caller

    def _require_room(self, name: str) -> None:
        wait = self._rate.wait(name)
        if wait:
            seconds = max(round(wait + 0.5), 1)
            raise Problem(429, "too-many-calls", f"Come back in {seconds} s.", {"Retry-After": str(seconds)})

    # asking for something

    async def _ask(self, request: web.Request, caller: Caller) -> Answer:
        operation = OPERATIONS[request[_OPERATION]]
        key = _key(request)
        body = await _body(request, operation)
        outcome = await self._acceptance.accept(caller.name, key, body)
        answer = _accepted(outcome.request, key)
        headers = {KEY_HEADER: key, "Location": answer.location}
        if outcome.replayed:
            headers[REPLAYED_HEADER] = "true"
        return _json(answer, 200 if outcome.replayed else 202, headers)

    async def _request(self, request: web.Request, caller: Caller) -> Answer:
        request_id = request.match_info["request_id"]
        standing = None
        if request_id.isascii() and request_id.isprintable() and len(request_id) <= 200:
            standing = await self._threads.run(lambda: standing_of(self._lake, self._client(), request_id))
        if standing is None:
            raise Problem(404, "no-such-request", "No request was accepted under this id.")
        return _json(standing)

    # looking

    async def _explain(self, request: web.Request, caller: Caller) -> Answer:
        given = request.query.getall("url", [])
        if len(given) != 1 or not 1 <= len(given[0]) <= LONGEST_URL:
            raise Problem(422, "wrong-parameter", "Name one URL or host: /v1/explain?url=https%3A%2F%2F…")
        settings, now = self._setup.settings, self._clock.now()

        def look() -> object:
            return explain_url(Sources(settings, self._lake, self._client(), now), given[0])

        return _json(await self._explains.run(look))

    async def _status(self, request: web.Request, caller: Caller) -> Answer:
        settings, now = self._setup.settings, self._clock.now()
        return _json(await self._threads.run(lambda: fleet_report(settings, self._lake, self._client(), now)))

    async def _openapi(self, request: web.Request, caller: Caller) -> Answer:
        return web.Response(body=self._description, content_type="application/json")

    async def _keys(self, request: web.Request, caller: Caller) -> Answer:
        now = self._clock.now()
        if self._directory is None or abs(now - self._directory[0]) > KEYS_KEPT:
            self._directory = (now, await self._threads.run(lambda: self._published(now)))
        found = self._directory[1]
        return web.Response(body=found.body, headers=found.headers)

    def _published(self, now: float) -> Directory:
        settings = self._setup.settings
        if not settings.signing.enabled:
            raise Problem(404, "not-signed", "This crawl does not sign its requests.")
        try:
            return directory(load_key(key_path(settings)), settings.signing, now)
        except ConfigurationError as error:
            raise Problem(404, "no-key", f"{error}.") from error

    async def _healthz(self, request: web.Request, caller: Caller) -> Answer:
        now = self._clock.boottime()
        if self._health is None or now - self._health[0] > HEALTH_KEPT:
            self._health = (now, await self._threads.run(self._look_after_health))
        health = self._health[1]
        return _json(health, 200 if health.healthy else 503)

    def _look_after_health(self) -> Health:
        exchange = _verdict(lambda: self._client().paused())
        lake = _verdict(lambda: self._lake.latest_commit())
        return Health(exchange == lake == "ok", exchange, lake)

    async def _metrics_text(self, request: web.Request, caller: Caller) -> Answer:
        text = await self._threads.run(self._metrics.text)
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


async def _sign(_: web.Request, response: Answer) -> None:
    response.headers["Server"] = "crawl-platform"
    response.headers["Cache-Control"] = "no-store"


def _presented(request: web.Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _key(request: web.Request) -> str:
    """The idempotency key: the one that was sent, or a new one."""
    sent = request.headers.getall(KEY_HEADER, [])
    if not sent:
        return uuid.uuid4().hex
    key = sent[0].strip()
    if len(sent) > 1 or not (0 < len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise Problem(400, "wrong-key", f"{KEY_HEADER}: once, 1 to {LONGEST_KEY} printable ASCII characters.")
    return key


async def _body(request: web.Request, operation: Operation) -> Body:
    """The body, checked against its declaration. Raises `Problem` 400, 413, 415 or 422."""
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if request.content_type != "application/json" or encoding != "identity":
        raise Problem(415, "not-json", "Send the body as it is, with `Content-Type: application/json`.")
    if operation.body is None:
        raise AssertionError(f"{operation.name} takes no body")
    try:
        raw = await request.read()
        return msgspec.json.decode(raw, type=operation.body)
    except msgspec.ValidationError as error:
        raise Problem(422, "wrong-body", f"{error}. GET /v1/openapi.json describes the body.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, "malformed-json", f"The body is not JSON: {error}.") from error
    except web.RequestPayloadError as error:
        raise Problem(400, "malformed-body", "The body did not arrive whole: send it again.") from error


def _accepted(request: Request, key: str) -> Accepted:
    return Accepted(
        request.request_id,
        msgspec.convert(request.kind, Accepted.__annotations__["kind"]),
        request.target,
        request.requested_by,
        as_datetime(request.at),
        "waiting" if request.via == "table" else "accepted",
        f"/v1/requests/{request.request_id}",
        key,
    )


def _json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json", headers=headers
    )


def _away(error: Exception) -> Problem:
    detail = f"{error}. Come back in a moment; GET /healthz says when all answers again."
    return Problem(503, "away", detail, {"Retry-After": "5"})


def _verdict(look: Callable[[], object]) -> str:
    try:
        look()
    except (CrawlError, OSError) as error:
        return str(error)
    return "ok"
