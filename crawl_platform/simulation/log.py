"""The request log: one JSON line per request, written when it ends."""

import os
from pathlib import Path
from typing import Literal

import msgspec

EndedBy = Literal["response", "disconnect"]


class Entry(msgspec.Struct, frozen=True):
    """One request as the server saw it.

    `start`, `end`: UTC seconds; `start_boot`, `end_boot`: the same moments by CLOCK_BOOTTIME. It starts when its head
    has been read; it ends when the reply has been handed over to the kernel or the client has gone. `status` is
    None if no reply head was sent.
    """

    host: str
    address: str
    port: int
    path: str
    method: str
    agent: str
    start: float
    end: float
    start_boot: float
    end_boot: float
    status: int | None
    ended_by: EndedBy


class RequestLog:
    """Appends entries to a file, each with one write, so that readers see whole lines at once."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._encoder = msgspec.json.Encoder()

    def write(self, entry: Entry) -> None:
        os.write(self._file, self._encoder.encode(entry) + b"\n")

    def close(self) -> None:
        os.close(self._file)
