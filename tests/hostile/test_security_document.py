"""docs/security.md names a test for each defence: they have to be there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| attack |")]
PARTS = ("pages", "hosts", "names", "link graph", "Operator mistakes", "message bus", "API", "Dependencies")


@cache
def functions(file: str) -> set[str]:
    """Names of the functions of a file of tests, in classes too."""
    path = ROOT / file
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_test_that_the_document_names_is_there(file: str, name: str) -> None:
    assert name in functions(file)


def test_every_attack_has_a_defence_and_a_test() -> None:
    rows = [row for row in ROWS if not row.startswith("| mistake |")]

    assert len(rows) > 40
    assert [row for row in rows if row.count("|") != 4 or "::test_" not in row] == []


@pytest.mark.parametrize("part", PARTS)
def test_the_threat_model_has_its_part(part: str) -> None:
    assert any(line.startswith("## ") and part in line for line in TEXT.splitlines())


def test_what_is_not_defended_is_said() -> None:
    assert len(TEXT.partition("## What is not defended")[2].split("\n- ")) > 5
