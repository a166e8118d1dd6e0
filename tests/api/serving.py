"""The API for a test: in this process over a lake and a made-up fleet, or as a process on a real crawl."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from aiohttp.test_utils import TestClient, TestServer

from crawl_platform.admission.stops import Word
from crawl_platform.api.limits import Limits
from crawl_platform.api.server import Api, Setup
from crawl_platform.api.tokens import Caller, Tokens
from crawl_platform.clock import Clock, SystemClock
from crawl_platform.errors import ConfigurationError, ExchangeError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.fleet.messages import Heartbeat, HostPolicy, ScheduleWindow
from crawl_platform.settings import Settings

WRITER, READER = "a-token-that-may-write", "a-token-that-may-look"
AUTHORISED = {"Authorization": f"Bearer {WRITER}"}


@dataclass
class MadeUpFleet:
    """What the exchange knows, and every publication in order. `away`: the exchange does not answer."""

    seed: set[str] = field(default_factory=set)
    published: list[tuple[str, str, str]] = field(default_factory=list)
    """(kind, target, request id)."""
    policies: dict[str, HostPolicy] = field(default_factory=dict)
    beats: list[Heartbeat] = field(default_factory=list)
    in_force: ScheduleWindow | None = None
    away: bool = False
    slowness: float = 0.0

    def client(self) -> FleetClient:
        return cast(FleetClient, self)

    def _publish(self, kind: str, target: str, request_id: str) -> int:
        if self.away:
            raise ExchangeError("can't reach NATS")
        time.sleep(self.slowness)
        self.published.append((kind, target, request_id))
        return len(self.published)

    def recrawl(self, url: str, *, request_id: str) -> int:
        host = url.split("/")[2]
        if not self.away and host not in self.seed:
            raise ConfigurationError(f"{host} is on the horizon: promote it first")
        return self._publish("recrawl", url, request_id)

    def promote(
        self, host: str, urls: list[str], *, decision_id: str, reason: str, most_pages: int | None = None
    ) -> int:
        self.policies[host] = HostPolicy(host, "seed", False, decision_id, reason)
        return self._publish("promote", host, decision_id)

    def exclude(self, pattern: str, *, request_id: str, reason: str) -> int:
        number = self._publish("exclude", pattern, request_id)
        self.policies[pattern] = HostPolicy(pattern, "excluded", False, request_id, reason)
        return number

    def lift(self, pattern: str, *, request_id: str, reason: str) -> int:
        return self._publish("lift", pattern, request_id)

    def policy(self, host: str, url: str = "") -> HostPolicy | None:
        self._answer()
        known = self.policies.get(host)
        return None if known is None or known.state == "lifted" else known

    def directive(self, name: str) -> HostPolicy | None:
        self._answer()
        return self.policies.get(name)

    def heartbeats(self) -> list[Heartbeat]:
        self._answer()
        return self.beats

    def window(self, host: str | None = None) -> ScheduleWindow | None:
        self._answer()
        return self.in_force

    def paused(self) -> bool:
        self._answer()
        return False

    def stop_words(self) -> list[Word]:
        self._answer()
        return []

    def _answer(self) -> None:
        if self.away:
            raise ExchangeError("can't reach NATS")


@asynccontextmanager
async def serving(
    home: Path,
    fleet: MadeUpFleet,
    *,
    open_metrics: bool = True,
    limits: Limits | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[TestClient[Any, Any]]:
    """The API in this process; the lake at `home` has to exist."""
    tokens = Tokens({WRITER: Caller("crm"), READER: Caller("grafana", may_write=False)})
    setup = Setup(
        Settings(str(home)), tokens, clock or SystemClock(), open_metrics, limits or Limits(burst=10_000)
    )
    async with TestClient(TestServer(Api(setup, fleet.client).application())) as client:
        yield client


@dataclass(frozen=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Process:
    """An API process on a crawl's home."""

    def __init__(self, home: Path, process: "subprocess.Popen[bytes]") -> None:
        self._home = home
        self.process = process

    @property
    def file(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self._home / "run" / "api.json").read_text())
        return found

    def call(self, path: str, body: Any = None, *, token: str | None = None, **headers: str) -> Answered:
        """One call with the API's own token, or `token`; a body makes it a POST. `_` in header names is `-`."""
        presented = self.file["token"] if token is None else token
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent |= {"Authorization": f"Bearer {presented}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.file["url"] + path, data=data, headers=sent)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Answered(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return Answered(error.code, error.headers, error.read())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


MAIN = "from crawl_platform.api.__main__ import main; main()"


@contextmanager
def api_process(
    home: Path, *arguments: str, before: str = "", env: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """An API process that answers; `before` is Python that it runs first."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{before}\n{MAIN}", "--home", str(home), "--console", *arguments],
        env={**os.environ, **(env or {})},
    )
    try:
        api = Process(home, process)
        wait_until(lambda: _answers(api), process)
        yield api
    finally:
        process.terminate()
        process.wait(30)


def _answers(api: Process) -> bool:
    try:
        return api.call("/v1/openapi.json").status == 200
    except (OSError, KeyError, json.JSONDecodeError):
        return False


def wait_until(condition: Callable[[], bool], process: "subprocess.Popen[bytes] | None" = None) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert process is None or process.poll() is None, "the API has ended"
        assert time.monotonic() < deadline
        time.sleep(0.05)
