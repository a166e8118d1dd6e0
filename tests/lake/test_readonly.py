"""Readers change nothing."""

from pathlib import Path

import duckdb
import pytest

from crawl_platform.errors import QueryError
from crawl_platform.lake import readonly
from crawl_platform.lake.readonly import read_only_statements


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "FROM fetches",
        "TABLE fetches",
        "VALUES (1)",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "DESCRIBE fetches",
        "SHOW TABLES",
        "SUMMARIZE fetches",
        "EXPLAIN SELECT 1",
        "explain analyze select 1",
        "EXPLAIN (FORMAT json) SELECT 1",
        "EXPLAIN (ANALYZE, FORMAT json) SELECT 1",
    ],
)
def test_what_returns_rows_is_allowed(sql: str) -> None:
    assert len(read_only_statements(sql)) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO 'out.csv'",
        "COPY fetches FROM 'in.csv'",
        "EXPORT DATABASE 'out'",
        "ATTACH 'other.duckdb'",
        "INSTALL delta",
        "LOAD delta",
        "SET threads = 1",
        "PRAGMA enable_profiling",
        "CREATE TABLE t (i INT)",
        "CREATE VIEW fetches AS SELECT 1",
        "INSERT INTO fetches VALUES (1)",
        "UPDATE fetches SET url = ''",
        "DELETE FROM fetches",
        "DROP VIEW fetches",
        "CALL pragma_version()",
        "PREPARE p AS SELECT 1",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'",
        "EXPLAIN (ANALYZE) COPY (SELECT 1) TO 'out.csv'",
        "/* */ EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'",
        "EXPLAIN ANALYZE /* */ COPY (SELECT 1) TO 'out.csv'",
        "SELECT 1; DROP VIEW fetches",
    ],
)
def test_what_writes_is_refused_with_a_way_out(sql: str) -> None:
    with pytest.raises(QueryError, match=r"refused.*Use SELECT"):
        read_only_statements(sql)


def test_ablation_explain_analyze_runs_what_it_explains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.csv"
    sql = f"EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}'"
    monkeypatch.setattr(readonly, "_explains_a_select", lambda query: True)

    (statement,) = read_only_statements(sql)
    duckdb.connect().execute(statement)

    assert out.exists()


def test_statements_come_one_by_one() -> None:
    assert [s.strip(" ;") for s in read_only_statements("SELECT 1; SELECT ';' AS x;")] == [
        "SELECT 1",
        "SELECT ';' AS x",
    ]


def test_wrong_sql_is_told_in_one_line() -> None:
    with pytest.raises(QueryError) as caught:
        read_only_statements("SELEC 1")

    assert str(caught.value) == 'Parser Error: syntax error at or near "SELEC"'
