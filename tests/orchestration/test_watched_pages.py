"""The asset `watched_pages`: pages whose revisits keep bringing new links are found and told to the fleet."""

import pytest

from assets import watched_pages
from crawl_platform.clock import ManualClock, as_datetime
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Settings
from resources.lake import LakeResource
from resources.requests import Request, append_requests

FRONT, INDEX, STILL = "https://news.test/", "https://wiki.test/index", "https://still.test/"
HOUR = 3_600.0


class Visited:
    """Visits pages again and again, the links of each with it, and reads the new links' pages."""

    def __init__(self, crawl, clock) -> None:
        self.crawl, self.clock = crawl, clock
        self.seen: dict[str, float] = {}

    def visit(self, url: str, *links: str, **columns) -> None:
        """A visit that shows a link set of its own."""
        before = self.seen.get(url)
        self.seen[url] = self.clock.now()
        fetch = self.crawl.fetch(url, previous_success_at=as_datetime(before) if before else None, **columns)
        for link in links:
            self.crawl.link(fetch, url, link)

    def unchanged(self, url: str) -> None:
        self.visit(url, link_set="what it was", changed=False)

    def read(self, *urls: str, **columns) -> None:
        for url in urls:
            self.visit(url, **columns)

    def bring(self, url: str, visits: int, *, of: str = "", outcome: str = "ok", hours: float = 6.0) -> None:
        """As many revisits, each with one link that nobody has shown before, whose page is read."""
        for _ in range(visits):
            self.clock.advance(hours * HOUR)
            news = f"{of or url}story-{self.clock.now():.0f}"
            self.visit(url, news)
            self.read(news, outcome=outcome)

    def commit(self) -> None:
        self.crawl.report(fetches=6_000)
        self.crawl.commit()


@pytest.fixture
def visited(crawl, clock) -> Visited:
    """Three hosts and the first visits of three pages: one with a stream of news, one index that gets another entry
    in ten days, and one page that never brings anything."""
    for host in ("news.test", "wiki.test", "still.test"):
        crawl.host(host)
    made = Visited(crawl, clock)
    entries = [f"https://wiki.test/{n}" for n in range(40)]
    made.visit(FRONT, *(f"https://news.test/old-{n}" for n in range(40)))
    made.visit(INDEX, *entries)
    made.visit(STILL, *(f"https://still.test/{n}" for n in range(40)))
    made.read(*entries)
    made.bring(FRONT, 20)
    made.visit(INDEX, *entries, "https://wiki.test/another")
    made.read("https://wiki.test/another")
    for _ in range(4):
        clock.advance(HOUR)
        made.unchanged(INDEX)
        made.unchanged(STILL)
    return made


def planned(lake: Lake, settings: Settings, clock: ManualClock) -> dict[str, float | None]:
    """What would be decided: seconds between two visits, by page."""
    with LakeResource(root=str(lake.root)).read(*watched_pages.INPUTS, also=("watched_pages",)) as reading:
        plan = watched_pages.decide(reading, settings, as_datetime(clock.now()))
    return {row["url"]: row["every"] for row in plan.rows}


def rows(lake: Lake) -> dict[str, dict]:
    return {row["url"]: row for row in lake.query("SELECT * FROM watched_pages").to_pylist()}


def test_a_page_that_keeps_bringing_new_links_is_watched_at_half_the_time_between_them(
    harness, visited, lake, fleet
):
    visited.commit()

    harness.execute("watched_pages")

    assert fleet.watched == [(FRONT, pytest.approx(3 * HOUR))]
    (row,) = rows(lake).values()
    assert (row["revisits"], row["fruitful"], row["new_links"], row["good"]) == (20, 20, 20, 20)
    assert row["rate"] == pytest.approx(4.0)
    assert row["every"] == row["told"] == pytest.approx(3 * HOUR)
    assert row["reason"] == (
        "20 new links in 20 of 20 revisits over 5 days, 20 of the 20 that were read are pages of their own: "
        "watched every 10800 s"
    )


def test_ablation_if_first_visits_counted_an_ordinary_index_would_be_watched(
    visited, lake, settings, clock, monkeypatch
):
    everything = watched_pages.SOURCES.replace("AND previous_success_at IS NOT NULL", "")
    assert everything != watched_pages.SOURCES
    monkeypatch.setattr(watched_pages, "SOURCES", everything)
    visited.commit()

    assert planned(lake, settings, clock)[INDEX] is not None


@pytest.mark.long
def test_the_fleet_hears_only_of_what_has_changed_and_that_a_page_has_dried_up(
    harness, visited, lake, fleet, clock
):
    visited.commit()
    harness.execute("watched_pages")
    harness.execute("watched_pages")
    assert len(fleet.watched) == 1, "a repeated run tells nothing"

    visited.bring(FRONT, 3, hours=5.5)
    visited.commit()
    harness.execute("watched_pages")
    assert len(fleet.watched) == 1, "nor does a rate that is nearly the same"

    clock.advance(watched_pages.LOOK_BACK.total_seconds())
    for _ in range(4):
        clock.advance(6 * HOUR)
        visited.unchanged(FRONT)
    visited.commit()
    harness.execute("watched_pages")

    assert fleet.watched[1:] == [(FRONT, 0.0)]
    assert rows(lake) == {}


