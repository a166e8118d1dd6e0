"""DuckDB's delta extension, from its wheel: nothing is downloaded."""

from pathlib import Path

import duckdb
import duckdb_extension_delta

from crawl_platform.errors import ConfigurationError

OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_unsigned_extensions": True,
}
"""A connection that never looks for an extension by itself, on disk or on the network.

The signature isn't checked again at each connection: that reads all 80 MB of the file (0.15–0.3 s, against
1 ms), and the wheel that brought it is pinned by hash in `requirements.lock`.
"""


def extension_path() -> Path:
    """The extension's file for the installed DuckDB."""
    package = Path(duckdb_extension_delta.__file__).parent
    path = package / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    if not path.exists():
        raise ConfigurationError(
            f"no delta extension for DuckDB {duckdb.__version__}: "
            f"install duckdb-extension-delta=={duckdb.__version__}"
        )
    return path


def open_duckdb(path: str | Path = ":memory:") -> duckdb.DuckDBPyConnection:
    """A DuckDB connection that reads Delta tables, offline, with times in UTC."""
    connection = silent(duckdb.connect(str(path), config=OFFLINE))
    connection.execute(f"LOAD {literal(str(extension_path()))}")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def silent(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """`connection`, which no longer draws a progress bar: that goes to standard output, amid the answers."""
    connection.execute("SET enable_progress_bar = false")
    return connection


def literal(text: str) -> str:
    """`text` as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"
