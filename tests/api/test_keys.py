"""The key directory: public, signed, and nothing but what may be known."""

import base64
import hashlib
import json
from pathlib import Path

from aiohttp.test_utils import TestClient, TestServer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from crawl_platform import settings as settings_module
from crawl_platform.api.limits import Limits
from crawl_platform.api.server import Api, Setup
from crawl_platform.api.tokens import Tokens
from crawl_platform.clock import SystemClock
from crawl_platform.fetch.signing import DIRECTORY_PATH, ensure_key, key_path
from crawl_platform.settings import Settings, Signing
from tests.api.serving import MadeUpFleet
from tests.fetch.verifying import Site, octets

AGENT = "https://crawler.example.org"


async def ask(settings: Settings, fleet: MadeUpFleet) -> tuple[int, dict[str, str], bytes]:
    setup = Setup(settings, Tokens({}), SystemClock(), open_metrics=True, limits=Limits())
    async with TestClient(TestServer(Api(setup, fleet.client).application())) as client:
        answer = await client.get(DIRECTORY_PATH)
        return answer.status, dict(answer.headers), await answer.read()


async def test_whoever_asks_gets_the_public_keys_and_a_proof_that_they_are_ours(
    home: Path, fleet: MadeUpFleet
) -> None:
    settings = Settings(str(home), signing=Signing(enabled=True, agent=AGENT))
    settings_module.save(settings)
    key = ensure_key(key_path(settings))

    status, headers, body = await ask(settings, fleet)

    assert status == 200
    assert headers["Content-Type"] == "application/http-message-signatures-directory+json"
    assert list(Site(body.decode()).keys) == [key.thumbprint]
    digest = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
    parameters = headers["Signature-Input"].removeprefix("sig1=")
    base = (
        '"@authority";req: crawler.example.org\n'
        f'"content-digest": {digest}\n'
        f'"@signature-params": {parameters}'
    )
    signature = base64.b64decode(headers["Signature"].removeprefix("sig1=:").removesuffix(":"))
    public = octets(json.loads(body)["keys"][0]["x"])
    Ed25519PublicKey.from_public_bytes(public).verify(signature, base.encode())
    assert 'tag="http-message-signatures-directory"' in parameters


async def test_a_crawl_that_does_not_sign_has_none_and_makes_none(home: Path, fleet: MadeUpFleet) -> None:
    unsigned = Settings(str(home))
    keyless = Settings(str(home), signing=Signing(enabled=True, agent=AGENT))

    assert (await ask(unsigned, fleet))[0] == 404
    assert (await ask(keyless, fleet))[0] == 404
    assert not key_path(unsigned).exists()
