"""What no setting may be, whoever wrote it: not a number, endless, negative, or nothing where nothing is meaningless.

TOML has `nan` and `inf`. Every comparison with `nan` is false, so a check like `delay <= 0` lets it pass and a clock
like `max(ready, now + delay)` stands still: a delay of `nan` would be none at all.
"""

import difflib
import math
import re
import typing
from ipaddress import ip_address, ip_network

import msgspec

from crawl_platform.errors import ConfigurationError

ABOVE_ZERO: dict[str, frozenset[str]] = {
    "politeness": frozenset(
        {
            "crawl_delay_cap", "backoff_first", "backoff_cap", "robots_ttl", "robots_bytes", "robots_retry",
            "front_end_rate", "front_end_in_flight", "domain_in_flight",
        }
    ),
    "fetch": frozenset(
        {
            "slots", "body_cap", "connect_timeout", "tls_timeout", "first_byte_timeout", "head_timeout", "read_timeout",
            "total_timeout", "rate_window", "header_cap", "header_count", "dns_timeout",
        }
    ),
    "frontier": frozenset(
        {"max_url_length", "page_budget", "max_attempts", "retry_delay", "bloom_capacity", "max_urls_per_page"}
    ),
    "commit": frozenset(
        {
            "epoch_seconds", "epoch_bytes", "epoch_operations", "fast_seconds", "spool_bytes", "manifest_max_age",
            "snapshot_seconds", "stats_seconds",
        }
    ),
}  # fmt: skip
"""Section → settings with which a crawl at 0 would stand still, spin, or take nothing in."""
_unknown = re.compile(r"unknown field `(?P<name>.+?)`(?: - at `\$\.?(?P<section>\w*))?").search
_token = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
_host = re.compile(r"(?:\*\.)?[^\s/:@*\[\]]+|\[[0-9a-f:.]+\]", re.IGNORECASE).fullmatch


def explain(error: msgspec.ValidationError, settings: type[msgspec.Struct]) -> str:
    """What is wrong with the values given for `settings`; where a name is none, those that it could have been."""
    found = _unknown(str(error))
    if found is None:
        return str(error)
    name, section = found["name"], found["section"] or ""
    known = _names(settings, section)
    close = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known)}"
    return f"{section + '.' if section else ''}{name} is no setting; {hint}"


def _names(settings: type[msgspec.Struct], section: str) -> list[str]:
    """Names in a section, or of the settings themselves; those of the entries where the section is a list."""
    kind = typing.get_type_hints(settings)[section] if section else settings
    kind = next(iter(typing.get_args(kind)), kind)
    return [name for name in getattr(kind, "__struct_fields__", ()) if name != "home"]


def check_numbers(section: str, values: msgspec.Struct) -> None:
    """Raise `ConfigurationError` for a number in a section that no promise could be kept with."""
    positive = ABOVE_ZERO.get(section, frozenset())
    for name in values.__struct_fields__:
        value = getattr(values, name)
        if not isinstance(value, int | float):
            continue
        if not math.isfinite(value):
            raise ConfigurationError(f"{section}.{name} must be a finite number, not {value}")
        if value < 0 or (name in positive and value == 0):
            least = "above 0" if name in positive else "0 or more"
            raise ConfigurationError(f"{section}.{name} must be {least}, not {value}")


def check_agent(where: str, agent: str, contact: str) -> None:
    """Both go into a header: the agent as a product token (RFC 9110 §10.1.5), the contact as its comment."""
    if not _token(agent):
        raise ConfigurationError(f"{where}.agent must be one word of letters, digits and -_. (not {agent!r})")
    if not contact.isprintable():
        raise ConfigurationError(f"{where}.contact must be one line of text (not {contact!r})")


def check_networks(networks: tuple[str, ...]) -> None:
    for cidr in networks:
        try:
            ip_network(cidr)
        except ValueError as error:
            raise ConfigurationError(f"fetch.allow_networks: {error}") from error


def check_nameservers(servers: tuple[str, ...]) -> None:
    """ "ip" or "ip:port"; c-ares takes no names here, since they would have to be looked up."""
    for server in servers:
        address, colon, port = server.rpartition(":")
        try:
            ip_address(address if colon else server)
            if colon and not 0 < int(port) < 65_536:
                raise ValueError(f"port {port}")
        except ValueError as error:
            raise ConfigurationError(
                f"fetch.nameservers: {server!r} is no ip or ip:port ({error})"
            ) from error


def check_match(match: str) -> None:
    """A host or `*.domain` of a `[[hosts]]` entry."""
    if not _host(match):
        raise ConfigurationError(f"[[hosts]] match must be a host or *.domain, not {match!r}")


MOST_PATTERNS, MOST_STARS = 2_000, 200
"""A pattern with stars costs up to 1 µs for every URL, one without next to nothing."""


def check_patterns(where: str, patterns: tuple[str, ...]) -> None:
    """Beginnings of paths with `*` and `$`, of a scope."""
    for pattern in patterns:
        if (
            not pattern.startswith(("/", "*"))
            or not pattern.isprintable()
            or " " in pattern
            or "#" in pattern
        ):
            raise ConfigurationError(
                f"{where}: a pattern is the beginning of a path, like /docs/ or *.pdf$ or *?print=, not {pattern!r}"
            )
    stars = sum(pattern.count("*") for pattern in patterns)
    if len(patterns) > MOST_PATTERNS or stars > MOST_STARS:
        raise ConfigurationError(
            f"{where}: {len(patterns)} patterns with {stars} stars; at most {MOST_PATTERNS} and {MOST_STARS} can be "
            "looked at for every URL"
        )
