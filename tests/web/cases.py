"""Input cases: our own in `tests/cases`, and the public ones, skipped loudly where they are not there."""

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "cases"


def own_cases(name: str) -> list[dict[str, Any]]:
    return _read(ROOT / "tests" / "cases" / name)


def shared_path(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"SHARED CASES ABSENT: {name}")
    return path


def shared_cases(name: str) -> list[dict[str, Any]]:
    return _read(shared_path(name))


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
