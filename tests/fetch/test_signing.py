"""Signed requests: the vectors of the RFCs, and a server that checks for itself what it is sent."""

import asyncio
import base64
import json
import stat
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from crawl_platform.clock import ManualClock
from crawl_platform.errors import ConfigurationError
from crawl_platform.fetch.client import HttpClient
from crawl_platform.fetch.signing import (
    Signer,
    SigningKey,
    authority,
    base64url,
    directory,
    ensure_key,
    key_path,
    load_key,
    signature_base,
    signer_for,
    thumbprint,
)
from crawl_platform.settings import Fetch, Settings, Signing
from tests.fetch.asking import Writes
from tests.fetch.servers import answers, reply, serving
from tests.fetch.verifying import Site, fields_of, octets

AGENT = "https://crawler.example.org"
SIGNING = Signing(enabled=True, agent=AGENT)


RFC_9421_KEY = SigningKey(
    Ed25519PrivateKey.from_private_bytes(octets("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU"))
)
"""test-key-ed25519 of RFC 9421 appendix B.1.4."""


# vectors


def test_the_thumbprints_of_the_rfcs() -> None:
    rsa = {
        "kty": "RSA",
        "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJE"
        "CPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2Q"
        "vzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6"
        "WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
        "e": "AQAB",
    }  # RFC 7638 §3.1
    okp = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}  # RFC 8037 A.2

    assert thumbprint(rsa) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    assert thumbprint(okp) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_the_signature_of_rfc_8037() -> None:
    key = SigningKey(
        Ed25519PrivateKey.from_private_bytes(octets("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"))
    )
    assert base64url(key.public) == "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    assert base64url(key.sign(b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc")) == (
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
    )


def test_the_request_of_rfc_9421_b_2_6() -> None:
    components = [
        ('"date"', "Tue, 20 Apr 2021 02:07:55 GMT"),
        ('"@method"', "POST"),
        ('"@path"', "/foo"),
        ('"@authority"', "example.com"),
        ('"content-type"', "application/json"),
        ('"content-length"', "18"),
    ]
    covered = " ".join(identifier for identifier, _ in components)
    base = signature_base(components, f'({covered});created=1618884473;keyid="test-key-ed25519"')

    assert base.endswith(
        b'\n"@signature-params": ("date" "@method" "@path" "@authority" "content-type" "content-length")'
        b';created=1618884473;keyid="test-key-ed25519"'
    )
    assert base64.b64encode(RFC_9421_KEY.sign(base)).decode() == (
        "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="
    )


def test_the_vector_of_the_web_bot_auth_draft() -> None:
    components = [
        ('"@authority"', "example.com"),
        ('"signature-agent";key="agent2"', '"https://signature-agent.test"'),
    ]
    parameters = (
        '("@authority" "signature-agent";key="agent2");created=1735689600'
        ';keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"'
        ';alg="ed25519";expires=4889289600'
        ';nonce="n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA=="'
        ';tag="web-bot-auth"'
    )

    assert RFC_9421_KEY.thumbprint == "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
    assert base64.b64encode(RFC_9421_KEY.sign(signature_base(components, parameters))).decode() == (
        "RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg=="
    )


def test_the_signed_directory_of_the_draft() -> None:
    served = directory(RFC_9421_KEY, Signing(True, "https://signature-agent.test"), 1735689600)
    components = [
        ('"@authority";req', "signature-agent.test"),
        ('"content-digest"', "sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:"),
    ]
    parameters = (
        '("@authority";req "content-digest");created=1735689600;expires=4889289600'
        ';keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";tag="http-message-signatures-directory"'
    )

    assert served.headers["Content-Digest"] == components[1][1]
    assert served.headers["Signature-Input"] == f"sig1={parameters}".replace(
        "4889289600", str(1735689600 + 86_400)
    )
    assert base64.b64encode(RFC_9421_KEY.sign(signature_base(components, parameters))).decode() == (
        "l6P8R67tm3kujAxbHWio7ll01qrEZ0dKD/WWlGhNYEmTnFZM8Wt0VQ9zqGfvo7T/UMkBxsigzChM1Gpz7gOVBg=="
    )


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://Example.com/a?b", "example.com"),
        ("https://example.com:443/", "example.com"),
        ("http://example.com:443/", "example.com:443"),
        ("http://example.com:80/", "example.com"),
        ("http://example.com:8080/", "example.com:8080"),
        ("https://[2001:db8::1]/", "[2001:db8::1]"),
        ("https://me:secret@example.com/", "example.com"),
    ],
)
def test_the_authority_is_what_the_host_header_says(url: str, name: str) -> None:
    assert authority(url) == name