@pytest.mark.parametrize("flag", ["every 60 s", "off"])
def test_nothing_is_decided_of_a_page_of_which_an_operator_has_spoken(visited, lake, settings, clock, flag):
    asked = Request("r1", clock.now(), "watch", "HTTPS://News.test", "ada", "exchange", flag)
    append_requests(lake, [asked])
    visited.commit()

    assert planned(lake, settings, clock) == {FRONT: None}


@pytest.mark.long
def test_an_operator_takes_over_what_was_watched_before(harness, visited, lake, fleet, clock):
    visited.commit()
    harness.execute("watched_pages")
    append_requests(lake, [Request("r1", clock.now(), "watch", FRONT, "ada", "exchange", "every 60 s")])
    visited.bring(FRONT, 60, hours=1.0)
    visited.commit()

    harness.execute("watched_pages")

    assert len(fleet.watched) == 1, "what was told before the operator spoke"
    (row,) = rows(lake).values()
    assert (row["every"], row["told"]) == (None, None)
    assert row["reason"].endswith("left to the operator who has said whether it is watched")


def test_ablation_without_a_look_at_requests_the_operator_would_be_overruled(
    visited, lake, settings, clock, monkeypatch
):
    monkeypatch.setattr(watched_pages, "OPERATORS", "SELECT '' AS target")
    append_requests(lake, [Request("r1", clock.now(), "watch", FRONT, "ada", "exchange", "off")])
    visited.commit()

    assert planned(lake, settings, clock) == {FRONT: 3 * HOUR}


def test_links_that_turn_out_to_be_nothing_of_their_own_make_no_source(visited, lake, settings, clock, crawl):
    """A page that makes up an address for each visitor, one whose links another showed before, one with links that
    readers leave, and one that links to strangers."""
    crawl.host("made-up.test")
    visited.visit("https://made-up.test/")
    visited.bring("https://made-up.test/", 10, outcome="not_found")
    late, comments, outward = (f"https://still.test/{name}" for name in ("late", "comments", "outward"))
    for page in (late, comments, outward):
        visited.visit(page)
    for n in range(5):
        visited.clock.advance(HOUR)
        stories = [f"https://still.test/{name}-{n}" for name in "abc"]
        visited.visit(f"https://still.test/sooner-{n}", stories[0])
        visited.clock.advance(60)
        visited.visit(late, stories[0])
        visited.visit(comments)
        crawl.link(crawl._rows["fetches"][-1]["fetch_id"], comments, stories[1], position="comments")
        visited.visit(outward, f"https://stranger.test/{n}")
        visited.read(*stories)
    visited.commit()

    assert set(planned(lake, settings, clock)) == {FRONT}


@pytest.mark.long
def test_what_could_not_be_told_is_told_by_the_next_run(harness, visited, lake, fleet):
    """Told before written: the other order would lose it."""
    visited.commit()
    fleet.away = True
    harness.execute("watched_pages", fails=True)
    assert rows(lake) == {}

    fleet.away = False
    harness.execute("watched_pages")

    assert [url for url, _ in fleet.watched] == [FRONT]


@pytest.mark.long
def test_a_host_that_has_left_the_seed_is_not_spoken_of_until_it_is_back(
    harness, visited, lake, fleet, crawl, clock
):
    visited.commit()
    harness.execute("watched_pages")
    clock.advance(60)
    crawl.host("news.test", "excluded", event="excluded")
    crawl.commit()
    harness.execute("watched_pages")
    (row,) = rows(lake).values()
    assert (row["every"], row["told"]) == (None, pytest.approx(3 * HOUR))
    assert row["reason"] == "its host is not in the seed"

    clock.advance(60)
    crawl.host("news.test")
    crawl.commit()
    harness.execute("watched_pages")

    assert [told for told in fleet.watched if told[0] == FRONT][1:] == [], "it is watched as it was"
    assert rows(lake)[FRONT]["every"] == pytest.approx(3 * HOUR)


@pytest.mark.long
def test_an_exclusion_that_the_lake_does_not_know_yet_vetoes_it(harness, visited, lake, fleet):
    visited.commit()
    fleet.excluded["news.test"] = "by request"

    harness.execute("watched_pages")

    (row,) = rows(lake).values()
    assert row["told"] is None
    assert row["reason"].endswith("watched every 10800 s, but news.test is excluded")


@pytest.mark.long
def test_a_plan_that_takes_too_much_fails_its_check_and_nothing_is_told(
    harness, visited, lake, fleet, monkeypatch
):
    monkeypatch.setattr(watched_pages, "SHARE", 1e-9)
    visited.commit()

    result = harness.execute("watched_pages", fails=True)

    passed = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
    assert passed == {"visits_are_affordable": False, "operators_have_the_last_word": True}
    assert fleet.watched == []
    assert rows(lake) == {}


def test_nothing_fetched_yet_is_no_error(lake, settings, clock):
    assert planned(lake, settings, clock) == {}
