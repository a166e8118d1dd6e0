"""Whose an address is: hosts of one address may live in several cells, its clock in one at a time, in turns.

A record per address in the bucket `addresses` names the cell that alone may use it. Who needs it rings the holder and
says for how many hosts. A holder's turn is as many requests as its share of the hosts that wait, of `ROUND`; then, once
no request is in flight, it writes the next cell's name into the record, with the seconds that the clock still has
to run and with who waits besides, and rings that cell. So the address rests no longer than it has to.

    not ours ──ask, record is free──▶ held ──turn over, others wait──▶ not ours
        │                              ▲
        └──ask, rings the holder ······┘  (which gives it to us, and rings)

Every step is a compare-and-swap of the record, so two cells never hold an address, whatever gets lost or comes late.
A cell that was started again takes its records up again; the record of a dead one is taken when its heartbeat has
stood still for T_dead. Clocks that no other cell uses (`admission.clocks`: all of them in a fleet of one cell) need
none of this.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import xxhash

from crawl_platform.admission.pace import Pace
from crawl_platform.admission.politeness import Gates
from crawl_platform.clock import Clock
from crawl_platform.errors import ExchangeError, OwnershipLostError
from crawl_platform.fleet.exchange import Exchange

log = logging.getLogger(__name__)
ROUND = 8
"""Requests in a round of turns, about: shares of cells are as fine as that, and each has one at least."""
IDLE = 0.25
"""Seconds for which a holder may leave an address unused that others wait for."""
LOOK = 0.2
ASK_AGAIN = 1.0
"""Seconds until a holder is rung again: bells may be lost, and so may whoever heard them."""
KEPT = 50_000
"""Addresses held in memory, about; beyond, those that are at rest are forgotten, and taken up again when needed."""


class AddressHolder(msgspec.Struct, frozen=True):
    """`delay`: seconds in force at the address when it was last handed over; 0: its setting. `rest`: seconds from then
    until a request may start. `waiting`: cells that wait for it, the first one first, with how many hosts."""

    address: str
    cell: str
    delay: float = 0.0
    rest: float = 0.0
    waiting: dict[str, int] = {}


class Wanted(msgspec.Struct, frozen=True):
    """A bell: `cell` waits for `address` with so many hosts."""

    address: str
    cell: str
    hosts: int


@dataclass(slots=True)
class _Held:
    revision: int
    since: float
    waiting: dict[str, int] = field(default_factory=dict)
    served: int = 0


@dataclass
class AddressBook:
    """The addresses that this cell may use now. `call`: told hosts whose turn it is."""

    cell: str
    exchange: Exchange
    gates: Gates
    clock: Clock
    silence_limit: float
    call: Callable[[list[str]], None]
    _held: dict[str, _Held] = field(default_factory=dict)
    _missing: dict[str, float] = field(default_factory=dict)
    """Addresses that our hosts wait for, with when (boottime) they were last asked for."""
    _contested: dict[str, None] = field(default_factory=dict)
    """Addresses of ours that others wait for."""
    _due: dict[str, None] = field(default_factory=dict)
    """Those of them at which something has happened."""
    _given: list[str] = field(default_factory=list)
    _wanted: list[Wanted] = field(default_factory=list)
    """Bells about addresses that we don't hold: the record may name us all the same."""
    _beats: dict[str, tuple[int, float]] = field(default_factory=dict)
    _look: asyncio.Event = field(default_factory=asyncio.Event)
    _quiet_until: float = 0.0
    _looked_at: float = 0.0
    _swept_at: int = KEPT

    async def start(self) -> None:
        await self.exchange.on_ring(f"bell.address.{self.cell}", self._on_wanted)
        await self.exchange.on_ring(f"bell.given.{self.cell}", self._on_given)

    def holds(self, address: str) -> bool:
        """Whether a request to `address` may start now as far as other cells are concerned."""
        return address in self._held or not self.gates.clocks.limit(address).shared

    def ended(self, address: str) -> None:
        """A request to `address` has ended."""
        held = self._held.get(address)
        if held is not None:
            held.served += 1
            if held.waiting:
                self._due[address] = None
                self._look.set()

    # getting one

    async def ask(self, address: str) -> bool:
        """Try to get `address`. False if another cell has it: that was rung, and those who come to wait in the line of
        `address` are called when it is ours."""
        boot = self.clock.boottime()
        if boot < max(self._missing.get(address, -ASK_AGAIN) + ASK_AGAIN, self._quiet_until):
            self._miss(address, self._missing.get(address, boot))
            return False
        self._missing[address] = boot
        try:
            taken = await self._ask(address)
        except OwnershipLostError:
            taken = False
        except (ExchangeError, msgspec.DecodeError) as error:  # whose it is can't be read: it isn't ours
            log.warning("address %s waits: %s", address, error)
            self._quiet_until = self.clock.boottime() + ASK_AGAIN
            taken = False
        if not taken and address not in self._held:
            self._miss(address, boot)
        return address in self._held

    def _miss(self, address: str, asked: float) -> None:
        self._missing[address] = asked
        self.gates.close(address)

    async def _ask(self, address: str) -> bool:
        entry = await self.exchange.get("addresses", _key(address))
        if entry is None:
            return await self._take(AddressHolder(address, self.cell), 0)
        holder = msgspec.json.decode(entry[0], type=AddressHolder)
        self.gates.paces.recall(address, Pace(delay=holder.delay))
        if holder.cell == self.cell:
            self.gates.hold_address(address, self.clock.boottime() + holder.rest)
            return await self._take(holder, entry[1])
        if await self._is_dead(holder.cell):
            self.gates.take_over_address(address, self.clock.boottime())
            return await self._take(msgspec.structs.replace(holder, cell=self.cell), entry[1])
        wanted = Wanted(address, self.cell, max(self.gates.line(address), 1))
        await self.exchange.ring(f"bell.address.{holder.cell}", msgspec.json.encode(wanted))
        return False

    async def _take(self, record: AddressHolder, revision: int) -> bool:
        """Also of a record that names us already: whatever we wrote before and never heard of is void then."""
        taken = await self.exchange.swap(
            "addresses", _key(record.address), msgspec.json.encode(record), revision
        )
        waiting = {cell: hosts for cell, hosts in record.waiting.items() if cell != self.cell}
        self._held[record.address] = _Held(taken, self.clock.boottime(), waiting)
        if waiting:
            self._contested[record.address] = None
        self._missing.pop(record.address, None)
        self.call(self.gates.reopen(record.address))
        return True

    async def _is_dead(self, cell: str) -> bool:
        """Its heartbeat has stood still for T_dead by our own clock (clocks are never compared)."""
        entry = await self.exchange.get("cells", cell)
        revision = entry[1] if entry is not None else 0
        seen, since = self._beats.get(cell, (-1, 0.0))
        if revision != seen:
            self._beats[cell] = (revision, self.clock.boottime())
            return False
        return self.clock.boottime() - since > self.silence_limit

    # bells

    def _on_wanted(self, _subject: str, data: bytes) -> None:
        try:
            wanted = msgspec.json.decode(data, type=Wanted)
        except msgspec.DecodeError as error:
            log.warning("a bell about an address that can't be read: %s", error)
            return
        held = self._held.get(wanted.address)
        if held is None:
            self._wanted.append(wanted)
        else:
            self._waits(held, wanted)
        self._look.set()

    def _waits(self, held: _Held, wanted: Wanted) -> None:
        held.waiting[wanted.cell] = wanted.hosts
        self._contested[wanted.address] = self._due[wanted.address] = None

    def _on_given(self, _subject: str, data: bytes) -> None:
        self._given.append(data.decode(errors="replace"))
        self._look.set()

    # giving one away

    async def share_forever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), LOOK)
            self._look.clear()
            await self.look()

    async def look(self) -> None:
        """Take what was given to us, give away what is due, and ask again for what our hosts still wait for."""
        if not self.exchange.connected:  # what we hold stays ours, and others wait
            return
        given, self._given = self._given, []
        for address in given:
            if not self.holds(address):
                self._missing[address] = -ASK_AGAIN
                await self.ask(address)
        wanted, self._wanted = self._wanted, []
        for bell in wanted:
            await self._pass_on(bell)
        for address in self._to_look_at():
            held = self._held.get(address)
            if held is not None and self._turn_is_over(address, held):
                await self._give(address, held)
        for address in list(self._missing):
            await self._ask_again(address)
        self._sweep()

    def _to_look_at(self) -> list[str]:
        """Where a turn may be over: what has just ended something, and now and then every one."""
        due, self._due = self._due, {}
        boot = self.clock.boottime()
        if boot - self._looked_at >= LOOK:
            self._looked_at = boot
            due = self._contested
        return list(due)

    def _turn_is_over(self, address: str, held: _Held) -> bool:
        if self.gates.address_busy(address):
            return False
        unused_since = max(held.since, self.gates.address_ready_at(address))
        return held.served >= self._quota(address, held) or self.clock.boottime() > unused_since + IDLE

    def _quota(self, address: str, held: _Held) -> int:
        """Requests in a turn: our share of a round, by the hosts that wait here and elsewhere."""
        own = self.gates.line(address)
        return max(1, round(ROUND * own / max(own + sum(held.waiting.values()), 1)))

    async def _give(self, address: str, held: _Held) -> None:
        """To the cell that has waited longest. Were it free for all, we would take it back before others look."""
        del self._held[address]
        self._contested.pop(address, None)
        own = self.gates.line(address)
        if own:
            self._miss(address, self.clock.boottime())
        cell, *others = held.waiting
        waiting = {name: held.waiting[name] for name in others} | ({self.cell: own} if own else {})
        await self._write(address, cell, waiting, held.revision)

    async def _write(self, address: str, cell: str, waiting: dict[str, int], revision: int) -> None:
        delay = self.gates.paces.of(address).delay
        rest = self.gates.address_rest(address, self.clock.boottime())
        record = msgspec.json.encode(AddressHolder(address, cell, delay, rest, waiting))
        try:
            await self.exchange.swap("addresses", _key(address), record, revision)
            await self.exchange.ring(f"bell.given.{cell}", address.encode())
        except (OwnershipLostError, ExchangeError) as error:
            log.warning("address %s could not be handed over: %s", address, error)

    async def _pass_on(self, bell: Wanted) -> None:
        """Somebody believes that we hold an address. So it is if we did before we were started again, or forgot it."""
        if (held := self._held.get(bell.address)) is not None:
            self._waits(held, bell)
            return
        try:
            entry = await self.exchange.get("addresses", _key(bell.address))
            if entry is None:
                return
            holder = msgspec.json.decode(entry[0], type=AddressHolder)
        except (ExchangeError, msgspec.DecodeError) as error:
            log.warning("address %s can't be passed on: %s", bell.address, error)
            return
        if holder.cell == self.cell and bell.address not in self._held and bell.address not in self._missing:
            self.gates.hold_address(bell.address, self.clock.boottime() + holder.rest)
            await self._write(bell.address, bell.cell, {}, entry[1])

    async def _ask_again(self, address: str) -> None:
        if not self.gates.line(address):
            self._missing.pop(address, None)
            self.gates.reopen(address)
        elif self.clock.boottime() - self._missing.get(address, 0.0) >= ASK_AGAIN:
            await self.ask(address)

    def _sweep(self) -> None:
        if len(self._held) < self._swept_at:
            return
        boot = self.clock.boottime()
        for address, held in list(self._held.items()):
            at_rest = not self.gates.address_busy(address) and self.gates.address_ready_at(address) < boot
            if at_rest and not held.waiting and not self.gates.line(address):
                del self._held[address]
        self._swept_at = max(KEPT, 2 * len(self._held))


def _key(address: str) -> str:
    return xxhash.xxh3_128_hexdigest(address.encode())
