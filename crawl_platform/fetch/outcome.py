"""The taxonomy of outcomes: how every fetch ends, and what the frontier does about it.

A fetch always ends in exactly one of these; `fetches.outcome` holds the name. Nothing a site does is an
exception outside `fetch/`. docs/outcomes.md says the same for people.
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
    UNSAFE_REDIRECT = "unsafe_redirect"
    BAD_URL = "bad_url"
    NO_SUCH_HOST = "no_such_host"
    DNS_FAILURE = "dns_failure"
    DNS_TIMEOUT = "dns_timeout"
    UNSAFE_ADDRESS = "unsafe_address"
    CONNECT_REFUSED = "connect_refused"
    CONNECT_TIMEOUT = "connect_timeout"
    TLS_FAILURE = "tls_failure"
    TLS_TIMEOUT = "tls_timeout"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    READ_TIMEOUT = "read_timeout"
    TOO_SLOW = "too_slow"
    CONNECTION_LOST = "connection_lost"
    CONNECTION_STALE = "connection_stale"
    BAD_HTTP = "bad_http"
    HEADERS_TOO_LARGE = "headers_too_large"
    RESPONSE_FLOOD = "response_flood"
    BAD_ENCODING = "bad_encoding"
    INTERNAL_ERROR = "internal_error"
    """Our bug; the log has the traceback."""


_CONSEQUENCES: dict[Outcome, tuple[Disposition, bool]] = {
    # outcome: (what becomes of the URL, whether the whole host is left alone for a while)
    Outcome.OK: ("success", False),
    Outcome.NOT_MODIFIED: ("success", False),
    Outcome.REDIRECT: ("redirect", False),
    Outcome.NOT_FOUND: ("gone", False),
    Outcome.GONE: ("gone", False),
    Outcome.UNAUTHORIZED: ("gone", False),
    Outcome.PAYMENT_REQUIRED: ("gone", False),
    Outcome.CLIENT_ERROR: ("gone", False),
    Outcome.RATE_LIMITED: ("retry", True),
    Outcome.UNAVAILABLE: ("retry", True),
    Outcome.SERVER_ERROR: ("retry", False),
    Outcome.BAD_REDIRECT: ("gone", False),
    Outcome.UNSAFE_REDIRECT: ("gone", False),
    Outcome.BAD_URL: ("gone", False),
    Outcome.NO_SUCH_HOST: ("retry", True),
    Outcome.DNS_FAILURE: ("retry", True),
    Outcome.DNS_TIMEOUT: ("retry", True),
    Outcome.UNSAFE_ADDRESS: ("refused", False),
    Outcome.CONNECT_REFUSED: ("retry", True),
    Outcome.CONNECT_TIMEOUT: ("retry", True),
    Outcome.TLS_FAILURE: ("retry", False),
    Outcome.TLS_TIMEOUT: ("retry", True),
    Outcome.FIRST_BYTE_TIMEOUT: ("retry", True),
    Outcome.READ_TIMEOUT: ("retry", True),
    Outcome.TOO_SLOW: ("retry", True),
    Outcome.CONNECTION_LOST: ("retry", True),
    Outcome.CONNECTION_STALE: ("retry", False),
    Outcome.BAD_HTTP: ("retry", False),
    Outcome.HEADERS_TOO_LARGE: ("retry", False),
    Outcome.RESPONSE_FLOOD: ("retry", True),
    Outcome.BAD_ENCODING: ("retry", False),
    Outcome.INTERNAL_ERROR: ("retry", False),
}

DISPOSITIONS: dict[Outcome, Disposition] = {outcome: what for outcome, (what, _) in _CONSEQUENCES.items()}

BACKS_OFF = frozenset(outcome for outcome, (_, unwell) in _CONSEQUENCES.items() if unwell)
"""Outcomes after which the whole host is left alone for a while."""

UNREACHED = frozenset(
    {Outcome.CONNECT_REFUSED, Outcome.CONNECT_TIMEOUT, Outcome.TLS_FAILURE, Outcome.TLS_TIMEOUT}
)
"""Nobody who could answer was met at this address and port."""

UNSENT = UNREACHED | {
    Outcome.BAD_URL,
    Outcome.NO_SUCH_HOST,
    Outcome.DNS_FAILURE,
    Outcome.DNS_TIMEOUT,
    Outcome.UNSAFE_ADDRESS,
}
"""Outcomes of fetches that never became a request."""

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
    """Outcome of a complete response with this status.

    Statuses that the standard doesn't have count by their class, and beyond 599 as refusals of this client
    (RFC 9110 §15: an unknown status is its class; 999 is what some sites tell robots they don't want).
    """
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status in REDIRECTS:
        return Outcome.REDIRECT
    if 200 <= status < 300:
        return Outcome.OK
    return Outcome.SERVER_ERROR if 500 <= status < 600 else Outcome.CLIENT_ERROR
