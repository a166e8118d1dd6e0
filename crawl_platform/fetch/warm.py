"""Connections at rest: which one is taken up again, and which are closed.

A connection over TLS takes some 0.1 MB, and a new one costs its host and us a handshake. So as many are kept as a
budget of memory holds, and those go first whose hosts are asked again last. Sans-IO: times are those of the loop.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

BYTES_EACH = 100_000
"""Of a connection over TLS, with what a frontier keeps of its host: OpenSSL's state, a record of 16 KB, the socket."""


Origin = tuple[bool, int]
"""Whether TLS is spoken, and the port."""


class Closing(Protocol):
    origin: Origin

    def close(self) -> None: ...


C = TypeVar("C", bound=Closing)


@dataclass(slots=True, eq=False)
class _Resting(Generic[C]):
    """`due`: when its host is asked again, as far as that is known."""

    connection: C
    host: str
    since: float
    due: float


class Warm(Generic[C]):
    """`budget`: bytes of all connections that rest. `keepalive`: seconds that one rests at most."""

    def __init__(self, budget: int, keepalive: float) -> None:
        self._most = budget // BYTES_EACH
        self._keepalive = keepalive
        self._resting: dict[C, _Resting[C]] = {}
        """Those that rest longest come first."""
        self._of_host: dict[str, list[C]] = {}
        self._last_due: list[tuple[float, int, _Resting[C]]] = []
        """A heap, the latest `due` on top; entries that are out of date are passed over."""
        self._number = 0

    def __len__(self) -> int:
        return len(self._resting)

    def put(self, host: str, connection: C, now: float) -> None:
        """It rests from now on. `expect` is told next when its host's turn comes: until then it counts as near, and is
        one more than the budget holds."""
        self.sweep(now)
        rest = self._resting[connection] = _Resting(connection, host, now, now)
        self._of_host.setdefault(host, []).append(connection)
        self._rank(rest)
        self._within_budget(1)

    def take(self, host: str, origin: Origin, leads: Callable[[C], bool]) -> C | None:
        """A connection to `host` at `origin` that `leads` to the right address; those that do not are closed."""
        for connection in tuple(reversed(self._of_host.get(host, ()))):
            if connection.origin != origin:
                continue
            self._part_with(connection)
            if leads(connection):
                return connection
            connection.close()
        return None

    def expect(self, host: str, at: float | None, now: float) -> None:
        """`host` is asked again at `at`, as things stand; None: nobody knows. Nothing is kept for one that comes after
        its connection would have been closed anyway."""
        for connection in tuple(self._of_host.get(host, ())):
            if at is not None and at > now + self._keepalive:
                self._close(connection)
            else:
                rest = self._resting[connection]
                rest.due = now + self._keepalive if at is None else at
                self._rank(rest)
        self._within_budget(0)

    def sweep(self, now: float) -> None:
        """Close those that have rested for long enough."""
        while self._resting:
            connection, rest = next(iter(self._resting.items()))
            if rest.since + self._keepalive > now:
                return
            self._close(connection)

    def lost(self, connection: C) -> None:
        """It was closed at the other end."""
        if connection in self._resting:
            self._part_with(connection)

    def close(self) -> None:
        for connection in list(self._resting):
            self._close(connection)

    def _rank(self, rest: _Resting[C]) -> None:
        self._number += 1
        heapq.heappush(self._last_due, (-rest.due, self._number, rest))
        if len(self._last_due) > 4 * len(self._resting) + 64:
            self._last_due = [
                (-one.due, number, one) for number, one in enumerate(self._resting.values(), -len(self))
            ]
            heapq.heapify(self._last_due)

    def _within_budget(self, spare: int) -> None:
        while len(self._resting) > self._most + spare:
            due, _, rest = heapq.heappop(self._last_due)
            if self._resting.get(rest.connection) is rest and rest.due == -due:
                self._close(rest.connection)

    def _close(self, connection: C) -> None:
        self._part_with(connection)
        connection.close()

    def _part_with(self, connection: C) -> None:
        rest = self._resting.pop(connection)
        same = self._of_host[rest.host]
        same.remove(connection)
        if not same:
            del self._of_host[rest.host]
