"""The name server: what resolves, what doesn't, over UDP and TCP."""

import socket

import pytest
from dnslib import QTYPE, RCODE, DNSRecord

from crawl_platform.simulation.dns import Zone
from crawl_platform.simulation.running import RunningWeb
from crawl_platform.simulation.web import SyntheticWeb

WEB = SyntheticWeb(11, 1_800_000_000.0, scale=0.2)


def _ask(zone: Zone, name: str, kind: str = "A") -> DNSRecord:
    answer = zone.answer(DNSRecord.question(name, kind).pack())
    assert answer
    return DNSRecord.parse(answer)


def test_hosts_of_the_web_resolve_to_their_addresses_with_the_ttl_asked_for() -> None:
    reply = _ask(Zone(WEB.hosts, ttl=17), "Manual-1.test")

    assert [str(r.rdata) for r in reply.rr] == [WEB.hosts["manual-1.test"].address]
    assert reply.rr[0].ttl == 17


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nowhere.test", RCODE.NXDOMAIN),
        ("unresolvable-1.test", RCODE.NXDOMAIN),
        ("servfail-1.test", RCODE.SERVFAIL),
        ("dead-1.test", RCODE.NOERROR),
    ],
)
def test_names_that_lead_nowhere(name: str, code: int) -> None:
    assert _ask(Zone(WEB.hosts), name).header.rcode == code


def test_other_record_types_are_empty_but_not_missing() -> None:
    reply = _ask(Zone(WEB.hosts), "manual-1.test", "AAAA")

    assert reply.header.rcode == RCODE.NOERROR
    assert reply.rr == []


def test_overrides_go_first() -> None:
    zone = Zone(WEB.hosts, overrides={"manual-1.test": ["10.0.0.1", "127.0.0.2"], "new.test": ["127.0.0.3"]})

    assert {str(r.rdata) for r in _ask(zone, "manual-1.test").rr} == {"10.0.0.1", "127.0.0.2"}
    assert [str(r.rdata) for r in _ask(zone, "new.test").rr] == ["127.0.0.3"]


def test_a_mute_name_gets_no_answer_at_all() -> None:
    question = DNSRecord.question("mute-1.test").pack()

    assert Zone(WEB.hosts).answer(question) is None
    assert Zone(WEB.hosts, overrides={"mute-1.test": ["127.0.0.9"]}).answer(question)


@pytest.mark.parametrize("junk", [b"", b"\x00", b"x" * 40])
def test_junk_gets_no_answer(junk: bytes) -> None:
    assert Zone(WEB.hosts).answer(junk) is None


def test_it_answers_over_udp_and_tcp(running: RunningWeb) -> None:
    host, _, port = running.ready.nameserver.partition(":")
    question = DNSRecord.question("manual-1.test")
    address = running.ready.web().hosts["manual-1.test"].address

    for tcp in (False, True):
        answer = DNSRecord.parse(question.send(host, int(port), tcp=tcp, timeout=2))
        assert answer.header.id == question.header.id
        assert [(QTYPE[r.rtype], str(r.rdata)) for r in answer.rr] == [("A", address)]


def test_a_query_may_come_in_pieces_over_tcp(running: RunningWeb) -> None:
    host, _, port = running.ready.nameserver.partition(":")
    query = DNSRecord.question("nowhere.test").pack()
    with socket.create_connection((host, int(port)), timeout=2) as client:
        framed = len(query).to_bytes(2, "big") + query
        for i in range(0, len(framed), 5):
            client.sendall(framed[i : i + 5])
        size = int.from_bytes(client.recv(2), "big")

        assert DNSRecord.parse(client.recv(size)).header.rcode == RCODE.NXDOMAIN
