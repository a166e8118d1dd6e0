"""`crawl size` against crawls that are measured here: within 25 %."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from crawl_platform.fleet.sizing import Load, Prices, cost, need

ROOT = Path(__file__).parents[2]


def test_what_is_needed_grows_with_the_rate_and_nothing_comes_for_free() -> None:
    small, large = need(Load(rate=10.0)), need(Load(rate=100.0))

    assert large.in_flight == pytest.approx(10 * small.in_flight)
    assert large.cores == pytest.approx(10 * small.cores)
    assert large.disk_bytes_per_day == pytest.approx(10 * small.disk_bytes_per_day, rel=1e-6)
    assert large.cells == 2
    assert need(Load(rate=0.001)).cells == 1


def test_an_unchanged_page_takes_no_room_for_its_body() -> None:
    fresh, known = need(Load(rate=10.0)), need(Load(rate=10.0, new=0.0))

    assert known.disk_bytes_per_day < fresh.disk_bytes_per_day / 5
    assert known.bandwidth_bits_per_second == fresh.bandwidth_bits_per_second


def test_connections_take_memory_as_far_as_the_budget_of_each_cell_reaches() -> None:
    few = Load(rate=100.0, hosts=1_000)
    many = Load(rate=150.0, hosts=14_000)

    assert need(few).connections == 1_000
    assert need(many).cells == 2
    assert need(many).connections == 2 * 512_000_000 // 100_000 + 75
    assert need(msgspec.structs.replace(many, warm_bytes=0)).connections == 75, "those in flight"
    assert need(many).memory_bytes_per_cell == int(345e6 + 100_000 * need(many).connections / 2)
    assert need(many).open_files_per_cell < 6_000


def test_of_hosts_that_are_hardly_ever_asked_no_connection_is_kept_for_long() -> None:
    assert need(Load(rate=1.0, hosts=10_000)).connections == 75


def test_the_committer_costs_too() -> None:
    crawl = need(Load(rate=10.0))

    month = cost(crawl, Prices(core_hour=1.0, gb_month=0.0, gb_received=0.0))

    assert month.total == (crawl.cells + 1) * 730


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("web", ["demo", "manuals", "indexes"])
def test_a_measured_crawl_took_what_it_says(web: str) -> None:
    command = [sys.executable, "-m", "bench.sizing", "--only", web, "--seconds", "30", "--json"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)

    result = json.loads(done.stdout)
    compared = result["crawls"][web]["compared"]
    assert {
        "connections",
        "cells",
        "memory_bytes_per_cell",
        "bandwidth_bits_per_second",
        "disk_bytes_per_day",
    } <= set(compared)
    assert {name: round(c["off"], 2) for name, c in compared.items() if abs(c["off"]) > 0.25} == {}
    assert done.returncode == 0
