"""Hosts: registrable domain, shard and patterns."""

import re
from functools import lru_cache

import xxhash
from publicsuffixlist import PublicSuffixList


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


@lru_cache(maxsize=65_536)
def registrable_domain(host: str) -> str:
    """The public suffix plus one label (publicsuffix.org, private section included).

    The host itself if it has none: an IP address, a single label, a public suffix.
    """
    if host.startswith("[") or host.replace(".", "").isdigit():
        return host
    return _suffixes().privatesuffix(host) or host


def shard_of(host: str, n_shards: int) -> int:
    """`xxh3_64(host) mod n_shards`: the unit of ownership."""
    return xxhash.xxh3_64_intdigest(host.encode()) % n_shards


_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}")


def is_hostname(name: str) -> bool:
    """Whether `name` is a host as URLs spell it: lower case, ASCII (punycode), at most 253 characters."""
    return 0 < len(name) <= 253 and all(_LABEL.fullmatch(label) for label in name.split("."))


def matches(pattern: str, host: str) -> bool:
    """Whether `pattern` names `host`: an exact host, or `*.domain` for the domain and all below it."""
    if pattern.startswith("*."):
        domain = pattern[2:]
        return host == domain or host.endswith("." + domain)
    return host == pattern
