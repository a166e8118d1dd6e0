"""`crawl seed import`: a run that was cut off goes on where it was."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from crawl_platform.cli import main
from crawl_platform.cli.crawl import Crawl
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet.seeding import Listed
from crawl_platform.lake.lake import Lake


class FailingFleet:
    """Takes `takes` lines of a list, two at a time, before NATS is away."""

    def __init__(self) -> None:
        self.takes = 0
        self.begun: list[int] = []
        self.trusted: list[bool] = []

    def seed_list(
        self, lines: Iterable[str], *, told: Callable[[Listed], None], after: int, trusted: bool, reason: str
    ) -> Listed:
        self.begun.append(after)
        self.trusted.append(trusted)
        listed = Listed(after)
        for number in range(after, len(list(lines)), 2):
            if number >= self.takes:
                raise ExchangeError("NATS is away")
            listed.lines = listed.hosts = listed.new = number + 2
            told(listed)
        return listed


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> FailingFleet:
    fleet = FailingFleet()
    monkeypatch.setattr(Crawl, "fleet", property(lambda _: fleet))
    return fleet


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., Result]:
    Lake(tmp_path / "lake").create(4)
    file = tmp_path / "list.csv"
    file.write_text("".join(f"{n},host-{n}.test\n" for n in range(1, 7)))

    def run(*options: Any) -> Result:
        return CliRunner().invoke(main, ["seed", "import", str(file), *options, "--home", str(tmp_path)])

    return run


def test_it_goes_on_after_what_was_sent(fleet: FailingFleet, imported: Callable[..., Result]) -> None:
    fleet.takes = 4
    failed = imported()

    fleet.takes = 6
    done = imported()

    assert (failed.exit_code, done.exit_code) == (1, 0)
    assert fleet.begun == [0, 4]
    assert "goes on after line 4" in done.stderr
    assert imported().exit_code == 0
    assert fleet.begun == [0, 4, 0]


def test_other_options_and_again_begin_at_the_first_line(
    fleet: FailingFleet, imported: Callable[..., Result]
) -> None:
    fleet.takes = 4
    imported()
    imported("--top", "5")
    imported()
    imported("--again")
    imported("--untrusted")

    assert fleet.begun == [0, 0, 0, 0, 0]
    assert fleet.trusted == [True, True, True, True, False]
