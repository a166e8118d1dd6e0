"""Directives in force, as one cell sees them: host policies, schedule windows, group priors, pauses, purges.

The bucket is read whole before the first claim and watched from then on; the last word about a name wins.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from crawl_platform.admission.hosts import EXCLUDED, HORIZON, SEED
from crawl_platform.admission.stops import Word
from crawl_platform.clock import Clock
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet.epochs import Series
from crawl_platform.fleet.exchange import Exchange, StreamReader
from crawl_platform.fleet.inbox import Arrival, Excluded
from crawl_platform.fleet.messages import Admit, GroupPriors, HostPolicy, PurgeOrder, ScheduleWindow
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.windows import Window
from crawl_platform.web.host import matches

log = logging.getLogger(__name__)
RETRY = 1.0
GATHER = 0.25
"""Seconds in which a window's messages come together: each time one is opened, all hosts are looked at."""


class Directives:
    """`fast` takes the event row of a host that is excluded; `purge` is told of purges."""

    def __init__(
        self,
        exchange: Exchange,
        frontier: Frontier,
        fast: Series,
        clock: Clock,
        purge: Callable[[PurgeOrder], None] = lambda order: None,
    ) -> None:
        self._exchange = exchange
        self._frontier = frontier
        self._fast = fast
        self._clock = clock
        self._exclusions: dict[str, HostPolicy] = {}
        self._reader: StreamReader
        self._last_windows: dict[int, ScheduleWindow] = {}
        self._due_windows: dict[int, ScheduleWindow] = {}
        """By shard: told, and not in force yet."""
        self._gathering: asyncio.TimerHandle | None = None
        self._purge = purge

    async def read(self) -> None:
        """All directives in force now; nothing may be claimed before."""
        self._reader = await self.hear()

    async def hear(self) -> StreamReader:
        """The same, from a reader of its own: some were passed over, because a shard that has come was not ours."""
        reader = await self._exchange.bucket_reader("directives")
        for entry in await reader.present():
            self._obey(entry.key, entry.data)
        self._open_windows()
        return reader

    async def obey_forever(self, changed: Any) -> None:
        """Follow changes; `changed()` is called after each."""
        for host in list(self._frontier.hosts):
            self._note_exclusion(host)
        while True:
            try:
                received = await self._reader.fetch()
            except ExchangeError as error:
                log.warning("directives wait: %s", error)
                await asyncio.sleep(RETRY)
                await self._read_again()
                continue
            for entry in received:
                self._obey(entry.key, entry.data)
            if received:
                self._gather_windows()
                changed()

    async def _read_again(self) -> None:
        """After NATS was away: all directives anew, since some may have been missed."""
        try:
            await self.read()
        except ExchangeError as error:
            log.warning("directives wait: %s", error)

    def _obey(self, key: str, value: bytes) -> None:
        try:
            if key == "pause" or key.startswith("pause."):
                self._stop(msgspec.json.decode(value, type=Word))
            elif key.startswith("purge."):
                self._purge(msgspec.json.decode(value, type=PurgeOrder))
            elif key.startswith("host."):
                self._host(msgspec.json.decode(value, type=HostPolicy))
            elif (shard := self._our_shard(key)) is None:
                return
            elif key.startswith("window."):
                self._window(shard, msgspec.json.decode(value, type=ScheduleWindow))
            elif key.startswith("priors."):
                told = msgspec.json.decode(value, type=GroupPriors)
                self._frontier.revisits.priors.tell(shard, told.default, told.hosts, told.groups)
        except msgspec.DecodeError as error:
            log.error("directive %s can't be read and is ignored: %s", key, error)

    def _stop(self, word: Word) -> None:
        if self._frontier.book.stops.hear([word]):
            self._frontier.resume(self._clock.now(), self._clock.boottime())

    def _host(self, policy: HostPolicy) -> None:
        if policy.state == EXCLUDED:
            self._exclusions[policy.name] = policy
        else:
            self._exclusions.pop(policy.name, None)
        self._frontier.book.set(policy.name, policy.state)
        self._frontier.book.bound(policy.name, policy.most_pages)
        for host in self._ours(policy.name):
            if policy.state == EXCLUDED:
                self._note_exclusion(host)
            elif policy.state == HORIZON:
                self._note_end(host, policy)
            else:
                self._note_return(host, policy)

    def _ours(self, name: str) -> list[str]:
        """Our hosts that a host's name or a pattern means; hosts are many, so only a pattern looks at all."""
        if name.startswith("*."):
            return [host for host in self._frontier.hosts if matches(name, host)]
        return [name] if name in self._frontier.hosts else []

    def _note_return(self, host: str, policy: HostPolicy) -> None:
        """An exclusion may have been lifted: what is queued goes on, and the host is in the seed again."""
        state = self._frontier.hosts[host]
        self._frontier.reschedule(host, self._clock.now(), self._clock.boottime())
        if state.record.excluded and self._frontier.book.state(host) == SEED:
            back = Admit(
                host, (), policy.decision_id, policy.reason or "exclusion lifted", state.record.trusted
            )
            self._fast.open.arrivals.append(Arrival(state.shard, 0, back, self._clock.now()))
            self._fast.touch()

    def _note_exclusion(self, host: str) -> None:
        """The event row of an excluded host that is ours, once."""
        if self._frontier.book.state(host) != EXCLUDED:
            return
        if self._frontier.hosts[host].record.excluded:
            return
        found = (policy for policy in self._exclusions.values() if matches(policy.name, host))
        policy = next(found, None)
        if policy is not None:
            self._note_end(host, policy)

    def _note_end(self, host: str, policy: HostPolicy) -> None:
        """The event row of a host of ours that has left the seed, once."""
        state = self._frontier.hosts[host]
        if not state.record.excluded:
            self._fast.open.arrivals.append(
                Arrival(state.shard, 0, Excluded(policy, host), self._clock.now())
            )
            self._fast.touch()

    def _our_shard(self, key: str) -> int | None:
        """Which of our shards a directive is for; None if it is for none of them."""
        name = key.rpartition(".")[2]
        return int(name) if name.isdecimal() and int(name) in self._frontier.shards else None

    def _window(self, shard: int, window: ScheduleWindow) -> None:
        """Note a shard's window: it comes into force at its start, and until then the one before it goes on."""
        now = self._clock.now()
        self._last_windows[shard] = window
        if window.starts_at > now:
            asyncio.get_running_loop().call_later(window.starts_at - now, self._window_starts, shard, window)
        else:
            self._due_windows[shard] = window

    def _window_starts(self, shard: int, window: ScheduleWindow) -> None:
        if window is self._last_windows[shard]:  # else it was replaced before it began
            self._window(shard, window)
            self._gather_windows()

    def _gather_windows(self) -> None:
        """A window comes in a message per shard: those that are due are opened together, a moment later."""
        if self._due_windows and self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(GATHER, self._open_windows)

    def _open_windows(self) -> None:
        """Put the windows that are due in force, those of all shards at once: hosts are looked at once."""
        self._gathering = None
        now, opened = self._clock.now(), {}
        for shard, window in self._due_windows.items():
            current = self._frontier.windows.get(shard)
            news = current is None or current.window_id != window.window_id
            if news and window.ends_at > now:
                opened[shard] = Window(window.window_id, window.ends_at, window.allocations, window.groups)
        self._due_windows = {}
        if opened:
            self._frontier.open_windows(opened, now, self._clock.boottime())
            hosts = sum(len(window.allocations) for window in opened.values())
            log.info("a schedule window in force in %d shards for %d hosts", len(opened), hosts)
