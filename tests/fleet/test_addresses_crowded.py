"""Hosts that share addresses across cells, with real processes: what the web's log says."""

import time
from pathlib import Path

import pytest

from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.settings import Politeness
from crawl_platform.simulation.verdict import overlaps, short_gaps
from crawl_platform.testing.invariants import polite, robots_first
from tests.fleet.harness import Fleet
from tests.fleet.shared_addresses import Use, crowded, uses


def crawl(folder: Path, hosts: int, delay: float, seconds: float, kills: int = 0) -> list[Use]:
    """Two cells at `hosts` sites on three addresses for so many seconds. Fails where somebody was treated rudely."""
    politeness = Politeness(host_delay=delay, address_delay=delay)
    with (
        crowded(folder / "web", hosts) as web,
        Fleet(folder / "home", web, politeness=politeness, fleet=FleetSettings(cells=2)) as fleet,
    ):
        fleet.start()
        fleet.seed()
        fleet.wait_requests(12)
        time.sleep(1.0)
        begin = fleet.clock.boottime()
        for kill in range(kills):
            time.sleep(seconds / (kills + 1))
            fleet.kill(("cell-0", "nats", "cell-1")[kill % 3])
        time.sleep(seconds / (kills + 1))
        end = fleet.clock.boottime()
        log = fleet.requests()
        shards = fleet.settings.fleet.shards

    assert polite(log, delay) == []
    assert overlaps(log, "address") == []
    assert short_gaps(log, delay, "address") == []
    assert robots_first(log) == []
    return uses(log, begin, end, delay, 2, shards)


@pytest.mark.long
def test_two_cells_use_three_addresses_to_the_full_and_share_them_fairly(tmp_path: Path) -> None:
    found = crawl(tmp_path, hosts=45, delay=0.2, seconds=4.0)

    assert len(found) == 3
    for use in found:
        assert use.used >= 0.8
        assert use.fairness <= 1.8


@pytest.mark.long
def test_three_hundred_hosts_on_three_addresses_in_two_cells(tmp_path: Path) -> None:
    found = crawl(tmp_path, hosts=300, delay=0.25, seconds=120.0)

    for use in found:
        assert use.used >= 0.85
        assert use.fairness <= 1.25
        assert len(use.by_host) == 100
        assert max(use.by_host.values()) <= 2 * min(use.by_host.values()) + 1


@pytest.mark.long
def test_cells_and_nats_that_are_killed_leave_no_trace_at_the_addresses(tmp_path: Path) -> None:
    found = crawl(tmp_path, hosts=60, delay=0.1, seconds=60.0, kills=6)

    assert min(min(use.by_cell.values()) for use in found) > 20
