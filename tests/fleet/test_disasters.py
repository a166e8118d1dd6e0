"""What machines and operators do beside killing: standing still, full disks, long outages, old backups, torn files."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from crawl_platform.fleet.exchange import Endpoint, Exchange
from crawl_platform.fleet.messages import ShardOwner, encode
from crawl_platform.lake.tables import TABLES
from crawl_platform.settings import Commit
from crawl_platform.settings import Fleet as FleetSettings
from crawl_platform.testing.invariants import (
    committed_once,
    fetches_match_log,
    links_have_fetches,
    polite,
    robots_first,
)
from crawl_platform.web.host import shard_of
from tests.fleet.checks import (
    asked,
    assert_brought_home,
    assert_drained,
    assert_one_row_per_request,
    surplus,
)
from tests.fleet.harness import DELAY, Fleet, eventually, fetch_from
from tests.fleet.moves import table as shard_table
from tests.fleet.sites import Plan, Site, serve
from tests.fleet.together import Together, told

pytestmark = pytest.mark.long

SPOOL = 400_000
"""Bytes: some ten epochs."""
OVER = 150_000
"""What an open epoch and requests in flight may add to a spool that has just become full."""
SPOOLED = Commit(epoch_seconds=0.4, fast_seconds=0.2, stats_seconds=1.0, spool_bytes=SPOOL)
FASTER = Commit(epoch_seconds=0.4, fast_seconds=0.2, stats_seconds=5.0)
SHARDS = 8
T_DEAD = 9.0
DISK = 96_000_000


def assert_sound(fleet: Fleet, *sites: Site) -> None:
    """Of a fleet that has come to its end and was stopped: nothing lost, doubled or made up, nobody hurried."""
    log = fleet.requests()
    extra = surplus(log, fleet.fetches()).total()
    broken = [
        *committed_once(fleet.lake),
        *links_have_fetches(fleet.lake),
        *fetches_match_log(fleet.lake, log, surplus=extra),
        *polite(log, DELAY),
        *robots_first(log),
    ]
    assert broken == []
    assert_brought_home(fleet, *sites)
    assert_drained(fleet)


# outages


def spooled(fleet: Fleet) -> int:
    """Bytes of staged files that no table names."""
    total = 0
    for table in (table.name for table in TABLES.values() if table.writer == "fleet"):
        named = {path.rpartition("/")[2] for path in fleet.lake.delta(table).file_uris()}
        staged = (fleet.lake.path(table) / "_staged").glob("*.parquet")
        total += sum(file.stat().st_size for file in staged if file.name not in named)
    return total


def _an_outage_that_fills_the_spool(folder: Path, gone: str) -> None:
    with (
        serve(folder, Plan("one.test", 600), Plan("two.test", 600)) as world,
        Fleet(folder / "home", world.web, commit=SPOOLED) as fleet,
    ):
        fleet.start()
        fleet.seed()
        fleet.wait_requests(30)
        with fleet.held():
            fleet.kill(gone)
            at = len(fleet.requests())
            eventually(lambda: "the spool is full" in fleet.log_text("cell-0"), 90.0, "it says so")
            time.sleep(2.0)
            full, held = len(fleet.requests()), spooled(fleet)
            time.sleep(5.0)
            assert full - at > 50, "the crawl went on"
            assert len(fleet.requests()) == full, "and stopped"
            assert SPOOL <= held == spooled(fleet) <= SPOOL + OVER, "within its bound, whatever the time"
        assert full < 1_200, "there was more to fetch"

        fleet.wait_requests(full + 20, within=90.0)
        fleet.wait_quiet(180.0)
        fleet.stop()
        assert_sound(fleet, *world.sites.values())
        assert fleet.restarts("cell-0") == 0
        assert set(asked(fleet.requests()).values()) == {1}, "nothing was fetched twice"
        assert_one_row_per_request(fleet.requests(), fleet.fetches())


def without_nats_the_crawl_goes_on_until_the_spool_is_full_and_resumes(folder: Path) -> None:
    _an_outage_that_fills_the_spool(folder, "nats")


def without_the_committer_the_crawl_goes_on_until_the_spool_is_full_and_resumes(folder: Path) -> None:
    _an_outage_that_fills_the_spool(folder, "committer")


# standing still


def a_cell_that_stood_still_past_t_dead_gives_up_what_is_anothers_now(folder: Path) -> None:
    host = _host_of_cell(0)
    cells = FleetSettings(cells=2, shards=SHARDS, silence_limit=T_DEAD)
    with (
        serve(folder, Plan(host, 500), Plan(_host_of_cell(1), 20)) as world,
        Fleet(
            folder / "home", world.web, fleet=cells, fetch=fetch_from(world.web, total_timeout=2.0)
        ) as fleet,
    ):
        fleet.start()
        fleet.seed()
        fleet.wait_requests(40, host)
        with fleet.suspended("cell-0"):
            stopped = time.time()
            time.sleep(T_DEAD)
            asyncio.run(_move_shards(fleet, "cell-0", "cell-1"))
            fleet.kill("cell-1")  # what a handoff will do: it takes what the table gives it
            eventually(lambda: "crawls 8 shards" in fleet.log_text("cell-1"), 30.0, "cell-1 has all shards")
            fleet.seed()
            before = len(fleet.requests_to(host))
            fleet.wait_requests(before + 20, host)
        eventually(
            lambda: "no contact with NATS for too long" in fleet.log_text("cell-0"), 20.0, "it gives up"
        )
        before = len(fleet.requests_to(host))
        fleet.wait_requests(before + 20, host)
        eventually(lambda: "gives no shard to cell-0" in fleet.log_text("cell-0"), 30.0, "and is told")
        fleet.stop()

        assert polite(fleet.requests(), DELAY) == []
        assert committed_once(fleet.lake) == []
        late = "SELECT cell, epoch(started_at) AS at FROM fetches WHERE host = $1 AND epoch(started_at) > $2"
        after = fleet.rows(late, host, stopped)
        assert len(after) > 30
        assert {row["cell"] for row in after} == {"cell-1"}


async def _move_shards(fleet: Fleet, old: str, new: str) -> None:
    exchange = await Exchange.connect(Endpoint.read(fleet.home / "run" / "nats.json"), "handoff")
    try:
        for key, value in (await exchange.items("shards")).items():
            if msgspec.json.decode(value, type=ShardOwner).cell == old:
                entry = await exchange.get("shards", key)
                assert entry is not None
                await exchange.swap("shards", key, encode(ShardOwner(new, "")), entry[1])
    finally:
        await exchange.close()


def _host_of_cell(parity: int) -> str:
    names = (f"site{n}.test" for n in range(100))
    return next(name for name in names if shard_of(name, SHARDS) % 2 == parity)


# disks


def a_disk_without_a_byte_left_stops_the_crawl_and_loses_nothing(folder: Path) -> None:
    """A file system of our own, filled to the last byte by somebody else: staging, RocksDB, NATS and logs all fail."""
    disk = folder / "disk"
    disk.mkdir()
    with _small_disk(disk), serve(folder, Plan("one.test", 500)) as world:
        room = FleetSettings(min_free_disk=1)  # the reserve is off: nobody stops in time
        with Fleet(disk / "home", world.web, commit=FASTER, fleet=room) as fleet:
            fleet.start()
            fleet.seed()
            fleet.wait_requests(40)
            with _filled(disk):
                full = fleet.clock.boottime()
                time.sleep(8.0)
                during = [e for e in fleet.requests() if e.start_boot > full + 3.0]
            assert len(during) <= 10, "it stopped"
            fleet.wait_requests(len(fleet.requests()) + 20, within=90.0)
            fleet.wait_quiet(180.0)
            fleet.stop()
            assert_sound(fleet, *world.sites.values())


@contextlib.contextmanager
def _small_disk(place: Path) -> Iterator[None]:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)], check=False, capture_output=True
    )
    if done.returncode:
        pytest.skip(f"no file system of our own: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextlib.contextmanager
def _filled(disk: Path) -> Iterator[None]:
    filler = disk / "filler"
    with filler.open("wb") as file, contextlib.suppress(OSError):
        while True:
            os.write(file.fileno(), bytes(4096))
    try:
        yield
    finally:
        filler.unlink()


# backups


def a_lake_restored_together_with_its_cells_goes_on(folder: Path) -> None:
    with serve(folder, Plan("one.test", 80)) as world, Fleet(folder / "home", world.web) as fleet:
        _crawl_then_go_back(fleet, folder, "lake", "cells")

        fleet.start()
        fleet.wait_quiet(90.0)
        fleet.stop()

        assert fleet.restarts("cell-0") == 0
        assert_sound(fleet, *world.sites.values())


def a_lake_restored_alone_is_crawled_again_once_the_cells_are_told_so(folder: Path) -> None:
    """Told by moving their state away, as the refusal says (`test_accidents` has the refusal)."""
    with serve(folder, Plan("one.test", 80)) as world, Fleet(folder / "home", world.web) as fleet:
        _crawl_then_go_back(fleet, folder, "lake")

        (fleet.home / "cells" / "cell-0").rename(folder / "put away")
        fleet.start()
        eventually(
            lambda: not any(owner.lost for owner in shard_table(fleet).values()), 90.0, "all is rebuilt"
        )
        fleet.wait_quiet(90.0)
        fleet.stop()

        assert_sound(fleet, *world.sites.values())


def cells_restored_alone_go_on_as_others(folder: Path) -> None:
    with serve(folder, Plan("one.test", 80)) as world, Fleet(folder / "home", world.web) as fleet:
        _crawl_then_go_back(fleet, folder, "cells")
        before = fleet.copy_of_state().incarnation

        fleet.start()
        fleet.wait_quiet(90.0)
        fleet.stop()

        assert fleet.copy_of_state().incarnation != before
        assert "goes on as" in fleet.log_text("cell-0")
        assert_sound(fleet, *world.sites.values())


def _crawl_then_go_back(fleet: Fleet, folder: Path, *parts: str) -> None:
    """Crawl half, stop, keep `parts`; crawl the rest, stop, put them back."""
    fleet.start()
    fleet.seed()
    fleet.wait_requests(20)
    fleet.stop()
    for part in parts:
        shutil.copytree(fleet.home / part, folder / "kept" / part)
    assert len(fleet.requests()) < 80
    fleet.start()
    fleet.wait_quiet()
    fleet.stop()
    for part in parts:
        shutil.rmtree(fleet.home / part)
        shutil.copytree(folder / "kept" / part, fleet.home / part)


def a_cell_whose_log_was_torn_loses_no_url_and_no_row(folder: Path) -> None:
    """kill -9, and the end of RocksDB's log is gone, as on a disk that lies about fsync."""
    with (
        serve(folder, Plan("one.test", 300), Plan("two.test", 300)) as world,
        Fleet(folder / "home", world.web, commit=FASTER) as fleet,
    ):
        fleet.start()
        fleet.seed()
        for number in (1, 2, 3):
            fleet.wait_requests(100 * number)
            with fleet.held():
                pid = fleet.kill("cell-0")
                eventually(lambda pid=pid: not Path(f"/proc/{pid}/fd").exists() or _is_zombie(pid), 5.0)  # type: ignore[misc]
                _tear(fleet.home / "cells" / "cell-0" / "state", 0.6)
        fleet.wait_quiet(120.0)
        fleet.stop()

        assert fleet.log_text("cell-0").count("goes on as") >= 2, "epochs that the lake has were forgotten"
        assert_sound(fleet, *world.sites.values())


