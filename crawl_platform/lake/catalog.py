"""A DuckDB file with the lake's views, for analysts: plain DuckDB opens it in two lines.

    con = duckdb.connect("<home>/catalog.duckdb", read_only=True)
    con.sql("SELECT count(*) FROM fetches")

The file holds no data, only views at one version vector; it is replaced whole at each write, so that a
reader keeps the vector it opened. DuckDB finds the delta extension by itself once `install_extension` has
put it where DuckDB looks (`~/.duckdb`), without a network.
"""

import os
from pathlib import Path

import duckdb

from crawl_platform.errors import ConfigurationError
from crawl_platform.lake.delta import sync_folder
from crawl_platform.lake.extension import extension_path, literal, open_duckdb, silent
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.views import ALL_VIEWS, VIEWS, create_views, described, document_views

CATALOG_NAME = "catalog.duckdb"


def write_catalog(lake: Lake, path: Path) -> int | None:
    """Write the views at the last commit to `path`, atomically; returns the commit, None before the first."""
    versions, commit_id = lake.vector()
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with open_duckdb(draft) as connection:
            create_views(connection, lake.root, versions, commit_id, ALL_VIEWS)
            document_views(connection)
            _create_contents(connection, versions, commit_id)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
        draft.with_name(f"{draft.name}.wal").unlink(missing_ok=True)
    sync_folder(path.parent)
    return commit_id


def _create_contents(
    connection: duckdb.DuckDBPyConnection, versions: dict[str, int], commit_id: int | None
) -> None:
    """The table `crawl_catalog`: what can be queried here, at which version, and what a row is."""
    connection.execute(
        "CREATE TABLE crawl_catalog (name VARCHAR, kind VARCHAR, row VARCHAR, version BIGINT, commit_id BIGINT)"
    )
    connection.execute("COMMENT ON TABLE crawl_catalog IS 'One table or view of this catalog.'")
    rows = [
        (name, "view" if name in VIEWS else "table", row, versions.get(name), commit_id)
        for name, row, _ in described()
    ]
    connection.executemany("INSERT INTO crawl_catalog VALUES (?, ?, ?, ?, ?)", rows)


def install_extension() -> Path:
    """Put the delta extension where every DuckDB of this user finds it; returns the installed file.

    Needed once per user and DuckDB version. Raises `ConfigurationError` if the folder can't be written.
    """
    with silent(duckdb.connect()) as connection:
        try:
            connection.execute(f"INSTALL {literal(str(extension_path()))}")
        except duckdb.Error as error:
            raise ConfigurationError(
                f"the delta extension can't be installed for this user: {error}"
            ) from error
        found = connection.execute(
            "SELECT install_path FROM duckdb_extensions() WHERE extension_name = 'delta' AND installed"
        ).fetchone()
    if found is None:
        raise ConfigurationError("DuckDB doesn't list the delta extension after installing it")
    return Path(found[0])
