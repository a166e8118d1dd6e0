"""TLS: verified always, and each way to fail under a stable name (the first word of `fetches.detail`)."""

import ssl

from crawl_platform.errors import SiteError
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.settings import Fetch

_BY_CODE = {
    # X509_V_ERR_*, x509_vfy.h of OpenSSL
    7: "unknown_authority",  # signed by a namesake of one that is known
    9: "certificate_not_yet_valid",
    10: "certificate_expired",
    18: "unknown_authority",  # signed by itself
    19: "unknown_authority",
    20: "unknown_authority",
    21: "unknown_authority",
    23: "certificate_revoked",
    62: "wrong_host",
    63: "wrong_host",
    64: "wrong_host",
    66: "weak_crypto",
    67: "weak_crypto",
    68: "weak_crypto",
}
_BY_REASON = (
    ("WRONG_VERSION_NUMBER", "not_tls"),
    ("HTTP_REQUEST", "not_tls"),
    ("PACKET_LENGTH", "not_tls"),
    ("RECORD_LAYER_FAILURE", "not_tls"),
    ("UNKNOWN_PROTOCOL", "not_tls"),
    ("UNEXPECTED_EOF", "handshake_dropped"),
    ("PROTOCOL", "old_protocol"),
    ("VERSION", "old_protocol"),
    ("TOO_SMALL", "weak_crypto"),
    ("MD_TOO_WEAK", "weak_crypto"),
    ("CIPHER", "weak_crypto"),
    ("LEGACY", "weak_crypto"),
    ("HANDSHAKE_FAILURE", "handshake_refused"),
    ("ALERT", "handshake_refused"),
    ("UNRECOGNIZED_NAME", "handshake_refused"),
)
FAILURES = frozenset(
    {*_BY_CODE.values(), *(name for _, name in _BY_REASON), "certificate_invalid", "tls_error"}
)


def context(settings: Fetch) -> ssl.SSLContext:
    """TLS 1.2 or later, names and chains checked, `ca_file` trusted beside the system's authorities."""
    made = ssl.create_default_context()
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.ca_file:
        made.load_verify_locations(settings.ca_file)
    return made


def failure(error: Exception) -> SiteError:
    """The outcome of a handshake that ended with `error`."""
    return SiteError(Outcome.TLS_FAILURE, f"{_name(error)}: {_text(error)}"[:300])


def _name(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _BY_CODE.get(error.verify_code, "certificate_invalid")
    if isinstance(error, ssl.CertificateError):
        return "certificate_invalid"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error).upper()
        return next((name for part, name in _BY_REASON if part in reason), "tls_error")
    return "handshake_dropped"


def _text(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message)
    return (getattr(error, "reason", None) or str(error) or type(error).__name__).strip()
