"""Sitemaps and feeds in the frontier: what may enter, what is bounded, and what a lastmod does to visits."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from crawl_platform.clock import DAY
from crawl_platform.frontier.lease import Found, Lease, RobotsLease
from crawl_platform.frontier.listed import named_by_robots, over_budget, sitemap_group, value_of
from crawl_platform.frontier.posterior import posterior_after
from crawl_platform.frontier.records import (
    DISCOVERY,
    DROPPED,
    FEED,
    PAGE,
    REFRESH,
    SITEMAP,
    SitemapRecord,
    UrlRecord,
    decode,
    sitemap_key,
)
from crawl_platform.scheduling.lastmod import PROBES, Trust
from crawl_platform.settings import Refresh, Sitemaps
from crawl_platform.testing.builders import FrontierRig
from crawl_platform.web.robots import Robots
from tests.frontier.scenes import A, B, known, url

MAP = url("sitemap.xml")


def sitemap(at: str = MAP, *vouched: str, level: int = 0) -> Found:
    return Found(at, 1, 1.0, kind=SITEMAP, vouched=vouched, level=level)


def listed(path: str, lastmod: float = 0.0, of: str = MAP) -> Found:
    return Found(url(path), 2, 0.25, sitemap=of, lastmod=lastmod)


def enter(rig: FrontierRig, *found: Found) -> list[str]:
    """Discover each; what became of it."""
    verdicts: list[str] = []
    rig.apply(lambda planner: verdicts.extend(planner.discover(one) for one in found))
    return verdicts


def rig_of(sitemaps: Sitemaps | None = None, **options: object) -> FrontierRig:
    """A host whose robots.txt allows all."""
    rig = FrontierRig(A, B, sitemaps=sitemaps, **options)  # type: ignore[arg-type]
    for host in (A, B):
        rig.allow_all(host)
    return rig


def visited(rig: FrontierRig, *paths: str) -> None:
    rig.discover(*(url(path) for path in paths))
    for _ in paths:
        rig.finish(rig.claim_page(), body_hash=1)


# entering


def test_a_sitemap_is_a_known_url_with_a_kind() -> None:
    rig = rig_of()

    assert enter(rig, sitemap()) == ["new"]

    lease = rig.claim_page()
    assert (lease.url, lease.record.kind, lease.lane) == (MAP, SITEMAP, DISCOVERY)


def test_what_it_lists_knows_where_it_came_from_and_when_it_changed() -> None:
    rig = rig_of()
    lastmod = rig.clock.now() - 5 * DAY

    enter(rig, listed("1", lastmod))

    record = known(rig, url("1"))
    assert (record.kind, record.lastmod) == (PAGE, lastmod)
    name = rig.kv.get(sitemap_key(0, A, record.second_group))
    assert name is not None
    assert decode(name, SitemapRecord).url == MAP


def test_robots_txt_names_sitemaps_and_its_host_vouches_for_them() -> None:
    found = named_by_robots(f"https://{A}", ["/s.xml", "https://b.test/for-a.xml", "ftp://x/"])

    assert [one.url for one in found] == [url("s.xml"), "https://b.test/for-a.xml"]
    assert {one.vouched for one in found} == {(A,)}
    assert {one.kind for one in found} == {SITEMAP}


def test_sitemaps_of_robots_txt_are_known_once_its_answer_is_stored() -> None:
    rig = FrontierRig(A, open_robots=False)
    rig.discover(url("1"))
    lease = rig.next_claim()
    assert lease is not None
    assert not isinstance(lease, Lease)

    rig.finish_robots(
        lease, "rules", f"User-agent: *\nSitemap: {MAP}\nSitemap: https://horizon.test/s.xml".encode()
    )

    assert known(rig, MAP).kind == SITEMAP
    assert rig.frontier.hosts[A].record.sitemaps == 1


def test_an_answer_is_parsed_once_whatever_is_made_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = FrontierRig(A, open_robots=False)
    parsed: list[Robots] = []
    rig.discover(url("1"))
    lease = rig.next_claim()
    assert isinstance(lease, RobotsLease)
    made = Robots.__init__

    def counting(robots: Robots, *given: Any) -> None:
        parsed.append(robots)
        made(robots, *given)

    monkeypatch.setattr(Robots, "__init__", counting)

    rig.finish_robots(lease, "rules", f"User-agent: *\nCrawl-delay: 1\nSitemap: {MAP}".encode())

    assert known(rig, MAP).kind == SITEMAP
    assert len(parsed) == 1


def test_a_value_above_all_pages_is_a_place_in_the_queue_and_no_worth() -> None:
    rig = rig_of()
    rig.discover(url("1"), value=1.0)

    enter(rig, Found(url("first"), 0, 1_000.0))

    assert rig.claim_page().url == url("first")
    assert known(rig, url("first")).value == 1.0


def test_a_page_that_turns_out_to_be_a_sitemap_is_read_again_as_one() -> None:
    rig = rig_of()
    visited(rig, "sitemap.xml")

    enter(rig, sitemap())

    record = known(rig, MAP)
    assert (record.kind, record.lane, record.body_hash) == (SITEMAP, DISCOVERY, 0)
    assert rig.claim_page().url == MAP


def test_a_page_that_turns_out_to_be_a_sitemap_while_it_is_fetched_is_read_again_too() -> None:
    rig = rig_of()
    rig.discover(MAP)
    lease = rig.claim_page()

    enter(rig, sitemap())
    rig.finish(lease, body_hash=7)

    assert (known(rig, MAP).kind, known(rig, MAP).body_hash) == (SITEMAP, 0)
    assert rig.claim_page().url == MAP


def test_a_sitemap_that_one_more_host_vouches_for_is_read_again_and_only_then() -> None:
    rig = rig_of()
    enter(rig, sitemap(MAP, A))
    rig.finish(rig.claim_page(), body_hash=7)

    enter(rig, sitemap(MAP, A))
    assert known(rig, MAP).lane == REFRESH
    enter(rig, sitemap(MAP, B))

    assert (known(rig, MAP).lane, known(rig, MAP).body_hash) == (DISCOVERY, 0)
    record = rig.kv.get(sitemap_key(0, A, sitemap_group(A, MAP)))
    assert record is not None
    assert decode(record, SitemapRecord).vouched == (A, B)


def test_sitemaps_of_a_long_index_take_turns_with_pages() -> None:
    values = [value_of(1, place) for place in range(100)]

    assert values == sorted(values, reverse=True)
    assert values[0] == 0.5
    assert values[20] < 0.2


# bounds


def test_indexes_nest_so_deep_and_no_deeper() -> None:
    rig = rig_of(Sitemaps(max_level=2))

    assert enter(rig, *(sitemap(url(f"{n}.xml"), level=n) for n in range(5))) == [
        *("new", "new", "new"),
        *("sitemap_too_deep", "sitemap_too_deep"),
    ]


def test_a_host_has_so_many_sitemaps_and_feeds_and_no_more() -> None:
    rig = rig_of(Sitemaps(max_known=3))

    verdicts = enter(rig, *(sitemap(url(f"{n}.xml")) for n in range(5)))
    enter(rig, Found(url("feed"), 1, 1.0, kind=FEED))
    visited(rig, "page.xml")
    enter(rig, sitemap(url("page.xml")))

    assert verdicts.count("new") == 3
    assert rig.record(A, url("feed")) is None
    assert known(rig, url("page.xml")).kind == PAGE


def test_bytes_that_a_day_may_bring_are_bounded_and_the_rest_waits_for_the_next() -> None:
    rig = rig_of(Sitemaps(bytes_per_day=1_000))
    enter(rig, *(sitemap(url(f"{n}.xml")) for n in range(3)), Found(url("page"), 1, 0.1))
    today = int(rig.clock.now() // DAY)
    rig.frontier.hosts[A].record.sitemap_day, rig.frontier.hosts[A].record.sitemap_bytes = today, 1_000

    assert rig.claim_page().url == url("page")
    for lease in rig.frontier.denied:
        rig.apply(lambda planner, lease=lease: planner.denied(lease))
    waits = known(rig, url("0.xml"))
    assert (waits.state, waits.reason) == (DROPPED, "sitemap_budget")
    assert waits.rank / 1000 == pytest.approx(rig.clock.now() + DAY, abs=5)
    assert not over_budget(rig.frontier.hosts[A].record, rig.clock.now() + DAY, Sitemaps(bytes_per_day=1_000))


def test_pages_from_a_sitemap_are_bounded_like_links() -> None:
    rig = rig_of()

    assert enter(rig, listed("a/" * 20), Found("https://horizon.test/", 1, 0.5, sitemap=MAP)) == [
        "repeated-segments",
        "horizon",
    ]


# revisits


def test_a_sitemap_is_read_again_within_bounds_of_its_own() -> None:
    rig = rig_of(Sitemaps(interval_min=100.0, interval_max=DAY))
    enter(rig, sitemap())

    for _ in range(6):
        lease = rig.claim_page()
        prior = rig.frontier.revisits.sitemap_prior
        rig.finish(lease, changed=True, posterior=posterior_after(lease.record, True, rig.clock.now(), prior))
    record = known(rig, MAP)

    assert 100.0 <= record.rank / 1000 - record.last_success_at <= 0.4 * DAY


def test_visits_of_sitemaps_teach_nothing_about_pages() -> None:
    rig = rig_of()
    enter(rig, sitemap())
    rig.finish(rig.claim_page(), body_hash=1)
    before = rig.frontier.hosts[A].threshold

    rig.clock.advance(300 * DAY)
    rig.finish(rig.claim_page(), body_hash=2, changed=True)

    assert rig.frontier.hosts[A].threshold == before


# lastmod


def due(rig: FrontierRig, path: str) -> float:
    """Seconds until the page is due."""
    return known(rig, url(path)).rank / 1000 - rig.clock.now()


def test_a_later_lastmod_makes_a_page_due_at_once() -> None:
    rig = rig_of()
    visited(rig, "1", "2")
    rig.clock.advance(3_600.0)
    assert due(rig, "1") > DAY / 2

    enter(rig, listed("1", rig.clock.now() - 60.0))

    assert due(rig, "1") <= 0.0
    assert rig.claim_page().url == url("1")
    assert rig.frontier.hosts[A].record.pulled == 1


@pytest.mark.parametrize(
    "lastmod", [0.0, -7_200.0, +30 * DAY], ids=["none", "before the visit", "in the future"]
)
def test_a_lastmod_that_claims_nothing_moves_nothing(lastmod: float) -> None:
    rig = rig_of()
    visited(rig, "1")
    rig.clock.advance(3_600.0)

    enter(rig, listed("1", rig.clock.now() + lastmod if lastmod else 0.0))

    assert due(rig, "1") > DAY / 2


def test_switched_off_it_moves_nothing() -> None:
    rig = rig_of(Sitemaps(lastmod=False))
    visited(rig, "1")
    rig.clock.advance(3_600.0)

    enter(rig, listed("1", rig.clock.now()))

    assert due(rig, "1") > DAY / 2


@pytest.mark.parametrize("changed", [True, False])
def test_each_visit_of_a_page_claimed_to_have_changed_shows_what_the_claim_was_worth(changed: bool) -> None:
    rig = rig_of()
    visited(rig, "1")
    rig.clock.advance(3_600.0)
    enter(rig, listed("1", rig.clock.now()))

    rig.finish(rig.claim_page(), changed=changed)

    host, page = rig.frontier.hosts[A].record, known(rig, url("1"))
    assert host.claims == Trust(float(changed), float(not changed))
    assert (host.pulled, page.claimed, page.pulled) == (0, 0.0, False)
    assert due(rig, "1") > 3_600.0


def test_a_failed_visit_shows_nothing_yet() -> None:
    rig = rig_of()
    visited(rig, "1")
    rig.clock.advance(3_600.0)
    enter(rig, listed("1", rig.clock.now()))

    rig.finish(rig.claim_page(), "retry")

    assert rig.frontier.hosts[A].record.claims == Trust()
    assert known(rig, url("1")).pulled


def test_a_host_of_which_little_is_known_calls_for_few_visits_at_a_time() -> None:
    rig = rig_of()
    paths = [str(n) for n in range(PROBES + 10)]
    visited(rig, *paths)
    rig.clock.advance(3_600.0)

    enter(rig, *(listed(path, rig.clock.now()) for path in paths))

    assert rig.frontier.hosts[A].record.pulled == PROBES
    assert sum(due(rig, path) <= 0.0 for path in paths) == PROBES


def test_a_change_that_was_told_of_counts_as_one_and_not_as_at_least_one() -> None:
    """Seen always right after it happened, "at least one change" would raise the rate for ever."""
    told = UrlRecord(last_success_at=1.0, pulled=True)
    found = UrlRecord(last_success_at=1.0)
    prior = FrontierRig(A).frontier.revisits.priors.of(0, A, 0)
    for n in range(1, 200):
        for record in (told, found):
            at = 1.0 + n * 10 * DAY
            record.rate_a, record.rate_b = posterior_after(record, True, at, prior)
            record.last_success_at = at

    assert (prior.a + told.rate_a) / (prior.b + told.rate_b) == pytest.approx(0.1, rel=0.15)
    assert (prior.a + found.rate_a) / (prior.b + found.rate_b) > 0.3


# a small crawl in virtual time


@dataclass
class Site:
    """Pages that change by chance, and a sitemap that says so (`honest`) or that all have changed just now."""

    seed: int
    lastmod: bool = True
    honest: bool = True
    pages: int = 30
    rate: float = 1 / 20
    """Changes per page and day."""
    delays: list[float] = field(default_factory=list)
    """Days from a change to the visit that finds it."""
    visits: int = 0

    def run(self, days: float) -> "Site":
        chance = random.Random(self.seed)
        self.rig = rig_of(Sitemaps(lastmod=self.lastmod), refresh=Refresh(interval_min=4 * DAY))
        start = self.rig.clock.now()
        changes = {
            url(f"p{n}"): sorted(
                start + chance.uniform(0, days * DAY) for _ in range(self._count(chance, days))
            )
            for n in range(self.pages)
        }
        self._told: dict[str, float] = {}
        enter(self.rig, sitemap(), *(Found(page, 1, 0.5) for page in changes))
        while (lease := self.rig.next_claim(start + days * DAY - self.rig.clock.now())) is not None:
            assert isinstance(lease, Lease)
            now = self.rig.clock.now()
            if lease.record.kind == SITEMAP:
                self._read(lease, changes, now)
            else:
                self._visit(lease, changes[lease.url], now)
        return self

    def _count(self, chance: random.Random, days: float) -> int:
        expected, count = self.rate * days, 0
        while (expected := expected - chance.expovariate(1.0)) > 0:
            count += 1
        return count

    def _read(self, lease: Lease, changes: dict[str, list[float]], now: float) -> None:
        said = (
            {page: self._last(times, now) for page, times in changes.items()}
            if self.honest
            else dict.fromkeys(changes, now)
        )
        moved = {page: at for page, at in said.items() if at > self._told.get(page, 0.0)}
        self._told |= moved
        found = [Found(page, 1, 0.5, sitemap=MAP, lastmod=at) for page, at in moved.items()]
        prior = self.rig.frontier.revisits.sitemap_prior
        changed = bool(moved) and self.rig.frontier.hosts[A].record.claims.believed
        posterior = posterior_after(lease.record, changed, now, prior)
        self.rig.finish(lease, changed=changed, found=found, posterior=posterior)

    def _visit(self, lease: Lease, times: list[float], now: float) -> None:
        self.visits += 1
        since = lease.record.last_success_at
        news = [at for at in times if since < at <= now] if since else []
        self.delays += [(now - news[0]) / DAY] if news else []
        prior = self.rig.frontier.revisits.priors.of(0, A, lease.record.group)
        changed = bool(news) if since else None
        self.rig.finish(lease, changed=changed, posterior=posterior_after(lease.record, changed, now, prior))

    @staticmethod
    def _last(times: list[float], now: float) -> float:
        return max((at for at in times if at <= now), default=0.0)

    @property
    def delay(self) -> float:
        return sum(self.delays) / len(self.delays)


DAYS = 30.0


@pytest.fixture(scope="module")
def silent() -> Site:
    """The same site without a word about changes."""
    return Site(1, lastmod=False).run(DAYS)


def test_what_an_honest_sitemap_tells_is_found_within_hours(silent: Site) -> None:
    site = Site(1).run(DAYS)

    assert len(site.delays) > 30
    assert site.delay < 0.75
    assert site.rig.frontier.hosts[A].record.claims.chance > 0.8
    # Ablation: without lastmod the same changes are found days later.
    assert silent.delay > 3 * site.delay


def test_a_sitemap_that_always_says_now_costs_little(silent: Site) -> None:
    liar = Site(1, honest=False).run(DAYS)

    assert not liar.rig.frontier.hosts[A].record.claims.believed
    assert liar.visits < 1.25 * silent.visits
