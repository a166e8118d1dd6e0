"""Which addresses may be contacted: public ones, plus the networks that a setting allows by name."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from crawl_platform.errors import ConfigurationError

# Prefixes of IPv6 that carry an IPv4 address, and where it ends (bits from the right): translated (RFC 2765),
# NAT64 (RFC 6052, 8215), 6to4 (RFC 3056). Checked by what they carry, beside what they are. Teredo (RFC 4380) and
# the compatible form (RFC 4291 §2.5.5.1) are refused whole.
_CARRIERS = (
    (ip_network("::ffff:0:0:0/96"), 0),
    (ip_network("64:ff9b::/96"), 0),
    (ip_network("64:ff9b:1::/48"), 0),
    (ip_network("2002::/16"), 80),
)
_NEVER = (
    IPv6Network("::/96"),  # unspecified, loopback, compatible
    IPv6Network("2001::/32"),  # Teredo
    IPv6Network("fec0::/10"),  # site-local: deprecated (RFC 3879), "global" to `ipaddress`
    IPv6Network("5f00::/16"),  # segment routing (RFC 9602)
    IPv6Network("3fff::/20"),  # documentation (RFC 9637)
)
_ISATAP = (0x00005EFE, 0x02005EFE)
"""The third and fourth last 16 bits of an address that carries IPv4 in its interface part (RFC 5214 §6.1)."""


REMEMBERED = 10_000
"""Verdicts kept: each address is judged as an answer and at every connection, and takes 20 µs."""


class AddressGuard:
    """`allowed`: CIDRs that may be contacted although they are not public (the demo's 127.0.0.0/8)."""

    def __init__(self, allowed: tuple[str, ...] = ()) -> None:
        try:
            self._allowed: list[IPv4Network | IPv6Network] = [ip_network(cidr) for cidr in allowed]
        except ValueError as error:
            raise ConfigurationError(f"fetch.allow_networks: {error}") from error
        self._judged: dict[str, bool] = {}

    def permits(self, address: str) -> bool:
        """Whether a connection to `address` (text) may be opened. Raises `ValueError` for what is no address."""
        verdict = self._judged.get(address)
        if verdict is None:
            if len(self._judged) >= REMEMBERED:
                self._judged.clear()
            verdict = self._judged[address] = self._judge(address)
        return verdict

    def _judge(self, address: str) -> bool:
        ip = ip_address(address.partition("%")[0])
        if any(ip.version == net.version and ip in net for net in self._allowed):
            return True
        carried = self._carried(ip) if isinstance(ip, IPv6Address) else None
        if carried is not None and not self._public(carried):
            return False
        return self._public(ip)

    def permits_host(self, host: str) -> bool:
        """Whether a URL's host may be asked for as far as its spelling tells: a literal address, or a name that
        always means this machine (RFC 6761 §6.3). Other names are judged by their addresses."""
        try:
            return self.permits(host.strip("[]"))
        except ValueError:
            return not (host == "localhost" or host.endswith(".localhost")) or self.permits("127.0.0.1")

    def _public(self, ip: IPv4Address | IPv6Address) -> bool:
        if isinstance(ip, IPv6Address) and any(ip in network for network in _NEVER):
            return False
        return ip.is_global and not ip.is_multicast and not ip.is_reserved

    def _carried(self, ip: IPv6Address) -> IPv4Address | None:
        if ip.ipv4_mapped is not None:
            return ip.ipv4_mapped
        for network, shift in _CARRIERS:
            if ip in network:
                return IPv4Address((int(ip) >> shift) & 0xFFFFFFFF)
        if (int(ip) >> 32) & 0xFFFFFFFF in _ISATAP:
            return IPv4Address(int(ip) & 0xFFFFFFFF)
        return None
