"""From robots.txt over a gzipped sitemap to pages that nobody links to: one real cell, a real server."""

import gzip
from pathlib import Path

import pytest

from crawl_platform.settings import Commit
from crawl_platform.simulation.running import launch
from tests.fleet.checks import asked, assert_polite
from tests.fleet.harness import Fleet, eventually
from tests.fleet.sites import free_port

pytestmark = pytest.mark.long

SITE = "maps.test"


def test_pages_that_only_a_sitemap_names_are_fetched(tmp_path: Path) -> None:
    folder, port = tmp_path / SITE, free_port()
    folder.mkdir()
    at, pages = f"http://{SITE}:{port}", ("one.html", "two.html")
    locations = "".join(f"<url><loc>{at}/{page}</loc></url>" for page in pages)
    (folder / "map.xml.gz").write_bytes(gzip.compress(f"<urlset>{locations}</urlset>".encode()))
    (folder / "robots.txt").write_text(f"User-agent: *\nSitemap: {at}/map.xml.gz\n")
    for page in ("index.html", *pages):
        (folder / page).write_text("<!doctype html><title>words</title><p>words")
    expected = {"/robots.txt", "/", "/map.xml.gz", *(f"/{page}" for page in pages)}

    with (
        launch(["files", f"{SITE}={folder}"], tmp_path / "requests.jsonl", http_port=port) as web,
        Fleet(tmp_path / "home", web.ready, commit=Commit(epoch_seconds=0.2, stats_seconds=5.0)) as fleet,
    ):
        fleet.start()
        fleet.client.seed([f"{at}/"])
        eventually(
            lambda: {path for _, path in asked(fleet.requests())} >= expected, 60.0, "all are asked for"
        )

        assert asked(fleet.requests()) == {(SITE, path): 1 for path in expected}
        assert_polite(fleet.requests())
