"""Connections at rest: the budget goes to the hosts that are asked again first."""

import asyncio
import sys
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.clock import SystemClock
from crawl_platform.fetch.client import HttpClient
from crawl_platform.fetch.metered import Metered
from crawl_platform.fetch.warm import BYTES_EACH, Origin, Warm
from tests.fetch.asking import SETTINGS, get
from tests.fetch.servers import Reader, Writer, answers, reply, serving

PLAIN: Origin = (False, 80)
KEEPALIVE = 75.0


@dataclass(eq=False)
class Line:
    """A connection that remembers its end."""

    origin: Origin = field(default=PLAIN)
    closed: bool = False

    def close(self) -> None:
        self.closed = True


def warm(most: int) -> Warm[Line]:
    return Warm(most * BYTES_EACH, KEEPALIVE)


def rest(kept: Warm[Line], hosts: dict[str, float | None], now: float = 0.0) -> dict[str, Line]:
    """A connection to each host, with when it is asked again."""
    lines = {host: Line() for host in hosts}
    for host, at in hosts.items():
        kept.put(host, lines[host], now)
        kept.expect(host, at, now)
    return lines


def test_a_connection_is_taken_up_by_its_host_alone() -> None:
    kept = warm(10)
    lines = rest(kept, {"a.test": 1.0, "b.test": 2.0})

    assert kept.take("c.test", PLAIN, lambda _: True) is None
    assert kept.take("a.test", (True, 443), lambda _: True) is None
    assert kept.take("a.test", PLAIN, lambda _: True) is lines["a.test"]
    assert kept.take("a.test", PLAIN, lambda _: True) is None


def test_one_that_leads_elsewhere_is_closed() -> None:
    kept = warm(10)
    lines = rest(kept, {"a.test": 1.0})

    assert kept.take("a.test", PLAIN, lambda _: False) is None
    assert lines["a.test"].closed
    assert len(kept) == 0


def test_beyond_the_budget_the_host_that_is_asked_last_loses_its_connection() -> None:
    kept = warm(3)

    lines = rest(kept, {"a.test": 30.0, "b.test": 70.0, "c.test": 10.0, "d.test": 20.0, "e.test": 60.0})

    assert [host for host, line in lines.items() if line.closed] == ["b.test", "e.test"]
    assert len(kept) == 3


def test_ablation_without_a_budget_all_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Warm, "_within_budget", lambda self, spare: None)
    kept = warm(3)

    lines = rest(kept, {f"{n}.test": 30.0 for n in range(9)})

    assert not any(line.closed for line in lines.values())


def test_hosts_asked_in_turn_keep_as_many_connections_as_the_budget_holds() -> None:
    """Closing whichever has rested longest would close each just before its turn."""
    kept, hosts, hits = warm(8), [f"{n}.test" for n in range(10)], 0
    for turn in range(100):
        host, now = hosts[turn % 10], float(turn)
        line = kept.take(host, PLAIN, lambda _: True)
        hits += line is not None
        kept.put(host, line or Line(), now)
        kept.expect(host, now + 10.0, now)

    assert hits >= 65


def test_nothing_is_kept_for_a_host_that_comes_after_the_end_of_its_connection() -> None:
    lines = rest(warm(10), {"soon.test": 74.0, "late.test": 76.0, "unknown.test": None})

    assert {host: line.closed for host, line in lines.items()} == {
        "soon.test": False,
        "late.test": True,
        "unknown.test": False,
    }


def test_a_connection_rests_no_longer_than_it_may() -> None:
    kept = warm(10)
    lines = rest(kept, {"a.test": 70.0}) | rest(kept, {"b.test": 70.0}, now=10.0)

    kept.sweep(KEEPALIVE)

    assert {host: line.closed for host, line in lines.items()} == {"a.test": True, "b.test": False}


@given(st.lists(st.tuples(st.sampled_from("ptelx"), st.integers(0, 5), st.floats(0, 100)), max_size=60))
def test_whatever_happens_the_budget_holds_and_what_is_closed_is_forgotten(
    steps: list[tuple[str, int, float]],
) -> None:
    kept, now, lines = warm(3), 0.0, [Line()]
    for what, number, seconds in steps:
        host = f"{number}.test"
        if what == "p":
            lines.append(Line())
            kept.put(host, lines[-1], now)
        elif what == "t":
            taken = kept.take(host, PLAIN, lambda _: True)
            assert taken is None or not taken.closed
        elif what == "e":
            kept.expect(host, now + seconds, now)
        elif what == "l":
            kept.lost(lines[-1])
        else:
            now += seconds
            kept.sweep(now)
        assert len(kept) <= 3 + (what == "p")
        if what == "p":
            kept.expect(host, now + seconds, now)
            assert len(kept) <= 3
        assert sum(map(len, kept._of_host.values())) == len(kept)


async def test_the_client_keeps_no_more_than_its_budget() -> None:
    client = HttpClient(msgspec.structs.replace(SETTINGS, warm_bytes=2 * BYTES_EACH), "tester", SystemClock())
    async with serving(answers(reply(body=b"x"))) as server:
        for _ in range(2):
            for n in range(4):
                url = f"http://h{n}.test:{server.port}/"
                await get(client, url)
                client.expect(f"h{n}.test", 4.0)
        await asyncio.sleep(0.02)
        kept, opened = len(client._connections), server.connections
    await client.close()

    assert kept == 2
    assert opened < 8, "those that were kept are used"


async def test_a_connection_that_its_server_has_closed_is_forgotten(client: HttpClient) -> None:
    async def answers_and_leaves(head: bytes, reader: Reader, writer: Writer) -> None:
        writer.write(reply(body=b"x"))
        await asyncio.sleep(0.02)
        writer.close()

    async with serving(answers_and_leaves) as server:
        await get(client, server.url())
        assert len(client._connections) == 1
        await asyncio.sleep(0.08)

    assert len(client._connections) == 0


async def references_to_an_answer(client: HttpClient) -> int:
    """From elsewhere than here, while its connection rests."""
    async with serving(answers(reply(body=b"x" * 5_000))) as server:
        response = await get(client, server.url())
    assert len(client._connections) == 1
    here = 2
    return sys.getrefcount(response) - here


async def test_a_connection_at_rest_keeps_nothing_of_its_last_answer(client: HttpClient) -> None:
    assert await references_to_an_answer(client) == 0


async def test_ablation_without_that_every_connection_holds_a_page(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Metered, "rest", lambda self: None)

    assert await references_to_an_answer(client) == 1
