"""The pace of addresses: what several hosts of one address say together slows it; what one of them says doesn't.

A server that is overloaded shows it at more than one of its hosts. One host that answers 429 has its own pace. An
address takes a step of `pace.TRANSITIONS` when `SEVERAL` different hosts have been unwell since each of them was
last well, and recovers like a host. It never pauses: one dead tenant in a thousand must not stop the others.
"""

from collections import OrderedDict
from collections.abc import Callable

from crawl_platform.admission.pace import STEADY, TRANSITIONS, Event, Pace, after, in_force
from crawl_platform.settings import Politeness

SEVERAL = 2
MOST = 20_000
"""Addresses that are slowed at a time, and as many with one unwell host; beyond, those of longest ago are forgotten."""


class AddressPaces:
    """Addresses that are not at their floor: in memory here, and on disk by whoever calls."""

    def __init__(
        self, settings: Politeness, most: int = MOST, floor: Callable[[str], float] | None = None
    ) -> None:
        """`floor`: seconds that an address which is well is left alone; None: the setting, for all."""
        self._settings = settings
        self._floor = floor if floor is not None else lambda _: settings.address_delay
        self._most = most
        self._slowed: OrderedDict[str, Pace] = OrderedDict()
        self._unwell: OrderedDict[str, frozenset[str]] = OrderedDict()
        """Hosts that were unwell since the address's last step, too few for the next one."""

    def __len__(self) -> int:
        return len(self._slowed) + len(self._unwell)

    @property
    def slowed(self) -> int:
        """Addresses that are slower than their setting now."""
        return len(self._slowed)

    def delay(self, address: str) -> float:
        """Seconds that a slot of `address` rests after a request, in force now."""
        return in_force(self.of(address), self._floor(address), self._settings)

    def of(self, address: str) -> Pace:
        return self._slowed.get(address, STEADY)

    def recall(self, address: str, pace: Pace) -> None:
        """Adopt what a store or another cell remembers, unless we know of a slower pace."""
        if pace.delay > self.of(address).delay:
            self._slowed[address] = pace
            _bound(self._slowed, self._most)

    def after(self, address: str, host: str, event: Event) -> list[str]:
        """A request to `host` at `address` ended. Returns the addresses whose delay in force has changed."""
        if TRANSITIONS[event].slower > 1.0:
            return self._speaks_against(address, host, event)
        if event is Event.HEALTHY:
            if address in self._unwell:
                self._speaks_for(address, host)
            if address in self._slowed:
                return self._step(address, event)
        return []

    def _speaks_against(self, address: str, host: str, event: Event) -> list[str]:
        hosts = self._unwell.pop(address, frozenset()) | {host}
        if len(hosts) >= SEVERAL:
            return self._step(address, event)
        self._unwell[address] = hosts
        _bound(self._unwell, self._most)
        return []

    def _speaks_for(self, address: str, host: str) -> None:
        hosts = self._unwell[address] - {host}
        if hosts:
            self._unwell[address] = hosts
        else:
            del self._unwell[address]

    def _step(self, address: str, event: Event) -> list[str]:
        before = self._slowed.pop(address, STEADY)
        pace = after(before, event, self._floor(address), self._settings)
        if pace.delay:
            self._slowed[address] = pace
        changed = [address] if pace.delay != before.delay else []
        return changed + _bound(self._slowed, self._most)


def _bound(known: OrderedDict[str, Pace] | OrderedDict[str, frozenset[str]], most: int) -> list[str]:
    """Forget what was there longest ago, beyond `most`; returns what was forgotten."""
    return [known.popitem(last=False)[0] for _ in range(len(known) - most)]
