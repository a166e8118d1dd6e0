"""Each measure on rows of which the answer is known."""

from datetime import timedelta
from ipaddress import ip_network

import pytest

from crawl_platform.fetch.outcome import DISPOSITIONS, UNSENT, Outcome
from crawl_platform.quality import measure as declared
from crawl_platform.quality.catalog import MEASURES
from tests.quality.conftest import NOW

DIMENSIONS = {"usefulness", "completeness", "freshness", "timeliness", "cost", "politeness"}
HOUR, DAY = 3_600.0, 86_400.0


# the catalogue


def test_every_dimension_has_measures_and_each_says_what_it_is():
    assert {m.dimension for m in MEASURES.values()} == DIMENSIONS
    for measure in MEASURES.values():
        assert measure.definition.endswith("."), measure.name
        assert measure.unit
        assert measure.missing


def test_an_empty_lake_has_no_value_and_no_error(small):
    assert {value.value for value in small.measure().values()} == {None}


def test_the_outcomes_named_are_those_of_the_taxonomy():
    def names(text: str) -> set[str]:
        return {name.strip(" '()") for name in text.split(",")}

    assert names(declared.RETRIED) == {o.value for o, d in DISPOSITIONS.items() if d == "retry"}
    assert names(declared.SUCCESSES) == {o.value for o, d in DISPOSITIONS.items() if d == "success"}
    assert names(declared.UNSENT) == {o.value for o in UNSENT}
    assert Outcome.REDIRECT.value not in names(declared.RETRIED)


def test_what_happened_before_the_look_back_or_after_the_commit_does_not_count(small):
    small.page("https://a.test/1", 2 * DAY, "x")
    small.page("https://a.test/2", 60, "y")
    small.page("https://a.test/3", -60, "z")

    assert small.measure()["useful_share"].denominator == 1


# usefulness


def test_every_page_fetch_is_of_one_kind_and_the_shares_say_how_many(small):
    small.page("https://a.test/original", 900, "text")
    small.page("https://a.test/copy", 800, "text")
    small.page("https://a.test/empty", 700, None, links=0)
    small.page("https://a.test/hub", 650, None, links=40)
    small.fetch("https://a.test/original", 600, outcome="not_modified")
    small.fetch("https://a.test/original", 500, changed=False)
    small.page("https://a.test/original", 400, "new text", changed=True)
    small.fetch("https://a.test/gone", 300, outcome="not_found")
    small.fetch("https://a.test/away", 200, outcome="redirect")
    small.fetch("https://a.test/robots.txt", 1_000, kind="robots")

    measures = small.measure()

    assert {n: measures[n].numerator for n in measures if measures[n].denominator == 9 and "share" in n} == {
        "useful_share": 3, "unchanged_share": 2, "duplicate_share": 1, "soft_failure_share": 1, "failure_share": 1,
    }  # fmt: skip


def test_a_page_is_no_duplicate_of_itself(small):
    small.page("https://a.test/", 3_000, "text")
    small.page("https://a.test/", 2_000, "other", changed=True)
    small.page("https://a.test/", 1_000, "text", changed=True)

    assert small.value("duplicate_share") == 0


def test_promoted_hosts_are_judged_by_the_pages_they_brought(small):
    for host in ("good.test", "bad.test"):
        small.add("hosts", DAY, host=host, event="promoted")
    small.add("hosts", DAY, host="seed.test")
    for n in range(6):
        small.fetch(f"https://good.test/{n}", 60)
        small.fetch(f"https://seed.test/{n}", 60)
    small.fetch("https://bad.test/", 60, outcome="unavailable")

    measures = small.measure()

    assert measures["pages_per_promoted_host"].value == 3
    assert measures["promoted_hosts_read"].value == 0.5


# completeness