def a_nats_that_has_lost_its_store_stops_the_cells_that_meet_it_until_a_copy_is_put_back(
    folder: Path,
) -> None:
    cells = FleetSettings(cells=2, shards=SHARDS)
    hosts = _host_of_cell(0), _host_of_cell(1)
    with (
        serve(folder, *(Plan(host, 120) for host in hosts)) as world,
        Fleet(folder / "home", world.web, fleet=cells) as fleet,
    ):
        fleet.start()
        fleet.seed()
        fleet.wait_requests(30)
        fleet.stop()
        shutil.copytree(fleet.home / "nats", folder / "kept")
        fleet.start()
        with fleet.held():
            fleet.kill("nats")
            shutil.rmtree(fleet.home / "nats")
        fleet.living_pid("nats")
        for cell in ("cell-0", "cell-1"):
            eventually(lambda cell=cell: _state_of(fleet, cell) == "refused", 60.0, "it refuses")  # type: ignore[misc]
            assert "NATS has lost what it kept" in fleet.log_text(cell)
        at = len(fleet.requests())
        assert at < 240
        fleet.stop()

        shutil.rmtree(fleet.home / "nats")
        shutil.copytree(folder / "kept", fleet.home / "nats")
        fleet.start()
        fleet.wait_quiet(120.0)
        fleet.stop()

        assert_sound(fleet, *world.sites.values())


