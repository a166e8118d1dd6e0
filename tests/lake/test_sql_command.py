"""`crawl sql`, as a person and as a program use it."""

import csv
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawl_platform.cli.sql import sql_command
from crawl_platform.lake.extension import open_duckdb
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.views import VIEWS
from tests.lake.samples import commit, publish, rows

COLUMNS = 80


@pytest.fixture(scope="module")
def home(new_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl's folder: three fetches in commit 1, two more in commit 2, one after it. Only read."""
    lake = Lake(shutil.copytree(new_lake, tmp_path_factory.mktemp("home") / "lake"))
    commit(lake, "fetches", rows("fetches", 3), 1)
    publish(lake, 1, fetches=1)
    commit(lake, "fetches", rows("fetches", 2, first=3), 2)
    publish(lake, 2, fetches=2)
    commit(lake, "fetches", rows("fetches", 1, first=5), 3)
    return lake.root.parent


def crawl_sql(home: Path, *arguments: str, piped: str | None = None) -> Result:
    environment = {"COLUMNS": str(COLUMNS), "CRAWL_HOME": str(home)}
    return CliRunner(env=environment).invoke(sql_command, arguments, input=piped)


def test_a_query_gives_a_table(home: Path) -> None:
    result = crawl_sql(home, "SELECT url, status FROM fetches ORDER BY url LIMIT 2")

    assert result.exit_code == 0
    assert re.search(r"url-0 +│ +0 ", result.stdout)
    assert "(2 rows)" in result.stdout


def test_a_query_stands_at_the_last_commit_or_at_the_one_asked_for(home: Path) -> None:
    for arguments, found in (((), 5), (("--at", "1"), 3), (("--at", "2"), 5)):
        result = crawl_sql(home, "SELECT count(*) AS n FROM fetches", "--json", *arguments)
        assert json.loads(result.stdout) == [{"n": found}]


SHORT = ("fetches", "frontier", "crawl_schedule", "page_values", "hosts_now")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in SHORT else pytest.mark.long) for name in (*TABLES, *VIEWS)],
)
def test_every_table_fits_80_columns(home: Path, name: str) -> None:
    result = crawl_sql(home, f"FROM {name}")

    assert result.exit_code == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= COLUMNS


def test_a_wide_row_is_shown_one_column_below_the_other(home: Path) -> None:
    lines = crawl_sql(home, "FROM fetches LIMIT 1").stdout.splitlines()

    assert lines[0].startswith("row 1 ")
    assert [line.split()[0] for line in lines[1:-1]] == TABLES["fetches"].schema.names


def test_a_long_result_is_cut_on_a_terminal_and_says_so(home: Path) -> None:
    result = crawl_sql(home, "SELECT i FROM range(500) t(i)")

    assert "the first 100 rows; --csv and --json give all" in result.stdout
    assert "│ 99 │" in result.stdout
    assert "│ 100 │" not in result.stdout


def test_bytes_are_not_poured_onto_the_terminal(home: Path) -> None:
    assert "<3 bytes>" in crawl_sql(home, r"SELECT '\x00\x1b\x07'::BLOB AS body").stdout


def test_markup_in_values_is_shown_as_it_is(home: Path) -> None:
    assert "[red]x[/red] [/oops]" in crawl_sql(home, "SELECT '[red]x[/red] [/oops]' AS v").stdout


def test_json_is_a_list_of_objects_with_iso_times(home: Path) -> None:
    result = crawl_sql(
        home,
        "SELECT commit_id, committed_at, versions, manifests, date FROM commits c WHERE commit_id = 1",
        "--json",
    )

    assert json.loads(result.stdout) == [
        {
            "commit_id": 1,
            "committed_at": "2026-11-30T12:00:01.123456Z",
            "versions": {"fetches": 1},
            "manifests": ["manifests-1", "é"],
            "date": "2026-11-30",
        }
    ]


def test_json_holds_every_type(home: Path) -> None:
    sql = (
        "SELECT NULL AS n, 'NaN'::DOUBLE AS nan, sum(2::BIGINT) AS big, 1.5::DECIMAL(4, 2) AS d,"
        " 'x'::BLOB AS b, {'a': [1]} AS s, true AS t, INTERVAL 90 MINUTE AS i, 1 AS a, 2 AS a"
    )

    assert json.loads(crawl_sql(home, sql, "--json").stdout) == [
        {
            "n": None,
            "nan": None,
            "big": 2,
            "d": 1.5,
            "b": "eA==",
            "s": {"a": [1]},
            "t": True,
            "i": "01:30:00",
            "a": 1,
            "a_1": 2,
        }
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("INTERVAL 0 DAY", "00:00:00"),
        ("INTERVAL 14 MONTH", "14 months"),
        ("INTERVAL 2 DAY + INTERVAL 3661 SECOND", "2 days 01:01:01"),
        ("INTERVAL (-1500) MILLISECOND", "-00:00:01.500000"),
    ],
)
def test_an_interval_is_written_as_duckdb_reads_it(home: Path, value: str, shown: str) -> None:
    sql = f"SELECT {value} AS i, {value} = INTERVAL '{shown}' AS same"

    assert json.loads(crawl_sql(home, sql, "--json").stdout) == [{"i": shown, "same": True}]


@pytest.mark.long
@pytest.mark.parametrize("arguments", [(), ("--json",), ("--csv",)])
@pytest.mark.parametrize("value", ["'infinity'::TIMESTAMPTZ", "MAP {[1]: 2}", "{'a': 1}::VARIANT"])
def test_a_value_without_a_python_form_asks_for_a_cast(
    home: Path, value: str, arguments: tuple[str, ...]
) -> None:
    result = crawl_sql(home, f"SELECT {value} AS v", *arguments)

    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.splitlines()) == 1


