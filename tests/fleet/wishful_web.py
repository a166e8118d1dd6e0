"""Sites with wishes, as a process: one checks signatures, one sells its pages, one says how its pages may be used.

python -m tests.fleet.wishful_web LOG KEYS     (KEYS: the crawl's published JWK set; prints a `Ready` line)
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from crawl_platform.clock import SystemClock
from crawl_platform.simulation.message import Reply, Request
from crawl_platform.simulation.running import Options, Ready, serve
from tests.fetch.verifying import Site

SIGNED, SELLING, WISHING, REFUSING = "signed.test", "selling.test", "wishing.test", "refusing.test"
FOR_SALE = 9
PRICE = "USD 0.01"
SLOW = "/slow.html"
"""A page for sale that is sent some seconds after it was paid for."""
WISHES: Mapping[str, tuple[list[tuple[str, str]], str]] = {
    "/": ([], ""),
    "/private/a": ([], ""),
    "/usage": ([("Content-Usage", "search=n, train-ai=n")], ""),
    "/archive": ([("X-Robots-Tag", "noarchive")], ""),
    "/noai": ([], "<meta name=robots content=noai>"),
    "/reserved": ([("TDM-Reservation", "1")], ""),
    "/mined/a": ([], ""),
}
"""Path → (headers, head elements)."""
ROBOTS = b"User-agent: *\nContent-Signal: search=yes, ai-train=no\nContent-Usage: /private/ search=n\n"
TDMREP = [{"location": "/mined/*", "tdm-reservation": 1}]


@dataclass(frozen=True)
class Host:
    name: str
    address: str
    scheme: Literal["http", "https"] = "http"
    fault: str = ""


class Wishful:
    """What was charged is written beside the log, a line for each page."""

    def __init__(self, log: Path, keys: str) -> None:
        self.hosts = {
            name: Host(name, f"127.8.0.{n}") for n, name in enumerate((SIGNED, SELLING, WISHING, REFUSING), 1)
        }
        self._site = Site(keys)
        self._charges = log.with_name("charges")

    def reply(self, request: Request, now: float) -> Reply:
        if request.host == REFUSING:
            robots = Reply(200, body=b"User-agent: *\nContent-Signal: search=no\n")
            return robots if request.path == "/robots.txt" else _page("refusing", [])
        if request.host == WISHING:
            return self._wishing(request.path)
        try:
            covered = self._site.check(request.headers, now, request.path)["covered"].split()
        except Exception as error:  # whatever is wrong with a signature, the request is refused
            return Reply(403, body=repr(error).encode())
        if request.path == "/robots.txt":
            return Reply(404)
        if request.host == SIGNED:
            return _page("signed", [])
        return self._selling(request, covered)

    def _selling(self, request: Request, covered: list[str]) -> Reply:
        offered = request.headers.get("crawler-exact-price")
        if offered is None:
            return Reply(402, [("crawler-price", PRICE), ("crawler-error", "MissingCrawlerPrice")])
        if offered != PRICE or "crawler-exact-price" not in covered:
            return Reply(402, [("crawler-price", PRICE), ("crawler-error", "InvalidCrawlerExactPrice")])
        with self._charges.open("a") as file:
            file.write(f"{request.path}\n")
        links = [f"p{n}.html" for n in range(1, FOR_SALE)] if request.path == "/" else []
        return _page(
            request.path,
            links,
            ("crawler-charged", PRICE),
            delay=5.0 if request.path.startswith(SLOW) else 0.0,
        )

    def _wishing(self, path: str) -> Reply:
        if path == "/robots.txt":
            return Reply(200, [("Content-Type", "text/plain")], ROBOTS)
        if path == "/.well-known/tdmrep.json":
            return Reply(200, [("Content-Type", "application/json")], json.dumps(TDMREP).encode())
        if path not in WISHES:
            return Reply(404)
        headers, head = WISHES[path]
        return _page(
            path, [name for name in WISHES if path in ("/", "/usage") and name != path], *headers, head=head
        )


def _page(
    title: str, links: list[str], *headers: tuple[str, str], head: str = "", delay: float = 0.0
) -> Reply:
    text = " ".join(f"word{n} of {title}" for n in range(40))
    anchors = " ".join(f'<a href="{link}">{link}</a>' for link in links)
    body = f"<!doctype html><title>{title}</title>{head}<nav>{anchors}</nav><main><p>{text}.</p></main>"
    return Reply(200, [("Content-Type", "text/html; charset=utf-8"), *headers], body.encode(), delay=delay)


def main(log: Path, keys: Path) -> None:
    web, clock = Wishful(log, keys.read_text()), SystemClock()
    ca_file = log.with_name("ca.pem")

    def ready(nameserver: str, http_port: int, https_port: int) -> None:
        seeds = [f"http://{name}:{http_port}/" for name in web.hosts]
        line = Ready(
            nameserver, http_port, https_port, str(ca_file), str(log), seeds, os.getpid(), clock.now()
        )
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        sys.stdout.flush()

    asyncio.run(serve(lambda http, https: web, Options(log, ca_file), clock, ready))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
