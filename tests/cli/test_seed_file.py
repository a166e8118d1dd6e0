"""Lists of hosts as they are published: which host each line stands for."""

import gzip
import zipfile
from pathlib import Path

import pytest

from crawl_platform.cli.seed_file import LONGEST, SeedFile
from crawl_platform.errors import ConfigurationError

TOP = "1,one.test\n2,two.test\n3,three.test\n4,four.test\n"


def names(path: Path, text: str, **options: int) -> list[str]:
    path.write_text(text)
    return list(SeedFile(path, **options))


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("one.test\n# why\nhttps://two.test/x,y\n", ["one.test", "", "https://two.test/x,y"]),
        (TOP, ["one.test", "two.test", "three.test", "four.test"]),
        ("\ufeff1,one.test\r\n2,two.test\r\n", ["one.test", "two.test"]),
        ("one.test,17\ntwo.test,18\n", ["one.test", "two.test"]),
        ("domain\none.test\n", ["", "one.test"]),
        ("origin,rank\nhttps://one.test,1000\n", ["", "https://one.test"]),
        ("GlobalRank,TldRank,Domain,TLD\n1,1,one.test,test\n", ["", "one.test"]),
        ('rank,"domain"\n1,"one.test"\n', ["", "one.test"]),
        ("1,one.test\nnonsense\n3,\n", ["one.test", "nonsense", "3,"]),
        ("", []),
    ],
)
def test_a_line_stands_for_its_host_or_for_itself(tmp_path: Path, text: str, hosts: list[str]) -> None:
    assert names(tmp_path / "list", text) == hosts


def test_hosts_are_chosen_by_rank_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    assert names(tmp_path / "list", TOP, top=3, min_rank=2) == ["", "two.test", "three.test", ""]


def test_without_ranks_they_are_chosen_by_place(tmp_path: Path) -> None:
    listed = names(tmp_path / "list", "# best\na.test\n\nb.test\nc.test\nd.test\n", top=3, min_rank=2)

    assert listed == ["", "", "", "b.test", "c.test"]


def test_packed_files_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "list.gz").write_bytes(gzip.compress(TOP.encode()))
    with zipfile.ZipFile(tmp_path / "list.zip", "w") as archive:
        archive.writestr("top-1m.csv", TOP)

    assert [next(iter(SeedFile(tmp_path / f"list.{kind}"))) for kind in ("gz", "zip")] == ["one.test"] * 2


def test_a_file_that_is_cut_off_is_told_after_what_could_be_read(tmp_path: Path) -> None:
    lines = "".join(f"{n},host-{n * 7919 % 99991}.test\n" for n in range(1, 20_001))
    (tmp_path / "list").write_bytes(gzip.compress(lines.encode())[:-2_000])
    read = []

    with pytest.raises(ConfigurationError, match=r"is damaged after line \d+"):
        read.extend(SeedFile(tmp_path / "list"))

    (tmp_path / "two.zip").touch()
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", TOP)
        archive.writestr("b.csv", TOP)
    with pytest.raises(ConfigurationError, match=r"holds 2 files \(a\.csv, b\.csv\)"):
        list(SeedFile(tmp_path / "two.zip"))


def test_a_line_without_end_is_one_line_and_takes_no_memory(tmp_path: Path) -> None:
    listed = names(tmp_path / "list", "x" * (5 * LONGEST) + "\none.test\n")

    assert [len(line) for line in listed] == [LONGEST, len("one.test")]
