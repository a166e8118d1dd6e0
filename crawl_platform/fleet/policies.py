"""What directives say of one host, looked up without reading what they say of all the others."""

from collections.abc import Iterable

import msgspec

from crawl_platform.admission.hosts import EXCLUDED
from crawl_platform.fleet.exchange import PATTERN, Exchange, directive_key
from crawl_platform.fleet.messages import HostPolicy
from crawl_platform.web.host import matches

LIFTED = "lifted"


async def read_patterns(exchange: Exchange) -> list[HostPolicy]:
    """Every `*.domain` and beginning of URLs that is excluded."""
    entries = await exchange.items("directives", f"{directive_key('host')}.{PATTERN}.*")
    policies = (msgspec.json.decode(value, type=HostPolicy) for value in entries.values())
    return [policy for policy in policies if policy.state == EXCLUDED]


async def host_policy(exchange: Exchange, host: str) -> tuple[HostPolicy, int] | None:
    """The last word about exactly this host (`lifted` included) and its revision."""
    entry = await exchange.get("directives", directive_key("host", host))
    return None if entry is None else (msgspec.json.decode(entry[0], type=HostPolicy), entry[1])


def excluding(patterns: Iterable[HostPolicy], host: str, url: str = "") -> HostPolicy | None:
    """The pattern that keeps `host`, or its canonical `url`, out."""
    for policy in patterns:
        if matches(policy.name, host) or ("://" in policy.name and url.startswith(policy.name)):
            return policy
    return None


async def policy_of(
    exchange: Exchange, patterns: Iterable[HostPolicy], host: str, url: str = ""
) -> HostPolicy | None:
    """The directive in force for `host`, or for its canonical `url`; an exclusion that covers it beats everything."""
    pattern = excluding(patterns, host, url)
    if pattern is not None:
        return pattern
    said = await host_policy(exchange, host)
    return said[0] if said is not None and said[0].state != LIFTED else None
