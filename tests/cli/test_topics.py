"""`crawl topics`: a file is checked before it is in force, and says what it makes of pages."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawl_platform.cli import main
from crawl_platform.lake.lake import Lake

GOOD = '[[topics]]\nname = "wind"\nphrases = ["wind turbine*"]\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    Lake(tmp_path / "crawl" / "lake").create(4)
    return tmp_path / "crawl"


def topics(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["topics", *arguments, "--home", str(home)])


def test_a_good_file_is_put_in_force_and_shown_until_it_is_removed(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)

    dry = topics(home, str(file), "--dry-run")
    assert "is good: 1 topic" in dry.output
    assert not (home / "topics.toml").exists()

    assert "is in force" in topics(home, str(file)).output
    assert (home / "topics.toml").read_text() == GOOD
    shown = json.loads(topics(home, "--json", "--url", "https://a.test/wind-turbines").output)
    assert [topic["name"] for topic in shown["topics"]] == ["wind"]
    assert shown["urls"][0]["business"] == 0.5

    assert "no topics" in topics(home, "--remove").output
    assert not (home / "topics.toml").exists()


def test_a_bad_file_changes_nothing_and_tells_its_lines(home: Path, tmp_path: Path) -> None:
    (home / "topics.toml").write_text(GOOD)
    file = tmp_path / "bad.toml"
    file.write_text(GOOD + "weight = 9\n")

    refused = topics(home, str(file))

    assert refused.exit_code == 2
    assert "bad.toml, line 4: weight must be a number from -1 to 1" in refused.output
    assert (home / "topics.toml").read_text() == GOOD


def test_a_file_that_the_settings_name_must_be_there(home: Path) -> None:
    (home / "crawl.toml").write_text('[value]\ntopics = "mine.toml"\n')

    missing = topics(home)

    assert missing.exit_code == 2
    assert "mine.toml can't be read: No such file" in missing.output
