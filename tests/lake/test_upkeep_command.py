"""`crawl upkeep` where no fleet runs."""

import shutil
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from crawl_platform import settings as settings_module
from crawl_platform.cli import main
from crawl_platform.fleet.supervisor import hold_home
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.upkeep.report import Report
from crawl_platform.settings import Fleet, Settings
from tests.lake.aging import AgingLake, clock_days_ago


@pytest.fixture(scope="module")
def busy(new_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> AgingLake:
    lake = Lake(shutil.copytree(new_lake, tmp_path_factory.mktemp("busy") / "lake"))
    aging = AgingLake(lake, clock_days_ago(3))
    aging.busy_day()
    return aging


@pytest.fixture
def home(busy: AgingLake, tmp_path: Path) -> Path:
    """A folder whose lake had a busy day."""
    return Path(shutil.copytree(busy.lake.root, tmp_path / "lake")).parent


def run(home: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["upkeep", "--home", str(home), *arguments])
    return result.exit_code, result.output


@pytest.mark.long
def test_it_says_what_it_did(home: Path) -> None:
    code, said = run(home)

    assert code == 0
    (line,) = [line for line in said.splitlines() if line.startswith("fetches")]
    assert line.split()[:5] == ["fetches", "compact", "12", "→", "1"]
    assert len(Lake(home / "lake").delta("fetches").file_uris()) == 1


@pytest.mark.long
def test_when_all_is_done_it_says_so(home: Path) -> None:
    run(home)

    assert run(home) == (0, "nothing to do\n")


def test_a_dry_run_says_so_and_changes_nothing(home: Path) -> None:
    code, said = run(home, "--dry-run")

    assert code == 0
    assert said.splitlines()[-1] == "a dry run: nothing was changed"
    assert len(Lake(home / "lake").delta("fetches").file_uris()) == 12


@pytest.mark.long
def test_as_json_it_is_the_report(home: Path) -> None:
    _, said = run(home, "--json", "--table", "links")

    report = msgspec.json.decode(said, type=Report)
    assert [(done.table, done.files_after) for done in report.done] == [("links", 1)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--table", "fetchs"), "there is no table fetchs"),
        (("--home", "nowhere"), "there is no crawl at nowhere"),
    ],
    ids=["unknown table", "no crawl"],
)
def test_what_is_wrong_is_one_line(home: Path, arguments: tuple[str, ...], says: str) -> None:
    code, said = run(home, *arguments)

    assert code == 2
    assert says in said
    assert "Traceback" not in said


def test_beside_a_fleet_it_asks_the_committer(home: Path) -> None:
    with hold_home(home):
        code, said = run(home)

    assert code == 1
    assert "nats.json is missing" in said, "nobody answers here: the home is only held"


def test_with_nats_elsewhere_it_never_works_by_itself(home: Path) -> None:
    settings_module.save(Settings(home=str(home), fleet=Fleet(nats_url="nats://127.0.0.1:1")))

    code, _ = run(home)

    assert code == 1
    assert len(Lake(home / "lake").delta("fetches").file_uris()) == 12
