"""Hosts that are broken before the first request, with TLS or without."""

from functools import partial

from crawl_platform.simulation.hostile.misbehaviour import Misbehaviour

_ROBOTS = "/robots.txt"
_tls = partial(Misbehaviour, "tls", outcomes=("tls_failure",), watched=_ROBOTS)
_door = partial(Misbehaviour, "doors", watched=_ROBOTS)

TLS = (
    _tls("tls-expired", "a certificate that has run out", tls="expired"),
    _tls("tls-early", "a certificate that is not valid yet", tls="early"),
    _tls("tls-foreign", "a certificate of an unknown authority", tls="foreign"),
    _tls("tls-elsewhere", "the certificate of another host", tls="elsewhere"),
    _tls("tls-old", "TLS 1.1 only", tls="old"),
    _tls("tls-weak", "an RSA key of 1,024 bits", tls="weak"),
    _tls("tls-dropped", "ends the connection in the handshake", tls="good", door="drops"),
    _tls("tls-plaintext", "plain HTTP on the TLS port", tls="good", door="plaintext"),
    Misbehaviour(
        "tls",
        "tls-silent",
        "never answers the handshake",
        ("tls_timeout",),
        tls="good",
        door="silent",
        watched=_ROBOTS,
    ),
    Misbehaviour("tls", "tls-good", "nothing: a certificate as it should be", ("ok",), tls="good"),
)

DOORS = (
    _door("refuses", "nobody listens", ("connect_refused",), door="refuses"),
    _door("full", "SYNs stay unanswered", ("connect_timeout",), door="full"),
    _door(
        "resets-at-once",
        "each connection is reset as soon as it stands",
        ("connection_lost", "connect_refused"),
        door="resets",
    ),
    _door("drops", "each connection ends at the first byte", ("connection_lost",), door="drops"),
)
