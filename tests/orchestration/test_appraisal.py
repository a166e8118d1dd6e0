"""From pages, links, duplicates and usage to what pages are worth: evidence and appraisal, on tables in memory."""

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from assets import appraisal, value_evidence
from assets.appraisal import Appraised, appraise
from assets.value_evidence import INPUTS, gather
from crawl_platform.clock import ManualClock, as_datetime
from crawl_platform.fleet.messages import Worth
from crawl_platform.lake.tables import PAGE_VALUES, TABLES
from crawl_platform.lake.views import VIEWS
from crawl_platform.settings import Value
from crawl_platform.value.reasons import USUAL
from crawl_platform.value.topics import Topic, Topics
from crawl_platform.web.url import host_of
from resources.lake import Reading
from tests.orchestration.made_up_crawl import MadeUpCrawl

SITE, WIND, COPY = "https://plain.test/", "https://plain.test/wind", "https://mirror.test/wind"
TOPICS = Topics((Topic("wind power", phrases=("wind turbine*",)),), "one")


def story(seed: int, sentences: int = 40) -> str:
    draw = random.Random(seed)
    return " ".join(
        f"The {draw.randrange(9_999)} towns met on day {draw.randrange(9_999)}." for _ in range(sentences)
    )


class Appraiser:
    """A crawl whose tables are in memory, and what `page_values` would make of it, run after run."""

    def __init__(self, crawl: MadeUpCrawl, clock: ManualClock) -> None:
        self.crawl, self.clock = crawl, clock
        self.topics = Topics(())
        self.values: pa.Table = PAGE_VALUES.schema.empty_table()
        self.counts: dict[str, int] = {}
        self.groups: list[dict[str, Any]] = []

    def run(self) -> Appraised:
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for name in INPUTS:
                rows = self.crawl._rows.get(name, [])
                known = [{k: v for k, v in row.items() if k in TABLES[name].schema.names} for row in rows]
                connection.register(name, pa.Table.from_pylist(known, schema=TABLES[name].schema))
            connection.register("page_values", self.values)
            for view in VIEWS.values():
                if {*INPUTS, "page_values"}.issuperset(view.reads):
                    connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
            evidence = gather(Reading(connection, {}), self.topics, self.clock.now())
            appraised = appraise(evidence, self.topics, Value(), self.clock.now())
            self.values, self.counts = appraised.rows, evidence.counts
            connection.register("page_values", self.values)
            self.groups = connection.execute("SELECT * FROM group_values").to_arrow_table().to_pylist()
        return appraised

    def told(self) -> dict[str, float]:
        """What another run tells."""
        return {worth.url: worth.value for worth in self.run().news}

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        return {row["url"]: row for row in self.values.to_pylist()}

    def use(
        self, target: str, *, retrievals: int | None = None, critical: bool | None = None, ago: float = 0
    ) -> None:
        whole = "://" not in target
        self.crawl.row(
            "usage",
            url=None if whole else target,
            host=target if whole else host_of(target),
            used_at=as_datetime(self.clock.now() - ago),
            retrievals=retrievals,
            critical=critical,
            source="use.csv",
            line=1,
            import_id="x",
            imported_at=as_datetime(self.clock.now()),
        )

    def duplicate(self, url: str) -> None:
        self.crawl.row("near_duplicates", cluster_id="c", url=url, host=host_of(url), fetch_id="f", size=2, words=90,
                       representative=SITE, is_representative=False, kind="exact", similarity=1.0)  # fmt: skip


@pytest.fixture
def site(clock) -> Appraiser:
    """Twenty pages of one host, all alike in what they are worth."""
    crawl = MadeUpCrawl(None, clock)
    crawl.host("plain.test")
    for i in range(20):
        crawl.page(f"https://plain.test/{i}", story(i), title=f"Town {i}")
    return Appraiser(crawl, clock)


def test_pages_that_are_like_the_others_keep_their_value_and_nothing_is_told(site):
    assert site.told() == {}

    assert len(site.rows) == 20
    assert all(row["value"] == pytest.approx(0.5, rel=0.1) for row in site.rows.values())
    assert {row["reason"] for row in site.rows.values()} == {USUAL}
    assert {row["business"] for row in site.rows.values()} == {None}


def test_a_page_about_a_topic_is_worth_more_and_the_fleet_hears_why(site):
    site.topics = TOPICS
    site.crawl.page(WIND, f"Wind turbines. {story(99)}", title="Wind turbines")

    (news,) = site.run().news

    row = site.rows[WIND]
    assert row["business"] == pytest.approx(1 - 0.4 * 0.85)
    assert row["value"] > 1.5
    assert row["reason"].startswith("about wind power (×")
    assert news == Worth(WIND, row["value"], row["reason"])
    assert row["told"] == row["value"]


