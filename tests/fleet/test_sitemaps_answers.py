"""What one answer to a sitemap's or feed's request leaves in the open epoch: result, entries, rows."""

import asyncio
import gzip
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from crawl_platform.commit.staging import Row
from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fleet import sitemap_answers, sitemap_room
from crawl_platform.fleet.epochs import Epoch
from crawl_platform.fleet.rows import Origin
from crawl_platform.fleet.sitemap_answers import PORTION, SAMPLED, SitemapAnswers
from crawl_platform.frontier.lease import Found, Lease, PageResult
from crawl_platform.frontier.records import FEED, PAGE, SITEMAP
from crawl_platform.scheduling.lastmod import Trust
from crawl_platform.settings import Sitemaps
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, B, known, url

MAP, CHILD = url("maps/sitemap.xml"), url("maps/child.xml")


class OpenSeries:
    """A series whose epoch is open until `emptied`."""

    def __init__(self, most: int = 1 << 30) -> None:
        self.open = Epoch()
        self.most = most
        self.waited = 0

    def touch(self, operations: int = 1) -> None:
        self.open.operations += operations

    async def room(self) -> None:
        if self.open.operations >= self.most:
            self.waited += 1
            self.open.operations = 0


@dataclass
class Bench:
    """A frontier with one sitemap in it, and the room that its answers go to."""

    sitemaps: Sitemaps = field(default_factory=Sitemaps)
    kind: int = SITEMAP
    vouched: tuple[str, ...] = ()
    most: int = 1 << 30

    def __post_init__(self) -> None:
        self.rig = FrontierRig(A, B, sitemaps=self.sitemaps)
        self.rig.allow_all(A)
        found = Found(MAP, 1, 1.0, kind=self.kind, vouched=self.vouched)
        self.rig.apply(lambda planner: planner.discover(found))
        self.fetched = 0
        self.series = OpenSeries(self.most)
        parts: Any = SimpleNamespace(
            frontier=self.rig.frontier, settings=self.rig.settings, clock=self.rig.clock, bulk=self.series,
            fast=self.series, origin=Origin("cell-0", "incarnation"), fetch_id=self._fetch_id,
        )  # fmt: skip
        self.answers = SitemapAnswers(parts)

    def _fetch_id(self) -> str:
        self.fetched += 1
        return f"f{self.fetched}"

    def lease(self) -> Lease:
        """The sitemap's next turn, whenever that is."""
        while (lease := self.rig.claim_page()).url != MAP:
            self.rig.finish(lease, body_hash=1)
        return lease

    def answer(self, body: bytes, lease: Lease | None = None, **facts: Any) -> tuple[PageResult, Epoch]:
        """Its next turn brings `body`: the result and what else stands in the epoch. All is applied."""
        lease = lease or self.lease()
        response = Response(Outcome.OK, status=200, body=body, wire=body, started_at=self.rig.clock.now())
        for name, value in facts.items():
            setattr(response, name, value)
        if lease.url not in self.answers._room._caps:
            assert self.answers.enter(lease)
        self.rig.land(lease)
        self.series.open = Epoch()
        asyncio.run(self.answers.read(lease, response))
        self.answers.left(lease)
        epoch = self.series.open
        steps = [lambda planner, found=found: planner.discover(found) for found in epoch.found]
        self.rig.apply(*steps, lambda planner: planner.page(epoch.pages[0]), manifest=1)
        return epoch.pages[0], epoch


def urlset(*entries: str | tuple[str, str]) -> bytes:
    items = ""
    for entry in entries:
        loc, date = (entry, "") if isinstance(entry, str) else (entry[0], f"<lastmod>{entry[1]}</lastmod>")
        items += f"<url><loc>{loc}</loc>{date}</url>"
    return f"<urlset>{items}</urlset>".encode()


def taken(epoch: Epoch) -> tuple[list[str], list[str]]:
    """URLs that enter, and those with a row."""
    rows: dict[str, list[Row]] = epoch.rows.take()
    return [found.url for found in epoch.found], [row["dst_url"] for row in rows.get("links", [])]


