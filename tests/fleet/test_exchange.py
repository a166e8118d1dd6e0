"""The exchange over a real server: what a bucket or an inbox holds is read whole."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from crawl_platform.errors import ExchangeError
from crawl_platform.fleet import natsserver
from crawl_platform.fleet.exchange import Endpoint, Exchange, MessageTooLargeError, Respond


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    home = tmp_path_factory.mktemp("nats")
    endpoint, config = natsserver.prepare(home)
    process = natsserver.start(config, home / "nats.out")
    try:
        yield endpoint
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
async def exchange(server: Endpoint) -> AsyncIterator[Exchange]:
    for _ in range(50):
        try:
            connected = await Exchange.connect(server, "test")
            break
        except ExchangeError:
            continue
    yield connected
    await connected.close()


async def test_a_bucket_is_listed_whole_every_time(exchange: Exchange) -> None:
    for number in range(300):
        await exchange.put("cells", f"k{number}", str(number).encode())
        await exchange.put("cells", f"k{number}", str(-number).encode())

    for _ in range(30):
        assert await exchange.items("cells") == {f"k{n}": str(-n).encode() for n in range(300)}


async def test_an_empty_bucket_is_empty_at_once(exchange: Exchange) -> None:
    assert await exchange.items("leases") == {}


async def test_changes_come_after_what_was_there(exchange: Exchange) -> None:
    await exchange.put("directives", "pause", b"0")
    reader = await exchange.bucket_reader("directives")

    assert [(entry.key, entry.data) for entry in await reader.present()] == [("pause", b"0")]
    await exchange.put("directives", "pause", b"1")
    assert [(entry.key, entry.data) for entry in await reader.fetch()] == [("pause", b"1")]


async def test_an_inbox_is_purged_up_to_what_was_applied(exchange: Exchange) -> None:
    sequences = [await exchange.publish("inbox.3", str(n).encode()) for n in range(4)]
    other = await exchange.publish("inbox.4", b"other")

    await exchange.purge_inbox(3, sequences[1])

    left = await (await exchange.inbox_reader([3, 4], 0)).present()
    assert [message.sequence for message in left] == [*sequences[2:], other]


def test_who_does_not_know_the_password_stays_outside(server: Endpoint) -> None:
    with pytest.raises(ExchangeError):
        asyncio.run(Exchange.connect(Endpoint(server.url, server.user, "wrong"), "stranger", wait=2.0))


def test_the_servers_config_is_private(tmp_path: Path) -> None:
    _, config = natsserver.prepare(tmp_path)

    assert config.stat().st_mode & 0o077 == 0
    assert (tmp_path / "run" / "nats.json").stat().st_mode & 0o077 == 0


async def test_a_question_is_answered_by_whoever_serves_it(exchange: Exchange) -> None:
    questions: asyncio.Queue[tuple[bytes, Respond]] = asyncio.Queue()
    await exchange.serve("test.double", lambda data, respond: questions.put_nowait((data, respond)))

    asking = asyncio.create_task(exchange.ask("test.double", b"ab", 60.0))
    question, respond = await questions.get()
    await respond(question * 2)

    assert await asking == b"abab"


async def test_a_question_that_nobody_serves_is_an_error_at_once(exchange: Exchange) -> None:
    with pytest.raises(ExchangeError, match=r"nobody answers on test\.nobody"):
        await exchange.ask("test.nobody", b"", 600.0)


async def test_a_question_waits_for_one_who_is_just_being_started(exchange: Exchange) -> None:
    asking = asyncio.create_task(exchange.ask("test.late", b"ab", 60.0, absent=60.0))
    await asyncio.sleep(0.5)
    assert not asking.done()

    questions: asyncio.Queue[tuple[bytes, Respond]] = asyncio.Queue()
    await exchange.serve("test.late", lambda data, respond: questions.put_nowait((data, respond)))
    question, respond = await questions.get()
    await respond(question)

    assert await asking == b"ab"


async def test_waiting_manifests_are_those_that_nobody_has_acked(exchange: Exchange) -> None:
    for n in range(4):
        await exchange.publish("manifest.test.bulk", b"%d" % n)
    queue = await exchange.manifest_queue()
    taken = await queue.fetch(batch=3)
    await taken[1].ack()
    await exchange.publish("inbox.1", b"not a manifest")

    async with asyncio.timeout(60.0):  # an ack takes a moment to arrive
        while b"1" in await exchange.waiting_manifests():  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    assert await exchange.waiting_manifests() == [b"0", b"2", b"3"]


async def test_what_is_too_large_for_the_server_is_told_apart_and_costs_no_connection(
    exchange: Exchange,
) -> None:
    most = exchange.connection.max_payload
    for size in (most + 1, most - 10):  # with its headers the second is too large as well
        with pytest.raises(MessageTooLargeError):
            await exchange.publish("inbox.5", b"x" * size, "incarnation-1")

    await exchange.publish("inbox.5", b"x" * (most - 200), "incarnation-2")

    reader = await exchange.inbox_reader([5], 0)
    assert [len(message.data) for message in await reader.fetch()] == [most - 200]


async def test_the_newest_manifest_of_a_subject_is_found_until_it_is_acked(exchange: Exchange) -> None:
    for n in range(2):
        await exchange.publish("manifest.newest.bulk", b"%d" % n)

    assert await exchange.last_manifest("manifest.newest.bulk") == b"1"
    assert await exchange.last_manifest("manifest.newest.fast") is None


class LostConnection:
    """As the client is when its socket went at the moment of closing."""

    def jetstream(self, timeout: float) -> None:
        return None

    async def close(self) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>")


async def test_closing_a_connection_that_is_lost_ends_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    await Exchange(LostConnection()).close()

    assert "was not there to be closed" in caplog.text
