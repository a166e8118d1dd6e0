"""The web on the wire: right bytes, right faults, and a log that can be trusted."""

import asyncio
import gzip
import socket
import ssl
import time
from pathlib import Path

import brotli
import psutil
import pytest

from crawl_platform.errors import ConfigurationError, PlatformError
from crawl_platform.simulation.faults import Faults
from crawl_platform.simulation.host import Host
from crawl_platform.simulation.ports import listen
from crawl_platform.simulation.running import RunningWeb, launch
from crawl_platform.simulation.verdict import read_log
from crawl_platform.simulation.web import SyntheticWeb
from tests.simulation.wire import connect, get, head, logged, read_answer


@pytest.fixture(scope="module")
def web(running: RunningWeb) -> SyntheticWeb:
    return running.ready.web()


async def test_every_reachable_host_answers_at_its_own_address(
    running: RunningWeb, web: SyntheticWeb
) -> None:
    for host in web.hosts.values():
        if host.reachable and not host.fault:
            answer = await get(running.ready, host, host.root)
            assert answer.status == (301 if host.kind == "moved" else 200)


async def test_what_is_served_is_what_the_web_says(running: RunningWeb, web: SyntheticWeb) -> None:
    for host in web.hosts.values():
        if host.kind not in ("manual", "plain", "directory"):
            continue
        url = web.urls(host.name)[0]
        answer = await get(running.ready, host, url)
        page = web.page(url, time.time())
        assert page
        assert page.title in answer.body.decode(host.charset)
        assert page.text.split("\n")[0] in answer.body.decode(host.charset)


async def test_dead_hosts_refuse(running: RunningWeb, web: SyntheticWeb) -> None:
    with pytest.raises(ConnectionRefusedError):
        await get(running.ready, web.hosts["dead-1.test"], "/")


async def test_certificates_are_right_for_their_hosts_and_for_no_others(
    running: RunningWeb, web: SyntheticWeb
) -> None:
    one, other, *_ = (h for h in web.hosts.values() if h.scheme == "https" and h.reachable)
    assert (await get(running.ready, one, one.root)).status == 200
    context = ssl.create_default_context(cafile=running.ready.ca_file)

    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection(
            one.address, running.ready.https_port, ssl=context, server_hostname=other.name
        )
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection(
            one.address,
            running.ready.https_port,
            ssl=ssl.create_default_context(),
            server_hostname=one.name,
        )


async def test_the_other_scheme_redirects_to_the_right_one(running: RunningWeb, web: SyntheticWeb) -> None:
    host = next(h for h in web.hosts.values() if h.scheme == "https" and h.reachable)

    async with connect(running.ready, host, secure=False) as (reader, writer):
        writer.write(head(host.name, "/about"))
        answer = await read_answer(reader)

    assert (answer.status, answer.headers["location"]) == (301, host.url("/about"))


async def test_hosts_at_one_address_are_told_apart(running: RunningWeb, web: SyntheticWeb) -> None:
    one, two = (h for h in web.hosts.values() if h.kind == "tenant")
    assert one.address == two.address

    bodies = {(await get(running.ready, h, "/about")).body for h in (one, two)}

    assert len(bodies) == 2
    stranger = Host("nobody.test", "", "trusted", one.address, one.ports, 1, 1.0, "")
    assert (await get(running.ready, stranger, "/")).status == 421


async def test_validators_spare_the_body_until_the_page_changes(
    running: RunningWeb, web: SyntheticWeb
) -> None:
    host, url = web.hosts["manual-1.test"], web.hosts["manual-1.test"].url("/genindex.html")
    first = await get(running.ready, host, url)

    by_tag = await get(running.ready, host, url, If_None_Match=first.headers["etag"])
    by_date = await get(running.ready, host, url, If_Modified_Since=first.headers["last-modified"])
    stale = await get(running.ready, host, url, If_None_Match='"0"')

    assert (by_tag.status, by_date.status, stale.status) == (304, 304, 200)
    assert by_tag.body == b""


