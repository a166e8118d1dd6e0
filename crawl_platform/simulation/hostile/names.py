"""The name server's misbehaviours: what a hostile zone says about a host, question by question."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dnslib import AAAA, CNAME, QTYPE, RCODE, RR, A, DNSRecord
from dnslib.dns import DNSError

from crawl_platform.simulation.dns import Zone
from crawl_platform.simulation.hostile.visit import DECOYS


@dataclass(frozen=True, slots=True)
class Answer:
    """`ttl` in seconds. `mute`: no answer at all. `alias`: a CNAME instead of addresses. `about`: the
    name that the answer speaks of instead of the one that was asked for.
    """

    addresses: tuple[str, ...] = ()
    code: int = RCODE.NOERROR
    ttl: int = 60
    mute: bool = False
    alias: str = ""
    about: str = ""


Answering = Callable[[str, int], Answer]
"""(the host's own address, how often its addresses were asked for before) → what the zone says."""


def own_address(own: str, asked: int) -> Answer:
    return Answer((own,))


def rebinding(own: str, asked: int) -> Answer:
    """Public at first, so that a check of the first answer passes; then the private network."""
    return Answer((DECOYS[0] if asked else own,), ttl=0)


def private(own: str, asked: int) -> Answer:
    return Answer(("10.0.0.1",))


def inward(own: str, asked: int) -> Answer:
    return Answer((DECOYS[0],))


def metadata(own: str, asked: int) -> Answer:
    return Answer(("169.254.169.254",))


def mixed(own: str, asked: int) -> Answer:
    return Answer((own, DECOYS[1]))


def mapped(own: str, asked: int) -> Answer:
    """Only an IPv6 address, which carries a private one."""
    return Answer(("::ffff:7f51:1",))


def translated(own: str, asked: int) -> Answer:
    """NAT64 (RFC 6052) of a private address."""
    return Answer(("64:ff9b::7f51:1",))


def missing(own: str, asked: int) -> Answer:
    return Answer(code=RCODE.NXDOMAIN)


def failing(own: str, asked: int) -> Answer:
    return Answer(code=RCODE.SERVFAIL)


def refusing(own: str, asked: int) -> Answer:
    return Answer(code=RCODE.REFUSED)


def mute(own: str, asked: int) -> Answer:
    return Answer(mute=True)


def moving(own: str, asked: int) -> Answer:
    """Another of the host's addresses at each question."""
    return Answer((f"{own.rpartition('.')[0]}.{7 + asked % 4}",), ttl=0)


def looping(own: str, asked: int) -> Answer:
    return Answer(alias="itself")


def astray(own: str, asked: int) -> Answer:
    """What somebody sends who guesses the number of a question, for a name of his choice."""
    return Answer((DECOYS[0],), about="honest.hostile.test")


def crowded(own: str, asked: int) -> Answer:
    """More addresses than a datagram holds, and the last is private."""
    net = own.rpartition(".")[0]
    return Answer((*(f"{net}.{n}" for n in range(1, 250)), DECOYS[1]))


class HostileZone(Zone):
    """`table`: full host name → (its address, what is said about it). Other names don't exist."""

    def __init__(self, table: Mapping[str, tuple[str, Answering]]) -> None:
        super().__init__({})
        self._table = table
        self._asked: dict[str, int] = {}

    def answer(self, query: bytes) -> bytes | None:
        try:
            record = DNSRecord.parse(query)
        except DNSError:
            return None
        if record.header.qr or not record.questions:
            return None
        name = str(record.q.qname).rstrip(".").lower()
        said = self._say(name, record.q.qtype)
        if said.mute:
            return None
        return bytes(_packed(record, said))

    def _say(self, name: str, kind: int) -> Answer:
        if name not in self._table:
            return Answer(code=RCODE.NXDOMAIN)
        own, answering = self._table[name]
        asked = self._asked.get(name, 0)
        if kind == QTYPE.A:
            self._asked[name] = asked + 1
        return answering(own, asked)


def _packed(record: Any, said: Answer) -> Any:
    reply = record.reply()
    reply.header.rcode = said.code
    if said.about:
        reply.q.qname = said.about
    name, kind = reply.q.qname, record.q.qtype
    if said.alias:
        reply.add_answer(RR(name, QTYPE.CNAME, ttl=said.ttl, rdata=CNAME(name)))
    for address in said.addresses:
        six = ":" in address
        if kind == (QTYPE.AAAA if six else QTYPE.A):
            rdata = AAAA(address) if six else A(address)
            reply.add_answer(RR(name, kind, ttl=said.ttl, rdata=rdata))
    return reply.pack()
