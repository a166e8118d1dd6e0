"""Snapshots of the frontier: each shard whole or not at all, in bounded memory, and messages stay until it is there."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from crawl_platform.commit.manifest import Manifest
from crawl_platform.fleet import snapshots
from crawl_platform.fleet.epochs import Series
from crawl_platform.lake.delta import StagedFile
from crawl_platform.settings import Commit
from tests.fleet.worker_cell import VirtualCell, virtual_cell

HOST = "a.test"
SELDOM = Commit(epoch_seconds=1_000.0, stats_seconds=1_000.0)


async def committed(cell: VirtualCell) -> Manifest:
    manifest = await cell.made._bulk.close()
    assert manifest is not None
    return manifest


def told(cell: VirtualCell, manifest: Manifest) -> list[str]:
    """URLs of the snapshot's rows in the files of one manifest."""
    root = cell.made._settings.lake_root
    files = [root / "frontier" / file.path for file in manifest.files if file.table == "frontier"]
    return [url for file in files for url in pq.read_table(file, columns=["url"])["url"].to_pylist()]


@pytest.mark.parametrize("portion", [3, 10, 20, 100], ids=lambda size: f"portions of {size}")
async def test_a_shard_goes_with_one_manifest_however_many_portions_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    monkeypatch.setattr(snapshots, "PORTION", portion)
    async with virtual_cell(tmp_path, {HOST: "192.0.2.1"}, pages=20, commit=SELDOM) as cell:
        assert await cell.made._snapshots.take()
        manifest = await committed(cell)

        assert sorted(told(cell, manifest)) == sorted(f"https://{HOST}/{number}" for number in range(20))
        files = [file for file in manifest.files if file.table == "frontier"]
        assert len(files) == (1 if portion > 20 else -(-20 // portion))


async def test_no_more_rows_than_a_portion_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "PORTION", 4)
    staged: list[int] = []

    ahead = Series.stage_ahead

    async def noted(self: Series, rows: dict[str, list[Any]]) -> tuple[StagedFile, ...]:
        staged.append(len(rows["frontier"]))
        return await ahead(self, rows)

    monkeypatch.setattr(Series, "stage_ahead", noted)
    async with virtual_cell(tmp_path, {HOST: "192.0.2.1"}, pages=30, commit=SELDOM) as cell:
        await cell.made._snapshots.take()

        assert (max(staged), sum(staged)) == (4, 30)
        assert cell.made._bulk.open.rows.count == 0


async def test_a_disk_that_is_full_leaves_the_last_snapshot_and_the_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "PORTION", 4)
    async with virtual_cell(tmp_path, {HOST: "192.0.2.1"}, pages=20, commit=SELDOM) as cell:
        stage, calls = Series._stage, []

        def full(self: Series, *arguments: Any) -> Any:
            calls.append(arguments)
            if len(calls) == 3:
                raise OSError(28, "No space left on device")
            return stage(self, *arguments)

        monkeypatch.setattr(Series, "_stage", full)

        assert not await cell.made._snapshots.take()
        assert cell.made._snapshots._purgeable is None, "messages stay"
        manifest = await cell.made._bulk.close()

        assert manifest is None or told(cell, manifest) == [], "half of a shard is none"
        assert await cell.made._snapshots.take()
        assert cell.made._snapshots._purgeable is not None
