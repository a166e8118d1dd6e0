"""What the model behind cold groups is told of a group, from tables in memory."""

import duckdb
import pyarrow as pa
import pytest

from assets.value_model import INPUTS, LOOKS
from crawl_platform.clock import as_datetime
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.views import VIEWS
from tests.orchestration.made_up_crawl import MadeUpCrawl


def looks(crawl: MadeUpCrawl) -> list[dict]:
    with duckdb.connect(config={"threads": 1}) as connection:
        for name in INPUTS:
            known = [
                {k: v for k, v in row.items() if k in TABLES[name].schema.names}
                for row in crawl._rows.get(name, [])
            ]
            connection.register(name, pa.Table.from_pylist(known, schema=TABLES[name].schema))
        for view in VIEWS.values():
            if set(INPUTS).issuperset(view.reads):
                connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
        return connection.execute(LOOKS).to_arrow_table().to_pylist()


def test_a_group_is_told_by_links_to_it_their_hosts_sitemaps_and_types(clock):
    crawl = MadeUpCrawl(None, clock)
    now = as_datetime(clock.now())
    group = {"host": "a.test", "group_id": 7, "template": "/p/*", "pages": 2, "checks": 30, "changed": 3}
    crawl.row(
        "url_groups",
        **group,
        known_urls=4,
        example="https://a.test/p/1",
        last_seen=now,
        depth=2.0,
        in_links=3.0,
    )
    crawl.row("change_rates", **group, unchanged=27, prior_a=1.0, prior_b=2.0, rate=0.5)
    for url in ("https://a.test/p/1", "https://a.test/p/2"):
        crawl.page(
            url, f"Text of {url}", entity_types=["Product", "Thing"] if url[-1] == "1" else ["Product"]
        )
        crawl._rows["fetches"][-1]["group_id"] = 7
    for host, changed, anchors in (("b.test", True, ("News", "news ")), ("c.test", False, ("Offer",))):
        fetch = crawl.fetch(f"https://{host}/", changed=changed, previous_success_at=now)
        for anchor in anchors:
            crawl.link(fetch, f"https://{host}/", "https://a.test/p/1")
            crawl._rows["links"][-1]["anchor"] = anchor
        crawl.row("host_ranks", host=host, state="seed", trusted=True, trust=0.2 if changed else 0.4)
    for i, group_id in enumerate((None, 3)):
        crawl.row("frontier", snapshot_id="s", snapshot_at=now, shard=0, host="a.test", url=f"https://a.test/p/{i}",
                  state="queued", kind="page", group_id=7, second_group_id=group_id, lastmod=None)  # fmt: skip

    (row,) = looks(crawl)

    assert (row["anchors"], row["types"]) == ("news offer", "Product Thing")
    assert (row["listed"], row["dated"]) == (0.5, 0.0)
    assert row["linked_by"] == pytest.approx(0.3)
    assert row["linkers_useful"] == 0.5