def test_all_that_is_listed_for_the_first_time_enters_and_has_a_row() -> None:
    bench = Bench()

    result, epoch = bench.answer(gzip.compress(urlset(url("maps/1"), url("maps/2"))))

    assert result.changed is None
    assert taken(epoch) == ([url("maps/1"), url("maps/2")],) * 2
    assert known(bench.rig, url("maps/1")).second_group != 0


def test_a_list_that_is_as_it_was_brings_nothing_whatever_else_changed() -> None:
    bench = Bench()
    bench.answer(urlset(url("maps/1"), url("maps/2")))

    result, epoch = bench.answer(urlset(url("maps/2"), url("maps/1")) + b"<!-- made a moment later -->")

    assert (result.changed, taken(epoch)) == (False, ([], []))


def test_of_a_list_that_has_grown_only_what_is_new_enters() -> None:
    bench = Bench()
    bench.answer(urlset(url("maps/1"), url("maps/2")))

    result, epoch = bench.answer(urlset(url("maps/2"), url("maps/3")))

    assert (result.changed, taken(epoch)) == (True, ([url("maps/3")],) * 2)


def test_a_later_lastmod_enters_again_and_has_no_row() -> None:
    bench = Bench()
    bench.answer(urlset((url("maps/1"), "2026-01-01"), url("maps/2")))

    result, epoch = bench.answer(urlset((url("maps/1"), "2026-02-01"), url("maps/2")))

    assert (result.changed, taken(epoch)) == (True, ([url("maps/1")], []))


def test_of_lastmods_that_are_not_believed_a_sample_is_taken_and_the_list_is_as_it_was() -> None:
    bench = Bench()
    pages = [url(f"maps/{n}") for n in range(SAMPLED + 50)]
    bench.answer(urlset(*((page, "2026-01-01") for page in pages)))
    bench.rig.frontier.hosts[A].record.claims = Trust(0.0, 20.0)

    result, epoch = bench.answer(urlset(*((page, "2026-02-01") for page in pages)))

    assert (result.changed, len(epoch.found)) == (False, SAMPLED)


def test_it_speaks_for_what_lies_below_it_and_for_who_vouches() -> None:
    entries = (url("maps/1"), url("above"), "https://b.test/1", "https://horizon.test/1")

    assert taken(Bench().answer(urlset(*entries))[1])[0] == [url("maps/1")]
    assert taken(Bench(vouched=(A, B)).answer(urlset(*entries))[1])[0] == list(entries[:3])


def test_entries_of_a_feed_are_links_wherever_they_lead() -> None:
    items = "".join(f"<item><link>{target}</link></item>" for target in (url("1"), "https://horizon.test/1"))

    _, epoch = Bench(kind=FEED).answer(f"<rss><channel>{items}</channel></rss>".encode())

    assert taken(epoch)[1] == [url("1"), "https://horizon.test/1"]


def test_a_page_in_place_of_a_feed_lists_nothing() -> None:
    assert taken(Bench(kind=FEED).answer(b"https://a.test/1\nhttps://a.test/2\n")[1]) == ([], [])


def test_an_index_hands_on_who_vouches_and_how_deep_it_lies() -> None:
    body = f"<sitemapindex><sitemap><loc>{CHILD}</loc></sitemap><sitemap><loc>https://b.test/m</loc></sitemap></sitemapindex>"

    _, epoch = Bench(vouched=(A,)).answer(body.encode())

    [child] = epoch.found
    assert (child.url, child.kind, child.vouched, child.level) == (CHILD, SITEMAP, (A,), 1)


def test_where_a_sitemap_has_moved_to_it_is_one_still() -> None:
    bench = Bench(vouched=(A,))

    result, _ = bench.answer(b"", outcome=Outcome.REDIRECT, redirect_to="https://b.test/m")

    [moved] = result.found
    assert (moved.url, moved.kind, moved.vouched) == ("https://b.test/m", SITEMAP, (A,))


def test_a_long_list_enters_in_portions_each_when_there_is_room() -> None:
    bench = Bench(most=2 * PORTION)

    _, epoch = bench.answer(urlset(*(url(f"maps/{n}") for n in range(3 * PORTION))))

    assert bench.series.waited == 2
    assert len(epoch.found) == 3 * PORTION


def test_bytes_of_all_that_are_read_count_against_the_day() -> None:
    bench = Bench()
    body = urlset(url("maps/1"))

    bench.answer(body)

    assert bench.rig.frontier.hosts[A].record.sitemap_bytes == len(body)


