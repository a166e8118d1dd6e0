"""Kept page versions as WARC 1.1 records (ISO 28500:2017), each a gzip member of its own.

The lake keeps a page's body and facts, not the headers that came with it. A `response` record would have to
make them up, so a version becomes a `resource` record: the body without its content encoding, under the
content type that the site gave. What is known of the fetch stands in a `metadata` record that refers to it.
Record ids derive from the fetch, so the same version has the same id in every export.
"""

import os
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from warcio.warcwriter import WARCWriter

from crawl_platform import __version__
from crawl_platform.errors import LakeError
from crawl_platform.fleet.pages import decoded

_IDS = uuid.UUID("5d0c6b0e-7c1f-5a5e-9a0e-3f6f2a5f6b11")
"""Namespace of our record ids."""
FIELDS = "application/warc-fields"
UNKNOWN_TYPE = "application/octet-stream"
"""Content type of a body that came without one."""


CHUNK = 1 << 20
HEAD = 16_384
"""Bytes of a record in which its headers end: a URL has 2,000 at most."""
_TARGET = b"WARC-Target-URI:"


class WarcFile:
    """Writes records to `out`; what is written is complete after each call."""

    def __init__(self, out: BinaryIO) -> None:
        self._writer = WARCWriter(out, gzip=True, warc_version="WARC/1.1")

    def begin(self, name: str, at: datetime, agent: str, selection: str) -> None:
        """The `warcinfo` record. `agent` is the user agent that fetched; `selection` says what is in the file."""
        fields = {
            "software": f"crawl-platform/{__version__}",
            "format": "WARC File Format 1.1",
            "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
            "http-header-user-agent": agent,
            "robots": "obey (RFC 9309)",
            "isPartOf": selection,
            "description": "resource records: bodies without their content encoding; response headers were not kept",
        }
        headers = {
            "WARC-Date": _date(at),
            "WARC-Record-ID": _id(f"{name} {at.isoformat()}"),
            "WARC-Filename": name,
        }
        self._write("", "warcinfo", _fields(fields), FIELDS, headers)

    def page(self, version: Mapping[str, Any], fetch: Mapping[str, Any]) -> None:
        """A row of `pages` with its body, and its row of `fetches` (empty if that is not kept any more)."""
        url, date, record_id = version["url"], _date(version["fetched_at"]), _id(version["fetch_id"])
        body = decoded(version["body"] or b"", version["body_encoding"], version["fetch_id"])
        headers = {"WARC-Date": date, "WARC-Record-ID": record_id}
        if fetch.get("address"):
            headers["WARC-IP-Address"] = fetch["address"]
        if version["truncated"]:
            headers["WARC-Truncated"] = "length"
        self._write(url, "resource", body, version["content_type"] or UNKNOWN_TYPE, headers)
        facts = {
            "fetchId": version["fetch_id"],
            "status": fetch.get("status"),
            "outcome": fetch.get("outcome"),
            "fetchTimeMs": None if fetch.get("duration_ms") is None else round(fetch["duration_ms"]),
            "contentEncoding": version["body_encoding"],
            "charset": version["charset"],
            "fingerprint": version["fingerprint"],
        }
        about = {
            "WARC-Date": date,
            "WARC-Record-ID": _id(f"{version['fetch_id']} metadata"),
            "WARC-Refers-To": record_id,
        }
        self._write(url, "metadata", _fields(facts), FIELDS, about)

    def _write(self, url: str, kind: str, block: bytes, type_: str, headers: dict[str, str]) -> None:
        record = self._writer.create_warc_record(
            url,
            kind,
            payload=BytesIO(block),
            length=len(block),
            warc_content_type=type_,
            warc_headers_dict=headers,
        )
        self._writer.write_record(record)


def _fields(values: Mapping[str, Any]) -> bytes:
    lines = (f"{name}: {_line(value)}\r\n" for name, value in values.items() if value is not None)
    return "".join(lines).encode()


def _line(value: object) -> str:
    return " ".join(str(value).split())


def _date(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _id(name: str) -> str:
    return f"<urn:uuid:{uuid.uuid5(_IDS, name)}>"


def take_out(path: Path, takes: Callable[[str], bool]) -> int:
    """Rewrite a file of ours without the records about URLs that `takes` names; returns how many there were.

    Raises `LakeError`, and leaves the file, if it is none that `WarcFile` writes.
    """
    draft = path.with_name(f".{path.name}.purge")
    gone = 0
    try:
        with path.open("rb") as old, draft.open("wb") as new:
            for member, head in _members(old, path):
                if takes(_target(head)):
                    gone += 1
                else:
                    new.write(member)
            new.flush()
            os.fsync(new.fileno())
        if gone:
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return gone


def _members(file: BinaryIO, path: Path) -> Iterator[tuple[bytes, bytes]]:
    """(a record as it stands in the file, the beginning of what it says)."""
    rest = b""
    while chunk := rest or file.read(CHUNK):
        inflate, raw, head = zlib.decompressobj(31), bytearray(), bytearray()
        while not inflate.eof:
            if not chunk:
                raise LakeError(f"{path} ends in the middle of a record")
            try:
                head += inflate.decompress(chunk)[: HEAD - len(head)]
            except zlib.error as error:
                raise LakeError(f"{path} is not a file of `crawl export`: {error}") from error
            raw += chunk[: len(chunk) - len(inflate.unused_data)]
            chunk, rest = file.read(CHUNK) if not inflate.eof else b"", inflate.unused_data
        yield bytes(raw), bytes(head)


def _target(head: bytes) -> str:
    lines = head.partition(b"\r\n\r\n")[0].split(b"\r\n")
    found = (line[len(_TARGET) :] for line in lines if line.startswith(_TARGET))
    return next(found, b"").decode("utf-8", "replace").strip()
