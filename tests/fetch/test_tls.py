"""TLS: every way to fail is an outcome with a stable name, nothing is sent, and there is no way back to plain HTTP."""

import asyncio
import contextlib
import datetime
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from crawl_platform.clock import SystemClock, as_datetime
from crawl_platform.fetch.client import HttpClient
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fetch.tls import FAILURES
from crawl_platform.settings import Fetch
from tests.fetch.asking import Writes, get
from tests.fetch.servers import Reader, Server, Writer, answers, reply, serving

NOW = as_datetime(SystemClock().now())
DAY = datetime.timedelta(days=1)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Authority:
    """One that signs whatever it is asked to."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.certificate = (
            self._builder(self.name, self.key.public_key(), NOW - DAY, NOW + DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    def _builder(
        self, subject: x509.Name, key: object, begin: datetime.datetime, end: datetime.datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key)  # type: ignore[arg-type]
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
        )

    def context(
        self,
        name: str = "site.test",
        begin: datetime.datetime = NOW - DAY,
        end: datetime.datetime = NOW + DAY,
        key: Key | None = None,
    ) -> ssl.SSLContext:
        key = key or ec.generate_private_key(ec.SECP256R1())
        signed = (
            self._builder(
                x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key(), begin, end
            )
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.set_ciphers("DEFAULT:@SECLEVEL=0")
        with tempfile.NamedTemporaryFile() as file:
            file.write(pem + signed.public_bytes(serialization.Encoding.PEM))
            file.flush()
            made.load_cert_chain(file.name)
        return made


AUTHORITY = Authority()


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Fetch:
    path: Path = tmp_path_factory.mktemp("tls") / "ca.pem"
    path.write_bytes(AUTHORITY.certificate.public_bytes(serialization.Encoding.PEM))
    return Fetch(
        ca_file=str(path),
        connect_timeout=2.0,
        tls_timeout=2.0,
        read_timeout=2.0,
        allow_networks=("127.0.0.0/8",),
    )


@contextlib.asynccontextmanager
async def trusting(settings: Fetch) -> AsyncIterator[HttpClient]:
    client = HttpClient(settings, "tester", SystemClock())
    yield client
    await client.close()


TLS_1_0 = b"\x16\x03\x01\x00\x2a\x02\x00\x00\x26\x03\x01" + bytes(32) + b"\x00\xc0\x13\x00"
"""A ServerHello that wants to go on in TLS 1.0 (RFC 2246 §7.4.1.3)."""
BAD: dict[str, Callable[[], ssl.SSLContext]] = {
    "certificate_expired": lambda: AUTHORITY.context(begin=NOW - 3 * DAY, end=NOW - DAY),
    "certificate_not_yet_valid": lambda: AUTHORITY.context(begin=NOW + DAY, end=NOW + 2 * DAY),
    "unknown_authority": lambda: Authority().context(),
    "wrong_host": lambda: AUTHORITY.context("other.test"),
    "weak_crypto": lambda: AUTHORITY.context(key=rsa.generate_private_key(65537, 1024)),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_certificate_that_cannot_be_trusted_is_named_and_nothing_is_sent(
    settings: Fetch, name: str
) -> None:
    writes = Writes()
    async with trusting(settings) as client, serving(answers(reply(body=b"x")), BAD[name]()) as server:
        response = await get(client, server.url(scheme="https"), writes)

    assert (response.outcome, response.detail.partition(":")[0]) == (Outcome.TLS_FAILURE, name), (
        response.detail
    )
    assert (response.sent, writes.count, server.heads) == (False, 0, [])


@contextlib.asynccontextmanager
async def talking(first: bytes, *, reset: bool = False) -> AsyncIterator[Server]:
    """Says `first` to whatever it is told, and is gone."""

    async def connected(reader: Reader, writer: Writer) -> None:
        server.connections += 1
        server.heads.append(await reader.read(5))
        writer.write(first)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.transport.abort() if reset else writer.close()

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    server = Server(listener.sockets[0].getsockname()[1])
    yield server
    listener.close()


@pytest.mark.parametrize(
    ("first", "reset", "name"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", False, "not_tls"),
        (b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n", False, "not_tls"),
        (b"", False, "handshake_dropped"),
        (b"", True, "handshake_dropped"),
        (b"\x15\x03\x03\x00\x02\x02\x28", False, "handshake_refused"),  # alert 40, handshake_failure
        (TLS_1_0, False, "old_protocol"),
        (b"\x15\x03\x01\x00\x02\x02\x46", False, "old_protocol"),  # alert 70, protocol_version
        (b"\x15\x03\x03\x00\x02\x02\x70", False, "handshake_refused"),  # alert 112, unrecognized_name
    ],
)
async def test_a_port_that_does_not_shake_hands_is_named_and_never_asked_in_plain(
    settings: Fetch, first: bytes, reset: bool, name: str
) -> None:
    async with trusting(settings) as client, talking(first, reset=reset) as server:
        response = await get(client, server.url(scheme="https"))

    assert (response.outcome, response.detail.partition(":")[0]) == (Outcome.TLS_FAILURE, name), (
        response.detail
    )
    assert (server.connections, [head[:1] for head in server.heads]) == (1, [b"\x16"])
    assert name in FAILURES


@pytest.mark.parametrize("host", ["xn--mnchen-3ya.test", "xn--i-7iq.ws", "a_b.test", "site.test"])
async def test_the_name_told_in_the_handshake_is_the_hosts_as_dns_spells_it(
    settings: Fetch, host: str
) -> None:
    told: list[str | None] = []
    context = AUTHORITY.context(host)
    context.sni_callback = lambda sock, name, ctx: told.append(name)
    async with trusting(settings) as client, serving(answers(reply(body=b"x")), context) as server:
        url = server.url(scheme="https").replace("site.test", host)
        response = await client.get(url, host, "127.0.0.1", on_write=Writes(), headers={}, cap=100)

    assert (response.outcome, told) == (Outcome.OK, [host]), response.detail


async def test_ablation_unverified_every_bad_certificate_would_be_taken(
    settings: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(_: Fetch) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    monkeypatch.setattr("crawl_platform.fetch.tls.context", careless)
    async with (
        trusting(settings) as client,
        serving(answers(reply(body=b"x")), BAD["wrong_host"]()) as server,
    ):
        response = await get(client, server.url(scheme="https"))

    assert response.outcome is Outcome.OK
