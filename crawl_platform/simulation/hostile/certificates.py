"""Server contexts that a careful client refuses, each for one reason, and one that it accepts."""

import ssl
import warnings
from collections.abc import Callable
from datetime import timedelta

from cryptography.hazmat.primitives.asymmetric import rsa

from crawl_platform.simulation.hostile.misbehaviour import Tls
from crawl_platform.simulation.tls import Authority

_DAY = timedelta(days=1)


class Certificates:
    """`now`: UTC seconds. `authority` is the one that the crawler trusts."""

    def __init__(self, authority: Authority, now: float) -> None:
        self._authority = authority
        self._stranger = Authority(now)

    def context(self, kind: Tls, name: str) -> ssl.SSLContext:
        return _MAKERS[kind](self, name)

    def _good(self, name: str) -> ssl.SSLContext:
        return self._authority.context([name])

    def _expired(self, name: str) -> ssl.SSLContext:
        return self._authority.context([name], valid=(-20 * _DAY, -1 * _DAY))

    def _early(self, name: str) -> ssl.SSLContext:
        return self._authority.context([name], valid=(5 * _DAY, 20 * _DAY))

    def _foreign(self, name: str) -> ssl.SSLContext:
        return self._stranger.context([name])

    def _elsewhere(self, name: str) -> ssl.SSLContext:
        return self._authority.context(["elsewhere.test"])

    def _old(self, name: str) -> ssl.SSLContext:
        context = self._authority.context([name])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        return context

    def _weak(self, name: str) -> ssl.SSLContext:
        key = rsa.generate_private_key(public_exponent=65_537, key_size=1_024)
        return self._authority.context([name], key=key, ciphers="ALL:@SECLEVEL=0")


_MAKERS: dict[Tls, Callable[[Certificates, str], ssl.SSLContext]] = {
    "good": Certificates._good,
    "expired": Certificates._expired,
    "early": Certificates._early,
    "foreign": Certificates._foreign,
    "elsewhere": Certificates._elsewhere,
    "old": Certificates._old,
    "weak": Certificates._weak,
}
