"""Whose an address is: hosts of one address may live in several cells, its clock in one at a time.

A record per address in the bucket `addresses` names the cell that alone may use it. Who needs it next rings
the holder, who hands it over once its request has ended and it has had a fair turn; the taker counts the
address as fetched at that moment. The record of a dead cell is taken when its heartbeat has stood still for
T_dead. A fleet of one cell needs none of this.
"""

import asyncio
import logging
from dataclasses import dataclass, field

import msgspec
import xxhash

from crawl_platform.admission.pace import Pace
from crawl_platform.admission.politeness import Gates
from crawl_platform.clock import Clock
from crawl_platform.errors import ExchangeError, OwnershipLostError
from crawl_platform.fleet.exchange import Exchange

log = logging.getLogger(__name__)
TURN = 2.0
"""Seconds that a holder keeps an address although another cell waits for it."""
LOOK = 0.2
ASK_AGAIN = 1.0


class AddressHolder(msgspec.Struct, frozen=True):
    """`delay`: seconds in force at the address when it was last handed over; 0: its setting."""

    address: str
    cell: str
    delay: float = 0.0


@dataclass(slots=True)
class _Held:
    revision: int
    since: float
    wanted_by: str = ""


@dataclass
class AddressBook:
    """The addresses that this cell may use now. `alone`: there is no other cell to share with."""

    cell: str
    alone: bool
    exchange: Exchange
    gates: Gates
    clock: Clock
    silence_limit: float
    _held: dict[str, _Held] = field(default_factory=dict)
    _asked: dict[str, float] = field(default_factory=dict)
    _beats: dict[str, tuple[int, float]] = field(default_factory=dict)

    async def start(self) -> None:
        if not self.alone:
            await self.exchange.on_ring(f"bell.address.{self.cell}", self._wanted)

    def holds(self, address: str) -> bool:
        """Whether a request to `address` may start now as far as other cells are concerned."""
        return self.alone or address in self._held

    async def ask(self, address: str) -> bool:
        """Try to get `address`; False if another cell has it (it was rung, come back in a while)."""
        boot = self.clock.boottime()
        if boot - self._asked.get(address, -ASK_AGAIN) < ASK_AGAIN:
            return False
        self._asked[address] = boot
        try:
            return await self._ask(address)
        except OwnershipLostError:
            return False
        except (ExchangeError, msgspec.DecodeError) as error:  # whose it is can't be read: it isn't ours
            log.warning("address %s waits: %s", address, error)
            return False

    async def _ask(self, address: str) -> bool:
        entry = await self.exchange.get("addresses", _key(address))
        if entry is None:
            await self._take(address, 0)
            return True
        holder = msgspec.json.decode(entry[0], type=AddressHolder)
        self.gates.paces.recall(address, Pace(delay=holder.delay))
        if holder.cell == self.cell or await self._is_dead(holder.cell):
            await self._take(address, entry[1])
            return True
        await self.exchange.ring(f"bell.address.{holder.cell}", f"{self.cell} {address}".encode())
        return False

    async def _take(self, address: str, revision: int) -> None:
        record = msgspec.json.encode(AddressHolder(address, self.cell))
        taken = await self.exchange.swap("addresses", _key(address), record, revision)
        self.gates.take_over_address(address, self.clock.boottime())
        self._held[address] = _Held(taken, self.clock.boottime())

    async def _is_dead(self, cell: str) -> bool:
        """Its heartbeat has stood still for T_dead by our own clock (clocks are never compared)."""
        entry = await self.exchange.get("cells", cell)
        revision = entry[1] if entry is not None else 0
        seen, since = self._beats.get(cell, (-1, 0.0))
        if revision != seen:
            self._beats[cell] = (revision, self.clock.boottime())
            return False
        return self.clock.boottime() - since > self.silence_limit

    def _wanted(self, _subject: str, data: bytes) -> None:
        cell, _, address = data.decode().partition(" ")
        held = self._held.get(address)
        if held is not None:
            held.wanted_by = cell

    async def hand_over_forever(self) -> None:
        """Give up what others wait for, each after its turn and never with a request in flight."""
        while True:
            await asyncio.sleep(LOOK)
            boot = self.clock.boottime()
            for address, held in list(self._held.items()):
                if held.wanted_by and boot - held.since >= TURN and not self.gates.address_busy(address):
                    del self._held[address]
                    await self._give(address, held)

    async def _give(self, address: str, held: _Held) -> None:
        """To whoever rang last: were it free for all, we would take it back before the other one looks."""
        delay = self.gates.paces.of(address).delay
        record = msgspec.json.encode(AddressHolder(address, held.wanted_by, delay))
        try:
            await self.exchange.swap("addresses", _key(address), record, held.revision)
        except (OwnershipLostError, ExchangeError) as error:
            log.warning("address %s could not be handed over: %s", address, error)


def _key(address: str) -> str:
    return xxhash.xxh3_128_hexdigest(address.encode())
