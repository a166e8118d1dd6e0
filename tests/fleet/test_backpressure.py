"""What is not confirmed and what there is no room for hold the crawl back: no claims, nothing staged, nothing lost."""

import asyncio
from pathlib import Path

import pytest

from crawl_platform.commit.manifest import BULK, Manifest
from crawl_platform.fleet.backpressure import DISK_EVERY, Backpressure
from crawl_platform.frontier.kv import Batch
from crawl_platform.lake.delta import StagedFile
from crawl_platform.settings import Commit
from crawl_platform.settings import Fleet as FleetSettings
from tests.fleet.worker_cell import VirtualCell, virtual_cell

HOSTS = {"a.test": "192.0.2.1"}
SPOOL = 1_000
SMALL = Commit(spool_bytes=SPOOL, stats_seconds=0.01)


def owe(cell: VirtualCell, size: int) -> Manifest:
    """An epoch of so many bytes is committed, and the lake doesn't show it."""
    outbox = cell.made._outbox
    file = StagedFile("fetches", "_staged/x.parquet", {}, size, 1, 0, "{}")
    made = Manifest(outbox.incarnation, BULK, outbox.next_number(BULK), "cell-0", 1, 0.0, (0,), (file,))
    outbox.committed(made, 0)
    return made


async def test_a_full_spool_holds_claims_back_until_the_lake_has_confirmed(tmp_path: Path) -> None:
    async with virtual_cell(tmp_path, HOSTS, commit=SMALL) as cell:
        made = owe(cell, SPOOL - 1)
        assert await cell.run(5.0) != []
        more = owe(cell, 1)
        await cell.run(5.0)

        assert await cell.run(60.0) == []

        app = f"{made.incarnation}/{BULK}"
        cell.made._outbox.confirm({t: {app: more.number} for t in ("fetches", "commits")})
        assert await cell.run(5.0) != []


async def test_ablation_a_spool_without_a_bound_is_never_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backpressure, "holds", lambda self: False)
    async with virtual_cell(tmp_path, HOSTS, commit=SMALL) as cell:
        owe(cell, 10 * SPOOL)

        assert await cell.run(5.0) != []


@pytest.mark.parametrize(("owed", "told"), [(SPOOL, False), (SPOOL - 1, True)], ids=["full", "not full"])
async def test_a_full_spool_is_not_filled_with_what_tells_of_it(
    tmp_path: Path, owed: int, told: bool
) -> None:
    async with virtual_cell(tmp_path, HOSTS, commit=SMALL) as cell:
        owe(cell, owed)
        await cell.settle()

        reporting = asyncio.create_task(cell.made._report())
        await asyncio.sleep(0.1)
        reporting.cancel()

        assert bool(cell.rows("fleet_stats")) == told


@pytest.mark.long
async def test_a_disk_below_its_reserve_holds_claims_back_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 100
    monkeypatch.setattr(Backpressure, "free_disk", lambda self: free)
    async with virtual_cell(tmp_path, HOSTS, fleet=FleetSettings(min_free_disk=50)) as cell:
        assert await cell.run(5.0) != []
        free = 49
        await cell.run(DISK_EVERY + 1.0)

        assert await cell.run(60.0) == []

        free = 50
        assert await cell.run(DISK_EVERY + 5.0) != []


@pytest.mark.long
async def test_an_epoch_that_can_not_be_staged_is_kept_whole_and_closed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with virtual_cell(tmp_path, HOSTS) as cell:
        await cell.run(5.0)
        series, fetched = cell.made._bulk, len(cell.rows("fetches"))
        with monkeypatch.context() as full:
            full.setattr("crawl_platform.fleet.epochs.stage", _no_space)
            assert await series.close() is None
        assert "No space left" in series.blocked
        assert await cell.run(60.0) == [], "no more pages are claimed"
        assert len(cell.rows("fetches")) == fetched > 0

        made = await series.close()

        assert made is not None
        assert sum(file.rows for file in made.files if file.table == "fetches") == fetched
        assert await cell.run(5.0) != []


def _no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


async def test_the_commit_point_is_one_synced_batch_with_the_manifest_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with virtual_cell(tmp_path, HOSTS) as cell:
        await cell.run(5.0)
        written: list[tuple[set[bytes], bool]] = []
        write = cell.kv.write

        def noted(batch: Batch, *, sync: bool = False) -> None:
            written.append((set(batch.changes), sync))
            write(batch, sync=sync)

        monkeypatch.setattr(cell.kv, "write", noted)
        assert await cell.made._bulk.close() is not None

        [(keys, synced)] = [one for one in written if any(key.startswith(b"m") for key in one[0])]
        assert synced
        assert {b"!last/bulk", b"!fetches"} <= keys
        assert any(key.startswith(b"u") for key in keys), "the URLs' states are in the same batch"
        assert not cell.made._bulk.open.pages
