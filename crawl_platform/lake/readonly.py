"""Which SQL a reader may run: statements that return rows and change nothing.

The views stand in an in-memory database, so the lake's tables can't be written through them; but COPY TO,
EXPORT, ATTACH and INSTALL would write elsewhere, and EXPLAIN ANALYZE runs whatever follows it.
"""

import re

import duckdb

from crawl_platform.errors import QueryError

_EXPLAIN = re.compile(
    r"\s*EXPLAIN\b(\s+ANALYZE\b)?(\s*\(\s*(ANALYZE|FORMAT)\b[^)]*\))?", re.IGNORECASE | re.DOTALL
)


def read_only_statements(sql: str) -> list[str]:
    """The statements of `sql`, in order. Raises `QueryError` if one doesn't parse or would write."""
    statements = _parse(sql)
    for statement in statements:
        _require_read_only(statement)
    return [statement.query for statement in statements]


def _parse(sql: str) -> list[duckdb.Statement]:
    try:
        return duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(explain_error(error)) from error


def _require_read_only(statement: duckdb.Statement) -> None:
    if statement.type == duckdb.StatementType.SELECT:
        return
    if statement.type == duckdb.StatementType.EXPLAIN and _explains_a_select(statement.query):
        return
    kind = str(statement.type).rpartition(".")[2]
    kind = "EXPLAIN of anything but a SELECT" if kind == "EXPLAIN" else kind
    raise QueryError(
        f"{kind} is refused: this reads the lake and changes nothing. "
        "Use SELECT, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN."
    )


def _explains_a_select(query: str) -> bool:
    prefix = _EXPLAIN.match(query)
    if prefix is None:
        return False
    inner = _parse(query[prefix.end() :])
    return len(inner) == 1 and inner[0].type == duckdb.StatementType.SELECT


def explain_error(error: Exception) -> str:
    """DuckDB's message in one line, with its suggestion."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(line for line in lines if not line.startswith(("LINE ", "^")))