def test_a_repeated_run_tells_nothing_and_scores_nothing_again(site):
    site.topics = TOPICS
    site.crawl.page(WIND, f"Wind turbines. {story(99)}", title="Wind turbines")
    site.run()
    first = site.values

    assert site.told() == {}
    assert (site.counts["texts_scored"], site.counts["links_scored"]) == (0, 0)
    assert site.values.equals(first)


def test_another_topics_file_has_all_pages_scored_again(site):
    site.topics = TOPICS
    site.crawl.page(WIND, f"Wind turbines. {story(99)}", title="Wind turbines")
    site.run()

    site.topics = Topics((Topic("ships", phrases=("ship",)),), "two")

    assert site.told() == {WIND: pytest.approx(0.5, rel=0.1)}
    assert site.rows[WIND]["business"] == 0.0


def test_of_many_texts_a_run_scores_some_and_the_next_the_others(site, monkeypatch):
    monkeypatch.setattr(value_evidence, "MOST_TEXTS", 15)

    scored = []
    for _ in range(3):
        site.run()
        scored.append(site.counts["texts_scored"])

    assert scored == [15, 5, 0]
    assert all(row["words"] > 100 for row in site.rows.values())


def test_a_page_that_nobody_has_read_is_found_by_the_words_of_links_to_it(site):
    """Links that the site does not vouch for say nothing."""
    site.topics = TOPICS
    links = (("a", "wind turbines", False), ("b", "read on", False), ("c", "wind turbines", True))
    for name, anchor, nofollow in links:
        fetch = site.crawl.fetch(f"https://plain.test/from-{name}", depth=1)
        site.crawl.link(
            fetch, f"https://plain.test/from-{name}", f"https://plain.test/to-{name}", nofollow=nofollow
        )
        site.crawl._rows["links"][-1]["anchor"] = anchor

    news = site.told()

    (row,) = (row for row in site.rows.values() if row["fetch_id"] is None)
    assert (row["url"], row["business"], row["ir"]) == ("https://plain.test/to-a", 0.5, None)
    assert row["base"] == pytest.approx(1 / 3)
    assert news == {row["url"]: row["value"]}


def test_links_to_hosts_that_are_not_in_the_seed_are_left_out(site):
    site.topics = TOPICS
    site.crawl.visit(SITE, "https://horizon.test/wind-turbine")

    site.run()

    assert not any(url.startswith("https://horizon.test") for url in site.rows)


def test_when_no_topic_speaks_for_an_unread_page_any_more_its_depth_does(site):
    site.topics = TOPICS
    site.crawl.visit(SITE, "https://plain.test/wind-turbine")
    (unread,) = site.told()

    site.topics = Topics(())
    (news,) = site.run().news

    assert (news.url, news.reason) == (unread, appraisal.BY_DEPTH)
    assert news.value == pytest.approx(0.5)
    assert unread not in site.rows
    assert site.told() == {}


def test_a_duplicate_is_worth_a_fifth_until_it_is_none(site):
    """As `near_duplicates` says; Ablation: without that it is a page like others."""
    site.crawl.page(COPY, story(77), title="Mirror")
    assert site.told() == {}
    site.duplicate(COPY)

    assert site.told() == {COPY: site.rows[COPY]["value"]}
    assert site.rows[COPY]["value"] == pytest.approx(0.1, rel=0.25)
    assert "duplicate (×0.2)" in site.rows[COPY]["reason"]

    site.crawl._rows["near_duplicates"].clear()
    assert site.told() == {COPY: pytest.approx(0.5, rel=0.25)}


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ({"text": "This page does not exist.", "title": "Not found"}, "soft error"),
        ({"text": story(5), "canonical": "https://plain.test/0"}, "canonical elsewhere"),
        ({"text": story(6), "noindex": True}, "not to be indexed"),
    ],
)
def test_a_page_with_a_fault_is_worth_less(site, page, fault):
    site.crawl.page(WIND, **page)

    assert set(site.told()) == {WIND}
    assert site.rows[WIND]["fault"] == fault
    assert site.rows[WIND]["value"] < 0.25
    assert fault in site.rows[WIND]["reason"]


def test_a_page_that_is_gone_is_worth_next_to_nothing(site, clock):
    clock.advance(60)
    site.crawl.gone("https://plain.test/3")

    site.run()

    assert site.rows["https://plain.test/3"]["fault"] == "gone"


def test_hosts_that_are_excluded_have_no_rows(site, clock):
    clock.advance(60)
    site.crawl.host("plain.test", "excluded", event="excluded")

    site.run()

    assert site.rows == {}


def test_retrievals_raise_a_page_and_fade(site):
    for i, ago in ((1, 0.0), (2, 300 * 86_400.0)):
        site.use(f"https://plain.test/at/{i}", retrievals=1_000, ago=ago)
    for i in (1, 2, 3):
        site.crawl.page(f"https://plain.test/at/{i}", f"Few words {i}.")

    site.run()

    used, once, never = (site.rows[f"https://plain.test/at/{i}"] for i in (1, 2, 3))
    assert used["ir"] > 0.98
    assert once["retrievals"] == pytest.approx(1_000 / 2**10)
    assert used["value"] > once["value"] > never["value"]
    assert "retrieved 1,000 times lately" in used["reason"]


def test_a_critical_page_has_the_floor_even_if_it_is_deep_and_a_duplicate(site):
    site.crawl.page(COPY, story(77), value=0.05)
    site.duplicate(COPY)
    site.use(COPY, critical=True)

    assert site.told() == {COPY: 1.0}
    assert site.rows[COPY]["reason"].startswith("critical, at least 1; ")


def test_the_last_word_about_a_critical_page_holds(site, clock):
    site.use("https://plain.test/1", critical=True)
    first = site.told()
    clock.advance(60)
    site.use("https://plain.test/1", critical=False)

    assert first == {"https://plain.test/1": 1.0}
    assert site.told() == {"https://plain.test/1": pytest.approx(0.5, rel=0.1)}


def test_a_critical_host_lifts_all_its_pages_and_those_that_nobody_has_read(site, clock):
    site.crawl.row(
        "frontier", snapshot_id="s", snapshot_at=as_datetime(clock.now()), shard=0, host="plain.test",
        url="https://plain.test/new", state="queued", lane="discovery", depth=7, value=0.125, kind="page", group_id=0,
    )  # fmt: skip
    site.use("plain.test", critical=True)

    site.run()

    assert len(site.rows) == 21
    assert {row["value"] for row in site.rows.values()} == {1.0}
    assert site.rows["https://plain.test/new"]["base"] == 0.125


def test_usage_of_pages_that_the_crawl_has_never_heard_of_makes_no_rows(site):
    site.use("https://plain.test/unheard-of", retrievals=100)

    site.run()

    assert "https://plain.test/unheard-of" not in site.rows


def test_of_many_changes_the_greatest_are_told_first(site, monkeypatch):
    monkeypatch.setattr(appraisal, "MOST_TOLD", 1)
    site.crawl.page(WIND, story(77), value=0.01)
    for url in ("https://plain.test/1", WIND):
        site.use(url, critical=True)

    first = site.run()

    assert [worth.url for worth in first.news] == [WIND]
    assert first.waiting == 1
    assert site.told() == {"https://plain.test/1": 1.0}


def test_what_the_fleet_was_told_before_the_table_was_lost_is_put_right(site, clock):
    """A page's last fetch says what the fleet believes of it."""
    clock.advance(60)
    site.crawl.fetch("https://plain.test/1", outcome="not_modified", status=304, value=0.1)

    assert site.told() == {"https://plain.test/1": pytest.approx(0.5, rel=0.1)}


def test_a_group_says_what_its_unread_pages_are_worth(site):
    for i in range(3):
        site.crawl.page(f"https://plain.test/lost/{i}", f"Nothing is here: not found {i}.", title="Not found")
        site.crawl._rows["fetches"][-1]["group_id"] = 7

    site.run()

    (group,) = site.groups
    assert (group["host"], group["group_id"], group["pages"]) == ("plain.test", 7, 3)
    assert group["technical"] == pytest.approx(0.1)
    assert 0.1 ** (3 / 7) * 0.8 < group["factor"] < 0.5  # four more pages are worth what their depth says


def test_a_rare_language_and_a_rare_type_fill_a_gap(site):
    german = "Das Schiff wurde im Norden des Landes gebaut und man sagt, dass es auf See ist, mit zehn Mann auf ihm. "
    english = (
        "The ship was built in the north of the country and it is said that it has been at sea for years. "
    )
    for i in range(30):
        site.crawl.page(f"https://plain.test/en/{i}", english + story(i + 50), entity_types=["Article"])
    site.crawl.page("https://plain.test/de", german * 8, entity_types=["Article", "Recipe"])

    site.run()

    rare, usual = site.rows["https://plain.test/de"], site.rows["https://plain.test/en/1"]
    assert (rare["language"], rare["entity_type"], usual["language"]) == ("de", "Recipe", "en")
    assert rare["corpus"] > 0.4 > 0.1 > usual["corpus"]
    assert rare["value"] > usual["value"]