async def test_a_noisy_etag_never_spares_anything(running: RunningWeb, web: SyntheticWeb) -> None:
    host = web.hosts["bazaar-1.test"]
    first = await get(running.ready, host, host.root)

    again = await get(running.ready, host, host.root, If_None_Match=first.headers["etag"])

    assert again.status == 200


async def test_codings_are_used_only_where_asked_for(running: RunningWeb, web: SyntheticWeb) -> None:
    manual, forum = web.hosts["manual-1.test"], web.hosts["forum-1.test"]

    packed = await get(running.ready, manual, "/", Accept_Encoding="gzip, br")
    squeezed = await get(running.ready, forum, "/", Accept_Encoding="gzip, br")
    bare = await get(running.ready, manual, "/")

    assert packed.headers["content-encoding"] == "gzip"
    assert b"<main" in gzip.decompress(packed.body)
    assert squeezed.headers["content-encoding"] == "br"
    assert b"<main" in brotli.decompress(squeezed.body)
    assert "content-encoding" not in bare.headers


async def test_robots_answers_differ(running: RunningWeb, web: SyntheticWeb) -> None:
    expected = {
        "manual-1.test": 200,
        "norobots-1.test": 404,
        "robots5xx-1.test": 503,
        "robotsmoved-1.test": 301,
    }

    for name, status in expected.items():
        assert (await get(running.ready, web.hosts[name], "/robots.txt")).status == status
    moved = web.hosts["robotsmoved-1.test"]
    assert b"badbot" in (await get(running.ready, moved, "/robots-here.txt")).body


async def test_a_sitemap_lists_the_regular_pages(running: RunningWeb, web: SyntheticWeb) -> None:
    host = web.hosts["plain-1.test"]

    answer = await get(running.ready, host, "/sitemap.xml")

    assert answer.body.count(b"<loc>") == len(web.urls(host.name))


async def test_redirect_loops_and_chains(running: RunningWeb, web: SyntheticWeb) -> None:
    host = web.hosts["winding-1.test"]

    loop = await get(running.ready, host, "/loop/a")
    hop = await get(running.ready, host, "/hop/0")

    assert loop.headers["location"] == host.url("/loop/b")
    assert (hop.status, hop.headers["location"]) == (302, host.url("/hop/1"))


async def test_a_limited_host_says_when_to_come_back(running: RunningWeb, web: SyntheticWeb) -> None:
    answers = [await get(running.ready, web.hosts["limited-1.test"], "/about") for _ in range(8)]

    assert answers[0].status == 200
    assert answers[-1].status == 429
    assert int(answers[-1].headers["retry-after"]) > 0


def test_an_outage_comes_and_goes(web: SyntheticWeb) -> None:
    faults = Faults(web.seed, web.started_at)
    host = web.hosts["outage-1.test"]
    replies = [faults.refusal(host, web.started_at + s) for s in range(240)]
    down = [r for r in replies if r]

    assert len(down) == pytest.approx(60, abs=4)
    assert all(r.status == 503 for r in down)
    assert {bool(r.headers) for r in down} == {True, False}


async def test_a_flaky_host_resets_and_cuts_short_and_lies(running: RunningWeb, web: SyntheticWeb) -> None:
    host = web.hosts["flaky-1.test"]
    outcomes = {"ok": 0, "reset": 0, "cut": 0}
    for _ in range(60):
        try:
            await get(running.ready, host, "/about")
            outcomes["ok"] += 1
        except ConnectionResetError:
            outcomes["reset"] += 1
        except asyncio.IncompleteReadError as e:
            # A reset right after the head can also be seen as an end of stream.
            outcomes["cut"] += bool(e.expected and e.partial is not None)

    assert outcomes["ok"] > 25
    assert outcomes["reset"] > 0
    assert outcomes["cut"] > 0


async def test_a_dripping_host_takes_its_time(running: RunningWeb, web: SyntheticWeb) -> None:
    began = time.monotonic()

    answer = await get(running.ready, web.hosts["drip-1.test"], "/about")

    assert time.monotonic() - began > len(answer.body) / 4_000 * 0.6