# a server that checks


def sent(signer: Signer, *paths: str, also: dict[str, str] | None = None) -> list[bytes]:
    """Heads of the requests that a server was sent for `paths`."""

    async def ask() -> list[bytes]:
        async with serving(answers(reply(body=b"hello"))) as server:
            client = HttpClient(
                Fetch(allow_networks=("127.0.0.0/8",)), "tester/1 (+me@example.org)", ManualClock()
            )
            for path in paths:
                url = server.url(path)
                headers = {**(also or {}), **signer.headers(url, also)}
                await client.get(url, "site.test", "127.0.0.1", on_write=Writes(), headers=headers, cap=100)
            await client.close()
            return server.heads

    return asyncio.run(ask())


def test_a_server_can_tell_us_from_others(tmp_path: Path) -> None:
    clock = ManualClock()
    key = ensure_key(tmp_path / "key.pem")
    site = Site(json.dumps(key.jwks()))

    heads = sent(Signer(key, SIGNING, clock), "/", "/other?page=2")

    for head in heads:
        assert site.check(fields_of(head), clock.now())["keyid"] == key.thumbprint
        assert b'Signature-Agent: sig1="https://crawler.example.org"' in head
    with pytest.raises(InvalidSignature):
        site.check(fields_of(heads[0].replace(b"Host: site.test", b"Host: evil.test")), clock.now())
    with pytest.raises(InvalidSignature):
        site.check(fields_of(heads[0].replace(b"crawler.example.org", b"crawler.example.net")), clock.now())
    impostor = Signer(SigningKey(Ed25519PrivateKey.generate()), SIGNING, clock)
    with pytest.raises(KeyError):
        site.check(fields_of(sent(impostor, "/")[0]), clock.now())


def test_a_price_is_covered_and_signed_once(tmp_path: Path) -> None:
    clock = ManualClock()
    key = ensure_key(tmp_path / "key.pem")
    site = Site(json.dumps(key.jwks()))
    signer = Signer(key, SIGNING, clock)

    heads = sent(signer, "/", "/", also={"crawler-exact-price": "USD 0.01"})

    nonces = {site.check(fields_of(head), clock.now())["nonce"] for head in heads}
    assert len(nonces) == 2
    with pytest.raises(InvalidSignature):
        site.check(fields_of(heads[0].replace(b"USD 0.01", b"USD 9.99")), clock.now())


# life of a signature and of a key


def test_a_signature_serves_its_host_for_a_while_and_never_beyond_its_validity() -> None:
    clock = ManualClock()
    signer = Signer(RFC_9421_KEY, Signing(True, AGENT, reuse=60.0, validity=300.0), clock)
    first = signer.headers("https://a.test/1")

    assert signer.headers("https://a.test/2") is first
    assert signer.headers("https://b.test/2") != first
    clock.advance(61)
    assert signer.headers("https://a.test/1") != first
    clock.step(-3_600)
    stepped = signer.headers("https://a.test/1")
    assert f"created={int(clock.now())}" in stepped["Signature-Input"], "not one from the future"


def test_without_reuse_a_signature_is_for_one_path_only(tmp_path: Path) -> None:
    clock = ManualClock()
    key = ensure_key(tmp_path / "key.pem")
    site = Site(json.dumps(key.jwks()))
    head = fields_of(sent(Signer(key, Signing(True, AGENT, reuse=0.0), clock), "/a?b=c")[0])

    covered = site.check(head, clock.now(), "/a?b=c")["covered"].split()
    assert covered == ["@authority", "signature-agent", "@method", "@path"]
    with pytest.raises(InvalidSignature):
        site.check(head, clock.now(), "/another")


