"""`crawl sql`: read the lake with SQL, at one consistent commit."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import click
import duckdb
import pyarrow as pa
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from crawl_platform import settings
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import wide_console
from crawl_platform.cli.rows import BATCH_ROWS, print_table, write_csv, write_json
from crawl_platform.cli.shell import Shell
from crawl_platform.errors import ConfigurationError, PlatformError, QueryError
from crawl_platform.lake.catalog import CATALOG_NAME, install_extension, write_catalog
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.marts import MARTS_NAME, Mart, attach_marts, attached_marts, describe_marts, of_marts
from crawl_platform.lake.readonly import explain_error, read_only_statements
from crawl_platform.lake.views import described

Format = Literal["table", "json", "csv"]
HISTORY_NAME = ".sql_history"
TERMINAL_ROWS = 100


class WrongUse(click.ClickException):
    exit_code = 2


@click.command("sql")
@click.argument("query", required=False)
@click.option("--json", "format_", flag_value="json", help="A list of objects.")
@click.option("--csv", "format_", flag_value="csv", help="With a header; nested values as JSON.")
@click.option("--at", type=int, metavar="COMMIT", help="Read at this commit instead of the last.")
@click.option("--tables", is_flag=True, help="List what can be queried, and what a row is.")
@click.option("--install-extension", "install", is_flag=True, help="Let plain DuckDB open the catalog.")
@home_option
def sql_command(
    query: str | None, format_: Format | None, at: int | None, tables: bool, install: bool, home: Path
) -> None:
    """Read the lake with SQL (DuckDB's), at one consistent commit; nothing can be changed.

    The marts, as they were last built, are in `marts`: FROM marts.coverage. Without QUERY: a shell on a
    terminal, else SQL from standard input.
    """
    try:
        crawl = settings.load(home)
        lake = Lake(crawl.lake_root)
        if install:
            _install(lake, crawl.root)
        elif tables:
            print_tables(describe_marts(crawl.root / MARTS_NAME), format_ or "table")
        elif query is None and sys.stdin.isatty():
            _interactive(lake, at, crawl.root, format_ or "table")
        else:
            with Session(lake, at, format_ or "table", crawl.root / MARTS_NAME) as session:
                session.run(sys.stdin.read() if query is None else query)
    except (QueryError, ConfigurationError) as error:
        raise WrongUse(str(error)) from error
    except PlatformError as error:
        raise click.ClickException(str(error)) from error


class Session:
    """A connection at one commit, and how its results are shown."""

    def __init__(self, lake: Lake, at: int | None, format_: Format, marts: Path) -> None:
        self._lake = lake
        self._format = format_
        self._marts = marts
        self._open(at)

    def _open(self, at: int | None = None) -> None:
        self._connection = self._lake.connect(at)
        self._without_marts: QueryError | None = None
        try:
            attach_marts(self._connection, self._marts)
        except QueryError as error:  # told to who asks for them: the lake can be read all the same
            self._without_marts = error

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def refresh(self) -> None:
        """Move to the newest commit and the newest marts."""
        self._connection.close()
        self._open()

    def marts(self) -> list[Mart]:
        """The marts that can be queried here."""
        return attached_marts(self._connection)

    def run(self, sql: str) -> None:
        """Run the statements of `sql` and show each result. Raises `QueryError`, before running any, if one
        is wrong or would write."""
        statements = read_only_statements(sql)
        if not statements:
            raise QueryError('no SQL given: crawl sql "SELECT count(*) FROM fetches"')
        for statement in statements:
            with _query_errors(statement, self._without_marts):
                self._show(self._read(statement))

    def _read(self, statement: str) -> pa.RecordBatchReader:
        result = self._connection.execute(statement)
        try:
            return result.to_arrow_reader(BATCH_ROWS)
        except OSError as error:  # how a type that Arrow doesn't know comes out of DuckDB
            raise QueryError(f"{explain_error(error)}: cast it to VARCHAR") from error

    def _show(self, result: pa.RecordBatchReader) -> None:
        if self._format == "json":
            write_json(result, sys.stdout)
        elif self._format == "csv":
            write_csv(result, sys.stdout)
        else:
            print_table(result, wide_console(), TERMINAL_ROWS)


@contextlib.contextmanager
def _query_errors(sql: str, without_marts: QueryError | None) -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, pa.ArrowException) as error:
        if without_marts is not None and of_marts(sql):
            raise without_marts from error
        raise QueryError(explain_error(error)) from error


def print_tables(marts: Sequence[Mart], format_: Format = "table") -> None:
    """What can be queried, and what a row is."""
    rows = [(name, row) for name, row, _ in described()] + [(mart.full_name, mart.row) for mart in marts]
    if format_ != "table":
        listed = pa.Table.from_pylist([{"name": name, "row": row} for name, row in rows])
        write = write_json if format_ == "json" else write_csv
        write(listed.to_reader(), sys.stdout)
        return
    console = Console()
    grid = RichTable(header_style="bold")
    grid.add_column("name", no_wrap=True)
    grid.add_column("one row is")
    for name, row in rows:
        grid.add_row(Text(name), Text(row))
    console.print(grid)


def print_schema(name: str, console: Console, marts: Sequence[Mart] = ()) -> None:
    """Columns of one table, view or mart, with their types and docs."""
    columns = {
        known: [(c.name, str(c.type), c.doc) for c in table.columns] for known, _, table in described()
    } | {mart.full_name: mart.columns for mart in marts}
    if name not in columns:
        raise QueryError(f"there is no table {name or '(name missing)'}: .tables lists them")
    grid = RichTable(header_style="bold")
    for heading in ("column", "type", "what it says"):
        grid.add_column(heading, overflow="fold")
    for column in columns[name]:
        grid.add_row(*map(Text, column))
    console.print(grid)


def _interactive(lake: Lake, at: int | None, home: Path, format_: Format) -> None:
    console = Console()
    with (
        Session(lake, at, format_, home / MARTS_NAME) as session,
        _line_editing(home / HISTORY_NAME, session.marts()),
    ):
        console.print(f"{_standing(lake, at)} Read-only; .help for help.", highlight=False)
        commands = {
            ".tables": lambda _: print_tables(session.marts()),
            ".schema": lambda name: print_schema(name, console, session.marts()),
            ".refresh": lambda _: _refresh(session, lake, console),
        }
        Shell(input, click.echo, session.run, commands).loop()


def _refresh(session: Session, lake: Lake, console: Console) -> None:
    session.refresh()
    console.print(_standing(lake, None), highlight=False)


def _standing(lake: Lake, at: int | None) -> str:
    row = lake.latest_commit() if at is None else lake.commit(at)
    return (
        f"Commit {row.commit_id} of {row.committed_at:%Y-%m-%d %H:%M:%S} UTC."
        if row
        else "Nothing committed yet."
    )


@contextlib.contextmanager
def _line_editing(path: Path, marts: Sequence[Mart]) -> Iterator[None]:
    """Line editing whose history outlives the shell, with names of tables and columns on Tab."""
    import readline  # changes how input() behaves, so only where there is a terminal

    if path.exists():
        readline.read_history_file(path)
    readline.set_history_length(1_000)
    readline.set_completer(partial(complete, marts=marts))
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.write_history_file(path)


def complete(text: str, state: int, marts: Sequence[Mart] = ()) -> str | None:
    """The `state`-th table, view, mart or column whose name starts with `text` (readline's protocol)."""
    names = {name for known, _, table in described() for name in (known, *table.schema.names)}
    names |= {name for mart in marts for name in (mart.full_name, *(column for column, _, _ in mart.columns))}
    found = sorted(name for name in names if name.startswith(text))
    return found[state] if state < len(found) else None


def _install(lake: Lake, home: Path) -> None:
    path = home / CATALOG_NAME
    install_extension()
    if lake.exists():
        write_catalog(lake, path)
    click.echo("DuckDB finds the delta extension now. In Python, two lines read the lake:\n")
    click.echo(f'con = duckdb.connect("{path}", read_only=True)')
    click.echo('con.sql("SELECT count(*) FROM fetches")')
