"""The marts beside the lake: what `crawl sql` and its shell make of the file, of none, and of a locked one."""

import json
import re
import shutil
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from crawl_platform.cli.sql import Session, complete, print_schema, print_tables, sql_command
from crawl_platform.errors import QueryError
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.marts import MARTS_NAME, describe_marts, of_marts


@pytest.fixture
def home(new_lake: Path, tmp_path: Path) -> Path:
    """A crawl's folder with an empty lake and marts."""
    shutil.copytree(new_lake, tmp_path / "lake")
    write_marts(tmp_path / MARTS_NAME, 5)
    return tmp_path


def write_marts(path: Path, fetches: int) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE host_daily AS SELECT 'a.test' AS host, {fetches} AS fetches")
        connection.execute("COMMENT ON TABLE host_daily IS 'One row: one host on one UTC day.'")
        connection.execute("COMMENT ON COLUMN host_daily.fetches IS 'Fetches of all kinds.'")


def crawl_sql(home: Path, *arguments: str) -> Result:
    return CliRunner(env={"CRAWL_HOME": str(home), "COLUMNS": "120"}).invoke(sql_command, arguments)


def test_marts_are_queried_beside_the_lake(home: Path) -> None:
    sql = (
        "SELECT host, m.fetches, count(f.fetch_id) AS n FROM marts.host_daily m "
        "LEFT JOIN fetches f USING (host) GROUP BY ALL"
    )

    assert json.loads(crawl_sql(home, sql, "--json").stdout) == [{"host": "a.test", "fetches": 5, "n": 0}]


@pytest.mark.parametrize(
    "sql", ["INSERT INTO marts.host_daily VALUES ('b', 1)", "DROP TABLE marts.host_daily"]
)
def test_marts_cannot_be_changed(home: Path, sql: str) -> None:
    assert "is refused" in crawl_sql(home, sql).stderr


def test_without_marts_it_is_said_who_builds_them(home: Path) -> None:
    (home / MARTS_NAME).unlink()

    result = crawl_sql(home, "FROM marts.host_daily")

    assert result.exit_code == 2
    assert f"there are no marts at {home / MARTS_NAME} yet: Dagster builds them" in result.stderr


def test_without_marts_the_lake_is_read_as_ever(home: Path) -> None:
    (home / MARTS_NAME).unlink()

    assert json.loads(crawl_sql(home, "SELECT count(*) AS n FROM fetches", "--json").stdout) == [{"n": 0}]
    assert "marts" not in crawl_sql(home, "SELECT nope FROM fetches").stderr


def test_a_broken_file_is_told_to_who_asks_for_marts_alone(home: Path) -> None:
    (home / MARTS_NAME).write_bytes(b"not a database" * 1000)

    assert "the marts can't be read" in crawl_sql(home, "FROM marts.host_daily").stderr
    assert crawl_sql(home, "FROM fetches").exit_code == 0
    assert describe_marts(home / MARTS_NAME) == []


def test_a_mart_that_is_not_there_is_named(home: Path) -> None:
    assert "host_weekly" in crawl_sql(home, "FROM marts.host_weekly").stderr


def test_tables_lists_the_marts_and_what_a_row_is(home: Path) -> None:
    text = re.sub(r"[\s│]+", " ", crawl_sql(home, "--tables").stdout)

    assert "marts.host_daily One host on one UTC day." in text
    assert {"name": "marts.host_daily", "row": "One host on one UTC day."} in json.loads(
        crawl_sql(home, "--tables", "--json").stdout
    )


def test_tables_without_marts_lists_the_lake(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_tables([])

    assert "marts." not in capsys.readouterr().out


def test_the_schema_of_a_mart_has_its_docs(home: Path) -> None:
    console = Console(width=100)
    with console.capture() as captured:
        print_schema("marts.host_daily", console, describe_marts(home / MARTS_NAME))

    assert "Fetches of all kinds." in captured.get()
    with pytest.raises(QueryError, match="no table"):
        print_schema("marts.host_daily", console)


def test_names_of_marts_are_completed(home: Path) -> None:
    assert complete("marts.", 0, describe_marts(home / MARTS_NAME)) == "marts.host_daily"
    assert complete("marts.", 0) is None


def test_a_shell_keeps_its_marts_over_a_swap_and_refresh_takes_the_new_ones(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(session: Session) -> str:
        session.run("SELECT fetches FROM marts.host_daily")
        return capsys.readouterr().out.splitlines()[-1]

    with Session(Lake(home / "lake"), None, "csv", home / MARTS_NAME) as session:
        assert shown(session) == "5"
        write_marts(home / "marts.next.duckdb", 6)
        (home / "marts.next.duckdb").replace(home / MARTS_NAME)

        assert shown(session) == "5"
        session.refresh()
        assert shown(session) == "6"


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("FROM marts.cost", True),
        ('FROM "marts" . cost', True),
        ("FROM smarts.cost", False),
        ("FROM marts", False),
    ],
)
def test_what_names_the_marts(sql: str, named: bool) -> None:
    assert of_marts(sql) is named
