"""The clocks of hosts and addresses: one request in flight each, and a delay between requests.

Times are CLOCK_BOOTTIME seconds. A delay runs from the *end* of a request to the start of the next, so a
server never sees two starts closer than the delay, whatever the network does to the first. Whoever takes a
host over (start, restart, handoff) counts it and its address as fetched at that moment: `taken_over`.

    free ──begin──▶ busy ──end──▶ waiting(until end + delay) ──time──▶ free

The clocks belong to hosts and addresses, whoever we say we are and whatever way a request takes: another identity
or a proxy is no second clock. A proxy has one of its own beside them.
"""

from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from crawl_platform.admission.address_pace import AddressPaces
from crawl_platform.admission.pace import Pace, in_force
from crawl_platform.admission.rules import HostRules
from crawl_platform.errors import PlatformError
from crawl_platform.settings import Politeness

SWEPT = 50_000
"""Clocks of a kind in memory before those that have run out are dropped: a host that moves from address to address
must not fill it."""


class ImpoliteError(PlatformError):
    """A request was about to start although its host or address is not free: a bug, stopped in time."""


@dataclass(slots=True)
class Gate:
    ready_at: float
    busy: bool = False
    waiting: dict[str, None] = field(default_factory=dict)
    """Hosts that wait for this address, first come first served."""
    called: str = ""
    """The host whose turn it was when the address was given back."""


