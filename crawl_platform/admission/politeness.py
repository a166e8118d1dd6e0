"""The clocks of hosts and addresses: so many requests in flight, and a delay between requests.

A host has one in flight at a time, and so has an address; front ends, registrable domains with a cap and proxies have
clocks of the same kind (`admission.clocks` names them all): "address" below means each of them.

Times are CLOCK_BOOTTIME seconds. A delay runs from the *end* of a request to the start of the next, so a
server never sees two starts closer than the delay, whatever the network does to the first. Whoever takes a
host over (start, restart, handoff) counts it and its address as fetched at that moment: `taken_over`.

    free ──begin──▶ busy ──end──▶ waiting(until end + delay) ──time──▶ free

The clocks belong to hosts and addresses, whoever we say we are and whatever way a request takes: another identity
or a proxy is no second clock. A proxy has one of its own beside them.
"""

import heapq
import math
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from crawl_platform.admission.address_pace import AddressPaces
from crawl_platform.admission.clocks import Clocks
from crawl_platform.admission.pace import Pace, in_force
from crawl_platform.admission.rules import HostRules
from crawl_platform.errors import PlatformError
from crawl_platform.settings import Politeness

SWEPT = 50_000
"""Clocks of a kind in memory before those that have run out are dropped: a host that moves from address to address
must not fill it."""


PRECEDENCE = 1.0
"""Seconds for which a free slot is kept for the host whose turn it is; then anybody may take it."""


class ImpoliteError(PlatformError):
    """A request was about to start although its host or address is not free: a bug, stopped in time."""


@dataclass(slots=True)
class Gate:
    """A host's."""

    ready_at: float
    busy: bool = False


@dataclass(slots=True)
class AddressGate:
    """`free`: the boottimes from which its free slots may be used, a heap. `started`: those at which the others were
    taken, the oldest first."""

    free: list[float]
    started: list[float] = field(default_factory=list)
    not_before: float = 0.0
    """What the slot that was taken last had waited for."""
    waiting: dict[str, None] = field(default_factory=dict)
    """Hosts that wait for this address, first come first served."""
    called: dict[str, None] = field(default_factory=dict)
    """Hosts whose turn it is."""
    closed: bool = False
    """Another cell has it, as far as we know: nobody needs to look."""

    @property
    def ready_at(self) -> float:
        return self.free[0] if self.free and not self.closed else math.inf

    @property
    def is_promised(self) -> bool:
        """Whether each free slot has a host whose turn it is."""
        return bool(self.called) and len(self.called) >= len(self.free)

    def call_next(self) -> str | None:
        """The next in line, whose turn it is from now on."""
        host = next(iter(self.waiting), None)
        if host is not None:
            del self.waiting[host]
            self.called[host] = None
        return host