def test_coverage_counts_what_is_known_eligible_and_in_the_seed(small):
    for host in ("a.test", "unread.test"):
        small.add("hosts", DAY, host=host)
    known = {
        "done": "fetched",
        "waits": "queued",
        "waits-too": "queued",
        "forbidden": "dropped",
        "never": "gone",
    }
    for name, state in known.items():
        last = NOW if state == "fetched" else None
        small.add("frontier", host="a.test", url=f"https://a.test/{name}", state=state, last_success_at=last)
    small.add("frontier", host="horizon.test", url="https://horizon.test/", state="queued")
    small.fetch("https://a.test/waits-too", 60)
    small.fetch("https://a.test/found-since", 60)
    small.fetch("https://a.test/failed", 60, outcome="unavailable")

    measures = small.measure()

    assert (measures["url_coverage"].numerator, measures["url_coverage"].denominator) == (3, 4)
    assert measures["backlog"].value == 1
    assert measures["host_coverage"].value == 0.5


def test_without_a_snapshot_coverage_is_not_known_rather_than_complete(small):
    small.add("hosts", DAY, host="a.test")
    small.fetch("https://a.test/", 60)

    assert small.value("url_coverage") is None
    assert small.value("backlog") is None


# timeliness


def link(small, target: str, ago: float) -> None:
    small.add(
        "links", ago, fetch_id="f", src_url="https://a.test/", src_host="a.test", dst_url=target, dst_host="a.test"
    )  # fmt: skip


def test_discovery_to_fetch_runs_from_the_first_link_to_the_first_success(small):
    small.add("hosts", 10 * DAY, host="a.test")
    for n, waited in enumerate((10.0, 20.0, 300.0)):
        link(small, f"https://a.test/{n}", 1_000 + waited)
        link(small, f"https://a.test/{n}", 900)
        small.fetch(f"https://a.test/{n}", 1_000, depth=1)
        small.fetch(f"https://a.test/{n}", 10, depth=1, previous_success_at=NOW - timedelta(seconds=1_000))

    measures = small.measure()

    assert measures["discovery_to_fetch_median"].value == pytest.approx(20.0)
    assert measures["discovery_to_fetch_p95"].value == pytest.approx(272.0)


def test_a_page_can_not_be_late_before_its_host_was_in_the_seed(small):
    small.add("hosts", 1_100, host="a.test", event="promoted")
    link(small, "https://a.test/known-for-long", 5 * DAY)
    small.fetch("https://a.test/known-for-long", 1_000, depth=1)
    small.fetch("https://a.test/", 1_000, depth=0)

    assert small.value("discovery_to_fetch_p95") == pytest.approx(100.0)


def test_a_redirect_is_a_discovery_too(small):
    small.add("hosts", DAY, host="a.test")
    small.fetch("https://a.test/old", 1_050, outcome="redirect", redirect_to="https://a.test/new")
    small.fetch("https://a.test/new", 1_000, depth=1)

    assert small.value("discovery_to_fetch_median") == pytest.approx(50.0)


def test_overdue_is_what_is_older_than_the_longest_interval(small):
    small.add("hosts", 90 * DAY, host="a.test")
    small.fetch("https://a.test/old", 31 * DAY)
    for n in range(3):
        small.fetch(f"https://a.test/{n}", 29 * DAY)

    assert small.value("overdue_share") == 0.25
    assert small.value("overdue_share", promised={"a.test": 60.0}) == 1.0, "what is promised of a host counts"


def test_late_first_visits_are_those_past_their_promise_made_or_not(small):
    at = {name: NOW - timedelta(seconds=ago) for name, ago in (("early", 500), ("late", 5_000))}
    for name, found in at.items():
        small.fetch(f"https://a.test/{name}", 400, discovered_at=found)
        small.add(
            "frontier", url=f"https://a.test/waits-{name}", host="a.test", state="queued", discovered_at=found
        )
    small.add("frontier", url="https://a.test/early", host="a.test", state="queued", discovered_at=at["late"])

    assert small.value("late_first_visits", promised_first={"a.test": 1_000.0}) == 0.5
    assert small.value("late_first_visits", promised_first={"b.test": 1_000.0}) is None


def test_fastlane_is_timed_from_the_request_to_the_commit_that_shows_its_fetch(small):
    for n in range(20):
        small.add("requests", 110 + n, request_id=f"r{n}", target="https://a.test/")
        small.fetch(
            "https://a.test/", 105, request_id=f"r{n}", incarnation="i", series="fast", manifest=n + 1
        )
        small.add(
            "commits",
            100,
            commit_id=n + 1,
            versions=[],
            manifests=[f"i/fast/{n + 1}"],
            quarantined=[],
            rows=[],
        )
    small.add("requests", 50_000, request_id="unanswered", target="https://a.test/")

    assert small.value("fastlane_p95") == pytest.approx(10 + 0.95 * 19)


