"""Requests signed with the crawl's own key, so that a site can tell us from those who only use our name.

Web Bot Auth (draft-ietf-webbotauth-httpsig-protocol): an HTTP message signature (RFC 9421) with Ed25519 over the
authority asked and over `Signature-Agent`, which names the origin that publishes our public keys as a JWK set at
`DIRECTORY_PATH`. The key's id is its JWK thumbprint (RFC 7638; RFC 8037 appendix A.3 for Ed25519).

A signature that covers the authority alone may serve its host for a while: it is made once per `Signing.reuse`
seconds. One that is meant for one request covers its method and path too, and what else has to be, and has a nonce.

The key directory is served with a proof that we hold the key it names: a signature over the authority that was asked
and the digest of the answer (same draft, appendix "origin binding"), which large verifiers want to see.
"""

import base64
import contextlib
import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
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

from crawl_platform.clock import DAY, Clock
from crawl_platform.errors import ConfigurationError
from crawl_platform.settings import Settings, Signing

DIRECTORY_PATH = "/.well-known/http-message-signatures-directory"
DIRECTORY_TYPE = "application/http-message-signatures-directory+json"
KEY_NAME = "web-bot-auth.pem"
LABEL = "sig1"
TAG = "web-bot-auth"
DIRECTORY_TAG = "http-message-signatures-directory"
PROOF_LIFE = DAY
"""Lists of keys are compiled from directories; a proof has to outlive the time between two of them."""
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
        public = {
            "kty": "OKP",
            "crv": "Ed25519",
            "kid": self.thumbprint,
            "x": base64url(self.public),
            "use": "sig",
        }
        return {"keys": [public]}


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
        """The three headers of a GET request for `url`. `also`: other headers of it that the signature has to cover
        (lower-case names); then it is good for this request only."""
        name = authority(url)
        if also or self._settings.reuse <= 0:
            return self._sign(
                name, {"@method": "GET", "@path": urlsplit(url).path or "/", **(also or {})}, once=True
            )
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
        components += [(f'"{component}"', value) for component, value in also.items()]
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


class Directory(NamedTuple):
    """The key directory as it is served."""

    body: bytes
    headers: dict[str, str]


def directory(key: SigningKey, settings: Signing, now: float) -> Directory:
    """Our public keys for whoever asks `settings.agent` for them at `now` (UTC seconds)."""
    body = json.dumps(key.jwks(), separators=(",", ":")).encode()
    digest = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
    components = [('"@authority";req', authority(settings.agent)), ('"content-digest"', digest)]
    parameters = f'("@authority";req "content-digest");created={int(now)};expires={int(now + PROOF_LIFE)}'
    parameters += f';keyid="{key.thumbprint}";tag="{DIRECTORY_TAG}"'
    signature = base64.b64encode(key.sign(signature_base(components, parameters))).decode()
    return Directory(
        body,
        {
            "Content-Type": DIRECTORY_TYPE,
            "Content-Digest": digest,
            "Signature-Input": f"{LABEL}={parameters}",
            "Signature": f"{LABEL}=:{signature}:",
        },
    )


def signer_for(settings: Settings, clock: Clock) -> Signer | None:
    """The crawl's signer; None if its requests are not signed. Raises `ConfigurationError` without a good key."""
    if not settings.signing.enabled:
        return None
    return Signer(ensure_key(key_path(settings)), settings.signing, clock)