class Gates:
    def __init__(self, settings: Politeness, taken_over: float, rules: HostRules | None = None) -> None:
        """`taken_over`: boottime at which this process became responsible for its hosts. `rules`: settings that
        differ from host to host."""
        self._settings = settings
        self._rules = rules
        self._taken_over = taken_over
        self.paces = AddressPaces(settings)
        self._hosts: dict[str, Gate] = {}
        self._addresses: dict[str, Gate] = {}
        self._sweep_at = self._sweep_hosts_at = SWEPT

    def _host(self, host: str) -> Gate:
        gate = self._hosts.get(host)
        if gate is None:
            gate = self._hosts[host] = Gate(self._taken_over + self.settings_of(host).host_delay)
        return gate

    def _address(self, address: str) -> Gate:
        gate = self._addresses.get(address)
        if gate is None:
            gate = self._addresses[address] = Gate(self._taken_over + self.paces.delay(address))
        return gate

    def settings_of(self, host: str) -> Politeness:
        return self._settings if self._rules is None else self._rules.of(host).politeness

    def sweep(self, now: float) -> None:
        """Drop the clocks of addresses that have run out, once there are many: a new one is free as well."""
        if len(self._addresses) < self._sweep_at:
            return
        self._addresses = {
            address: gate
            for address, gate in self._addresses.items()
            if gate.busy or gate.waiting or gate.ready_at > now
        }
        self._sweep_at = max(SWEPT, 2 * len(self._addresses))

    def _sweep_hosts(self, now: float) -> None:
        """Likewise for hosts. A clock that is made anew runs from the take-over, which is never too early."""
        if len(self._hosts) < self._sweep_hosts_at:
            return
        self._hosts = {host: gate for host, gate in self._hosts.items() if gate.busy or gate.ready_at > now}
        self._sweep_hosts_at = max(SWEPT, 2 * len(self._hosts))

    def host_ready_at(self, host: str) -> float:
        """Boottime from which `host` may be fetched; infinite while a request is in flight."""
        gate = self._host(host)
        return float("inf") if gate.busy else gate.ready_at

    def address_ready_at(self, address: str) -> float:
        gate = self._address(address)
        return float("inf") if gate.busy else gate.ready_at

    def address_busy(self, address: str) -> bool:
        return self._address(address).busy

    def host_clock(self, host: str) -> float:
        """Boottime at which the host's delay runs out, whether or not a request is in flight."""
        return self._host(host).ready_at

    def take_over_address(self, address: str, now: float) -> None:
        """Another process has used the address until now: it counts as fetched at this moment."""
        gate = self._address(address)
        gate.ready_at = max(gate.ready_at, now + self.paces.delay(address))

    def wait_for_address(self, address: str, host: str) -> int:
        """Put `host` in the line for `address`; `end` hands out whose turn it is. Returns how many wait there."""
        waiting = self._address(address).waiting
        waiting.setdefault(host)
        return len(waiting)

    def stands_in_line(self, address: str, host: str) -> bool:
        """Whether others come before `host` at this address."""
        gate = self._address(address)
        return bool(gate.waiting) and gate.called != host

    def take_host(self, host: str, now: float) -> None:
        """Reserve the host for one request. Raises `ImpoliteError` if it is not free."""
        self._sweep_hosts(now)
        gate = self._host(host)
        if gate.busy or now < gate.ready_at:
            raise ImpoliteError(f"{host} is not free")
        gate.busy = True

    def host_reserved(self, host: str, now: float) -> bool:
        """Whether `host` was reserved, and nothing since has asked to leave it alone."""
        gate = self._host(host)
        return gate.busy and now >= gate.ready_at

    def take_address(self, address: str, now: float) -> bool:
        """Reserve the address; False if it is not free now."""
        self.sweep(now)
        gate = self._address(address)
        if gate.busy or now < gate.ready_at:
            return False
        gate.busy = True
        return True

    def check_write(self, host: str, address: str, now: float) -> None:
        """The last look, in the same loop step as the write: both clocks are ours and have run out."""
        for gate in (self._host(host), self._address(address)):
            if not gate.busy or now < gate.ready_at:
                raise ImpoliteError(f"request to {host} ({address}) would start too early")

    def release_host(self, host: str) -> None:
        """Give the host back without a request having been sent."""
        self._host(host).busy = False

    def floor(self, host: str, crawl_delay: float) -> float:
        """Seconds between two requests to a host that is well: its setting, or what its robots.txt asks for."""
        return max(crawl_delay, self.settings_of(host).host_delay)

    def delay(self, host: str, crawl_delay: float, pace: Pace) -> float:
        """Seconds from the end of a request to the start of the next, in force for `host`."""
        return in_force(pace, self.floor(host, crawl_delay), self.settings_of(host))

    def end(
        self, host: str, address: str | None, now: float, delay: float, address_delay: float = 0.0
    ) -> str | None:
        """A request ended (or died): start both delays. Returns the next host in the address's line.

        `delay` is the host's, as far as it is longer than the setting; so is `address_delay`.
        """
        gate = self._host(host)
        gate.busy, gate.ready_at = False, max(gate.ready_at, now + self.floor(host, delay))
        if address is None:
            return None
        return self.free_at(address, now + max(address_delay, self.paces.delay(address)))

    def release_address(self, address: str) -> str | None:
        """Give the address back without a request having been sent. Returns the next host in line."""
        return self.free_at(address, self._address(address).ready_at)

    def free_at(self, address: str, ready_at: float) -> str | None:
        """Give the address back until `ready_at` (boottime) at least. Returns the next host in line."""
        gate = self._address(address)
        gate.busy, gate.ready_at = False, max(gate.ready_at, ready_at)
        gate.called = next(iter(gate.waiting), "")
        gate.waiting.pop(gate.called, None)
        return gate.called or None

    def hold_host(self, host: str, until: float) -> None:
        """Back-off: not before boottime `until`."""
        gate = self._host(host)
        gate.ready_at = max(gate.ready_at, until)


def next_backoff(current: float, retry_after: float | None, settings: Politeness) -> tuple[float, float]:
    """After an overload or a broken connection: (new back-off, seconds to wait), doubling up to the cap.

    A Retry-After that asks for more is honoured up to its own cap.
    """
    backoff = min(settings.backoff_cap, max(settings.backoff_first, current * 2))
    asked = min(retry_after or 0.0, settings.retry_after_cap)
    return backoff, max(backoff, asked)


def retry_after(value: str, now: float) -> float | None:
    """Seconds to wait (RFC 9110 10.2.3: seconds or a date), None if absent or nonsense. `now` is UTC."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(parsedate_to_datetime(value).timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError, IndexError):  # what sites write there is theirs
        return None