def a_cell_whose_store_is_damaged_refuses_until_a_copy_is_put_back(folder: Path) -> None:
    with serve(folder, Plan("one.test", 80)) as world, Fleet(folder / "home", world.web) as fleet:
        state = _crawl_and_damage(fleet, folder)

        _refused(fleet)
        fleet.stop()
        shutil.rmtree(state)
        shutil.copytree(folder / "kept", state)
        fleet.start()
        fleet.wait_quiet(90.0)
        fleet.stop()

        assert "goes on as" in fleet.log_text("cell-0"), "the copy knows less than the lake"
        assert_sound(fleet, *world.sites.values())


def a_cell_whose_store_is_damaged_refuses_until_it_is_moved_away_and_seeded_again(folder: Path) -> None:
    with serve(folder, Plan("one.test", 80)) as world, Fleet(folder / "home", world.web) as fleet:
        state = _crawl_and_damage(fleet, folder)

        _refused(fleet)
        fleet.stop()
        state.rename(folder / "put away")
        fleet.start()
        fleet.seed()
        fleet.wait_quiet(90.0)
        fleet.stop()

        assert_sound(fleet, *world.sites.values())


def _crawl_and_damage(fleet: Fleet, folder: Path) -> Path:
    """Crawl some, keep a copy of the store, crawl on; then a byte of each of its files of records is another one."""
    state = fleet.home / "cells" / "cell-0" / "state"
    fleet.start()
    fleet.seed()
    fleet.wait_requests(15)
    fleet.stop()
    shutil.copytree(state, folder / "kept")
    fleet.start()
    fleet.wait_requests(30)
    fleet.stop()
    assert len(fleet.requests()) < 80
    for file in state.glob("*.sst"):
        data = bytearray(file.read_bytes())
        data[len(data) // 4] ^= 0xFF
        file.write_bytes(data)
    return state


def _refused(fleet: Fleet) -> None:
    fleet.process = fleet.spawn_supervisor()
    at = len(fleet.requests())
    eventually(lambda: _state_of(fleet, "cell-0") == "refused", 60.0, "the cell refuses")
    assert "is damaged; put back a copy, or move it away and seed its hosts again" in fleet.log_text("cell-0")
    assert len(fleet.requests()) == at, "nothing was asked on half of what it knew"


def _state_of(fleet: Fleet, name: str) -> str:
    assert fleet.process is not None
    status = fleet.status()
    found = [child.state for child in status.children if child.name == name]
    return found[0] if found and status.pid == fleet.process.pid else ""


def _is_zombie(pid: int) -> bool:
    return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()


def _tear(state: Path, share: float) -> None:
    """Keep this share of the newest log, to the byte: its last record is cut in two."""
    log = max(state.glob("*.log"), key=lambda file: file.name)
    os.truncate(log, int(log.stat().st_size * share))


STORIES: dict[str, Callable[[Path], None]] = {
    story.__name__: story
    for story in (
        without_nats_the_crawl_goes_on_until_the_spool_is_full_and_resumes,
        without_the_committer_the_crawl_goes_on_until_the_spool_is_full_and_resumes,
        a_cell_that_stood_still_past_t_dead_gives_up_what_is_anothers_now,
        a_disk_without_a_byte_left_stops_the_crawl_and_loses_nothing,
        a_lake_restored_together_with_its_cells_goes_on,
        a_lake_restored_alone_is_crawled_again_once_the_cells_are_told_so,
        cells_restored_alone_go_on_as_others,
        a_cell_whose_log_was_torn_loses_no_url_and_no_row,
        a_nats_that_has_lost_its_store_stops_the_cells_that_meet_it_until_a_copy_is_put_back,
        a_cell_whose_store_is_damaged_refuses_until_a_copy_is_put_back,
        a_cell_whose_store_is_damaged_refuses_until_it_is_moved_away_and_seeded_again,
    )
}


@pytest.fixture(scope="module")
def telling(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Together]:
    with told(request, tmp_path_factory, STORIES) as together:
        yield together


@pytest.mark.parametrize("story", STORIES)
def test_what_machines_and_operators_do(telling: Together, story: str) -> None:
    telling.result(story)
