"""A DuckDB file that analysts open without this package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crawl_platform.errors import LakeError
from crawl_platform.lake.catalog import write_catalog
from crawl_platform.lake.extension import open_duckdb
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.views import VIEWS
from tests.lake.samples import commit, publish, rows


def in_a_fresh_process(home: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run Python with its own HOME; any HTTP goes to a port where nobody listens."""
    away = "http://127.0.0.1:9"
    environment = {**os.environ, "HOME": str(home), "http_proxy": away, "https_proxy": away}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )


def test_plain_duckdb_reads_the_lake_in_two_lines(lake: Lake, tmp_path: Path) -> None:
    commit(lake, "fetches", rows("fetches", 3), 1)
    publish(lake, 1, fetches=1)
    write_catalog(lake, tmp_path / "catalog.duckdb")
    install = "from crawl_platform.lake.catalog import install_extension; print(install_extension())"

    installed = in_a_fresh_process(tmp_path, install)
    assert installed.stderr == ""
    assert Path(installed.stdout.strip()).is_relative_to(tmp_path)

    read = in_a_fresh_process(
        tmp_path,
        f"import duckdb; con = duckdb.connect({str(tmp_path / 'catalog.duckdb')!r}, read_only=True)\n"
        "print(con.sql('select count(*) from fetches').fetchone(), con.sql('from links').fetchall())",
    )
    # On a busy machine DuckDB draws a progress bar in front of the answer.
    assert (read.stdout.splitlines()[-1][-7:], read.stderr) == ("(3,) []", "")


def test_ablation_without_the_extension_the_catalog_cannot_be_read(lake: Lake, tmp_path: Path) -> None:
    write_catalog(lake, tmp_path / "catalog.duckdb")

    read = in_a_fresh_process(
        tmp_path,
        "import duckdb\n"
        f"con = duckdb.connect({str(tmp_path / 'catalog.duckdb')!r}, read_only=True,"
        " config={'autoinstall_known_extensions': False})\n"
        "con.sql('select count(*) from fetches').fetchone()",
    )

    assert read.returncode != 0
    assert "delta" in read.stderr


def test_the_catalog_stands_at_its_commit(lake: Lake, tmp_path: Path) -> None:
    commit(lake, "fetches", rows("fetches", 3), 1)
    publish(lake, 1, fetches=1)
    assert write_catalog(lake, tmp_path / "catalog.duckdb") == 1

    commit(lake, "fetches", rows("fetches", 2, first=3), 2)
    publish(lake, 2, fetches=2)

    assert read(tmp_path, "SELECT count(*) FROM fetches") == [(3,)]
    assert read(tmp_path, "SELECT count(*) FROM commits") == [(1,)]
    assert write_catalog(lake, tmp_path / "catalog.duckdb") == 2
    assert read(tmp_path, "SELECT count(*) FROM fetches") == [(5,)]


def test_the_catalog_lists_what_it_holds(lake: Lake, tmp_path: Path) -> None:
    publish(lake, 4, fetches=0)

    write_catalog(lake, tmp_path / "catalog.duckdb")

    listed = read(tmp_path, "SELECT name, kind, row, version, commit_id FROM crawl_catalog")
    assert {name for name, *_ in listed} == {*TABLES, *VIEWS}
    assert ("fetches", "table", TABLES["fetches"].row, 0, 4) in listed
    assert ("links_now", "view", VIEWS["links_now"].row, None, 4) in listed


@pytest.mark.long
def test_a_reader_keeps_the_catalog_it_opened(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "catalog.duckdb"
    publish(lake, 1)
    write_catalog(lake, path)
    reader = open_duckdb(path)
    opened = path.stat().st_ino

    publish(lake, 2)
    write_catalog(lake, path)

    assert reader.execute("SELECT DISTINCT commit_id FROM crawl_catalog").fetchall() == [(1,)]
    reader.close()
    assert path.stat().st_ino != opened, "replaced, not rewritten under the reader"
    assert read(tmp_path, "SELECT DISTINCT commit_id FROM crawl_catalog") == [(2,)]


def test_a_catalog_that_fails_leaves_the_old_one_and_no_litter(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "catalog.duckdb"
    publish(lake, 1)
    write_catalog(lake, path)
    publish(lake, 2, fetches=99)

    with pytest.raises(LakeError, match="commit 2"):
        write_catalog(lake, path)

    assert read(tmp_path, "SELECT DISTINCT commit_id FROM crawl_catalog") == [(1,)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["catalog.duckdb", "lake"]


def read(folder: Path, sql: str) -> list[tuple[object, ...]]:
    with open_duckdb(folder / "catalog.duckdb") as connection:
        return connection.execute(sql).fetchall()