def test_an_error_in_the_midst_of_the_rows_ends_with_2(home: Path) -> None:
    result = crawl_sql(home, "SELECT if(i = 100000, error('late'), i) FROM range(100001) t(i)", "--csv")

    assert result.exit_code == 2
    assert "late" in result.stderr


def test_json_of_no_rows_is_an_empty_list(home: Path) -> None:
    assert json.loads(crawl_sql(home, "FROM links", "--json").stdout) == []


def test_json_and_csv_give_all_rows(home: Path) -> None:
    sql = "SELECT i FROM range(5000) t(i)"

    assert len(json.loads(crawl_sql(home, sql, "--json").stdout)) == 5000
    assert crawl_sql(home, sql, "--csv").stdout.splitlines() == ["i", *map(str, range(5000))]


def test_csv_can_be_read_back(home: Path) -> None:
    sql = (
        "SELECT 'a,\"b\"' || chr(10) || 'c' AS text, NULL AS n, true AS t, MAP {'k': 1} AS m,"
        " TIMESTAMPTZ '2026-11-30 12:00:00+00' AS w"
    )

    found = list(csv.DictReader(io.StringIO(crawl_sql(home, sql, "--csv").stdout)))

    assert found == [{"text": 'a,"b"\nc', "n": "", "t": "true", "m": '{"k":1}', "w": "2026-11-30T12:00:00Z"}]


def test_sql_comes_from_a_pipe(home: Path) -> None:
    result = crawl_sql(home, "--csv", piped="SELECT 1 AS a;\nSELECT 2 AS b;\n")

    assert result.stdout == "a\n1\nb\n2\n"


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELEC 1", 'near "SELEC"'),
        ("SELECT nope FROM fetches", 'Candidate bindings: "'),
        ("FROM fetchs", "Did you mean"),
        ("SELECT 1/0::INT + 'x'::INT", "Could not convert"),
        ("DROP VIEW fetches", "DROP is refused"),
        ("COPY fetches TO 'out.csv'", "COPY is refused"),
        ("", "no SQL given"),
    ],
)
def test_bad_sql_ends_with_2_and_one_line(home: Path, sql: str, says: str) -> None:
    result = crawl_sql(home, sql)

    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_nothing_runs_if_one_statement_would_write(home: Path) -> None:
    result = crawl_sql(home, "SELECT 1; DROP VIEW fetches")

    assert (result.exit_code, result.stdout) == (2, "")


def test_a_folder_without_a_lake_is_named(tmp_path: Path) -> None:
    result = crawl_sql(tmp_path, "SELECT 1")

    assert result.exit_code == 1
    assert f"there is no lake at {tmp_path / 'lake'}" in result.stderr


def test_a_commit_that_is_not_there_is_named(home: Path) -> None:
    result = crawl_sql(home, "SELECT 1", "--at", "9")

    assert result.exit_code == 1
    assert "there is no commit 9" in result.stderr


def test_tables_lists_what_a_row_is(home: Path) -> None:
    text = re.sub(r"[\s│]+", " ", crawl_sql(home, "--tables").stdout)

    for name, row in [
        *((t.name, t.row) for t in TABLES.values()),
        *((v.name, v.row) for v in VIEWS.values()),
    ]:
        assert f" {name} {row}" in text


def test_the_home_can_be_an_option(home: Path) -> None:
    result = CliRunner().invoke(sql_command, ["SELECT 1 AS one", "--json", "--home", str(home)])

    assert json.loads(result.stdout) == [{"one": 1}]


def test_install_extension_prints_the_two_lines(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That such lines work in a fresh process is `test_catalog`'s to say; here, that these do."""
    installed: list[None] = []
    monkeypatch.setattr("crawl_platform.cli.sql.install_extension", lambda: installed.append(None))

    result = crawl_sql(home, "--install-extension")

    assert installed == [None]
    connect, count = result.stdout.splitlines()[-2:]
    (path,) = re.findall(r'^con = duckdb\.connect\("(.+)", read_only=True\)$', connect)
    (sql,) = re.findall(r'^con\.sql\("(.+)"\)$', count)
    with open_duckdb(path) as connection:
        assert connection.execute(sql).fetchone() == (5,)


def test_on_a_terminal_there_is_a_shell(home: Path) -> None:
    typed = "\n".join(
        [
            "SELECT count(*)",
            "  AS fetched FROM fetches;",
            ".schema links_now",
            "SELECT nope FROM fetches;",
            ".nope",
            ".exit",
            "",
        ]
    )

    screen = on_a_terminal(home, typed)

    assert "Commit 2 of 2026-11-30 12:00:02 UTC." in screen
    assert re.search(r"│ +5 │", screen)
    assert "Canonical target." in screen
    assert 'Referenced column "nope" not found' in screen
    assert "there is no command .nope: .help lists them" in screen
    assert "SELECT count(*)" in (home / ".sql_history").read_text()


def on_a_terminal(home: Path, typed: str) -> str:
    """What a person sees who types this into `crawl sql`."""
    ours, theirs = pty.openpty()
    command = "from crawl_platform.cli.sql import sql_command; sql_command()"
    shell = subprocess.Popen(
        [sys.executable, "-c", command, "--home", str(home)],
        stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "COLUMNS": "80", "TERM": "dumb"},
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, typed.encode())
    seen = b""
    try:
        while chunk := os.read(ours, 65_536):
            seen += chunk
    except OSError:  # how Linux says that the other side has closed the terminal
        pass
    os.close(ours)
    assert shell.wait(timeout=60) == 0
    return seen.decode()


def test_a_long_query_draws_no_progress_bar_amid_the_answer(lake: Lake) -> None:
    for setting in (lake.connect(), open_duckdb()):
        with setting as connection:
            assert connection.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (False,)