def fresh(small, url: str, shown_by: str, waited: float, number: int) -> None:
    """A link shown by a visit to `shown_by`, a minute before its page was fetched in the freshlane; in the lake
    `waited` seconds after the visit."""
    at = {"incarnation": "i", "series": "fast"}
    visit = small.fetch("https://a.test/", 200, lane=shown_by, manifest=number, **at)
    small.add(
        "links",
        200,
        fetch_id=visit,
        src_url="https://a.test/",
        src_host="a.test",
        dst_url=url,
        dst_host="a.test",
    )
    small.fetch(url, 140, lane="freshlane", manifest=number, **at)
    labels = {
        "commit_id": number,
        "versions": [],
        "manifests": [f"i/fast/{number}"],
        "quarantined": [],
        "rows": [],
    }
    small.add("commits", 200 - waited, **labels)


def test_the_freshlane_is_timed_from_the_visit_that_first_showed_a_link_to_the_commit_with_its_page(small):
    for n in range(20):
        fresh(small, f"https://a.test/news-{n}", "freshlane", 70.0 + n, n + 1)
    again = small.fetch("https://a.test/", 100, lane="freshlane")
    small.add("links", 100, fetch_id=again, src_url="https://a.test/", dst_url="https://a.test/news-0")
    small.fetch("https://a.test/", 90, lane="freshlane", previous_success_at=NOW)

    assert small.value("freshlane_p95") == pytest.approx(70 + 0.95 * 19)


def test_a_page_that_was_known_before_it_was_watched_did_not_come_through_the_freshlane(small):
    fresh(small, "https://a.test/section/", "discovery", 70.0, 1)

    assert small.value("freshlane_p95") is None


# cost


def test_a_page_costs_what_was_spent_on_all_fetches(small):
    small.fetch("https://a.test/robots.txt", 500, kind="robots", wire_bytes=1_000, duration_ms=1_000.0)
    small.fetch("https://a.test/missing", 400, outcome="not_found", wire_bytes=1_000, duration_ms=1_000.0)
    small.fetch("https://a.test/", 300, wire_bytes=6_000, duration_ms=1_000.0, charged=0.08)
    before = NOW - timedelta(seconds=300)
    for ago in (250, 200, 150):
        small.fetch("https://a.test/", ago, outcome="not_modified", wire_bytes=0, duration_ms=200.0,
                    changed=False, previous_success_at=before)  # fmt: skip
    small.add("fleet_stats", 100, pages=3, cpu_seconds=0.3)
    small.add("fleet_stats", 50, pages=1, cpu_seconds=0.1)

    values = {name: value.value for name, value in small.measure().items()}

    assert values["bytes_per_page"] == 2_000
    assert values["bytes_per_change"] == 8_000
    assert values["seconds_per_page"] == pytest.approx(0.9)
    assert values["seconds_per_change"] == pytest.approx(3.6)
    assert values["cpu_per_page"] == pytest.approx(0.1)
    assert values["cpu_per_change"] == pytest.approx(0.4)
    assert values["gigabytes_per_million_pages"] == pytest.approx(2.0)
    assert values["paid_per_million_pages"] == pytest.approx(20_000)
    assert values["cpu_hours_per_million_pages"] == pytest.approx(0.1 * 1e6 / 3_600)


# politeness


def polite_crawl(small, gap: float = 1.2, host: str = "a.test", address: str = "192.0.2.1") -> None:
    """Ten requests of 100 ms each, robots first."""
    small.fetch(f"https://{host}/robots.txt", HOUR, kind="robots", address=address)
    for n in range(1, 10):
        small.fetch(f"https://{host}/{n}", HOUR - n * gap, address=address)


def test_a_polite_crawl_breaks_no_promise(small):
    polite_crawl(small)
    small.fetch("https://a.test/busy", 60, outcome="rate_limited")

    values = {name: value.value for name, value in small.measure().items()}

    assert (values["overlapping_requests"], values["short_gaps"], values["requests_before_robots"]) == (
        0,
        0,
        0,
    )
    assert values["pushback_share"] == pytest.approx(1 / 11)


