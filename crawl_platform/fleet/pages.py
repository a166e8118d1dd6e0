"""The versions of a page that the lake keeps, and their bodies decoded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from crawl_platform.errors import LakeError, SiteError
from crawl_platform.fetch.inflate import inflate
from crawl_platform.lake.lake import Lake

MOST_BYTES = 1 << 31
"""A body was capped when it was fetched; this only keeps a damaged one from growing without end."""

VERSIONS = """
SELECT p.fetch_id, p.url, p.fetched_at, p.title, p.canonical, p.content_type, p.charset, p.body_encoding,
    coalesce(octet_length(p.body), 0) AS stored_bytes, p.truncated, p.noindex, p.links, p.fingerprint, p.simhash,
    p.text_hash, p.kept, p.refused
FROM pages p WHERE p.url = $1 ORDER BY p.fetched_at DESC
"""
FETCH = "SELECT status, outcome, address, lane, duration_ms, body_bytes FROM fetches WHERE fetch_id = $1 AND date = $2"
CONTENT = "SELECT text, body, body_encoding FROM pages WHERE url = $1 AND fetch_id = $2 AND date = $3"


@dataclass(frozen=True)
class Content:
    """`body` is as the site meant it: without its content encoding."""

    text: str
    body: bytes


def versions_of(lake: Lake, url: str) -> list[dict[str, Any]]:
    """Facts of every kept version of the page at the canonical `url`, newest first; bodies are not read."""
    found: list[dict[str, Any]] = lake.query(VERSIONS, [url]).to_pylist()
    return found


def fetch_of(lake: Lake, version: Mapping[str, Any]) -> dict[str, Any]:
    """How the version was fetched; empty if the fetch is older than what `fetches` keeps."""
    day: datetime = version["fetched_at"]
    found: Sequence[dict[str, Any]] = lake.query(FETCH, [version["fetch_id"], day.date()]).to_pylist()
    return found[0] if found else {}


def content_of(lake: Lake, version: Mapping[str, Any]) -> Content:
    """Text and body of a version. Raises `LakeError` for a body that can't be decoded."""
    parameters = [version["url"], version["fetch_id"], version["fetched_at"].date()]
    row = lake.query(CONTENT, parameters).to_pylist()[0]
    return Content(row["text"] or "", decoded(row["body"] or b"", row["body_encoding"], version["fetch_id"]))


def decoded(body: bytes, encoding: str | None, fetch_id: str) -> bytes:
    """A stored body without its encoding. Raises `LakeError` if that is not possible."""
    try:
        return inflate(body, encoding or "identity", MOST_BYTES).body
    except SiteError as error:
        raise LakeError(f"the body of {fetch_id} in `pages` is damaged: {error}") from error
