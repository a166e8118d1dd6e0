"""A NATS that has lost its store is no NATS of a new crawl: whoever meets it refuses, over a real server."""

import asyncio
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from crawl_platform.errors import LostExchangeError
from crawl_platform.fleet import natsserver
from crawl_platform.fleet.exchange import Endpoint, Exchange
from crawl_platform.fleet.same_exchange import NAME, know_exchange, require_as_far, require_same
from tests.fleet.harness import eventually


class Server:
    """NATS with its store in a folder; the lake's is beside it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.lake = home / "lake"
        self.lake.mkdir()
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        log = self.home / "logs" / "nats.log"
        log.unlink(missing_ok=True)
        _, config = natsserver.prepare(self.home)
        self.process = natsserver.start(config, self.home / "nats.out")
        eventually(lambda: log.exists() and "Server is ready" in log.read_text(), 20.0, "NATS runs", 0.02)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)

    def lose(self) -> None:
        """Its store goes, as with its disk."""
        self.stop()
        shutil.rmtree(self.home / "nats")
        self.start()

    def restore(self, copy: Path) -> None:
        """Its store is put back as it was when the copy was made."""
        self.stop()
        shutil.rmtree(self.home / "nats")
        shutil.copytree(copy, self.home / "nats")
        self.start()

    def ask(self, question: Callable[[Exchange, Path], Awaitable[None]]) -> None:
        async def session() -> None:
            exchange = await Exchange.connect(Endpoint.read(self.home / "run" / "nats.json"), "test")
            try:
                await question(exchange, self.lake)
            finally:
                await exchange.close()

        asyncio.run(session())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.stop()


def test_the_nats_of_the_first_start_is_known_at_every_later_one(server: Server) -> None:
    server.ask(know_exchange)
    known = (server.lake / NAME).read_bytes()
    server.stop()
    server.start()

    server.ask(know_exchange)
    server.ask(require_same)

    assert (server.lake / NAME).read_bytes() == known


def test_a_nats_that_has_lost_its_store_is_refused_by_all_and_left_as_it_is(server: Server) -> None:
    server.ask(know_exchange)
    server.lose()

    for _ in range(2):
        for question in (know_exchange, require_same):
            with pytest.raises(LostExchangeError, match="NATS has lost what it kept"):
                server.ask(question)


def test_ablation_without_the_lakes_number_it_is_taken_for_the_nats_of_a_new_crawl(server: Server) -> None:
    server.ask(know_exchange)
    server.lose()
    (server.lake / NAME).unlink()

    server.ask(require_same)
    server.ask(know_exchange)


async def _send(exchange: Exchange, _: Path) -> None:
    for _number in range(3):
        await exchange.publish("inbox.0", b"{}")


def far(applied: int) -> Callable[[Exchange, Path], Awaitable[None]]:
    return lambda exchange, _: require_as_far(exchange, applied)


def test_a_nats_at_an_older_state_than_the_cell_is_refused(server: Server) -> None:
    server.ask(_send)
    server.stop()
    shutil.copytree(server.home / "nats", server.home / "copy")
    server.start()
    server.ask(_send)
    server.ask(far(6))

    server.restore(server.home / "copy")

    server.ask(far(3))
    with pytest.raises(LostExchangeError, match="number 3, and 6 was applied here"):
        server.ask(far(6))


def test_messages_that_were_purged_are_no_older_state(server: Server) -> None:
    server.ask(_send)
    server.ask(lambda exchange, _: exchange.purge_inbox(0, 3))

    server.ask(far(3))
