"""Folders of HTML as hosts: what a real manual or site looks like to a crawler, without a network."""

import mimetypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

import xxhash

from crawl_platform.simulation.conditional import http_date, is_fresh
from crawl_platform.simulation.message import Reply, Request

_NET = "127.9"


@dataclass(frozen=True, slots=True)
class FileHost:
    """A folder under a hostname, at an address of its own."""

    name: str
    address: str
    folder: Path
    port: int
    scheme: Literal["http", "https"] = "http"
    fault: str = ""

    @property
    def root(self) -> str:
        return f"http://{self.name}:{self.port}/"


class FileWeb:
    """`folders`: hostname → folder. No robots.txt of our own: a folder without one answers 404, so all is allowed."""

    def __init__(self, folders: Mapping[str, Path], http_port: int = 80) -> None:
        self.hosts = {
            name: FileHost(name, f"{_NET}.{i // 250}.{i % 250 + 1}", Path(folder).resolve(), http_port)
            for i, (name, folder) in enumerate(folders.items())
        }

    def seeds(self) -> list[str]:
        return [h.root for h in self.hosts.values()]

    def reply(self, request: Request, now: float) -> Reply:
        host = self.hosts.get(request.host)
        if host is None:
            return Reply(421, [("Content-Type", "text/plain")], b"no such host here\n")
        if request.method not in ("GET", "HEAD"):
            return Reply(405, [("Allow", "GET, HEAD")])
        path = urlsplit(request.path).path
        file = locate(host.folder, path)
        if file is None:
            return Reply(404, [("Content-Type", "text/plain")], b"not found\n")
        if file.is_dir():
            return Reply(301, [("Location", path + "/")])
        return _file(file, request)


def locate(folder: Path, path: str) -> Path | None:
    """The file for a URL path: index.html for a path that ends in /, the folder itself for one that should.

    None if there is none or the path leads out of `folder`; symbolic links in it may, whoever made it put them.
    """
    target = Path(os.path.normpath(folder / unquote(path).lstrip("/")))
    if not target.is_relative_to(folder) or "\0" in str(target):
        return None
    if path.endswith("/"):
        target /= "index.html"
    return target if target.exists() and not (path.endswith("/") and target.is_dir()) else None


def _file(file: Path, request: Request) -> Reply:
    body = file.read_bytes()
    kind, coding = mimetypes.guess_type(file.name)
    headers = [
        ("Content-Type", kind or "application/octet-stream"),
        ("ETag", f'"{xxhash.xxh3_64_hexdigest(body)}"'),
        ("Last-Modified", http_date(file.stat().st_mtime)),
    ]
    if coding:
        headers[0] = ("Content-Type", f"application/{coding}")
    return Reply(304, headers) if is_fresh(request, dict(headers)) else Reply(200, headers, body)