# what is not what it was taken for


HTML = b"<!doctype html><title>Nothing here</title><a href=/away>away</a>"


@pytest.mark.parametrize("kind", [SITEMAP, FEED])
def test_a_page_in_its_place_is_a_page_from_now_on(kind: int) -> None:
    bench = Bench(kind=kind)
    lease, pages = bench.lease(), []
    bench.answers._pages = SimpleNamespace(take=lambda leased, _: pages.append(leased))  # type: ignore[assignment]
    bench.rig.land(lease)
    response = Response(Outcome.OK, status=200, body=HTML, headers={"content-type": "text/html"})
    assert bench.answers.enter(lease)

    asyncio.run(bench.answers.read(lease, response))
    [leased] = pages
    bench.rig.apply(lambda planner: planner.page(bench.rig.result(leased, body_hash=1)))

    assert known(bench.rig, MAP).kind == PAGE
    assert bench.rig.frontier.hosts[A].record.sitemaps == 0


def test_what_proved_a_page_is_not_taken_for_a_sitemap_again_by_name_but_by_its_own_content() -> None:
    bench = Bench()
    lease = bench.lease()
    bench.rig.land(lease)
    as_page = replace(lease, as_page=True)
    bench.rig.apply(lambda planner: planner.page(bench.rig.result(as_page, body_hash=1)))

    bench.rig.apply(lambda planner: planner.discover(Found(MAP, 1, 1.0, kind=SITEMAP)))
    assert known(bench.rig, MAP).kind == PAGE
    bench.rig.apply(lambda planner: planner.discover(Found(MAP, 1, 1.0, kind=SITEMAP, sitemap=MAP)))
    assert (known(bench.rig, MAP).kind, known(bench.rig, MAP).second_group) == (SITEMAP, 0)


def test_a_file_that_begins_with_a_warning_in_markup_is_a_sitemap_all_the_same() -> None:
    body = b"<br /><b>Warning</b>: line 7<br />" + urlset(url("maps/1"))

    assert taken(Bench().answer(body, headers={"content-type": "text/html"})[1])[0] == [url("maps/1")]


def test_pages_that_their_own_host_wants_listed_elsewhere_do_not_count_as_named_by_strangers() -> None:
    _, epoch = Bench(vouched=(B,)).answer(urlset("https://b.test/1"))

    assert epoch.found[0].vouched == (B,)


# memory


SMALL = 10_000


def full(bench: Bench) -> Lease:
    """Another one, unread, is as large as may be."""
    other = Lease(url("other.xml"), A, 0, 3, known(bench.rig, MAP))
    assert bench.answers.enter(other)
    assert bench.answers.cap(other) == Sitemaps().body_cap
    return other


def waits(bench: Bench) -> None:
    """What a worker does with a sitemap for which there is no room."""
    lease = bench.lease()
    assert not bench.answers.enter(lease)
    bench.rig.gates.release_host(A)
    bench.rig.frontier.free(A)
    bench.rig.frontier.reschedule(A, *bench.rig.times())


def cut(bench: Bench) -> tuple[PageResult, Epoch]:
    """It is asked for beside a large one, and is larger than small."""
    lease = bench.lease()
    assert bench.answers.enter(lease)
    assert bench.answers.cap(lease) == SMALL
    body = urlset(url("maps/1")) + b" " * SMALL
    return bench.answer(body[:SMALL], lease, truncated=True)


def test_beside_so_many_large_ones_another_is_cut_and_put_off() -> None:
    bench = Bench(Sitemaps(large_at_once=1, small_cap=SMALL))
    full(bench)

    result, epoch = cut(bench)

    assert (result.disposition, taken(epoch)) == ("refused", ([], []))
    put_off = known(bench.rig, MAP)
    assert put_off.rank / 1000 - bench.rig.clock.now() == pytest.approx(60.0, abs=1.0)
    assert (put_off.kind, put_off.body_hash) == (SITEMAP, 0)


