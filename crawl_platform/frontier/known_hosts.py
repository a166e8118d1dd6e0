"""The seed hosts of a cell: the state of those that are served, and what must not be forgotten of those at rest.

A crawl knows many more hosts than it serves at a time, and a `HostState` takes some 5 KB. So only `most` of them are
in memory, those that were served last; the others *rest*: their record is in the store, and here are some hundred
bytes that no record says (`Rest`). Whoever asks for a host that rests gets it as it was. One with a request in flight,
or with a URL whose result is not committed, stays. The clocks of politeness are no part of this: the gates keep them.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping
from itertools import islice

import msgspec

from crawl_platform.errors import StateError
from crawl_platform.frontier.hosts import HostState, Look
from crawl_platform.frontier.kv import Batch, OrderedKV
from crawl_platform.frontier.records import HostRecord, decode, encode, host_key
from crawl_platform.frontier.windows import Windows

TRIES = 4
"""Hosts that are looked at for one that may rest, beyond those that have to; the others are served just now."""


class Rest(msgspec.Struct, frozen=True, array_like=True):
    """A state as far as the host's record does not say it."""

    look: Look
    checks: dict[int, int]
    refresh_turns: int
    rest_until: float
    unproven: bool
    ran_errand: bool
    waits_for_window: bool
    queued: int
    delay: float
    """Seconds between two requests, of a host that is slowed; 0: it is not."""


class KnownHosts(MutableMapping[str, HostState]):
    """All hosts by name. `delay`: that in force for a host."""

    def __init__(
        self,
        kv: OrderedKV,
        shard: Callable[[str], int],
        windows: Windows,
        delay: Callable[[HostRecord, str], float],
        most: int,
    ) -> None:
        self._kv = kv
        self._shard = shard
        self._windows = windows
        self._delay = delay
        self._most = most
        self.awake: OrderedDict[str, HostState] = OrderedDict()
        """Those in memory, by when they were last served."""
        self._resting: dict[str, bytes] = {}
        self._queued = 0
        """URLs in the queues of those that rest."""
        self._slowed: dict[str, float] = {}
        """Delays of those that rest and are slowed."""

    # a mapping

    def __getitem__(self, host: str) -> HostState:
        state = self.awake.get(host)
        return state if state is not None else self._wake(host)

    def get(self, host: str, default: None = None) -> HostState | None:  # type: ignore[override]
        state = self.awake.get(host)
        if state is None and host in self._resting:
            return self._wake(host)
        return state

    def __setitem__(self, host: str, state: HostState) -> None:
        self._forget_rest(host)
        self.awake[host] = state

    def __delitem__(self, host: str) -> None:
        if self.awake.pop(host, None) is None and self._forget_rest(host) is None:
            raise KeyError(host)

    def __contains__(self, host: object) -> bool:
        return host in self.awake or host in self._resting

    def __iter__(self) -> Iterator[str]:
        return iter([*self.awake, *self._resting])

    def __len__(self) -> int:
        return len(self.awake) + len(self._resting)

    # rest

    def keep(self, state: HostState) -> None:
        """The host is served or looked at: those for which that was longest ago may rest instead."""
        awake = self.awake
        awake[state.host] = state
        awake.move_to_end(state.host)
        if len(awake) <= self._most:
            return
        for host in list(islice(awake, len(awake) - self._most + TRIES)):
            if len(awake) <= self._most or host == state.host:
                return
            if awake[host].is_busy:
                awake.move_to_end(host)
            else:
                self._put_to_rest(awake.pop(host))

    def _put_to_rest(self, state: HostState) -> None:
        record = state.record
        record.threshold = state.threshold
        self._windows.stamp(state, record)
        data = encode(record)
        if hash(data) != state.stored:  # what it has learnt since the last commit
            batch = Batch()
            batch.put(state.key, data)
            self._kv.write(batch)
        delay = self._delay(record, state.host) if record.pace.delay else 0.0
        rest = Rest(
            state.look, state.checks, state.refresh_turns, state.rest_until, state.unproven, state.ran_errand,
            bool(state.passed_over) or self._windows.is_used_up(state), record.queued, delay,
        )  # fmt: skip
        self._resting[state.host] = msgspec.msgpack.encode(rest)
        self._queued += rest.queued
        if delay:
            self._slowed[state.host] = delay

    def _wake(self, host: str) -> HostState:
        rest = self._forget_rest(host)
        if rest is None:
            raise KeyError(host)
        state = self.awake[host] = self._read(host, rest)
        return state

    def _forget_rest(self, host: str) -> Rest | None:
        data = self._resting.pop(host, None)
        if data is None:
            return None
        rest = msgspec.msgpack.decode(data, type=Rest)
        self._queued -= rest.queued
        self._slowed.pop(host, None)
        return rest

    def _read(self, host: str, rest: Rest) -> HostState:
        shard = self._shard(host)
        data = self._kv.get(host_key(shard, host))
        if data is None:
            raise StateError(f"the record of {host} is not in the store")
        record = decode(data, HostRecord)
        state = HostState(
            host, shard, record, threshold=record.threshold, look=rest.look, checks=rest.checks,
            refresh_turns=rest.refresh_turns, rest_until=rest.rest_until, unproven=rest.unproven,
            ran_errand=rest.ran_errand, stored=hash(data),
        )  # fmt: skip
        self._windows.recall(state)
        return state

    # those at rest, all at once

    def resting(self) -> Iterator[tuple[str, bool]]:
        """(host, whether it waits for the end of its window)."""
        for host, data in list(self._resting.items()):
            yield host, msgspec.msgpack.decode(data, type=Rest).waits_for_window

    @property
    def queued(self) -> int:
        """URLs in the queues of all hosts."""
        return self._queued + sum(state.record.queued for state in self.awake.values())

    def slowed(self) -> list[float]:
        """Delays (seconds) in force for the hosts that are slowed."""
        awake = self.awake.values()
        delays = [self._delay(state.record, state.host) for state in awake if state.record.pace.delay]
        return [*delays, *self._slowed.values()]
