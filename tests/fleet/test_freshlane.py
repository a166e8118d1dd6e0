"""A page that is watched: a new link on it is fetched and can be queried within seconds."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_platform.settings import Refresh
from tests.fleet.harness import Fleet, eventually
from tests.fleet.sites import Plan, World, serve

ARTICLES, EVERY = 10, 2.0
SEEN = """
SELECT l.dst_url AS url, min(epoch(f.started_at)) AS shown
FROM links l JOIN fetches f USING (fetch_id) WHERE l.dst_url LIKE '%/news_.html' GROUP BY ALL
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with serve(tmp_path_factory.mktemp("web"), Plan("news.test", 200)) as running_world:
        yield running_world


def publish(folder: Path, number: int) -> None:
    """Article `number` appears on the front page."""
    name = f"news{number}.html"
    (folder / name).write_text(
        f"<html><title>News {number}</title><body><p>What happened: {number}.</body></html>"
    )
    front = (folder / "index.html").read_text()
    (folder / "index.html").write_text(front.replace("</body>", f'<a href="{name}">News {number}</a></body>'))


@pytest.mark.long
def test_a_new_link_is_fetched_and_visible_within_ten_seconds_of_its_front_pages_visit(
    world: World, tmp_path: Path
) -> None:
    folder, root = world.sites["news.test"].folder, world.url("news.test")
    visible: dict[str, float] = {}
    with Fleet(tmp_path / "home", world.web, refresh=Refresh(watch_min=1.0)) as fleet:
        fleet.start()
        fleet.seed([root])
        fleet.wait_requests(20, "news.test")
        fleet.client.watch(root, EVERY, request_id="watch-1")
        eventually(lambda: visits(fleet, root) >= 2, 20.0)
        end, number = time.time() + 60.0, 0
        while time.time() < end and len(visible) < ARTICLES:
            if number < ARTICLES and number <= len(visible) + 1:
                publish(folder, number)
                number += 1
            for row in fleet.rows("SELECT url FROM fetches WHERE url LIKE '%/news_.html' AND outcome = 'ok'"):
                visible.setdefault(row["url"], time.time())
            time.sleep(0.2)
        shown = {row["url"]: row["shown"] for row in fleet.rows(SEEN)}
        lanes = fleet.rows("SELECT DISTINCT lane FROM fetches WHERE url LIKE '%/news_.html'")

    waited = sorted(visible[url] - shown[url] for url in visible)
    assert len(waited) == ARTICLES, waited
    assert waited[int(0.95 * ARTICLES)] <= 10.0, waited
    assert lanes == [{"lane": "freshlane"}]


def visits(fleet: Fleet, url: str) -> int:
    return len(fleet.rows("SELECT 1 FROM fetches WHERE url = $1", url))
