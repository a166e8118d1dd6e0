"""docs/durability.md names a test for each accident and an ablation for each safeguard: they have to be there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "durability.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))


@cache
def functions(file: str) -> set[str]:
    """Names of the functions of a file of tests."""
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def rows_of(head: str) -> list[str]:
    """Rows of every table whose first column is called so."""
    parts = TEXT.split(f"| {head} |")[1:]
    return [row for part in parts for row in part.split("\n\n")[0].splitlines()[2:]]


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_test_that_the_document_names_is_there(file: str, name: str) -> None:
    assert name in functions(file)


def test_every_accident_has_its_test() -> None:
    rows = rows_of("accident")

    assert len(rows) > 20
    assert [row for row in rows if row.count("|") != 4 or "::test_" not in row] == []


def test_every_safeguard_has_its_ablation() -> None:
    rows = rows_of("safeguard")

    assert len(rows) > 10
    assert [row for row in rows if "::test_ablation_" not in row] == []
