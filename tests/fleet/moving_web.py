"""Sites whose robots.txt is on other hosts, as a process: python -m tests.fleet.moving_web LOG (prints a `Ready` line).

Each of `MOVED` redirects to `RULES`, which is no seed; `TURNING` redirects to the first of them and from there back
to itself. What is found forbids /private.html everywhere, and everything beyond that on `RULES`.
"""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from crawl_platform.clock import SystemClock
from crawl_platform.simulation.message import Reply, Request
from crawl_platform.simulation.running import Options, Ready, serve

MOVED = tuple(f"moved-{number}.test" for number in range(8))
RULES, TURNING = "rules.test", "turning.test"
PAGES = ("/", "/a.html", "/b.html", "/private.html")
FORBIDDEN = b"User-agent: *\nDisallow: /private.html\n"


@dataclass(frozen=True)
class Host:
    name: str
    address: str
    scheme: Literal["http", "https"] = "http"
    fault: str = ""


class Moving:
    def __init__(self, port: int) -> None:
        self.hosts = {name: Host(name, f"127.9.0.{n}") for n, name in enumerate((*MOVED, RULES, TURNING), 1)}
        self._port = port

    def reply(self, request: Request, now: float) -> Reply:
        host, path = request.host, request.path
        if path == "/robots.txt" and host != RULES:
            if host == TURNING:
                return self._redirect(MOVED[0], "/turn")
            return self._redirect(RULES, f"/files/{host}.txt")
        if path == "/turn":
            return self._redirect(TURNING, "/found.txt")
        if path.endswith(".txt"):
            return Reply(200, [("Content-Type", "text/plain")], FORBIDDEN)
        if path not in PAGES:
            return Reply(404)
        anchors = " ".join(f'<a href="{page}">{page}</a>' for page in PAGES)
        body = (
            f"<!doctype html><title>{host}</title>{anchors} <a href='http://{RULES}:{self._port}/'>rules</a>"
        )
        return Reply(200, [("Content-Type", "text/html")], body.encode())

    def _redirect(self, host: str, path: str) -> Reply:
        return Reply(302, [("Location", f"http://{host}:{self._port}{path}")])


def main(log: Path) -> None:
    clock = SystemClock()
    ca_file = log.with_name("ca.pem")

    def ready(nameserver: str, http_port: int, https_port: int) -> None:
        seeds = [f"http://{name}:{http_port}/" for name in (*MOVED, TURNING)]
        line = Ready(
            nameserver, http_port, https_port, str(ca_file), str(log), seeds, os.getpid(), clock.now()
        )
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        sys.stdout.flush()

    asyncio.run(serve(lambda http, https: Moving(http), Options(log, ca_file), clock, ready))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
