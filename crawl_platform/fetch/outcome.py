"""The taxonomy of outcomes: how every fetch ends, and what the frontier does about it.

A fetch always ends in exactly one of these; `fetches.outcome` holds the name. Nothing a site does is an
exception outside `fetch/`.
"""

from enum import StrEnum
from typing import Literal

Disposition = Literal["success", "redirect", "retry", "gone", "refused"]


class Outcome(StrEnum):
    OK = "ok"
    NOT_MODIFIED = "not_modified"
    REDIRECT = "redirect"
    NOT_FOUND = "not_found"
    GONE = "gone"
    UNAUTHORIZED = "unauthorized"
    PAYMENT_REQUIRED = "payment_required"
    CLIENT_ERROR = "client_error"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    SERVER_ERROR = "server_error"
    BAD_REDIRECT = "bad_redirect"
    NO_SUCH_HOST = "no_such_host"
    DNS_FAILURE = "dns_failure"
    UNSAFE_ADDRESS = "unsafe_address"
    CONNECT_REFUSED = "connect_refused"
    CONNECT_TIMEOUT = "connect_timeout"
    TLS_FAILURE = "tls_failure"
    READ_TIMEOUT = "read_timeout"
    CONNECTION_LOST = "connection_lost"
    BAD_HTTP = "bad_http"
    BAD_ENCODING = "bad_encoding"
    INTERNAL_ERROR = "internal_error"
    """Our bug; the log has the traceback."""


DISPOSITIONS: dict[Outcome, Disposition] = {
    Outcome.OK: "success",
    Outcome.NOT_MODIFIED: "success",
    Outcome.REDIRECT: "redirect",
    Outcome.NOT_FOUND: "gone",
    Outcome.GONE: "gone",
    Outcome.UNAUTHORIZED: "gone",
    Outcome.PAYMENT_REQUIRED: "gone",
    Outcome.CLIENT_ERROR: "gone",
    Outcome.RATE_LIMITED: "retry",
    Outcome.UNAVAILABLE: "retry",
    Outcome.SERVER_ERROR: "retry",
    Outcome.BAD_REDIRECT: "gone",
    Outcome.NO_SUCH_HOST: "retry",
    Outcome.DNS_FAILURE: "retry",
    Outcome.UNSAFE_ADDRESS: "refused",
    Outcome.CONNECT_REFUSED: "retry",
    Outcome.CONNECT_TIMEOUT: "retry",
    Outcome.TLS_FAILURE: "retry",
    Outcome.READ_TIMEOUT: "retry",
    Outcome.CONNECTION_LOST: "retry",
    Outcome.BAD_HTTP: "retry",
    Outcome.BAD_ENCODING: "retry",
    Outcome.INTERNAL_ERROR: "retry",
}

BACKS_OFF = frozenset(
    {
        Outcome.RATE_LIMITED,
        Outcome.UNAVAILABLE,
        Outcome.CONNECT_REFUSED,
        Outcome.CONNECT_TIMEOUT,
        Outcome.READ_TIMEOUT,
        Outcome.CONNECTION_LOST,
        Outcome.NO_SUCH_HOST,
        Outcome.DNS_FAILURE,
    }
)
"""Outcomes after which the whole host is left alone for a while."""

_BY_STATUS = {
    304: Outcome.NOT_MODIFIED,
    401: Outcome.UNAUTHORIZED,
    402: Outcome.PAYMENT_REQUIRED,
    403: Outcome.UNAUTHORIZED,
    404: Outcome.NOT_FOUND,
    410: Outcome.GONE,
    429: Outcome.RATE_LIMITED,
    503: Outcome.UNAVAILABLE,
}
REDIRECTS = frozenset({301, 302, 303, 307, 308})


def of_status(status: int) -> Outcome:
    """Outcome of a complete response with this status."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status in REDIRECTS:
        return Outcome.REDIRECT
    if 200 <= status < 300:
        return Outcome.OK
    return Outcome.SERVER_ERROR if status >= 500 else Outcome.CLIENT_ERROR
