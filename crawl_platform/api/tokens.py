"""Who may ask: named tokens, from the environment or made once and kept in `run/api.json`.

    CRAWL_API_TOKENS="crm:<token>,grafana:<token>:read"

A token with `:read` may look but change nothing. Tokens are compared as digests, all of them and in
constant time, and never logged.
"""

import hashlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import msgspec

from crawl_platform.errors import ConfigurationError

VARIABLE = "CRAWL_API_TOKENS"
OWN_NAME = "operator"
"""Name of the token that is made when none is given."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_TOKEN = re.compile(r"[A-Za-z0-9_.~+/=-]{16,200}")


@dataclass(frozen=True)
class Caller:
    """Who asks, by the name of the token."""

    name: str
    may_write: bool = True


class ApiFile(msgspec.Struct, frozen=True):
    """`run/api.json`: where the API is, and the token that was made for it (empty: they are in the environment)."""

    url: str = ""
    name: str = ""
    token: str = ""


class Tokens:
    """The callers by the digest of their token."""

    def __init__(self, callers: dict[str, Caller]) -> None:
        """`callers`: token → caller."""
        self._callers = [(_digest(token), caller) for token, caller in callers.items()]

    def caller(self, presented: str) -> Caller | None:
        """Whose token this is, None if nobody's. Takes the same time whichever token it is like."""
        digest = _digest(presented)
        found = None
        for known, caller in self._callers:
            if hmac.compare_digest(known, digest):
                found = caller
        return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def parse_tokens(text: str) -> dict[str, Caller]:
    """Token → caller of `name:token[:read],…`. Raises `ConfigurationError`, which never repeats a token."""
    callers: dict[str, Caller] = {}
    for number, entry in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        name, _, rest = entry.partition(":")
        token, _, scope = rest.partition(":")
        if not _NAME.fullmatch(name) or not _TOKEN.fullmatch(token) or scope not in ("", "read"):
            raise ConfigurationError(
                f"{VARIABLE}: entry {number} is not name:token or name:token:read "
                "(a name has letters, digits, _ and -; a token at least 16 characters without spaces, commas or colons)"
            )
        if token in callers or name in {caller.name for caller in callers.values()}:
            raise ConfigurationError(f"{VARIABLE}: entry {number} repeats a name or a token")
        callers[token] = Caller(name, scope != "read")
    return callers


def is_loopback(host: str) -> bool:
    """Whether a server bound to `host` is reached from this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_safe(host: str, given: str) -> None:
    """Raise `ConfigurationError` for an API that others can reach but whose tokens nobody has chosen."""
    if not is_loopback(host) and not parse_tokens(given):
        raise ConfigurationError(
            f"api.host is {host}, which others can reach: name the tokens in {VARIABLE} first "
            '("name:token,…"), or bind to 127.0.0.1'
        )


def api_path(home: Path) -> Path:
    return home / "run" / "api.json"


def read_api_file(home: Path) -> ApiFile:
    """What stands in `run/api.json`; nothing if there is none."""
    try:
        return msgspec.json.decode(api_path(home).read_bytes(), type=ApiFile)
    except FileNotFoundError:
        return ApiFile()
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"{api_path(home)} is damaged ({error}): delete it") from error


def write_api_file(home: Path, content: ApiFile) -> None:
    """Whole or not at all; readable by its owner only from the first byte."""
    path = api_path(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(content))
    draft.replace(path)


def callers_of(home: Path, given: str) -> tuple[dict[str, Caller], ApiFile]:
    """(token → caller, what to keep in `run/api.json`). A token is made at the first start without any."""
    kept = read_api_file(home)
    callers = parse_tokens(given)
    if callers:
        return callers, ApiFile(kept.url)
    token = kept.token or secrets.token_urlsafe(32)
    return {token: Caller(OWN_NAME)}, ApiFile(kept.url, OWN_NAME, token)