def test_without_reuse_every_request_has_a_nonce_of_its_own() -> None:
    signer = Signer(RFC_9421_KEY, Signing(True, AGENT, reuse=0.0), ManualClock())

    first, second = (signer.headers("https://a.test/")["Signature-Input"] for _ in range(2))
    assert "nonce=" in first
    assert first != second


def test_memory_of_signatures_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_platform.fetch.signing.CACHED", 5)
    signer = Signer(RFC_9421_KEY, SIGNING, ManualClock())
    for number in range(20):
        signer.headers(f"https://h{number}.test/")
    assert len(signer._made) == 5


def test_a_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    settings = Settings(home=str(tmp_path), signing=SIGNING)

    made = ensure_key(key_path(settings))

    assert stat.S_IMODE(key_path(settings).stat().st_mode) == 0o600
    assert ensure_key(key_path(settings)).thumbprint == made.thumbprint
    assert [path.name for path in key_path(settings).parent.iterdir()] == ["web-bot-auth.pem"]


MAKER = """
import sys
from pathlib import Path
from crawl_platform.fetch.signing import ensure_key
print("ready", flush=True)
sys.stdin.readline()
print(ensure_key(Path(sys.argv[1])).thumbprint)
"""
"""A process of its own, not a fork: that of a process with threads hangs now and then."""


def test_of_many_that_make_the_key_at_once_all_use_the_same(tmp_path: Path) -> None:
    path = tmp_path / "run" / "key.pem"
    makers = [
        subprocess.Popen([sys.executable, "-c", MAKER, path], stdin=PIPE, stdout=PIPE, text=True)
        for _ in range(4)
    ]
    assert [maker.stdout.readline() for maker in makers if maker.stdout] == ["ready\n"] * 4
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write("go\n")
        maker.stdin.flush()

    assert len({maker.communicate(timeout=30)[0] for maker in makers}) == 1
    assert [maker.returncode for maker in makers] == [0] * 4


def test_what_is_no_key_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    with pytest.raises(ConfigurationError, match="crawl identity"):
        load_key(path)
    path.write_text("-----BEGIN NONSENSE-----")
    with pytest.raises(ConfigurationError, match="no private key"):
        load_key(path)
    path.write_bytes(
        X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    with pytest.raises(ConfigurationError, match="Ed25519"):
        load_key(path)


def test_signing_is_off_until_it_is_set_and_needs_a_place_for_the_keys(tmp_path: Path) -> None:
    assert signer_for(Settings(home=str(tmp_path)), ManualClock()) is None
    assert not (tmp_path / "run").exists()
    Settings(home="/nowhere", signing=SIGNING).validate()
    wrong = ("http://a.test", "https://a.test/keys", 'https://a.test"', "https://a.test\nX: y")
    for agent in ("", "https://", "a.test", *wrong):
        with pytest.raises(ConfigurationError, match=r"signing\.agent"):
            Settings(home="/nowhere", signing=Signing(True, agent)).validate()
    for signing in (Signing(True, AGENT, validity=100.0), Signing(True, AGENT, validity=1e6)):
        with pytest.raises(ConfigurationError, match=r"signing\.validity"):
            Settings(home="/nowhere", signing=signing).validate()


def test_a_reused_signature_costs_next_to_nothing() -> None:
    signer = Signer(RFC_9421_KEY, SIGNING, ManualClock())
    anew = Signer(RFC_9421_KEY, Signing(True, AGENT, reuse=0.0), ManualClock())

    def cost(of: Signer) -> float:
        begun = time.process_time()
        for _ in range(300):
            of.headers("https://a.test/page")
        return (time.process_time() - begun) / 300

    reused, made = min(cost(signer) for _ in range(3)), min(cost(anew) for _ in range(3))
    assert reused < made / 3, f"{reused * 1e6:.1f} µs reused, {made * 1e6:.1f} µs made"