async def test_each_request_is_logged_once_with_its_times(running: RunningWeb, web: SyntheticWeb) -> None:
    host = web.hosts["plain-2.test"]
    before = (time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))

    await get(running.ready, host, "/about?once=1", User_Agent="tester/1")

    entry = await logged(running.ready, lambda e: e.path == "/about?once=1")
    assert (entry.host, entry.address, entry.method) == (host.name, host.address, "GET")
    assert (entry.agent, entry.status, entry.ended_by) == ("tester/1", 404, "response")
    assert before[0] <= entry.start <= entry.end <= time.time()
    assert before[1] <= entry.start_boot <= entry.end_boot
    assert sum(e.path == "/about?once=1" for e in read_log(Path(running.ready.log))) == 1


async def test_requests_on_one_connection_are_logged_one_after_the_other(
    running: RunningWeb, web: SyntheticWeb
) -> None:
    host = web.hosts["manual-1.test"]
    async with connect(running.ready, host) as (reader, writer):
        writer.write(head(host.name, "/about", Mark="1") + head(host.name, "/links.html"))
        answers = [await read_answer(reader), await read_answer(reader)]
        async_port = writer.get_extra_info("peername")[1]

    second = await logged(running.ready, lambda e: e.host == host.name and e.path == "/links.html")
    first = await logged(running.ready, lambda e: e.host == host.name and e.path == "/about")
    assert [a.status for a in answers] == [200, 200]
    assert first.end_boot <= second.start_boot
    assert first.port == async_port


@pytest.mark.parametrize("abrupt", [True, False])
async def test_a_client_that_leaves_ends_its_request(
    running: RunningWeb, web: SyntheticWeb, abrupt: bool
) -> None:
    host, path = web.hosts["drip-1.test"], f"/about?left={abrupt}"
    async with connect(running.ready, host) as (reader, writer):
        writer.write(head(host.name, "/"))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head(host.name, path))
        left_at = time.time()
        if abrupt:
            writer.transport.abort()

    entry = await logged(
        running.ready, lambda e: e.host == host.name and e.path == "/" and e.ended_by == "disconnect"
    )
    assert entry.status == 200
    assert left_at - 0.5 < entry.end < left_at + 0.5
    # The second request was never begun, so it isn't logged.
    assert all(e.path != path for e in read_log(Path(running.ready.log)))


async def test_a_request_ends_when_the_client_has_been_given_all_of_it_and_not_before(tmp_path: Path) -> None:
    """A client that doesn't read keeps its request open, as far as the kernel's buffers allow."""
    folder = tmp_path / "big"
    folder.mkdir()
    (folder / "big.bin").write_bytes(bytes(30_000_000))
    log = tmp_path / "log.jsonl"
    with (
        launch(["files", f"big.test={folder}"], log) as running,
        socket.create_connection(("127.9.0.1", running.ready.http_port)) as client,
    ):
        client.sendall(head("big.test", "/big.bin"))
        await asyncio.sleep(0.3)
        assert read_log(log) == []
        released = time.time()
        got = 0
        while got < 30_000_000:
            got += len(client.recv(1_000_000))
        entry = await logged(running.ready, lambda e: e.path == "/big.bin")

    assert entry.end >= released
    assert entry.ended_by == "response"


async def test_a_stuck_host_answers_some_and_leaves_others_to_give_up(
    running: RunningWeb, web: SyntheticWeb
) -> None:
    host = web.hosts["stuck-1.test"]

    async def patient() -> bool:
        try:
            async with asyncio.timeout(0.5):
                return (await get(running.ready, host, "/about")).status == 200
        except TimeoutError:
            return False

    answered = await asyncio.gather(*(patient() for _ in range(30)))

    assert 5 < sum(answered) < 30
    entry = await logged(running.ready, lambda e: e.host == host.name and e.ended_by == "disconnect")
    assert entry.status is None
    assert entry.end_boot - entry.start_boot == pytest.approx(0.5, abs=0.3)


async def test_a_soft_404_comes_with_200(running: RunningWeb, web: SyntheticWeb) -> None:
    soft = await get(running.ready, web.hosts["bazaar-1.test"], "/no-such")
    hard = await get(running.ready, web.hosts["shop-1.test"], "/no-such")

    assert (soft.status, hard.status) == (200, 404)
    assert soft.body == hard.body


