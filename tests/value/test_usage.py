"""Files of usage: what each line may say, what is told of the others, and that a file counts once."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from crawl_platform.cli import main
from crawl_platform.errors import ConfigurationError
from crawl_platform.lake.lake import Lake
from crawl_platform.value.usage import Fault, Used, format_of, read_usage, used

NOW = 1_780_000_000.0
PAGE = "https://a.test/x"


def said(**values) -> Used | Fault:
    return used(7, {"url": PAGE, "retrievals": 1} | values, NOW)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, Used(7, PAGE, "a.test", NOW, 1, None)),
        ({"url": " HTTPS://A.test:443/b/../x#y "}, Used(7, PAGE, "a.test", NOW, 1, None)),
        ({"retrievals": "12"}, Used(7, PAGE, "a.test", NOW, 12, None)),
        ({"retrievals": 12.0}, Used(7, PAGE, "a.test", NOW, 12, None)),
        ({"retrievals": "", "critical": "yes"}, Used(7, PAGE, "a.test", NOW, None, True)),
        ({"critical": False}, Used(7, PAGE, "a.test", NOW, 1, False)),
        ({"url": "A.test", "retrievals": None, "critical": "true"}, Used(7, None, "a.test", NOW, None, True)),
        ({"at": "2026-03-01T12:00:00Z"}, Used(7, PAGE, "a.test", 1_772_366_400.0, 1, None)),
        ({"at": "2026-03-01"}, Used(7, PAGE, "a.test", 1_772_323_200.0, 1, None)),
        ({"at": 1_772_323_200}, Used(7, PAGE, "a.test", 1_772_323_200.0, 1, None)),
        ({"at": "1772323200.5"}, Used(7, PAGE, "a.test", 1_772_323_200.5, 1, None)),
        ({"at": datetime(2026, 3, 1, tzinfo=UTC)}, Used(7, PAGE, "a.test", 1_772_323_200.0, 1, None)),
    ],
)
def test_a_line_says_what_a_page_is_used_for(values, expected):
    assert said(**values) == expected


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"url": ""}, "names no URL"),
        ({"url": None}, "names no URL"),
        ({"url": 7}, "names no URL"),
        ({"url": "ftp://a.test/"}, "not a URL that can be crawled"),
        ({"url": "two words"}, "neither a URL"),
        ({"url": "a.test"}, "retrievals are those of a page"),
        ({"retrievals": -1}, "retrievals must be a whole number"),
        ({"retrievals": "many"}, "retrievals must be a whole number"),
        ({"retrievals": 1.5}, "retrievals must be a whole number"),
        ({"retrievals": "nan"}, "retrievals must be a whole number"),
        ({"retrievals": "inf"}, "retrievals must be a whole number"),
        ({"retrievals": True}, "retrievals must be a whole number"),
        ({"retrievals": []}, "retrievals must be a whole number"),
        ({"critical": "perhaps"}, "critical must be true or false"),
        ({"retrievals": None}, "says neither retrievals nor critical"),
        ({"at": "yesterday"}, "at must be a time"),
        ({"at": "nan"}, "at lies"),
        ({"at": True}, "at must be a time"),
        ({"at": NOW + 1e6}, "at lies in the future"),
        ({"at": 0}, "at lies before the web"),
    ],
)
def test_what_is_no_good_is_told_with_its_line(values, why):
    found = said(**values)

    assert isinstance(found, Fault)
    assert found.line == 7
    assert found.why.startswith(why)


CSV = b'\xef\xbb\xbfURL,retrievals,who,critical\nhttps://a.test/x,3,me,\n\nb.test,,me,true\nhttps://a.test/"\xff,1,me,\nshort\n'
JSONL = b'{"url":"https://a.test/x","retrievals":3}\n\n{"url":"b.test","critical":true}\n{"url":\n[1]\n'


@pytest.mark.parametrize(
    ("name", "data", "faults"),
    [
        ("use.csv", CSV, [(5, "not UTF-8"), (6, "has 1 fields, the header has 4")]),
        ("use.jsonl", JSONL, [(4, "not JSON"), (5, "not an object")]),
    ],
)
def test_lines_keep_their_numbers(tmp_path: Path, name: str, data: bytes, faults):
    path = tmp_path / name
    path.write_bytes(data)

    found = list(read_usage(path, format_of(path), NOW))

    good = [line for line in found if isinstance(line, Used)]
    bad = [line for line in found if isinstance(line, Fault)]
    assert [(row.url, row.host, row.retrievals, row.critical) for row in good] == [
        (PAGE, "a.test", 3, None),
        (None, "b.test", None, True),
    ]
    assert [
        (fault.line, fault.why[: len(why)]) for fault, (_, why) in zip(bad, faults, strict=True)
    ] == faults


def test_parquet_is_read_by_its_columns(tmp_path: Path):
    path = tmp_path / "use.parquet"
    at = datetime(2026, 3, 1, tzinfo=UTC)
    pq.write_table(
        pa.table({"url": [PAGE, "x y"], "retrievals": [3, 1], "at": [at, at], "more": [1, 2]}), path
    )

    good, bad = read_usage(path, format_of(path), NOW)

    assert good == Used(1, PAGE, "a.test", at.timestamp(), 3, None)
    assert (bad.line, bad.text) == (2, "x y")


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("use.csv", b"page,count\n", "needs columns url"),
        ("use.csv", b"", "it has: none"),
        ("use.csv", b"url,critical\n" + b"x" * 200_000, "line 2: field larger"),
        ("use.parquet", b"PAR1", "is no Parquet file"),
    ],
)
def test_a_file_that_cannot_be_read_at_all_is_refused(tmp_path: Path, name: str, data: bytes, why: str):
    path = tmp_path / name
    path.write_bytes(data)

    with pytest.raises(ConfigurationError, match=why):
        list(read_usage(path, format_of(path), NOW))


def test_a_name_that_says_nothing_needs_a_format():
    with pytest.raises(ConfigurationError, match="--format"):
        format_of(Path("use.log"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    Lake(tmp_path / "lake").create(4)
    return tmp_path


def test_a_file_is_imported_once_and_its_bad_lines_are_told(home: Path):
    file, again = home / "use.csv", home / "copy.csv"
    for path in (file, again):
        path.write_text(f"url,retrievals,critical\n{PAGE},3,\nnowhere,,maybe\nb.test,,true\n")

    def run(*arguments: str):
        return CliRunner().invoke(main, ["usage", "import", *arguments, "--home", str(home)])

    dry = run(str(file), "--dry-run")
    first = run(str(file))
    second = run(str(again), "--json")

    assert dry.exit_code == first.exit_code == second.exit_code == 1
    assert "would import 2 rows of 3 lines (1 page of 2 hosts, 1 critical)" in dry.output
    assert "line 3: 'nowhere': " in first.output
    assert "imported 2 rows of 3 lines (1 page of 2 hosts, 1 critical)" in first.output
    assert '"imported_before": true' in second.output
    rows = (
        Lake(home / "lake")
        .query("SELECT url, host, retrievals, critical, line FROM usage ORDER BY line")
        .to_pylist()
    )
    assert [tuple(row.values()) for row in rows] == [
        (PAGE, "a.test", 3, None, 2),
        (None, "b.test", None, True, 4),
    ]


def test_without_import_the_command_still_tells_what_the_crawl_has_used(home: Path):
    shown = CliRunner().invoke(main, ["usage", "--home", str(home)])

    assert shown.exit_code == 0
    assert "nothing was fetched" in shown.output
