"""Lake rows of what a cell does. One function per table; columns as in `lake.tables`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import xxhash
import zstandard

from crawl_platform.admission.payment import asked_of
from crawl_platform.clock import as_datetime
from crawl_platform.commit.staging import Block, Row
from crawl_platform.digest import Digest
from crawl_platform.fetch.client import Response
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.lease import Lease, RobotsLease
from crawl_platform.frontier.records import (
    KINDS,
    LANES,
    NO_LANE,
    STATES,
    UrlRecord,
    decode,
    host_key,
    shard_range,
    url_of_key,
)
from crawl_platform.web.url import host_of

LinkSet = dict[tuple[str, str, str], tuple[bool, str]]
"""(canonical target, position, rel) → (nofollow, anchor of the first such link)."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Who writes: the cell and the incarnation of its state."""

    cell: str
    incarnation: str


def fetch_row(
    fetch_id: str, kind: str, lease: Lease | RobotsLease, response: Response, origin: Origin, **facts: object
) -> Row:
    """`facts`: columns that only some fetches have (changed, fingerprint, link_set, redirect_to, …)."""
    started = as_datetime(response.started_at)
    lane = LANES[lease.lane] if isinstance(lease, Lease) else "robots"
    return {
        "fetch_id": fetch_id,
        "url": lease.url,
        "host": lease.host,
        "shard": lease.shard,
        "kind": kind,
        "lane": lane,
        "started_at": started,
        "duration_ms": response.duration * 1000,
        "outcome": str(response.outcome),
        "status": response.status,
        "detail": response.detail or None,
        "content_type": response.header("content-type")[:200] or None,
        "wire_bytes": len(response.wire),
        "body_bytes": len(response.body),
        "truncated": response.truncated,
        "address": response.address or None,
        "dns_ms": _milliseconds(response.dns),
        "connect_ms": _milliseconds(response.connect),
        "first_byte_ms": _milliseconds(response.first_byte),
        "oddities": ",".join(sorted(response.oddities)) or None,
        **price_facts(response),
        "identity": response.identity or None,
        "admission_reason": response.admission or None,
        "admission_propensity": response.propensity,
        "cell": origin.cell,
        "incarnation": origin.incarnation,
        "date": started.date(),
        **facts,
    }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def price_facts(response: Response) -> Row:
    """What an answer says about money; without a word about it nothing."""
    asked = asked_of(response.headers)
    money = asked.price or asked.charged
    if not asked.scheme:
        return {}
    return {
        "price": money.amount if money is not None else None,
        "currency": money.currency if money is not None else None,
        "charged": asked.charged.amount if asked.charged is not None else None,
        "payment": asked.error or asked.x402 or ("charged" if asked.charged is not None else None),
    }


def page_facts(lease: Lease, window_id: str | None) -> Row:
    """Columns that say why this page was picked."""
    record = lease.record
    return {
        "depth": record.depth,
        "previous_success_at": as_datetime(record.last_success_at) if record.last_success_at else None,
        "value": record.value,
        "window_id": window_id,
        "request_id": record.request_id or None,
        "second_group_id": record.second_group or None,
        "lastmod": as_datetime(record.lastmod) if record.lastmod else None,
        "discovered_at": as_datetime(record.discovered_at) if record.discovered_at else None,
    }


def link_row(
    fetch_id: str, src_url: str, dst_url: str, at: float, position: str, rel: str, nofollow: bool, anchor: str
) -> Row:
    seen = as_datetime(at)
    return {
        "fetch_id": fetch_id,
        "src_url": src_url,
        "src_host": host_of(src_url),
        "dst_url": dst_url,
        "dst_host": host_of(dst_url),
        "position": position,
        "rel": rel or None,
        "nofollow": nofollow,
        "anchor": anchor or None,
        "seen_at": seen,
        "date": seen.date(),
    }


