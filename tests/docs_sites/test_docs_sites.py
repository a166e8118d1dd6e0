"""Real manuals crawled to the end by a real fleet: the pages and links in the lake are the known ones."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from crawl_platform.simulation.log import Entry
from crawl_platform.simulation.running import launch
from crawl_platform.simulation.verdict import touched
from tests.docs_sites.manuals import (
    APACHE,
    BODY_CAP,
    DJANGO,
    POSTGRESQL,
    PYTHON,
    Manual,
    assert_crawled_to_the_end,
)
from tests.fleet.checks import (
    assert_drained,
    assert_one_row_per_request,
    assert_polite,
    assert_whole_at_every_commit,
)
from tests.fleet.harness import Fleet, Row, fetch_from


@dataclass(frozen=True)
class Crawled:
    """A crawl that has come to its end, and the fleet has been stopped. `seconds`: from the seed to the end."""

    fleet: Fleet
    seconds: float
    log: list[Entry]
    fetches: list[Row]


@contextmanager
def crawl_of(manuals: Sequence[Manual], folder: Path, within: float) -> Iterator[Crawled]:
    for manual in manuals:
        manual.require()
    with (
        launch(["files", *(m.option for m in manuals)], folder / "requests.jsonl") as web,
        Fleet(folder / "home", web.ready, fetch=fetch_from(web.ready, body_cap=BODY_CAP)) as fleet,
    ):
        fleet.start()
        fleet.seed([m.seed(web.ready.http_port) for m in manuals])
        seconds = fleet.wait_quiet(within)
        fleet.stop()
        yield Crawled(fleet, seconds, fleet.requests(), fleet.fetches())


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    with crawl_of([PYTHON], tmp_path_factory.mktemp("manuals"), 200) as result:
        yield result


@pytest.mark.long
def test_the_pages_and_edges_of_a_manual_are_the_known_ones(crawled: Crawled) -> None:
    assert_crawled_to_the_end(crawled.fleet, PYTHON)


@pytest.mark.long
def test_the_servers_log_shows_a_polite_crawl_of_the_seed_alone(crawled: Crawled) -> None:
    assert_polite(crawled.log)
    assert set(touched(crawled.log)) == {PYTHON.host}


@pytest.mark.long
def test_each_response_is_one_row_of_fetches(crawled: Crawled) -> None:
    assert_one_row_per_request(crawled.log, crawled.fetches)
    assert all(entry.ended_by == "response" for entry in crawled.log), "no body was cut, none was left"


@pytest.mark.long
def test_each_url_was_asked_for_once(crawled: Crawled) -> None:
    urls = [row["url"] for row in crawled.fetches]
    assert len(urls) == len(set(urls))
    assert {row["kind"] for row in crawled.fetches if row["url"].endswith("/robots.txt")} == {"robots"}


@pytest.mark.long
def test_every_link_row_has_its_fetch_at_every_commit(crawled: Crawled) -> None:
    assert assert_whole_at_every_commit(crawled.fleet.lake) > 10


@pytest.mark.long
def test_nothing_is_left_to_do(crawled: Crawled) -> None:
    assert_drained(crawled.fleet)


@pytest.mark.long
def test_links_out_of_the_seed_are_recorded_and_not_followed(crawled: Crawled) -> None:
    abroad = crawled.fleet.rows(
        "SELECT count(DISTINCT dst_host) AS n FROM links WHERE dst_host NOT LIKE '%.test'"
    )
    assert abroad[0]["n"] > 100
    assert not [row for row in crawled.fetches if not row["host"].endswith(".test")]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("manual", [POSTGRESQL, APACHE, DJANGO], ids=lambda m: m.package)
def test_the_pages_and_edges_of_a_bigger_manual(tmp_path: Path, manual: Manual) -> None:
    with crawl_of([manual], tmp_path, 600) as result:
        assert_crawled_to_the_end(result.fleet, manual)
        assert_polite(result.log)
        assert_one_row_per_request(result.log, result.fetches)
        assert_whole_at_every_commit(result.fleet.lake)
        assert_drained(result.fleet)


@pytest.mark.long
def test_a_page_above_the_cap_is_cut_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "big"
    folder.mkdir()
    padding = "".join(f"<p>{os.urandom(40).hex()}</p>" for _ in range(4_000))
    (folder / "index.html").write_text(f'<a href="/early.html">e</a>{padding}<a href="/late.html">l</a>')
    for name in ("early.html", "late.html"):
        (folder / name).write_text(f"<title>{name}</title>small")
    with (
        launch(["files", f"big.test={folder}"], tmp_path / "requests.jsonl") as web,
        Fleet(tmp_path / "home", web.ready) as fleet,
    ):
        fleet.start()
        fleet.seed()
        fleet.wait_quiet()
        fleet.stop()

        pages = {row["url"].rpartition("/")[2]: row for row in fleet.fetches() if row["kind"] == "page"}
        assert set(pages) == {"", "early.html"}, "the link behind the cut is not known"
        assert pages[""]["truncated"]
        assert pages[""]["body_bytes"] == fleet.settings.fetch.body_cap == 250_000
        assert not pages["early.html"]["truncated"]
        kept = fleet.rows("SELECT truncated FROM pages WHERE url LIKE '%/'")
        assert [row["truncated"] for row in kept] == [True]
        assert_polite(fleet.requests())
