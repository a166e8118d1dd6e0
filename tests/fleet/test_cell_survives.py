"""What one answer or one clock can't do: end the cell that all other hosts depend on."""

import logging
from pathlib import Path

import pytest

from crawl_platform.admission.politeness import ImpoliteError
from crawl_platform.admission.robots import RobotsCache
from crawl_platform.fleet import robots_answers
from crawl_platform.fleet.worker import IMPOLITE_AGAIN
from crawl_platform.frontier.errands import HopReply
from crawl_platform.frontier.lease import Hop, Lease, RobotsLease
from crawl_platform.settings import Politeness
from tests.fleet.robots_cells import Answer, RobotsCell, Web, moved, web_of
from tests.fleet.worker_cell import Answer as WireAnswer
from tests.fleet.worker_cell import Request, plain, virtual_cell

A, B = "a.test", "b.test"
ADDRESS = "192.0.2.1"
SETTINGS = Politeness(host_delay=1.0, address_delay=1.0, robots_retry=300.0)
SLOWER = b"user-agent: *\ncrawl-delay: 30\n"
POISON = b"user-agent: *\ndisallow: /poison\n"


def robots(host: str) -> str:
    return f"https://{host}/robots.txt"


# a clock that moves while a request connects


def cell_with_a_page_in_flight() -> tuple[RobotsCell, Lease]:
    web = web_of((A,), answers={}, politeness=SETTINGS)
    cell = web.cells[0]
    while not isinstance(lease := cell.rig.next_claim(), Lease):
        assert lease is not None
        cell.land(lease)
    return cell, lease


def reply_arrives(cell: RobotsCell) -> None:
    """The chain of another origin of A ends elsewhere, with rules that ask for more time."""
    origin, url = f"http://{A}", robots(B)
    cell.rig.frontier.moved.errands.chains[origin] = Hop(origin, url, 1, 1e12)
    cell.rig.frontier.moved.errands.replies.append(HopReply(origin, url, 1, "ok", 200, "", SLOWER))
    cell.answers.catch_up()


def test_a_reply_that_slows_a_host_down_lets_its_request_in_flight_go() -> None:
    cell, lease = cell_with_a_page_in_flight()
    gates, clock = cell.rig.gates, cell.rig.clock

    reply_arrives(cell)

    assert gates.take_address(ADDRESS, clock.boottime())
    gates.check_write(A, ADDRESS, clock.boottime())
    cell.land(lease)
    assert gates.host_ready_at(A) == clock.boottime() + 30.0, "from its end on the new delay holds"


def test_a_reply_that_slows_a_free_host_down_holds_at_once() -> None:
    cell, lease = cell_with_a_page_in_flight()
    cell.land(lease)
    ended = cell.rig.clock.boottime()

    reply_arrives(cell)

    assert cell.rig.gates.host_ready_at(A) == ended + 30.0


async def test_a_request_that_the_last_look_stops_is_given_back_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    moved_clocks: list[float] = []

    def script(request: Request) -> WireAnswer:
        if request.url.endswith("/2") and not moved_clocks:
            moved_clocks.append(request.start)
            cell.frontier.gates.hold_host(A, request.start + 20.0)
        return plain(request)

    async with virtual_cell(
        tmp_path, {A: ADDRESS, B: "192.0.2.2"}, script, pages=4, politeness=SETTINGS
    ) as cell:
        await cell.run(60)

    assert len(moved_clocks) == 1
    asked = {host: [request for request in cell.wire.requests if request.host == host] for host in (A, B)}
    assert {request.url for request in asked[A]} >= {f"https://{A}/{n}" for n in range(4)}
    assert len(asked[B]) >= 5
    stopped = moved_clocks[0]
    assert not [r for r in asked[A] if stopped <= r.start < stopped + max(20.0, IMPOLITE_AGAIN)]
    assert cell.made._telemetry.summary(cell.frontier)["impolite"] == 1
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.exc_info[0] for record in errors if record.exc_info] == [ImpoliteError]


# a robots.txt that we can't take in


@pytest.fixture
def choking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser with a bug."""
    store = RobotsCache.store

    def choke(self: RobotsCache, origin: str, rule: str, body: bytes, expires_at: float) -> float:
        if body == POISON:
            raise RecursionError("a bug")
        return store(self, origin, rule, body, expires_at)

    monkeypatch.setattr(RobotsCache, "store", choke)


def pages_of(web: Web, host: str) -> set[str]:
    return {request.url for request in web.log if request.page and request.host == host}


@pytest.mark.usefixtures("choking")
def test_a_robots_txt_that_breaks_us_counts_as_unreachable_and_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = {robots(A): Answer(body=POISON), robots(B): Answer(404)}
    web = web_of((A, B), answers=answers, politeness=SETTINGS).run(200)

    assert pages_of(web, A) == set()
    assert pages_of(web, B) == {f"https://{B}/1", f"https://{B}/2"}
    known = web.cells[0].robots(f"https://{A}")
    assert known is not None
    assert known.rule == "disallow_all"
    assert [row["detail"] for row in web.rows if row["host"] == A and row["event"] == "robots"] == [
        "internal_error"
    ]
    assert [record.exc_info is not None for record in caplog.records] == [True]

    web.answers[robots(A)] = Answer(404)
    web.run(200)
    assert pages_of(web, A) == {f"https://{A}/1", f"https://{A}/2"}, "it is tried again"


@pytest.mark.usefixtures("choking")
def test_the_row_of_such_a_fetch_says_so() -> None:
    cell = web_of((A,), answers={robots(A): Answer(body=POISON)}, politeness=SETTINGS).cells[0]
    lease = cell.rig.next_claim()
    assert isinstance(lease, RobotsLease)

    cell.answers.take(lease, Answer(body=POISON).response(lease.url, cell.rig.clock.now()))

    [row] = cell.bulk.open.rows.take()["fetches"]
    assert (row["outcome"], row["detail"]) == ("internal_error", "RecursionError('a bug')")


@pytest.mark.usefixtures("choking")
def test_of_those_who_wait_for_one_file_each_is_settled() -> None:
    hosts = [f"h{n}.test" for n in range(5)]
    answers = {robots(host): moved(robots(B)) for host in hosts} | {robots(B): Answer(body=POISON)}
    web = web_of(tuple(hosts), answers=answers, politeness=SETTINGS).run(30)

    assert [web.cells[0].robots(f"https://{host}").rule for host in hosts] == ["disallow_all"] * 5  # type: ignore[union-attr]
    assert web.cells[0].rig.frontier.moved.errands.chains == {}


@pytest.mark.usefixtures("choking")
def test_a_reply_that_breaks_us_ends_its_own_chain_alone() -> None:
    cell = web_of((A, B), answers={}, politeness=SETTINGS).cells[0]
    errands = cell.rig.frontier.moved.errands
    for host, body in ((B, b""), (A, POISON)):
        origin = f"https://{host}"
        errands.chains[origin] = Hop(origin, robots("c.test"), 1, 1e12)
        errands.replies.append(HopReply(origin, robots("c.test"), 1, "ok", 200, "", body))

    cell.answers.catch_up()
    cell.commit()

    assert errands.chains == {}
    assert [cell.robots(f"https://{host}").rule for host in (A, B)] == ["disallow_all", "rules"]  # type: ignore[union-attr]


@pytest.mark.usefixtures("choking")
def test_ablation_without_the_net_it_ends_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_answers.RobotsAnswers, "_taken_in", robots_answers.RobotsAnswers._advance)

    with pytest.raises(RecursionError):
        web_of((A,), answers={robots(A): Answer(body=POISON)}, politeness=SETTINGS).run(5)