def test_requests_that_overlap_at_a_host_are_counted_also_behind_a_long_one(small):
    polite_crawl(small)
    small.fetch("https://a.test/long", 1_000, duration_ms=10_000.0)
    small.fetch("https://a.test/x", 998, duration_ms=100.0)
    small.fetch("https://a.test/y", 995, duration_ms=100.0)

    # Both at the host and at its address.
    assert small.value("overlapping_requests") == 4


def test_gaps_are_measured_from_the_end_of_a_request(small):
    polite_crawl(small, gap=1.05)

    assert small.value("short_gaps") == 2 * 9


def test_two_hosts_at_one_address_share_its_delay(small):
    polite_crawl(small, host="a.test")
    polite_crawl(small, host="b.test", address="192.0.2.2")
    assert small.value("overlapping_requests") == 0
    small.fetch("https://a.test/z", 100, address="192.0.2.3")
    small.fetch("https://b.test/z", 99.5, address="192.0.2.3")

    assert small.value("short_gaps") == 1


def test_several_requests_at_a_front_end_are_no_rudeness_but_at_a_host_they_are(small):
    polite_crawl(small, host="a.test")
    small.fetch("https://a.test/z", 100, address="203.0.113.3", duration_ms=3_000.0)
    small.fetch("https://b.test/z", 99, address="203.0.113.3", duration_ms=3_000.0)
    front_ends = (ip_network("203.0.113.0/24"),)

    assert small.value("overlapping_requests") == 1
    assert small.value("overlapping_requests", front_ends=front_ends) == 0
    small.fetch("https://b.test/y", 98, address="203.0.113.3", duration_ms=3_000.0)
    assert small.value("overlapping_requests", front_ends=front_ends) == 1


def test_a_crawl_delay_is_in_force_from_the_robots_file_that_asked_for_it(small):
    polite_crawl(small)
    small.fetch("https://a.test/robots.txt", 1_000, kind="robots")
    small.add("hosts", 999.8, host="a.test", event="robots", delay=5.0)
    small.fetch("https://a.test/in-time", 994)
    small.fetch("https://a.test/too-soon", 992)

    assert small.value("short_gaps") == 1


def test_a_host_that_recovers_is_held_to_its_shortest_delay_and_one_that_was_slowed_to_the_longer(small):
    polite_crawl(small)
    small.add("hosts", 999.9, host="a.test", event="robots", delay=2.0)
    small.add("hosts", 999.8, host="a.test", event="paced", detail="overload: rate_limited", delay=8.0)
    for ago in (990, 985):  # 5 s apart: too soon
        small.fetch("https://a.test/x", ago)
    small.add("hosts", 980, host="a.test", event="paced", detail="recovers", delay=6.0)
    for ago in (970, 967):  # 3 s apart: steps of the recovery are not all told
        small.fetch("https://a.test/x", ago)

    assert small.value("short_gaps") == 1


def test_fetches_that_never_became_a_request_are_nobodys_burden(small):
    polite_crawl(small)
    for ago in (100.0, 100.0, 99.9):
        small.fetch("https://a.test/", ago, outcome="connect_refused", duration_ms=5_000.0)

    measures = small.measure()
    assert (measures["overlapping_requests"].value, measures["short_gaps"].value) == (0, 0)


@pytest.mark.parametrize(
    ("robots_ago", "page_url", "expected"),
    [
        (500.0, "https://a.test/", 0),
        (300.0, "https://a.test/", 1),
        (500.0, "http://a.test/", 1),
        (500.0, "https://a.test:8443/", 1),
        (500.0 + 2 * DAY, "https://a.test/", 1),
    ],
)
def test_a_page_needs_a_robots_file_of_its_own_origin_before_it_that_is_still_valid(
    small, robots_ago, page_url, expected
):
    small.fetch("https://a.test/robots.txt", robots_ago, kind="robots")
    small.fetch(page_url, 400)

    assert small.value("requests_before_robots") == expected


def test_the_last_minute_is_not_judged_by_robots_files_that_may_still_be_on_their_way(small):
    small.fetch("https://a.test/", 5)

    assert small.value("requests_before_robots") == 0