class Gates:
    def __init__(
        self,
        settings: Politeness,
        taken_over: float,
        rules: HostRules | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        """`taken_over`: boottime at which this process became responsible for its hosts. `rules`: settings that
        differ from host to host. `clocks`: what addresses let through; by default one request at a time."""
        self._settings = settings
        self._rules = rules
        self._taken_over = taken_over
        self.clocks = clocks if clocks is not None else Clocks(settings, rules)
        self.paces = AddressPaces(settings, floor=lambda name: self.clocks.limit(name).rest)
        self._hosts: dict[str, Gate] = {}
        self._addresses: dict[str, AddressGate] = {}
        self._sweep_at = self._sweep_hosts_at = SWEPT

    def _host(self, host: str) -> Gate:
        gate = self._hosts.get(host)
        if gate is None:
            gate = self._hosts[host] = Gate(self._taken_over + self.settings_of(host).host_delay)
        return gate

    def _address(self, address: str) -> AddressGate:
        gate = self._addresses.get(address)
        if gate is None:
            free = self._taken_over + self.paces.delay(address)
            gate = self._addresses[address] = AddressGate([free] * self.clocks.limit(address).slots)
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
            if gate.started or gate.waiting or max(gate.free) > now
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
        """Boottime from which a request may start there; infinite while all its slots are in use."""
        return self._address(address).ready_at

    def address_busy(self, address: str) -> bool:
        """Whether a request is in flight there."""
        return bool(self._address(address).started)

    def address_rest(self, address: str, now: float) -> float:
        """Seconds until all its free slots have rested."""
        return max(max(self._address(address).free, default=now) - now, 0.0)

    def host_clock(self, host: str) -> float:
        """Boottime at which the host's delay runs out, whether or not a request is in flight."""
        return self._host(host).ready_at

    def take_over_address(self, address: str, now: float) -> None:
        """Another process has used the address until now: it counts as fetched at this moment."""
        self.hold_address(address, now + self.paces.delay(address))

    def hold_address(self, address: str, until: float) -> None:
        """No request starts there before boottime `until`."""
        gate = self._address(address)
        gate.free = [max(free, until) for free in gate.free]  # a heap stays one
        gate.not_before = max(gate.not_before, until)

    # lines

    def wait_for_address(self, address: str, host: str) -> int:
        """Put `host` in the line for `address`; `end` hands out whose turn it is. Returns how many wait there."""
        gate = self._address(address)
        gate.called.pop(host, None)
        gate.waiting.setdefault(host)
        return len(gate.waiting)

    def line(self, address: str) -> int:
        """How many hosts wait for `address` or have been told that it is their turn."""
        gate = self._addresses.get(address)
        return 0 if gate is None else len(gate.waiting) + len(gate.called)

    def stands_in_line(self, address: str, host: str) -> bool:
        """Whether others come before `host` at this address."""
        gate = self._address(address)
        return host not in gate.called and (bool(gate.waiting) or gate.is_promised)

    def is_spoken_for(self, address: str, host: str, now: float) -> bool:
        """Whether others than `host` have been told that it is their turn, and have lately been able to take it."""
        gate = self._addresses.get(address)
        if gate is None or not gate.is_promised or host in gate.called:
            return False
        return now < gate.ready_at + PRECEDENCE

    def pass_on(self, address: str, host: str) -> str | None:
        """`host` lets its turn at `address` pass. Returns the next in line, if it was its turn."""
        gate = self._addresses.get(address)
        if gate is None or host not in gate.called:
            return None
        del gate.called[host]
        return gate.call_next()

    def close(self, address: str) -> None:
        """Another cell uses the address now: those who wait for it stay in line, in their order."""
        gate = self._address(address)
        gate.waiting = gate.called | gate.waiting
        gate.called = {}
        gate.closed = True

    def reopen(self, address: str) -> list[str]:
        """It is ours again, or nobody waits for it any more. Returns the hosts whose turn it is."""
        gate = self._address(address)
        gate.closed = False
        called = [gate.call_next() for _ in range(len(gate.free) - len(gate.called))]
        return [host for host in called if host is not None]

    # reservations

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

    def take_address(self, address: str, now: float, host: str = "") -> bool:
        """Reserve a slot of the address (for `host`); False if none is free now."""
        self.sweep(now)
        gate = self._address(address)
        if gate.ready_at > now:
            return False
        gate.not_before = heapq.heappop(gate.free)
        gate.started.append(now)
        gate.called.pop(host, None)
        gate.waiting.pop(host, None)
        return True

    def check_write(self, host: str, address: str, now: float) -> None:
        """The last look, in the same loop step as the write: both clocks are ours and have run out."""
        own, shared = self._host(host), self._address(address)
        if not own.busy or not shared.started or now < max(own.ready_at, shared.not_before):
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
        return self.rest_address(address, now, max(address_delay, self.paces.delay(address)))

    def rest_address(self, address: str, now: float, rest: float) -> str | None:
        """A request at `address` ended, and its slot rests for so long. Returns the next host in line."""
        gate = self._address(address)
        # Slots rest in the order in which they were taken, whoever of their requests ends first: the n-th request
        # from now on then starts a whole rest after the first of these at the earliest.
        begun = gate.started.pop(0)
        heapq.heappush(
            gate.free, max(now, begun + rest) if self.clocks.limit(address).from_start else now + rest
        )
        return gate.call_next()

    def release_address(self, address: str) -> str | None:
        """Give the address back without a request having been sent. Returns the next host in line."""
        gate = self._address(address)
        gate.started.pop(0)
        heapq.heappush(gate.free, gate.not_before)
        return gate.call_next()

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