def test_one_that_was_cut_is_not_asked_for_again_before_there_is_room_and_then_in_full() -> None:
    bench = Bench(Sitemaps(large_at_once=1, small_cap=SMALL))
    other = full(bench)
    cut(bench)
    waits(bench)

    for _ in range(100):
        bench.rig.clock.advance(60.0)
        bench.answers.call()
        assert bench.rig.claim() is None

    bench.answers.left(other)
    bench.answers.call()
    lease = bench.lease()
    assert bench.answers.enter(lease)
    assert bench.answers.cap(lease) == Sitemaps().body_cap
    _, epoch = bench.answer(urlset(url("maps/1")), lease)
    assert taken(epoch)[0] == [url("maps/1")]


def test_while_large_ones_wait_none_of_unknown_size_takes_their_room() -> None:
    bench = Bench(Sitemaps(large_at_once=1, small_cap=SMALL))
    other = full(bench)
    cut(bench)
    waits(bench)
    bench.answers.left(other)

    assert bench.answers.enter(other)

    assert bench.answers.cap(other) == SMALL


def test_a_line_that_is_full_puts_off_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Sitemaps(large_at_once=1, small_cap=SMALL))
    full(bench)
    cut(bench)
    monkeypatch.setattr(sitemap_room, "MOST_WAITING", 0)
    bench.series.open = Epoch()

    waits(bench)
    bench.rig.apply(lambda planner: planner.page(bench.series.open.pages[0]))

    assert known(bench.rig, MAP).rank / 1000 - bench.rig.clock.now() == pytest.approx(60.0, abs=1.0)


def test_one_that_its_server_ends_early_is_small_and_gives_what_came_before() -> None:
    bench = Bench(Sitemaps(large_at_once=1, small_cap=SMALL))
    full(bench)

    _, epoch = bench.answer(urlset(url("maps/1"), url("maps/2"))[:-20], truncated=True)

    assert url("maps/1") in taken(epoch)[0]


def test_a_large_one_that_is_cut_at_the_limit_gives_what_came_before() -> None:
    bench = Bench()

    result, epoch = bench.answer(urlset(url("maps/1"), url("maps/2"))[:-20], truncated=True)

    assert result.disposition == "success"
    assert url("maps/1") in taken(epoch)[0]


async def test_a_file_is_not_unpacked_before_all_of_the_last_has_been_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, files = Bench(most=2 * PORTION), 8
    delivered: list[int] = []
    read = sitemap_answers._read

    def reading(*given: Any) -> Any:
        delivered.append(len(bench.series.open.pages))
        return read(*given)

    monkeypatch.setattr(sitemap_answers, "_read", reading)
    record = known(bench.rig, MAP)
    for number in range(files):
        lease = Lease(url(f"maps/{number}.xml"), A, 0, 3, record)
        assert bench.answers.enter(lease)
        body = gzip.compress(urlset(*(url(f"maps/{number}/{page}") for page in range(2 * PORTION))))
        bench.answers.arrived(lease, Response(Outcome.OK, status=200, body=body, wire=body))
    reader = asyncio.create_task(bench.answers.read_forever())

    await bench.answers.all_read()
    reader.cancel()

    assert delivered == list(range(files))
    assert len(bench.answers._room) == 0


async def test_what_can_not_be_read_fails_and_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    record = known(bench.rig, MAP)
    read = sitemap_answers._read

    def reading(task: Any, *given: Any) -> Any:
        if task.lease.url.endswith("0.xml"):
            raise ValueError("a bug")
        return read(task, *given)

    monkeypatch.setattr(sitemap_answers, "_read", reading)
    for number in range(2):
        lease = Lease(url(f"maps/{number}.xml"), A, 0, 3, record)
        assert bench.answers.enter(lease)
        bench.answers.arrived(lease, Response(Outcome.OK, status=200, body=urlset(url("maps/1"))))
        await bench.answers._read_next()

    assert [result.reason for result in bench.series.open.pages] == [Outcome.INTERNAL_ERROR, Outcome.OK]


def test_what_was_quarantined_is_listed_again() -> None:
    bench = Bench()
    bench.answer(urlset(url("maps/1")))

    bench.rig.apply(lambda planner: planner.redeliver(A, MAP))
    _, epoch = bench.answer(urlset(url("maps/1")))

    assert taken(epoch)[1] == [url("maps/1")]
    assert known(bench.rig, url("maps/1")).kind == PAGE
