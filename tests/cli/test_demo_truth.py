"""What the demo says of the crawl's beliefs: right ones pass, planted wrong ones are found."""

import pyarrow as pa
import pytest

from crawl_platform.cli.demo_truth import duplicates, freshness, group_rates, mean_error
from crawl_platform.clock import DAY, ManualClock, as_datetime
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.simulation.web import SyntheticWeb
from tests.orchestration.made_up_crawl import SHARDS, MadeUpCrawl

STARTED = 1_800_000_000.0


@pytest.fixture
def web() -> SyntheticWeb:
    return SyntheticWeb(5, STARTED, scale=0.3)


@pytest.fixture
def lake(tmp_path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.create(SHARDS)
    return lake


def pages_of(web: SyntheticWeb, kind: str) -> list[str]:
    host = next(h for h in web.hosts.values() if h.kind == kind and h.role == "trusted" and not h.fault)
    return web.urls(host.name)


def write(lake: Lake, table: str, rows: list[dict]) -> None:
    lake.overwrite(table, pa.Table.from_pylist(rows, schema=TABLES[table].schema))


def believe(lake: Lake, crawl: MadeUpCrawl, urls: list[str], rate: float) -> None:
    """A group of `urls` that were all checked, and the rate (per day) that is believed of it."""
    for url in urls:
        crawl.visit(url)
        crawl._rows["fetches"][-1].update(changed=True, group_id=7)
    crawl.commit()
    host = urls[0].split("/")[2].split(":")[0]
    row = {
        "host": host, "group_id": 7, "template": "/x/*", "pages": len(urls), "checks": 60, "changed": 30,
        "unchanged": 30, "prior_a": 1.0, "prior_b": 1.0, "rate": rate, "cho_rate": rate, "naive_rate": rate,
        "mean_interval": 0.1,
    }  # fmt: skip
    write(lake, "change_rates", [row])


@pytest.mark.parametrize(("factor", "error"), [(1.0, 0.0), (1.5, 0.5)])
def test_a_groups_rate_is_held_against_the_mean_of_its_pages_true_rates(web, lake, factor, error):
    urls = [url for url in pages_of(web, "manual") if web.rate(url) > 0][:5]
    true = sum(web.rate(url) for url in urls) / len(urls) * DAY

    believe(lake, MadeUpCrawl(lake, ManualClock(STARTED + 60)), urls, true * factor)

    (found,) = group_rates(web, lake, STARTED + 60)
    assert found.true == pytest.approx(true)
    assert mean_error([found]) == pytest.approx(error)


def test_a_copy_counts_as_fresh_only_while_the_page_has_not_changed(web, lake):
    clock = ManualClock(STARTED + 1)
    crawl = MadeUpCrawl(lake, clock)
    urls = sorted(pages_of(web, "news"))
    crawl.host(urls[0].split("/")[2].split(":")[0])
    for url in urls:
        crawl.visit(url)
    crawl.commit()
    later = STARTED + 120
    unchanged = sum(not web.changes(url, STARTED + 1, later) for url in urls)
    assert 0 < unchanged < len(urls)

    read = [(name, lake.version(name)) for name in ("fetches", "hosts")]
    row = {
        "measured_at": as_datetime(later), "measure": "freshness", "dimension": "freshness", "value": 0.5,
        "unit": "share", "input_versions": read, "date": as_datetime(later).date(),
    }  # fmt: skip
    lake.append("crawl_quality", pa.Table.from_pylist([row], schema=TABLES["crawl_quality"].schema))

    found = freshness(web, lake)
    assert found is not None
    assert found.true == pytest.approx(unchanged / len(urls))
    assert found.points == pytest.approx(100 * abs(0.5 - unchanged / len(urls)))


def cluster(lake: Lake, *members: tuple[str, ...]) -> None:
    """Clusters that we believe in, of pages that were read at the web's start."""
    crawl = MadeUpCrawl(lake, ManualClock(STARTED))
    for url in (url for urls in members for url in urls):
        crawl.page(url, "what it says")
    fetched = {row["url"]: row["fetch_id"] for row in crawl._rows["pages"]}
    crawl.commit()
    rows = [
        {
            "cluster_id": str(number), "url": url, "host": "h", "fetch_id": fetched[url], "representative": urls[0],
            "is_representative": url == urls[0], "kind": "exact", "similarity": 1.0, "words": 100, "size": len(urls),
        }
        for number, urls in enumerate(members)
        for url in urls
    ]  # fmt: skip
    write(lake, "near_duplicates", rows)


def test_a_true_cluster_is_right_and_a_pair_of_strangers_is_wrong(web, lake):
    true = sorted(web.duplicates()[0])[:2]
    strangers = pages_of(web, "manual")[:2]

    cluster(lake, tuple(true), tuple(strangers))

    found = duplicates(web, lake)
    assert (found.clusters, found.pairs) == (2, 2)
    assert found.right == (tuple(true),)
    assert [set(pair) for pair in found.wrong] == [set(strangers)]
    assert found.precision == 0.5