async def test_a_feed_names_the_newest_items(running: RunningWeb, web: SyntheticWeb) -> None:
    host = web.hosts["news-1.test"]

    feed = (await get(running.ready, host, "/feed.xml")).body.decode()
    front = (await get(running.ready, host, "/")).body.decode()

    assert f'href="{host.url("/feed.xml")}"' in front
    newest = feed.split("<link>")[2].split("</link>")[0]
    assert web.page(newest, time.time())


async def test_a_bomb_is_small_on_the_wire_and_big_behind_it(running: RunningWeb, web: SyntheticWeb) -> None:
    answer = await get(running.ready, web.hosts["hazard-1.test"], "/hazard/bomb")

    assert len(answer.body) < 1_000_000
    assert len(gzip.decompress(answer.body)) > 50_000_000


async def test_a_manual_has_its_pdf(running: RunningWeb, web: SyntheticWeb) -> None:
    answer = await get(running.ready, web.hosts["manual-1.test"], "/files/manual.pdf")

    assert answer.headers["content-type"] == "application/pdf"
    assert answer.body.startswith(b"%PDF")


def test_only_loopback_is_bound(running: RunningWeb) -> None:
    connections = psutil.Process(running.ready.pid).net_connections()
    bound = {c.laddr.ip for c in connections if c.status in (psutil.CONN_LISTEN, psutil.CONN_NONE)}

    assert len(bound) > 20
    assert all(ip.startswith("127.") for ip in bound)


async def test_five_hundred_requests_per_second(running: RunningWeb, web: SyntheticWeb) -> None:
    plain = [h for h in web.hosts.values() if h.reachable and not h.fault and h.scheme == "http"][:20]
    before = psutil.Process(running.ready.pid).cpu_times()

    async def visit(host: Host) -> int:
        paths = [u.removeprefix(host.origin) for u in web.urls(host.name)][:25]
        async with connect(running.ready, host) as (reader, writer):
            for path in paths * 2:
                writer.write(head(host.name, path, Accept_Encoding="gzip"))
                await read_answer(reader)
        return 2 * len(paths)

    count = sum(await asyncio.gather(*map(visit, plain)))
    after = psutil.Process(running.ready.pid).cpu_times()
    spent = after.user + after.system - before.user - before.system

    assert count > 500
    # CPU time, not wall time: other processes share the cores of the machine that runs this.
    assert count / spent > 600


def test_it_stops_within_two_seconds_with_requests_under_way(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with launch(["synthetic", "--seed", "2"], log, scale=0.2) as running:
        host = running.ready.web().hosts["drip-1.test"]
        with socket.create_connection((host.address, running.ready.http_port)) as client:
            client.sendall(head(host.name, "/"))
            client.recv(10)
            began = time.monotonic()
            running.stop()
            took = time.monotonic() - began

    assert took < 2
    assert running.process.returncode == 0
    assert [e.ended_by for e in read_log(log)] == ["disconnect"]


def test_a_web_that_cannot_start_says_so(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="before it was ready"), launch(["nonsense"], tmp_path / "log"):
        pass


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.1", "::"])
def test_no_other_address_than_loopback_can_be_bound(address: str) -> None:
    with pytest.raises(ConfigurationError, match="loopback"):
        listen(["127.0.0.1", address])


def test_a_port_that_is_taken_on_one_address_is_not_used() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.7.7", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(ConfigurationError, match="no port"):
            listen(["127.0.7.6", "127.0.7.7"], port)
        chosen, sockets = listen(["127.0.7.6", "127.0.7.7"])

    assert chosen != port
    for s in sockets.values():
        s.close()


def test_two_webs_run_side_by_side(running: RunningWeb, tmp_path: Path) -> None:
    with launch(["synthetic", "--seed", "11"], tmp_path / "log.jsonl", scale=0.2) as twin:
        assert twin.ready.http_port != running.ready.http_port
        assert twin.ready.nameserver != running.ready.nameserver
