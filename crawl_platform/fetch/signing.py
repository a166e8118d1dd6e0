"""Requests signed with the crawl's own key, so that a site can tell us from those who only use our name.

Web Bot Auth (draft-ietf-webbotauth-httpsig-protocol): an HTTP message signature (RFC 9421) with Ed25519 over the
authority asked and over `Signature-Agent`, which names the origin that publishes our public keys as a JWK set at
`DIRECTORY_PATH`. The key's id is its JWK thumbprint (RFC 7638; RFC 8037 appendix A.3 for Ed25519).

A signature covers the authority and not the path, so the one of a host may serve for a while: it is made once per
`Signing.reuse` seconds. One that covers more, or is meant for one request only, has a nonce and is used once.
"""

import base64
import contextlib
import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from crawl_platform.clock import Clock
from crawl_platform.errors import ConfigurationError
from crawl_platform.settings import Settings, Signing

DIRECTORY_PATH = "/.well-known/http-message-signatures-directory"
DIRECTORY_TYPE = "application/http-message-signatures-directory+json"
KEY_NAME = "web-bot-auth.pem"
LABEL = "sig1"
TAG = "web-bot-auth"
CACHED = 10_000
"""Authorities whose signature is kept: some 600 bytes each."""
NONCE_BYTES = 64
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class SigningKey:
    """An Ed25519 key pair. The private half never leaves this object."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.thumbprint = thumbprint(self._parameters())

    def _parameters(self) -> dict[str, str]:
        return {"crv": "Ed25519", "kty": "OKP", "x": base64url(self.public)}

    def sign(self, data: bytes) -> bytes:
        """The 64 bytes of the signature of `data` (RFC 8032)."""
        return self._private.sign(data)

    def jwks(self) -> dict[str, Any]:
        """The key directory to publish: a JWK set (RFC 7517 §5) with the public key alone."""
        return {"keys": [{**self._parameters(), "kid": self.thumbprint, "use": "sig"}]}


def base64url(data: bytes) -> str:
    """Base64url without padding (RFC 7515 §2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def thumbprint(required: Mapping[str, str]) -> str:
    """JWK thumbprint (RFC 7638 §3): SHA-256 over the required members in lexical order, without spaces."""
    canonical = json.dumps(dict(sorted(required.items())), separators=(",", ":"))
    return base64url(hashlib.sha256(canonical.encode()).digest())


def key_path(settings: Settings) -> Path:
    """Where the private key is: as set, else in the home's `run` folder."""
    chosen = settings.signing.key_file
    return settings.root / (chosen or Path("run") / KEY_NAME)


def load_key(path: Path) -> SigningKey:
    """The key in the PEM file (PKCS #8) at `path`. Raises `ConfigurationError` if it is none or not there."""
    try:
        private = load_pem_private_key(path.read_bytes(), password=None)
    except FileNotFoundError as error:
        raise ConfigurationError(f"no signing key at {path}: `crawl identity` makes one") from error
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(f"{path} holds no private key that can be read: {error}") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise ConfigurationError(f"{path} holds a key of another kind than Ed25519")
    return SigningKey(private)


def ensure_key(path: Path) -> SigningKey:
    """The key at `path`; makes it, readable by its owner only, where there is none. Of several processes that try
    at once one makes it and all use it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # somebody was faster: theirs counts
            os.link(draft, path)
        draft.unlink()
    return load_key(path)


def signature_base(components: Sequence[tuple[str, str]], parameters: str) -> bytes:
    """What is signed (RFC 9421 §2.5). `components`: (identifier with its parameters, value), like
    ('"@authority"', 'a.test'); `parameters`: the value of `@signature-params`."""
    lines = [*components, ('"@signature-params"', parameters)]
    return "\n".join(f"{identifier}: {value}" for identifier, value in lines).encode()


def authority(url: str) -> str:
    """`@authority` of a request for `url` (RFC 9421 §2.2.3): lower case, without the scheme's own port."""
    parts = urlsplit(url)
    name = parts.netloc.rpartition("@")[2].lower()
    return name.removesuffix(_DEFAULT_PORTS.get(parts.scheme, ":"))


class Signer:
    """Headers that sign requests. `random(n)` gives n unpredictable bytes."""

    def __init__(
        self, key: SigningKey, settings: Signing, clock: Clock, random: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._key = key
        self._settings = settings
        self._clock = clock
        self._random = random
        self._agent = f'"{settings.agent}"'
        self._made: OrderedDict[str, tuple[float, dict[str, str]]] = OrderedDict()

    def headers(self, url: str, also: Mapping[str, str] | None = None) -> dict[str, str]:
        """The three headers of a request for `url`. `also`: other headers of it that the signature has to cover
        (lower-case names); then it is good for this request only."""
        name = authority(url)
        if also or self._settings.reuse <= 0:
            return self._sign(name, also or {}, once=True)
        found = self._made.get(name)
        now = self._clock.now()
        # A clock that stepped back would stretch a signature's life, so age counts in both directions.
        if found is not None and abs(now - found[0]) < self._settings.reuse:
            return found[1]
        made = self._sign(name, {}, once=False)
        self._made[name] = now, made
        self._made.move_to_end(name)
        if len(self._made) > CACHED:
            self._made.popitem(last=False)
        return made

    def _sign(self, name: str, also: Mapping[str, str], *, once: bool) -> dict[str, str]:
        components = [('"@authority"', name), (f'"signature-agent";key="{LABEL}"', self._agent)]
        components += [(f'"{header}"', value) for header, value in also.items()]
        parameters = self._parameters([identifier for identifier, _ in components], once)
        signature = base64.b64encode(self._key.sign(signature_base(components, parameters))).decode()
        return {
            "Signature-Agent": f"{LABEL}={self._agent}",
            "Signature-Input": f"{LABEL}={parameters}",
            "Signature": f"{LABEL}=:{signature}:",
        }

    def _parameters(self, covered: Sequence[str], once: bool) -> str:
        created = int(self._clock.now())
        expires = created + int(self._settings.validity)
        text = f'({" ".join(covered)});created={created};keyid="{self._key.thumbprint}";alg="ed25519"'
        text += f";expires={expires}"
        if once:
            text += f';nonce="{base64.b64encode(self._random(NONCE_BYTES)).decode()}"'
        return f'{text};tag="{TAG}"'


def signer_for(settings: Settings, clock: Clock) -> Signer | None:
    """The crawl's signer; None if its requests are not signed. Raises `ConfigurationError` without a good key."""
    if not settings.signing.enabled:
        return None
    return Signer(ensure_key(key_path(settings)), settings.signing, clock)
