"""Manifests → Delta, exactly once: the lake's only writer of fleet tables.

A round takes each application's (incarnation/series) manifests *contiguously* above the number that
`commits` shows, checks that every staged file exists with its size, then commits each table once:

    refresh → read the transactions → skip what this table has → commit on that handle, no refresh between

`fetches` first, then the other tables, last one row of `commits` with every table's version. A round that
dies anywhere is taken up by the next one: each table resumes from its own transaction. A stale committer is
refused by Delta, whatever it believes.
"""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime

import pyarrow as pa

from crawl_platform.clock import Clock, as_datetime
from crawl_platform.commit.faults import ACKED, ALL_TABLES, SOME_TABLES, VECTOR, Faults
from crawl_platform.commit.manifest import Manifest
from crawl_platform.lake.delta import (
    STAGED,
    DeltaWriter,
    StagedFile,
    log_entry,
    missing_files,
    write_parquet,
)
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import SCHEMA_VERSION, TABLES
from crawl_platform.lake.upkeep.rewrite import WRITER, WRITER_KEY

FLEET_TABLES = tuple(
    sorted((t.name for t in TABLES.values() if t.writer == "fleet"), key=lambda n: n != "fetches")
)
ROUND_LIMIT = 500
"""Manifests per round: 500 application transactions in one Delta commit cost about 10 ms."""
VECTOR_APP = "committer/vector"


@dataclass(slots=True)
class Round:
    """What one round did. `rows` per table; `gaps`: application → the number that is missing."""

    commit_id: int = 0
    manifests: list[Manifest] = field(default_factory=list)
    quarantined: list[Manifest] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    gaps: dict[str, int] = field(default_factory=dict)
    held: list[Manifest] = field(default_factory=list)
    """Of an unknown schema version: kept until a newer committer comes."""


