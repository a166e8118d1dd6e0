"""Each bench is run as `python -m bench.NAME --json`, also all of them by `make bench`."""

import re
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
PROGRAMS = sorted(
    file
    for file in (*BENCH.glob("*.py"), *BENCH.glob("*/__main__.py"))
    if file.name != "__init__.py" and "argparse" in file.read_text()
)


@pytest.mark.parametrize("program", PROGRAMS, ids=[str(file.relative_to(BENCH)) for file in PROGRAMS])
def test_a_bench_prints_json_and_needs_no_argument(program: Path) -> None:
    text = program.read_text()

    assert len(PROGRAMS) > 12
    assert '"--json"' in text
    assert not re.search(r"add_argument\([^)]*required=True", text)
