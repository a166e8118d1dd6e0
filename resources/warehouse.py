"""The analysts' DuckDB file as a Dagster resource: built beside the one that is read, and swapped in whole.

A DuckDB file has one writer, and a reader keeps that writer out. So nobody ever writes the file that is read:
1. a lock keeps a second build out; what a broken build left is removed;
2. the order says at which versions the lake is read;
3. dbt builds `marts.next.duckdb` and tests it, in a process of its own;
4. if all of it went well, the file is flushed and renamed to `marts.duckdb`.
Who has the old file open goes on reading it; who opens it now gets the new one; after a crash at any step the
old one is still there.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import dagster as dg
import duckdb
import msgspec

from crawl_platform.errors import LakeError
from crawl_platform.lake.delta import sync_folder
from crawl_platform.lake.marts import MARTS_NAME, Mart, describe_marts
from resources.dbt_project import dbt_command, project_folder
from resources.marts_order import Order, write_order

NEXT_NAME = "marts.next.duckdb"
FINE = frozenset({"success", "pass", "warn"})
"""Statuses of dbt after which a file may be swapped in."""


class Result(msgspec.Struct, frozen=True):
    """How one model or test ended, in dbt's words; `failures` are rows that break a test."""

    unique_id: str
    status: str
    message: str | None = None
    failures: int | None = None

    @property
    def fine(self) -> bool:
        return self.status in FINE

    @property
    def ran(self) -> bool:
        """A test that stands on a broken model is skipped."""
        return self.status != "skipped"


class Results(msgspec.Struct, frozen=True):
    """dbt's `run_results.json`."""

    results: list[Result]


class Build(msgspec.Struct, frozen=True):
    """One build. `rows` per mart and `bytes` are those of the file now in place; empty if it was not swapped."""

    results: list[Result]
    published: bool
    seconds: float
    rows: dict[str, int] = {}
    bytes: int = 0

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if result.ran and not result.fine]


class WarehouseResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The marts of the crawl at `home`."""

    home: str

    @property
    def path(self) -> Path:
        """The file that is read."""
        return Path(self.home) / MARTS_NAME

    @property
    def draft(self) -> Path:
        """The file that is built."""
        return Path(self.home) / NEXT_NAME

    @property
    def workshop(self) -> Path:
        """Folder of the order, dbt's logs and what dbt compiled."""
        return Path(self.home) / "marts"

    def marts(self) -> list[Mart]:
        """What the file in place holds."""
        return describe_marts(self.path)

    def build(self, order: Order) -> Build:
        """Build and test all marts from `order`; swap the file in if nothing failed.

        Raises `LakeError` if another build is under way or dbt ended without saying how.
        """
        self.workshop.mkdir(parents=True, exist_ok=True)
        with _alone(self.workshop / ".lock"):
            started = time.monotonic()
            _remove(self.draft)
            write_order(order, self._order_path)
            results, whole = self._run_dbt()
            if not whole or not all(result.fine for result in results):
                return Build(results, published=False, seconds=time.monotonic() - started)
            rows = self._publish()
            return Build(results, True, time.monotonic() - started, rows, self.path.stat().st_size)

    @property
    def _order_path(self) -> Path:
        return self.workshop / "order.json"

    def _run_dbt(self) -> tuple[list[Result], bool]:
        """Step 3: the results, and whether dbt got to its end. Its output goes to the run's log."""
        # Imported here: it doubles the time to load the definitions, and only this run needs it.
        from dagster_dbt import DagsterDbtTranslator, DbtCliInvocation
        from packaging.version import Version

        target, project = self.workshop / "target", project_folder()
        told = target / "run_results.json"
        told.unlink(missing_ok=True)
        # Not DbtCliResource.cli: it takes no environment, and starts dbt once more to ask for its version.
        invocation = DbtCliInvocation.run(
            args=[str(dbt_command()), "build"],
            env={**os.environ, **self._environment(project, target)},
            manifest={},
            dagster_dbt_translator=DagsterDbtTranslator(),
            project_dir=project,
            target_path=target,
            raise_on_error=False,
            context=None,
            adapter=None,
            cli_version=Version(version("dbt-core")),
        )
        invocation.wait()
        if not told.exists():
            raise LakeError(
                f"dbt ended with {invocation.process.returncode} and built nothing: see the run's log"
            )
        results = msgspec.json.decode(told.read_bytes(), type=Results).results
        return results, bool(results) and went_through(invocation.process.returncode)

    def _environment(self, project: Path, target: Path) -> dict[str, str]:
        """What dbt is told by the environment: all that it writes goes below the crawl's home."""
        return {
            "CRAWL_MARTS_FILE": str(self.draft),
            "CRAWL_MARTS_ORDER": str(self._order_path),
            "DBT_PROJECT_DIR": str(project),
            "DBT_PROFILES_DIR": str(project),
            "DBT_TARGET_PATH": str(target),
            "DBT_LOG_PATH": str(target),
            "DBT_LOG_FORMAT": "json",
            "PYTHONUNBUFFERED": "1",
        }

    def _publish(self) -> dict[str, int]:
        """Step 4; returns rows per mart. Until the rename, nothing that anybody reads has changed."""
        with duckdb.connect(str(self.draft)) as connection:
            connection.execute("CHECKPOINT")
            names = [
                name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            ]
            rows = {name: _count(connection, name) for name in sorted(names)}
        with self.draft.open("rb") as file:
            os.fsync(file.fileno())
        self.draft.replace(self.path)
        sync_folder(self.path.parent)
        return rows


def went_through(code: int) -> bool:
    """dbt's exit status: 1 is a failed model or test, 2 an interrupt, whose results are fine but not all."""
    return code == 0


def _count(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    row = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()
    return int(row[0]) if row else 0


def _remove(path: Path) -> None:
    for part in (path, path.with_name(f"{path.name}.wal")):
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other builds out; the lock goes with the process that holds it."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LakeError("another build of the marts is under way") from error
        yield