class Committer:
    """`redeliver` is told of each quarantined manifest before its number is used up (at least once)."""

    def __init__(
        self,
        lake: Lake,
        clock: Clock,
        *,
        redeliver: Callable[[Manifest], None],
        max_age: float,
        faults: Faults | None = None,
    ) -> None:
        self._lake = lake
        self._clock = clock
        self._redeliver = redeliver
        self._max_age = max_age
        self._faults = faults or Faults()
        self._writers = {
            name: DeltaWriter(lake.path(name), TABLES[name]) for name in (*FLEET_TABLES, "commits")
        }
        self._pending: dict[str, dict[int, Manifest]] = {}

    def offer(self, manifests: Iterable[Manifest]) -> None:
        """Manifests that have arrived; repeats are harmless."""
        for manifest in manifests:
            self._pending.setdefault(manifest.app, {})[manifest.number] = manifest

    def round(self) -> Round | None:
        """Commit what can be committed; None if nothing can. Raises `OwnershipLostError` when stale."""
        commits = self._writers["commits"]
        commits.refresh()
        result = Round()
        self._select(result, commits)
        if not result.manifests:
            return result if result.gaps or result.held else None
        self._quarantine_broken(result)
        for name in FLEET_TABLES:
            self._commit_table(name, result)
            self._faults.reached(SOME_TABLES)
        self._faults.reached(ALL_TABLES)
        self._write_vector(result, commits)
        self._faults.reached(VECTOR)
        for manifest in result.manifests:
            self._pending[manifest.app].pop(manifest.number, None)
        return result

    def publish_versions(self) -> int | None:
        """A row of `commits` without manifests, after upkeep: readers move on to the files that it has written.

        Returns the commit; None if there is no news, or while a table holds part of a round that another committer
        didn't finish: the next round publishes that whole.
        """
        for writer in self._writers.values():
            writer.refresh()
        last = self._lake.latest_commit()
        known = {} if last is None else {name: last.versions.get(name, 0) for name in FLEET_TABLES}
        news = any(self._writers[name].version != version for name, version in known.items())
        if not news or any(self._moved_on(name, version) for name, version in known.items()):
            return None
        result = Round()
        self._write_vector(result, self._writers["commits"])
        return result.commit_id

    def _moved_on(self, name: str, since: int) -> bool:
        """Whether anybody but upkeep has committed to the table after version `since`."""
        writer = self._writers[name]
        later = (log_entry(writer.root, version) for version in range(since + 1, writer.version + 1))
        return any(
            action["commitInfo"].get(WRITER_KEY) != WRITER
            for entry in later
            for action in entry
            if "commitInfo" in action
        )

    def done(self, manifest: Manifest) -> bool:
        """Whether `commits` shows it (as of the last round): its message may be acked."""
        shown = self._writers["commits"].transaction_version(manifest.app)
        return shown is not None and shown >= manifest.number

    def acked(self) -> None:
        self._faults.reached(ACKED)

    def _select(self, result: Round, commits: DeltaWriter) -> None:
        for app, waiting in self._pending.items():
            expected = (commits.transaction_version(app) or 0) + 1
            for number in [n for n in waiting if n < expected]:
                del waiting[number]
            while (manifest := waiting.get(expected)) is not None and len(result.manifests) < ROUND_LIMIT:
                if manifest.schema_version > SCHEMA_VERSION:
                    result.held.append(manifest)
                    break
                result.manifests.append(manifest)
                expected += 1
            if waiting and expected < min((n for n in waiting if n >= expected), default=expected):
                result.gaps[app] = expected

    def _quarantine_broken(self, result: Round) -> None:
        """A manifest with a missing or wrong file, or one too old to be sure of, is published empty."""
        for manifest in result.manifests:
            if self._age(manifest) > self._max_age or self._broken(manifest):
                self._redeliver(manifest)
                result.quarantined.append(manifest)

    def _age(self, manifest: Manifest) -> float:
        return self._clock.now() - manifest.created_at

    def _broken(self, manifest: Manifest) -> bool:
        """All files count, also those of tables that a round which died has committed already: it may have
        committed them empty, and then the tables that are left must stay empty too (links cite fetches)."""
        return any(table not in FLEET_TABLES for table in manifest.tables) or any(
            missing_files(self._lake.path(table), [file for file in manifest.files if file.table == table])
            or any(
                set(f.partition) != set(TABLES[table].partition_by)
                for f in manifest.files
                if f.table == table
            )
            for table in manifest.tables
        )

    def _commit_table(self, name: str, result: Round) -> None:
        writer = self._writers[name]
        writer.refresh()
        files: list[StagedFile] = []
        transactions: dict[str, int] = {}
        for manifest in result.manifests:
            if name not in manifest.tables:
                continue
            if (writer.transaction_version(manifest.app) or 0) >= manifest.number:
                continue
            transactions[manifest.app] = manifest.number
            if manifest not in result.quarantined:
                files += [file for file in manifest.files if file.table == name]
        if transactions:
            writer.commit(files, transactions, {"crawl.writer": "committer"})
        if files:
            result.rows[name] = sum(file.rows for file in files)

    def _versions(self) -> dict[str, int]:
        """Version of every table now; those that others write are refreshed first."""
        for name, writer in self._writers.items():
            if TABLES[name].writer != "fleet":
                writer.refresh()
        return {name: writer.version for name, writer in self._writers.items()}

    def _write_vector(self, result: Round, commits: DeltaWriter) -> None:
        result.commit_id = (commits.transaction_version(VECTOR_APP) or 0) + 1
        at = as_datetime(self._clock.now())
        row = _commit_row(result, at, self._versions())
        data = pa.Table.from_pylist([row], schema=TABLES["commits"].schema)
        name = f"commit-{result.commit_id:012d}-{secrets.token_hex(4)}.parquet"
        file = write_parquet(TABLES["commits"], data, self._lake.path("commits") / STAGED / name)
        transactions = {VECTOR_APP: result.commit_id}
        for manifest in result.manifests:
            transactions[manifest.app] = manifest.number
        commits.commit([file], transactions, {"crawl.writer": "committer"})


def _commit_row(result: Round, at: datetime, versions: dict[str, int]) -> dict[str, object]:
    day: date = at.date()
    return {
        "commit_id": result.commit_id,
        "committed_at": at,
        "versions": list(versions.items()),
        "manifests": [manifest.label for manifest in result.manifests],
        "quarantined": [manifest.label for manifest in result.quarantined],
        "rows": list(result.rows.items()),
        "date": day,
    }
