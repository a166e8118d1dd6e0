"""How a request is taken up: once, whatever breaks in between.

The table `requests` is the memory of keys: an id is made of the token's name, the key and the body, so it
survives a restart and names who asked wherever it is cited (`fetches.request_id`, a host's directive).

1. Look the key up. Known with this body: the answer of then, nothing is done. With another: refused.
2. Publish to the exchange. Every publication is idempotent by its request id.
3. Append the row.
4. Answer.

A crash between 2 and 3 leaves a request that is carried out without a row and was never answered: the repeat
finds no row, publishes again without effect, and writes it. The other order would leave a row that says
`exchange` of a request that never got there, and nobody would look for it. If the exchange is away the row
says `table`, and a sensor publishes it later.
"""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import msgspec
from deltalake.exceptions import DeltaError

from crawl_platform.api.contract import ExcludeBody, PromoteBody, RecrawlBody
from crawl_platform.api.problems import Problem
from crawl_platform.api.threads import Threads
from crawl_platform.clock import Clock
from crawl_platform.errors import ConfigurationError, ExchangeError, PlatformError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.lake.lake import Lake
from crawl_platform.web.url import canonicalize
from resources.requests import (
    KNOWN_URLS,
    Request,
    append_requests,
    find_requests,
    named_host,
    named_pattern,
)

Body = RecrawlBody | PromoteBody | ExcludeBody
log = logging.getLogger(__name__)
BY = "api:"


@dataclass(frozen=True)
class Outcome:
    """`replayed`: it had been taken up before."""

    request: Request
    replayed: bool


class Acceptance:
    """Takes requests up. One per process; several processes on one lake agree through the table."""

    def __init__(
        self, lake: Lake, client: Callable[[], FleetClient], clock: Clock, threads: Threads, most_urls: int
    ) -> None:
        """`most_urls`: known URLs handed over with a promoted host."""
        self._lake = lake
        self._client = client
        self._clock = clock
        self._threads = threads
        self._most_urls = most_urls
        self._ledger = Ledger(lake, threads)
        self._locks: dict[str, asyncio.Lock] = {}
        self._holders: Counter[str] = Counter()

    async def accept(self, name: str, key: str, body: Body) -> Outcome:
        """Take up what the token `name` asks under `key`. Raises `Problem` when it is not to be done."""
        request = request_of(name, key, body, self._clock.now())
        family = request.request_id.rpartition(".")[0]
        async with self._alone(family):
            for known in await self._threads.run(lambda: find_requests(self._lake, family + ".")):
                if known.request_id != request.request_id:
                    raise Problem(
                        409,
                        "key-reused",
                        f"This key was used for another request ({known.kind} of {known.target}): take a new one.",
                    )
                return Outcome(known, replayed=True)
            request = await self._threads.run(lambda: self._publish(request))
            await self._write(request)
        return Outcome(request, replayed=False)

    @asynccontextmanager
    async def _alone(self, family: str) -> AsyncIterator[None]:
        """Two calls with one key come one after the other."""
        lock = self._locks.setdefault(family, asyncio.Lock())
        self._holders[family] += 1
        try:
            async with lock:
                yield
        finally:
            self._holders[family] -= 1
            if not self._holders[family]:
                del self._holders[family], self._locks[family]

    async def _write(self, request: Request) -> None:
        try:
            await self._ledger.append(request)
        except (PlatformError, DeltaError, OSError) as error:
            log.error("the row of %s can't be written: %s", request.request_id, error)
            raise Problem(
                503,
                "row-not-written",
                "The lake does not take the request's row: repeat this with the same key until it does. "
                "Nothing is done twice.",
                {"Retry-After": "5"},
            ) from error

    def _publish(self, request: Request) -> Request:
        """Hand it to the fleet; the request as its row has to say it."""
        try:
            self._hand_over(self._client(), request)
        except ConfigurationError as error:
            raise Problem(422, "not-possible", f"{error}.") from error
        except ExchangeError as error:
            if request.kind == "lift":
                raise Problem(
                    503,
                    "exchange-away",
                    "The fleet's exchange does not answer, and an exclusion is only lifted by it: repeat this "
                    "with the same key in a moment.",
                    {"Retry-After": "5"},
                ) from error
            return msgspec.structs.replace(request, via="table")
        return request

    def _hand_over(self, client: FleetClient, request: Request) -> None:
        if request.kind == "recrawl":
            client.recrawl(request.target, request_id=request.request_id)
        elif request.kind == "promote":
            self._promote(client, request)
        elif request.kind == "exclude":
            client.exclude(request.target, request_id=request.request_id, reason=request.reason)
        else:
            client.lift(request.target, request_id=request.request_id, reason=request.reason)

    def _promote(self, client: FleetClient, request: Request) -> None:
        policy = client.policy(request.target)
        in_seed = policy is not None and policy.state == "seed" and not policy.most_pages
        if policy is not None and in_seed and policy.decision_id != request.request_id:
            raise ConfigurationError(f"{request.target} is in the seed already")
        known = self._lake.query(KNOWN_URLS, [request.target, self._most_urls]).column(0).to_pylist()
        client.promote(
            request.target,
            known or [f"https://{request.target}/"],
            decision_id=request.request_id,
            reason=f"asked for by {request.requested_by}: {request.reason or 'no reason given'}",
            most_pages=0,
        )


class Ledger:
    """Appends rows of `requests`. Those that arrive while a commit is under way share the next one."""

    def __init__(self, lake: Lake, threads: Threads) -> None:
        self._lake = lake
        self._threads = threads
        self._waiting: list[tuple[Request, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def append(self, request: Request) -> None:
        """Returns once the row is in the lake. Raises what the lake raises."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, written))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        await written

    async def _write_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            rows = [request for request, _ in batch]
            try:
                await self._threads.run(partial(append_requests, self._lake, rows))
            except Exception as error:  # each of them is told, and answers for itself
                _tell(batch, error)
            else:
                _tell(batch, None)


def _tell(batch: list[tuple[Request, asyncio.Future[None]]], error: Exception | None) -> None:
    for _, written in batch:
        if written.done():
            continue
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)


def request_of(name: str, key: str, body: Body, now: float) -> Request:
    """The request that this key and body make, always with the same id. Raises `Problem` for a wrong target."""
    kind, target, priority = _target(body)
    what = msgspec.json.encode([kind, target, body.reason, priority])
    request_id = f"api.{name}.{_hash(key.encode())[:24]}.{_hash(what)[:12]}"
    return Request(request_id, now, kind, target, BY + name, "exchange", body.reason, priority)


def _target(body: Body) -> tuple[str, str, float]:
    """(kind, canonical target, priority)."""
    try:
        if isinstance(body, RecrawlBody):
            url = canonicalize(body.url)
            if url is None:
                raise ConfigurationError("not a URL that can be crawled (http or https, with a host)")
            return "recrawl", url, 1.0
        if isinstance(body, PromoteBody):
            return "promote", named_host(body.host), body.priority
        return "lift" if body.lift else "exclude", named_pattern(body.host), 1.0
    except ConfigurationError as error:
        raise Problem(422, "wrong-target", f"{error}.") from error


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