def link_block(fetch_id: str, src_url: str, at: float, links: LinkSet, *, anchors: bool) -> Block:
    """The rows of a page's links. `anchors`: whether their texts are kept."""
    targets, positions, rels = zip(*links, strict=True)
    barred, texts = zip(*links.values(), strict=True)
    seen = as_datetime(at)
    return Block(
        {
            "fetch_id": fetch_id,
            "src_url": src_url,
            "src_host": host_of(src_url),
            "seen_at": seen,
            "date": seen.date(),
        },
        {
            "dst_url": list(targets),
            "dst_host": _hosts(targets),
            "position": list(positions),
            "rel": [rel or None for rel in rels],
            "nofollow": list(barred),
            "anchor": [text or None for text in texts] if anchors else [None] * len(texts),
        },
    )


def _hosts(urls: Iterable[str]) -> list[str]:
    """The hosts of canonical URLs, of which most have few: each origin is looked at once."""
    known: dict[str, str] = {}
    hosts = []
    for url in urls:
        origin = url[: url.find("/", len("https://"))]
        host = known.get(origin)
        if host is None:
            host = known[origin] = host_of(url)
        hosts.append(host)
    return hosts


def page_row(fetch_id: str, lease: Lease, response: Response, digest: Digest) -> Row:
    fetched = as_datetime(response.started_at)
    body, encoding = _stored_body(response)
    return {
        "fetch_id": fetch_id,
        "url": lease.url,
        "host": lease.host,
        "fetched_at": fetched,
        "title": digest.title or None,
        "text": digest.text,
        "canonical": digest.canonical,
        "charset": digest.charset,
        "content_type": response.header("content-type")[:200] or None,
        "fingerprint": digest.fingerprint,
        "simhash": digest.simhash,
        "text_hash": digest.text_hash or None,
        "links": len(digest.links),
        "truncated": response.truncated,
        "noindex": digest.noindex,
        "body": body,
        "body_encoding": encoding,
        "kind": digest.kind,
        "robots": sorted(digest.robots),
        "entity_types": list(digest.entity_types),
        "date": fetched.date(),
    }


def _stored_body(response: Response) -> tuple[bytes, str]:
    """The wire's own compressed bytes where they are whole; else the body, compressed once."""
    if response.encoding != "identity" and not response.truncated:
        return response.wire, response.encoding
    return zstandard.compress(response.body, 1), "zstd"


def host_row(host: str, shard: int, at: float, event: str, state: str, cell: str, **facts: object) -> Row:
    when = as_datetime(at)
    return {
        "host": host,
        "shard": shard,
        "happened_at": when,
        "event": event,
        "state": state,
        "cell": cell,
        "date": when.date(),
        **facts,
    }


def snapshot_rows(frontier: Frontier, shard: int, snapshot_id: str, at: float) -> Iterator[Row]:
    """One `frontier` row for each known URL of a shard."""
    when, before = as_datetime(at), ""
    for key, value in frontier.kv.scan(*shard_range(b"u", shard)):
        host, url = url_of_key(key)
        record = decode(value, UrlRecord)
        of_host, before = frontier.kv.get(host_key(shard, host)) if host != before else None, host
        yield {
            "snapshot_id": snapshot_id,
            "snapshot_at": when,
            "shard": shard,
            "host": host,
            "url": url,
            "state": STATES[record.state],
            "lane": None if record.lane == NO_LANE else LANES[record.lane],
            "depth": record.depth,
            "value": record.value,
            "due_at": None if record.lane == NO_LANE else as_datetime(record.rank / 1000),
            "discovered_at": as_datetime(record.discovered_at),
            "last_success_at": as_datetime(record.last_success_at) if record.last_success_at else None,
            "fails": record.fails,
            "group_id": record.group,
            "rate_a": record.rate_a,
            "rate_b": record.rate_b,
            "kind": KINDS[record.kind],
            "second_group_id": record.second_group or None,
            "lastmod": as_datetime(record.lastmod) if record.lastmod else None,
            "record": value,
            "host_record": of_host,
            "date": when.date(),
        }


def body_hash(body: bytes) -> int:
    return xxhash.xxh3_64_intdigest(body)
