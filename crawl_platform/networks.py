"""Networks: read from files of CIDRs, and asked about addresses."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

from crawl_platform.errors import ConfigurationError


def read_networks(file: Path) -> tuple[IPv4Network | IPv6Network, ...]:
    """Networks of a file, one CIDR a line; `#` begins a comment. Raises `ConfigurationError` for what is none."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} can't be read: {error}") from error
    found = []
    for number, line in enumerate(lines, 1):
        cidr = line.partition("#")[0].strip()
        if not cidr:
            continue
        try:
            found.append(ip_network(cidr))
        except ValueError as error:
            raise ConfigurationError(f"{file}, line {number}: {error}") from error
    return tuple(found)


class Networks:
    """A set of networks that is asked about single addresses."""

    def __init__(self, networks: Iterable[IPv4Network | IPv6Network] = ()) -> None:
        self._by_length: dict[tuple[int, int], set[int]] = {}
        for network in networks:
            shift = network.max_prefixlen - network.prefixlen
            self._by_length.setdefault((network.version, shift), set()).add(
                int(network.network_address) >> shift
            )

    def __contains__(self, address: object) -> bool:
        ip = address_of(str(address))
        return any(
            ip.version == version and int(ip) >> shift in prefixes
            for (version, shift), prefixes in self._by_length.items()
        )

    def __bool__(self) -> bool:
        return bool(self._by_length)


def address_of(address: str) -> IPv4Address | IPv6Address:
    """Without its zone; IPv4 mapped into IPv6 is IPv4. Raises `ValueError` for what is no address."""
    ip = ip_address(address.partition("%")[0])
    return ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip
