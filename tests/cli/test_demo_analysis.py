"""What the demo says of the freshlane is what the lake has, and a promise that is broken is told."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from crawl_platform.cli.demo_analysis import Analysis
from crawl_platform.clock import ManualClock, SystemClock, as_datetime
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import WATCHED_PAGES
from tests.orchestration.made_up_crawl import SHARDS, MadeUpCrawl

FRONT, STORY = "https://news.test/", "https://news.test/story"


def analysis_of(lake: Lake, after: float | None) -> Analysis:
    """A watched page, and a new link on it whose page is in the lake `after` seconds (None: never)."""
    clock = ManualClock(SystemClock().now() - 60)
    crawl = MadeUpCrawl(lake, clock)
    crawl.link(crawl.fetch(FRONT, lane="freshlane", previous_success_at=as_datetime(1.0)), FRONT, STORY)
    if after is not None:
        crawl.fetch(STORY, lane="freshlane")
        clock.advance(after)
    crawl.commit()
    row = {
        "url": FRONT, "host": "news.test", "revisits": 9, "fruitful": 8, "days": 1.0, "new_links": 48, "read": 48,
        "good": 48, "rate": 48.0, "every": 900.0, "told": 900.0, "reason": "", "computed_at": as_datetime(clock.now()),
    }  # fmt: skip
    lake.overwrite("watched_pages", pa.Table.from_pylist([row], schema=WATCHED_PAGES.schema))
    return Analysis(SimpleNamespace(lake=lake), None)


@pytest.fixture
def lake(tmp_path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.create(SHARDS)
    return lake


@pytest.mark.parametrize(("after", "broken"), [(4.0, False), (12.0, True)])
def test_new_pages_of_the_freshlane_are_counted_and_held_to_ten_seconds(lake, after, broken):
    analysis = analysis_of(lake, after)

    told = analysis._freshlane()

    assert told is not None
    assert f"1 page watched for new links, most on {FRONT} (2 an hour)" in told
    assert f"1 new page found through it, 95 % of them in the lake within {after:.1f} s" in told
    assert ("freshlane" in analysis.broken) is broken


def test_without_a_new_page_nothing_is_told(lake):
    assert analysis_of(lake, None)._freshlane() is None
