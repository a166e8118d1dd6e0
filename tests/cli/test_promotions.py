"""`crawl promotions --why HOST`: all that was decided about a host."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from crawl_platform.cli import main
from crawl_platform.lake.lake import Lake
from tests.lake.samples import NOON, rows

VERSIONS = [("links", 16), ("fetches", 18)]


def why(home: Path, host: str) -> str:
    return CliRunner().invoke(main, ["promotions", "--why", host, "--home", str(home)]).output


@pytest.mark.long
def test_a_promotion_a_verdict_and_a_host_that_is_held_are_told(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.create(4)
    lake.append("promotions", rows("promotions", 1, decision_id="d", host="in.test", decided_at=NOON, reason="liked",
                                   supporters=["a.test", "b.test"], input_versions=VERSIONS))  # fmt: skip
    lake.append(
        "probation", rows("probation", 1, host="in.test", verdict="passed", decided_at=NOON, reason="good")
    )
    lake.append("decisions", rows("decisions", 1, subject="out.test", kind="promotion", verdict="held",
                                  decided_at=NOON, reason="vetoed by ada"))  # fmt: skip
    lake.append("host_ranks", rows("host_ranks", 1, host="out.test", state="horizon", position=3, trust=0.001,
                                   independent_support=7))  # fmt: skip

    assert why(tmp_path, "in.test").splitlines() == [
        f"in.test was promoted at {NOON:%Y-%m-%d %H:%M:%S}: liked",
        "  linked by: a.test, b.test",
        "  decision d from links 16, fetches 18",
        f"in.test passed probation at {NOON:%Y-%m-%d %H:%M:%S}: good",
    ]
    assert why(tmp_path, "out.test").splitlines() == [
        "out.test was not promoted",
        f"out.test was held at {NOON:%Y-%m-%d %H:%M:%S}: vetoed by ada",
        "at the last ranking: rank 3 of the horizon, trust 1.0e-03, 7 independent supporters",
    ]
    assert why(tmp_path, "unknown.test") == "unknown.test was not promoted\n"
