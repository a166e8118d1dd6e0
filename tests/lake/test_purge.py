"""Purges in the lake: what was crawled of a host is gone from every file, and nothing else is."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from crawl_platform.clock import ManualClock
from crawl_platform.commit.manifest import Manifest
from crawl_platform.errors import LakeError
from crawl_platform.lake import purges
from crawl_platform.lake.arrays import GRAPHS, Texts, store
from crawl_platform.lake.delta import DeltaWriter
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.purges import NAMES, Purge, expression, named
from crawl_platform.lake.tables import TABLES
from crawl_platform.lake.upkeep import purge as purge_module
from crawl_platform.lake.upkeep.report import COMMITTED, POINTS, Report
from crawl_platform.lake.upkeep.run import Held, upkeep
from crawl_platform.lake.upkeep.vacuum import missing_from_history, vectors_before_history
from crawl_platform.settings import Retention
from crawl_platform.testing.builders import sample_row
from crawl_platform.testing.invariants import links_have_fetches
from tests.lake.aging import AgingLake, clock_days_ago
from tests.lake.told import telling

SECRET = "what-the-owner-wants-gone"
STAYS = "what-others-wrote"
NOBODY: Held = {}


def crawled(aging: AgingLake) -> AgingLake:
    """Three days, each with a page of bad.test that links and is linked to, and pages of others."""
    for day in range(3):
        for n in range(4):
            other = f"https://good.test/{day}/{n}"
            aging.round(
                aging.visit(
                    f"g{day}{n}", other, "https://bad.test/in", "https://good.test/x", body=STAYS.encode()
                )
            )
        url = f"https://www.bad.test/private/{SECRET}-{day}"
        rows = dict(aging.visit(f"b{day}", url, "https://good.test/", body=SECRET.encode()))
        rows["pages"][0] |= {"title": SECRET, "text": SECRET}
        rows["hosts"] = [
            sample_row("hosts", aging.clock.now(), host="www.bad.test", event="robots", detail=SECRET)
        ]
        rows["frontier"] = [sample_row("frontier", aging.clock.now(), host="www.bad.test", url=url)]
        aging.round(rows)
        aging.pass_days(1)
    return aging


@pytest.fixture(scope="module")
def kept(new_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> AgingLake:
    lake = Lake(shutil.copytree(new_lake, tmp_path_factory.mktemp("crawled") / "lake"))
    return crawled(AgingLake(lake, clock_days_ago(10)))


@pytest.fixture
def aging(kept: AgingLake, tmp_path: Path) -> AgingLake:
    """A copy of it, with the ages of its files."""
    shutil.copytree(kept.lake.root, tmp_path / "lake")
    return kept.copied(Lake(tmp_path / "lake"), ManualClock(kept.clock.now()))


def ask(aging: AgingLake, pattern: str = "*.bad.test") -> Purge:
    wanted = Purge("p1", pattern, aging.clock.now())
    purges.note(aging.lake.root, wanted)
    return wanted


def run(aging: AgingLake, *, held: Held | None = NOBODY, reached: object = None) -> Report:
    report = upkeep(
        aging.lake, Retention(), aging.clock, held=held, only_purges=True, reached=reached or (lambda point: None),  # type: ignore[arg-type]
    )  # fmt: skip
    aging.stamp()
    aging.committer.publish_versions()
    aging.stamp()
    return report


def run_all(aging: AgingLake, most: int = 5) -> int:
    """Portions until nothing is left; returns how many."""
    for portion in range(1, most + 1):
        if run(aging).left == 0:
            return portion
    raise AssertionError("never done")


def test_nothing_of_it_is_in_any_file_afterwards_and_all_else_is(aging: AgingLake) -> None:
    names = {"hosts": Texts(pa.chunked_array([[SECRET]], pa.large_string()))}
    store(aging.lake.root / GRAPHS / "hosts", "v1", {}, names, {})
    assert any("_graph" in str(path) for path in telling(aging.lake.root, SECRET))
    before = aging.lake.query("SELECT * FROM pages WHERE url LIKE 'https://good.test/%' ORDER BY ALL")
    ask(aging)

    assert run_all(aging) == 2

    assert telling(aging.lake.root, SECRET) == []
    assert aging.lake.query("SELECT * FROM pages WHERE url LIKE 'https://good.test/%' ORDER BY ALL") == before
    assert aging.column("SELECT count(*) FROM fetches WHERE url LIKE 'https://good.test/%'") == [12]
    assert aging.column("SELECT count(*) FROM fetches") == [12]
    assert aging.column("SELECT DISTINCT dst_url FROM links") == ["https://good.test/x"], (
        "links to it are gone"
    )
    assert links_have_fetches(aging.lake, aging.lake.latest_commit().commit_id) == []  # type: ignore[union-attr]
    assert purges.purges(aging.lake.root)[0].erased_at > 0


def test_the_pages_below_an_address_go_and_the_rest_of_the_host_stays(aging: AgingLake) -> None:
    aging.round(aging.visit("open", "https://www.bad.test/open", body=STAYS.encode()))
    ask(aging, f"https://www.bad.test/private/{SECRET}-1")

    run_all(aging)

    left = aging.column("SELECT url FROM pages WHERE url LIKE 'https://www.bad.test/%'")
    assert left == [
        "https://www.bad.test/open",
        *(f"https://www.bad.test/private/{SECRET}-{n}" for n in (0, 2)),
    ]


@pytest.mark.long
def test_time_travel_begins_at_the_purge_and_says_so(aging: AgingLake) -> None:
    first = aging.lake.latest_commit()
    assert first is not None
    ask(aging)
    run_all(aging)

    with pytest.raises(LakeError, match="can't be read at version"):
        aging.lake.query("SELECT * FROM pages", at=first.commit_id)
    assert vectors_before_history(aging.lake, aging.clock.now(), 30 * 86_400.0) == [], (
        "the check is not upset"
    )
    assert [name for name in NAMES if missing_from_history(aging.lake, name)] == []


@pytest.mark.long
@pytest.mark.parametrize(
    "point",
    [
        *(pytest.param(point, marks=[pytest.mark.long] * (point != COMMITTED)) for point in POINTS),
        "between the portions",
    ],
)
def test_killed_anywhere_the_next_run_goes_on(aging: AgingLake, point: str) -> None:
    ask(aging)
    seen = 0

    def die(at: str) -> None:
        nonlocal seen
        seen += at == point
        if seen == 2 or (at == point == "upkeep.forgotten"):
            raise KeyboardInterrupt

    try:
        run(aging, reached=die)
        run(aging, reached=die)
    except KeyboardInterrupt:
        assert aging.column("SELECT count(*) FROM pages WHERE url LIKE 'https://good.test/%'") == [12]
    aging.stamp()
    run_all(AgingLake(aging.lake, aging.clock, grown=True))

    assert telling(aging.lake.root, SECRET) == []


@pytest.mark.long
def test_rows_that_a_cell_brings_late_go_with_the_next_upkeep(aging: AgingLake) -> None:
    ask(aging)
    run_all(aging)

    aging.round(aging.visit("late", "https://www.bad.test/late", body=SECRET.encode()))
    assert _ids(aging, "late") == ["late"]
    assert run_all(aging) == 2

    assert _ids(aging, "late") == []
    assert telling(aging.lake.root, SECRET) == []


def _ids(aging: AgingLake, fetch_id: str) -> list[str]:
    return list(aging.column(f"SELECT fetch_id FROM fetches WHERE fetch_id = '{fetch_id}'"))


def staged_late(aging: AgingLake) -> tuple[Manifest, dict[str, list[str]]]:
    late = aging.staged(aging.visit("late", "https://www.bad.test/late", body=SECRET.encode()))
    held: dict[str, list[str]] = {}
    for file in late.files:
        held.setdefault(file.table, []).append(file.path)
    return late, held


@pytest.mark.long
def test_files_that_a_manifest_still_brings_are_waited_for(aging: AgingLake) -> None:
    late, held = staged_late(aging)
    ask(aging)
    run(aging, held=held)

    assert run(aging, held=held).left == 1
    assert purges.purges(aging.lake.root)[0].erased_at == 0
    aging.committer.offer([late])
    aging.committer.round()
    run_all(aging)

    assert telling(aging.lake.root, SECRET) == []
    assert purges.purges(aging.lake.root)[0].erased_at > 0


@pytest.mark.long
def test_ablation_without_the_look_at_staged_files_an_orphan_keeps_it(
    aging: AgingLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged_late(aging)
    aging.pass_days(0.01)
    monkeypatch.setattr(purge_module, "staged_files", lambda root: [])
    ask(aging)
    run_all(aging)
    assert telling(aging.lake.root, SECRET) != []

    monkeypatch.undo()
    ask(aging)
    run_all(aging)
    assert telling(aging.lake.root, SECRET) == []


@pytest.mark.long
def test_ablation_without_trimming_the_log_quotes_its_titles(
    aging: AgingLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge_module, "_trim_log", lambda lake, name: None)
    ask(aging)

    run_all(aging)

    assert {Path(name).parts[1] for name in telling(aging.lake.root, SECRET)} == {"_delta_log"}


@pytest.mark.long
def test_a_host_that_was_let_in_again_keeps_what_came_since(aging: AgingLake) -> None:
    ask(aging)
    run_all(aging)
    aging.pass_days(1)

    aging.round(aging.visit("anew", "https://www.bad.test/anew"))
    run_all(aging)

    assert _ids(aging, "anew") == ["anew"]


@pytest.mark.long
def test_tables_of_dagster_are_purged_and_remember_their_inputs(aging: AgingLake) -> None:
    hosts = ("www.bad.test", "good.test")
    for name in ("host_ranks", "near_duplicates", "promotions", "decisions"):
        values = [
            {"host": host, "url": f"https://{host}/", "subject": host, "representative": f"https://{host}/"}
            for host in hosts
        ]
        table = TABLES[name]
        made = [
            sample_row(name, aging.clock.now(), **{k: v for k, v in row.items() if k in table.schema.names})
            for row in values
        ]
        aging.lake.append(name, pa.Table.from_pylist(made, schema=table.schema), {"fetches": 3})
    ask(aging)

    run_all(aging)

    for name in ("host_ranks", "near_duplicates", "promotions"):
        assert aging.column(f"SELECT host FROM {name}") == ["good.test"]
    assert aging.column("SELECT subject FROM decisions") == ["good.test"]
    assert aging.lake.inputs_of("host_ranks") == {"fetches": 3}
    assert telling(aging.lake.root, "www.bad.test/") == []


@pytest.mark.long
def test_a_cell_that_stood_at_an_older_version_reads_on(aging: AgingLake) -> None:
    writer = DeltaWriter(aging.lake.path("fetches"), TABLES["fetches"])
    ask(aging)
    run_all(aging)

    assert writer.refresh() == aging.lake.version("fetches")
    assert writer.transaction_version("cell-a/bulk") == 15


@pytest.mark.long
def test_a_torn_file_of_a_crash_is_not_kept(aging: AgingLake) -> None:
    torn = aging.lake.path("pages") / "_staged" / "torn.parquet"
    torn.write_bytes(SECRET.encode())
    aging.stamp()
    aging.pass_days(0.1)
    ask(aging)

    run_all(aging)

    assert not torn.exists()


@pytest.mark.parametrize(
    ("pattern", "takes", "leaves"),
    [
        ("bad.test", ["bad.test", "https://bad.test/", "http://bad.test:8080/x"], ["www.bad.test", "bad.testing"]),
        ("*.bad.test", ["bad.test", "a.b.bad.test", "https://a.bad.test/"], ["notbad.test", "https://x.test/?u=bad.test"]),
        ("https://bad.test/u/", ["https://bad.test/u/1"], ["https://bad.test/", "http://bad.test/u/1", "bad.test"]),
    ],
)  # fmt: skip
def test_what_a_pattern_takes(pattern: str, takes: list[str], leaves: list[str]) -> None:
    rows = pa.table({"url": [*takes, *leaves, None]})

    hits = named(rows, NAMES["fetches"], pattern).to_pylist()

    assert hits == [True] * len(takes) + [False] * (len(leaves) + 1)
    assert expression(pattern).startswith("^")
