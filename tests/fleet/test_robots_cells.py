"""A real fleet of two cells on a web whose robots.txt files are on other hosts."""

import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.simulation.running import Ready
from tests.fleet.checks import assert_one_row_per_request, assert_polite
from tests.fleet.harness import Fleet
from tests.fleet.moving_web import MOVED, RULES, TURNING

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    base = tmp_path_factory.mktemp("moving")
    command = [sys.executable, "-m", "tests.fleet.moving_web", str(base / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as web:
        assert web.stdout
        try:
            ready = msgspec.json.decode(web.stdout.readline(), type=Ready)
            with Fleet(base / "home", ready, fleet=FleetSettings(cells=2, silence_limit=120.0)) as fleet:
                fleet.start()
                fleet.seed()
                fleet.wait_requests(4 * (len(MOVED) + 1), within=120.0)
                fleet.wait_quiet(120.0)
                yield fleet
        finally:
            web.terminate()


def test_every_host_is_crawled_by_the_rules_found_elsewhere(crawled: Fleet) -> None:
    for host in (*MOVED, TURNING):
        paths = {entry.path for entry in crawled.requests_to(host)}
        assert {"/robots.txt", "/", "/a.html", "/b.html"} <= paths, host
        assert "/private.html" not in paths, host


def test_of_the_host_outside_the_seed_only_the_files_were_asked(crawled: Fleet) -> None:
    paths = [entry.path for entry in crawled.requests_to(RULES)]

    assert sorted(paths) == sorted(f"/files/{host}.txt" for host in MOVED)


def test_both_cells_had_a_part_in_it_and_nobody_was_asked_impolitely(crawled: Fleet) -> None:
    rows = crawled.rows("SELECT DISTINCT cell FROM fetches WHERE kind = 'robots'")
    hops = crawled.rows("SELECT DISTINCT cell FROM fetches WHERE host = $1", RULES)

    assert len(rows) == 2
    assert len(hops) == 1, "the cell of its shard"
    assert_polite(crawled.requests())
    assert_one_row_per_request(crawled.requests(), crawled.fetches())


def test_what_the_hosts_were_told_is_in_the_lake(crawled: Fleet) -> None:
    told = crawled.rows("SELECT host, robots_status, detail FROM hosts WHERE event = 'robots'")

    assert {row["host"] for row in told} == {*MOVED, TURNING}
    assert {row["robots_status"] for row in told} == {"rules"}
    assert all(f"after {2 if row['host'] == TURNING else 1} redirects" in row["detail"] for row in told)
