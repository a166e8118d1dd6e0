"""A certificate authority of the web's own, and server contexts with certificates from it."""

import datetime
import ssl
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from crawl_platform.clock import as_datetime

_LIFE = datetime.timedelta(days=30)
_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Authority:
    """Signs certificates valid from a day before `now` (UTC seconds) for 30 days."""

    def __init__(self, now: float) -> None:
        self._from = as_datetime(now) - datetime.timedelta(days=1)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Synthetic web authority")
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
            decipher_only=False,
        )  # fmt: skip
        self._own = (
            self._builder(self._name, self._key)
            .not_valid_before(self._from)
            .not_valid_after(self._from + _LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def pem(self) -> bytes:
        """The authority's certificate, to be trusted by clients."""
        return self._own.public_bytes(serialization.Encoding.PEM)

    def context(
        self,
        names: Iterable[str],
        *,
        valid: tuple[datetime.timedelta, datetime.timedelta] = (datetime.timedelta(0), _LIFE),
        key: _Key | None = None,
        ciphers: str = "",
    ) -> ssl.SSLContext:
        """Server context with one certificate for all `names`.

        `valid`: from and until, counted from the authority's own beginning; `key` and `ciphers` replace the good ones.
        """
        names = list(names)
        key = key or ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            self._builder(_name(names[0]), key)
            .not_valid_before(self._from + valid[0])
            .not_valid_after(self._from + valid[1])
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if ciphers:
            context.set_ciphers(ciphers)
        with tempfile.NamedTemporaryFile() as file:
            file.write(_private(key) + certificate.public_bytes(serialization.Encoding.PEM))
            file.flush()
            context.load_cert_chain(file.name)
        return context

    def _builder(self, name: x509.Name, key: _Key) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
        )


def write_ca(authority: Authority, path: Path) -> None:
    path.write_bytes(authority.pem())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _private(key: _Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
