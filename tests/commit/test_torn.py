"""A cell is killed in the midst of writing a staged file: the torn file is named by nothing and read by nobody."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crawl_platform.clock import ManualClock
from crawl_platform.commit.committer import Committer
from crawl_platform.commit.manifest import Manifest
from crawl_platform.lake.delta import STAGED, missing_files
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.upkeep.vacuum import old_orphans
from crawl_platform.testing.builders import fetched, staged_manifest

STAGES_AND_DIES = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from crawl_platform.commit.staging import stage
from crawl_platform.testing.builders import fetched

def dies(rows, file, **options):
    whole = pa.BufferOutputStream()
    written(rows, whole, **options)
    file.write(whole.getvalue().to_pybytes()[:-200])
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

written, pq.write_table = pq.write_table, dies
stage(Path(sys.argv[1]), fetched("torn", "https://a.test/", 1_800_000_000.0), "cell-a", "bulk", 1)
"""


@pytest.fixture
def torn(lake: Lake) -> Path:
    """The file that a cell left which was killed while it staged its first epoch."""
    done = subprocess.run([sys.executable, "-c", STAGES_AND_DIES, str(lake.root)], check=False)
    assert done.returncode == -signal.SIGKILL
    [file] = (lake.path("fetches") / STAGED).glob("*.parquet")
    return file


def test_a_file_that_was_being_written_at_a_kill_disturbs_nobody(
    lake: Lake, clock: ManualClock, torn: Path
) -> None:
    again = staged_manifest(lake, 1, [fetched("f1", "https://a.test/", clock.now())], at=clock.now())
    committer = Committer(lake, clock, redeliver=lambda m: None, max_age=1e9)
    committer.offer([again])
    committer.round()

    assert lake.query("SELECT fetch_id FROM fetches")["fetch_id"].to_pylist() == ["f1"]
    assert torn.name not in str(lake.delta("fetches").file_uris())
    assert old_orphans(lake, "fetches", torn.stat().st_mtime + 1.0) == [f"{STAGED}/{torn.name}"], (
        "upkeep sweeps it"
    )


def test_a_manifest_that_names_a_torn_file_is_published_empty_and_its_pages_go_again(
    lake: Lake, clock: ManualClock
) -> None:
    """As on a disk that lost what it said was synced."""
    made = staged_manifest(
        lake, 1, [fetched("f1", "https://a.test/", clock.now(), "https://a.test/2")], at=clock.now()
    )
    tear(lake, made, "links")
    redelivered: list[str] = []
    committer = Committer(lake, clock, redeliver=lambda m: redelivered.append(m.label), max_age=1e9)
    committer.offer([made])

    done = committer.round()

    assert done is not None
    assert [m.label for m in done.quarantined] == redelivered == [made.label]
    assert lake.query("SELECT fetch_id FROM fetches").num_rows == 0
    assert lake.query("SELECT fetch_id FROM links").num_rows == 0


def tear(lake: Lake, made: Manifest, table: str) -> None:
    [file] = [file for file in made.files if file.table == table]
    path = lake.path(table) / file.path
    path.write_bytes(path.read_bytes()[:-1])
    assert missing_files(lake.path(table), [file]) == [file]
