"""Where the public cases are; the suite skips, loudly and counted, on a machine that doesn't have them."""

import gzip
from pathlib import Path

import pytest

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"


def case_file(name: str) -> Path:
    path = CASES / name
    if not path.exists():
        pytest.skip(f"SHARED CASES ABSENT: {name}")
    return path


def case_lines(name: str) -> list[str]:
    path = case_file(name)
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    return [line for line in text.splitlines() if line]
