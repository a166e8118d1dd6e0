"""The other side of a signed request: reads the headers by its own rules and believes only the published keys."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def octets(text: str) -> bytes:
    """Base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Site:
    """`directory`: a JWK set as it is published."""

    def __init__(self, directory: str) -> None:
        self.keys = {}
        for jwk in json.loads(directory)["keys"]:
            assert (jwk["kty"], jwk["crv"]) == ("OKP", "Ed25519")
            assert "d" not in jwk
            public = '{"crv":"Ed25519","kty":"OKP","x":"' + jwk["x"] + '"}'
            digest = base64.urlsafe_b64encode(hashlib.sha256(public.encode()).digest())
            assert jwk["kid"] == digest.decode().rstrip("=")
            self.keys[jwk["kid"]] = Ed25519PublicKey.from_public_bytes(octets(jwk["x"]))

    def check(self, fields: Mapping[str, str], now: float, path: str = "/") -> dict[str, str]:
        """The signature's parameters, and under "covered" what it covers; raises if the GET request of `path`
        (`fields` by lower-case name) is not as it was signed."""
        label, _, params = fields["signature-input"].partition("=")
        covered = re.findall(r'"([^"]+)"(?:;key="([^"]+)")?', params[1 : params.index(")")])
        found = dict(re.findall(r';([a-z]+)="?([^;"]+)"?', params[params.index(")") :]))
        said = []
        for name, key in covered:
            derived = {
                "@authority": fields["host"].lower(),
                "@method": "GET",
                "@path": path.partition("?")[0],
            }
            value = derived[name] if name in derived else fields[name]
            if key:
                value = dict(part.strip().split("=", 1) for part in value.split(","))[key]
            said.append(f'"{name}"{f";key={json.dumps(key)}" if key else ""}: {value}')
        said.append(f'"@signature-params": {params}')
        signature = dict(part.strip().split("=", 1) for part in fields["signature"].split(","))[label]
        self.keys[found["keyid"]].verify(base64.b64decode(signature.strip(":")), "\n".join(said).encode())
        assert ("@authority", "") in covered
        assert ("signature-agent", label) in covered
        assert found["tag"] == "web-bot-auth"
        assert int(found["created"]) <= now < int(found["expires"])
        return {**found, "covered": " ".join(name for name, _ in covered)}


def fields_of(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
