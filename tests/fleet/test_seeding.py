"""Seeding over a real server: lists of any length, lines that are no good, repeats, and exclusions that stand."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet import natsserver, seeding
from crawl_platform.fleet.client import FleetClient
from crawl_platform.fleet.exchange import Endpoint, Exchange
from crawl_platform.fleet.messages import Admit, decode_inbox
from crawl_platform.fleet.policies import read_patterns
from crawl_platform.fleet.seeding import Admitted, Listed, Refused, Seeding, crawlable, grouped
from tests.fleet.harness import eventually

SHARDS = 4


@pytest.fixture
def client(tmp_path: Path) -> Iterator[FleetClient]:
    _, config = natsserver.prepare(tmp_path)
    process = natsserver.start(config, tmp_path / "nats.out")
    try:
        log = tmp_path / "logs" / "nats.log"
        eventually(lambda: log.exists() and "Server is ready" in log.read_text(), 10.0, "NATS runs", 0.02)
        yield FleetClient(tmp_path / "run" / "nats.json", SHARDS)
    finally:
        process.terminate()
        process.wait(10)


def admissions(tmp_path: Path) -> list[Admit]:
    """Every admission that waits in the inboxes, in order."""

    async def read() -> list[Admit]:
        exchange = await Exchange.connect(Endpoint.read(tmp_path / "run" / "nats.json"), "test")
        try:
            reader = await exchange.inbox_reader(range(SHARDS), 0)
            messages = [decode_inbox(message.data) for message in await reader.present()]
            return [one for message in messages for one in message.each()]  # type: ignore[union-attr]
        finally:
            await exchange.close()

    return asyncio.run(read())


def depths(tmp_path: Path) -> list[tuple[str, int]]:
    return sorted((found.url, found.depth) for message in admissions(tmp_path) for found in message.urls)


def test_lines_that_are_no_good_are_told_and_the_others_added(client: FleetClient, tmp_path: Path) -> None:
    client.exclude("*.barred.test")
    lines = ["\ufeffone.test", "", "# a comment", "http://", "two.test/page  # and why", "1,three.test",
             "www.barred.test", "caf\ufffd.test", "ftp://four.test/", "one.test/more"]  # fmt: skip

    listed = client.seed_list(lines, reason="a list")

    assert (listed.lines, listed.hosts, listed.lines_refused) == (10, 2, 5)
    no_good = "not a host or URL that can be crawled"
    assert listed.refused == [
        Refused(4, "http://", no_good),
        Refused(6, "1,three.test", no_good),
        Refused(8, "caf\ufffd.test", no_good),
        Refused(9, "ftp://four.test/", no_good),
        Refused(7, "www.barred.test", "excluded as *.barred.test"),
    ]
    assert {name for name, policy in client.hosts().items() if policy.state == "seed"} == {
        "one.test",
        "two.test",
    }
    assert depths(tmp_path) == [
        ("https://one.test/", 0),
        ("https://one.test/more", 1),
        ("https://two.test/page", 0),
    ]


def test_a_list_is_sent_in_chunks_and_a_host_enters_where_it_is_named_first(
    client: FleetClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeding, "CHUNK", 3)
    heard: list[tuple[int, int]] = []

    def told(listed: Listed) -> None:
        heard.append((listed.lines, listed.hosts))

    client.seed_list((f"host{n % 4}.test/{n}" for n in range(8)), reason="a list", told=told)

    assert heard == [(3, 3), (6, 4), (8, 4)]
    assert depths(tmp_path) == sorted((f"https://host{n % 4}.test/{n}", int(n > 3)) for n in range(8))


def test_a_list_that_is_sent_again_changes_no_policy(client: FleetClient) -> None:
    client.seed_list(["one.test", "two.test"], reason="first")
    before = client.hosts()

    listed = client.seed_list(["two.test", "one.test"], reason="again")

    assert (listed.hosts, listed.new) == (2, 0)
    assert client.hosts() == before


def test_a_list_that_was_cut_off_goes_on_after_its_last_chunk(client: FleetClient, tmp_path: Path) -> None:
    listed = client.seed_list(["one.test", "http://", "two.test"], reason="a list", after=2)

    assert (listed.lines, listed.hosts, listed.lines_refused) == (3, 1, 0)
    assert [admitted.host for admitted in admissions(tmp_path)] == ["two.test"]


def test_a_promoted_host_becomes_trusted(client: FleetClient) -> None:
    client.promote("one.test", ["https://one.test/"], decision_id="d", reason="ranked")
    assert not client.hosts()["one.test"].trusted

    client.seed(["one.test"], reason="its operator's word")

    assert client.hosts()["one.test"].trusted


def test_an_excluded_host_among_others_adds_none_of_them(client: FleetClient) -> None:
    client.exclude("*.two.test")

    with pytest.raises(ConfigurationError, match=r"nothing was added: \*\.two\.test"):
        client.seed(["one.test", "a.two.test", "b.two.test"])

    assert set(client.hosts()) == {"*.two.test"}


@pytest.mark.parametrize("known", [False, True], ids=["a new host", "a host that was lifted before"])
def test_an_exclusion_that_comes_while_a_list_is_sent_stands(
    client: FleetClient, tmp_path: Path, known: bool
) -> None:
    if known:
        client.exclude("one.test")
        client.lift("one.test")

    async def send() -> None:
        exchange = await Exchange.connect(Endpoint.read(tmp_path / "run" / "nats.json"), "test")
        try:
            run = Seeding(exchange, SHARDS, await read_patterns(exchange), 0.0, "a list")
            await run.require_free(["one.test"])
            await asyncio.to_thread(client.exclude, "one.test")
            admitted = await run.admit(grouped(["https://one.test/", "https://two.test/"], ()))
            assert admitted == Admitted(1, {"one.test": "one.test"})
        finally:
            await exchange.close()

    asyncio.run(send())

    assert {name: policy.state for name, policy in client.hosts().items()} == {
        "one.test": "excluded", "two.test": "seed",
    }  # fmt: skip


def test_many_urls_of_one_host_go_in_several_messages(client: FleetClient, tmp_path: Path) -> None:
    client.seed([f"one.test/{n}" for n in range(seeding.URLS + 1)])

    sizes = [len(message.urls) for message in admissions(tmp_path)]
    assert sizes == [seeding.URLS, 1]


def test_what_a_host_or_url_stands_for() -> None:
    assert crawlable("one.test") == "https://one.test/"
    assert crawlable("one.test/page") == "https://one.test/page"
    assert crawlable("http://one.test") == "http://one.test/"
    assert crawlable("") is crawlable("not a host") is None


class Counting:
    """An exchange that takes its time: how many policies have been written."""

    def __init__(self) -> None:
        self.done = 0

    async def create_all(self, bucket: str, entries: Mapping[str, bytes]) -> list[str]:
        await asyncio.sleep(0.001)
        self.done += len(entries)
        return []

    async def values(self, *_: object) -> dict[str, bytes]:
        return {}

    async def publish(self, *_: object) -> int:
        return 1


async def test_no_more_of_a_list_is_read_than_was_sent() -> None:
    exchange, ahead = Counting(), list[int]()

    def lines() -> Iterator[str]:
        for number in range(3 * seeding.CHUNK):
            ahead.append(number + 1 - exchange.done)
            yield f"host{number}.test"

    run = Seeding(exchange, SHARDS, (), 0.0, "a list")  # type: ignore[arg-type]
    listed = await run.admit_list(lines(), lambda listed: None)

    assert (listed.hosts, listed.new, exchange.done) == (3 * seeding.CHUNK,) * 3
    assert max(ahead) == seeding.CHUNK


def test_a_word_about_one_host_is_found_among_patterns_and_words_about_others(client: FleetClient) -> None:
    client.seed(["one.test", "two.test", "three.test", "a.four.test"])
    client.exclude("two.test", reason="asked")
    client.exclude("https://three.test/private/")
    client.exclude("*.four.test")
    client.exclude("five.test")
    client.lift("five.test")

    def state(host: str, url: str = "") -> str | None:
        policy = client.policy(host, url)
        return None if policy is None else policy.state

    assert (state("one.test"), state("two.test"), state("a.four.test")) == ("seed", "excluded", "excluded")
    assert state("three.test", "https://three.test/") == "seed"
    assert state("three.test", "https://three.test/private/x") == "excluded"
    assert state("five.test") is state("nobody.test") is None
