"""How many sitemaps are in memory at once, whatever sites send and whoever waits."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.fleet import epochs, sitemap_room
from crawl_platform.fleet.sitemap_room import CALLED_FOR, SitemapRoom
from crawl_platform.frontier.absorb import absorb
from crawl_platform.frontier.lease import Found, Lease
from crawl_platform.frontier.links import Links
from crawl_platform.frontier.listed import SITEMAP_WAITS
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.records import SITEMAP, UrlRecord
from crawl_platform.settings import Sitemaps
from tests.fleet.test_url_forms import Desk
from tests.fleet.worker_cell import Request, virtual_cell

SETTINGS = Sitemaps()


def lease(number: int, large: bool = False) -> Lease:
    reason = SITEMAP_WAITS if large else ""
    return Lease(f"https://a.test/{number}.xml", "a.test", 0, 3, UrlRecord(kind=SITEMAP, reason=reason))


@given(st.lists(st.tuples(st.sampled_from("eeelcw"), st.integers(0, 60), st.booleans()), min_size=15))
def test_never_more_are_held_or_may_be_large_than_there_is_room_for(
    steps: list[tuple[str, int, bool]],
) -> None:
    """Enter (or wait), leave, call, and time passes, in any order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sitemap_room, "MOST_HELD", 4)
        room, boot = SitemapRoom(2), 0.0
        inside: set[str] = set()
        for step, number, large in steps:
            one = lease(number, large)
            if step == "e" and one.url not in inside:
                if room.enter(one, SETTINGS):
                    inside.add(one.url)
                else:
                    room.wait(one, SETTINGS)
            elif step == "l" and inside:
                gone = sorted(inside)[number % len(inside)]
                room.leave(gone)
                inside.discard(gone)
            elif step == "c":
                room.call(boot)
            else:
                boot += number
            assert len(room) == len(inside) <= 4
            assert sum(room.cap(url) > SETTINGS.small_cap for url in inside) <= 2


def test_those_that_wait_are_called_in_order_when_there_is_room_for_them() -> None:
    room = SitemapRoom(1)
    assert room.enter(lease(0, large=True), SETTINGS)
    for number in (1, 2):
        assert not room.enter(lease(number, large=True), SETTINGS)
        assert room.wait(lease(number, large=True), SETTINGS)
    assert room.call(0.0) == []

    room.leave(lease(0).url)

    assert [one.url for one in room.call(0.0)] == [lease(1).url]
    assert room.call(1.0) == []
    assert room.enter(lease(1, large=True), SETTINGS)
    room.leave(lease(1).url)
    assert [one.url for one in room.call(2.0)] == [lease(2).url]


def test_the_place_of_one_that_is_called_and_does_not_come_goes_to_the_next() -> None:
    room = SitemapRoom(1)
    room.enter(lease(0, large=True), SETTINGS)
    for number in (1, 2):
        room.wait(lease(number, large=True), SETTINGS)
    room.leave(lease(0).url)
    room.call(0.0)

    assert [one.url for one in room.call(CALLED_FOR)] == [lease(2).url]


def test_where_none_may_be_larger_than_small_there_are_no_large_ones() -> None:
    settings, room = Sitemaps(body_cap=1_000), SitemapRoom(0)

    assert room.enter(lease(0, large=True), settings)
    assert room.cap(lease(0).url) == 1_000


# the cell


def is_map(request: Request) -> bool:
    return request.url.endswith("map.xml")


async def test_what_waits_to_be_read_holds_no_slot_and_what_has_no_room_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sitemap_room, "MOST_HELD", 3)
    hosts = {f"h{number}.test": f"192.0.2.{number}" for number in range(8)}
    async with virtual_cell(tmp_path, hosts, pages=2) as cell:
        planner = Planner(cell.frontier, cell.clock.now())
        for host in hosts:
            planner.discover(Found(f"https://{host}/map.xml", 1, 1.0, kind=SITEMAP))
        plan = planner.finish()
        cell.kv.write(plan.batch)
        absorb(cell.frontier, plan, cell.clock.now(), cell.clock.boottime())

        asked = await cell.run(600)  # and nobody reads

        pages = [one for one in asked if not is_map(one) and not one.url.endswith("robots.txt")]
        assert len(pages) == 2 * len(hosts)
        assert sum(map(is_map, asked)) == 3
        assert (len(cell.made._workers), cell.made._unproven) == (0, set())
        reader = cell.made._worker._sitemaps
        for _ in range(3):
            await reader._read_next()
        assert sum(map(is_map, await cell.run(60))) == 3


# the commit


async def test_a_long_list_is_let_in_by_steps_between_which_the_loop_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, many = Desk(tmp_path), 4 * epochs.FOUND_AT_ONCE
    desk.bulk.open.found = [
        Found(f"https://a.test/{number}", 1, 0.5, vouched=("a.test",)) for number in range(many)
    ]
    desk.bulk.touch()
    in_step: list[int] = [0]
    enter = Links.enter

    def counting(links: Links, found: Found, by: str | None, *, as_it_is: bool) -> str:
        in_step[-1] += 1
        return enter(links, found, by, as_it_is=as_it_is)

    async def loop_steps() -> None:
        while True:
            in_step.append(0)
            await asyncio.sleep(0)

    monkeypatch.setattr(Links, "enter", counting)
    beside = asyncio.create_task(loop_steps())
    await desk.bulk.close()
    beside.cancel()

    assert sum(in_step) == many
    assert max(in_step) <= epochs.FOUND_AT_ONCE
    assert desk.rig.frontier.known == many + 1
