"""Commands that look into a crawl: content, queues, shards, usage, export; while it runs and when it is stopped."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner, Result
from warcio.archiveiterator import ArchiveIterator

from crawl_platform import settings as settings_module
from crawl_platform.cli import main
from crawl_platform.fleet.exchange import Endpoint
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Fleet, Settings
from tests.cli.crawling import HOST, ONE, TEXT, Command, small_crawl

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Command, str]]:
    with small_crawl(tmp_path_factory.mktemp("crawl")) as crawl:
        yield crawl


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--home", str(home)])


def test_show_prints_facts_and_text_of_the_last_version(running: tuple[Command, str]) -> None:
    crawl, root = running

    shown = crawl("show", f"{root}one.html").stdout
    facts = crawl.json("show", f"{root}one.html")

    assert shown.startswith(f"{root}one.html\n  title:    One\n")
    assert shown.endswith(f"\n\n{TEXT}\n")
    assert "text/html" in shown
    assert facts["text"] == TEXT
    assert facts["fetch"]["status"] == 200
    assert facts["versions"] == 1


def test_show_gives_the_body_as_the_site_meant_it(running: tuple[Command, str], tmp_path: Path) -> None:
    crawl, root = running
    file = tmp_path / "one.html"

    printed = crawl.raw("show", f"{root}one.html", "--body").stdout
    crawl("show", f"{root}one.html", "--output", str(file))

    assert printed == ONE.encode()
    assert file.read_bytes() == printed
    assert list(tmp_path.iterdir()) == [file]


def test_show_lists_versions_and_refuses_unknown_ones(running: tuple[Command, str]) -> None:
    crawl, root = running

    versions = crawl.json("show", root, "--versions")

    assert [version["title"] for version in versions] == ["Start"]
    assert crawl.json("show", root, "--version", versions[0]["fetch_id"])["title"] == "Start"
    unknown = crawl("show", root, "--version", "nothing")
    assert unknown.returncode == 2
    assert "--versions` lists them" in unknown.stderr
    missing = crawl("show", f"{root}none.html")
    assert missing.returncode == 2
    assert "no version of" in missing.stderr


def test_frontier_shows_hosts_and_the_next_urls_of_one(running: tuple[Command, str]) -> None:
    crawl, root = running

    queues = crawl.json("frontier")
    detail = crawl.json("frontier", HOST)

    assert [(queue["host"], queue["cell"], queue["known"]) for queue in queues] == [(HOST, "cell-0", 3)]
    assert sum(queues[0]["lanes"].values()) == queues[0]["queued"] == 3
    assert detail["states"]["fetched"] == 3
    assert {entry["url"] for entry in detail["next"]["refresh"]} == {
        root,
        f"{root}one.html",
        f"{root}two.html",
    }
    assert f"{HOST}: 3 fetched" in crawl("frontier", HOST).stdout
    assert "1 seed host, 3 URLs known, 3 in a queue" in crawl("frontier").stdout
    assert crawl("frontier", "elsewhere.test").returncode == 2


def test_shards_say_who_owns_what(running: tuple[Command, str]) -> None:
    crawl, _ = running

    told = crawl.json("shards")

    cell = told["cells"][0]
    assert (cell["cell"], cell["shards"], cell["hosts"], cell["known"]) == ("cell-0", 64, 1, 3)
    assert cell["heartbeat_age"] < 60
    assert [(s["cell"], s["known"]) for s in told["shards"] if s["hosts"]] == [("cell-0", 3)]
    assert "cell-0" in crawl("shards").stdout


def test_a_move_is_previewed_and_what_makes_no_sense_is_refused(running: tuple[Command, str]) -> None:
    crawl, _ = running

    told = crawl.json("shards", "move", "3,5", "--to", "cell-0", "--dry-run")

    assert told["dry_run"]
    assert [(row["shard"], row["from"], row["state"]) for row in told["shards"]] == [
        (3, "cell-0", "is there"),
        (5, "cell-0", "is there"),
    ]
    assert crawl.json("shards", "balance", "--dry-run")["shards"] == []
    for wrong, why in (
        (("move", "3", "--to", "cell-9"), "cell-9 is no cell of this fleet"),
        (("move", "64", "--to", "cell-0"), "there is no shard 64"),
        (("move", "three", "--to", "cell-0"), "is no list of shards"),
        (("rebuild", "--cell", "cell-0"), "it may still crawl"),
    ):
        refused = crawl("shards", *wrong)
        assert refused.returncode == 2
        assert why in refused.stderr


def test_usage_tells_bytes_seconds_cpu_and_disk(running: tuple[Command, str]) -> None:
    crawl, _ = running
    crawl.until(60, "SELECT 1 FROM fleet_stats WHERE cpu_seconds > 0")

    used = crawl.json("usage")

    fetched = crawl.json("sql", "SELECT count(*) AS n, sum(wire_bytes) AS bytes FROM fetches")[0]
    days = used["by_day"]
    assert sum(day["fetches"] for day in days) == fetched["n"]
    assert sum(day["wire_bytes"] for day in days) == int(fetched["bytes"])
    assert max(day.get("cpu_seconds", 0) for day in days) > 0
    assert used["by_host"][0]["host"] == HOST
    disk = {entry["name"]: entry for entry in used["disk"]}
    assert disk["pages"]["rows"] == 3
    assert 0 < disk["pages"]["current_bytes"] < disk["pages"]["all_bytes"]
    assert disk["cells/"]["all_bytes"] > 0
    assert "over the wire" in crawl("usage").stdout
    assert crawl.json("usage", "--host", "nowhere.test")["by_day"] == []


def test_export_gives_other_tools_the_pages(running: tuple[Command, str], tmp_path: Path) -> None:
    crawl, root = running
    file = tmp_path / "pages.warc.gz"

    done = crawl.json("export", str(file), "--host", HOST)

    with file.open("rb") as archive:
        found = {
            record.rec_headers.get_header("WARC-Target-URI"): record.content_stream().read()
            for record in ArchiveIterator(archive, check_digests="raise")
            if record.rec_type == "resource"
        }
    assert done["pages"] == 3
    assert found[f"{root}one.html"] == ONE.encode()
    again = crawl("export", str(file))
    assert again.returncode == 2
    assert "--force" in again.stderr


@pytest.mark.parametrize(
    "name",
    ["status", "top", "seed", "promotions", "explain", "show", "frontier", "shards", "sql", "usage", "export", "doctor",
     "size"],
)  # fmt: skip
def test_every_reading_command_takes_json(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    command = command.commands["show"] if isinstance(command, click.Group) else command
    options = [option for parameter in command.params for option in parameter.opts]

    assert "--json" in options


def test_a_stopped_crawl_still_tells_what_it_holds(tmp_path: Path) -> None:
    Lake(tmp_path / "lake").create(4)

    assert run(tmp_path, "frontier").output.startswith("0 seed hosts, 0 URLs known")
    assert json.loads(run(tmp_path, "frontier", "--json").output) == []
    shards = run(tmp_path, "shards")
    assert "no fleet is running" in shards.output
    assert shards.exit_code == 0
    assert "nothing was fetched" in run(tmp_path, "usage").output
    assert run(tmp_path, "show", "http://a.test/").exit_code == 2


@pytest.fixture
def fleet_elsewhere(tmp_path: Path) -> Path:
    """The home of a crawl whose NATS is elsewhere, and away; no supervisor runs here."""
    Lake(tmp_path / "lake").create(4)
    endpoint = Endpoint(url="nats://127.0.0.1:1")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "nats.json").write_bytes(msgspec.json.encode(endpoint))
    settings_module.save(Settings(home=str(tmp_path), fleet=Fleet(nats_url=endpoint.url)))
    return tmp_path


@pytest.mark.parametrize(
    ("command", "says", "still"),
    [
        (("status",), "the cells can't be asked", ": stopped\n"),
        (("shards",), "owners can't be asked for", "no host yet"),
        (("explain", "http://a.test/"), "directives and the window can't be asked for", "a.test is unknown"),
    ],
    ids=["status", "shards", "explain"],
)
def test_a_fleet_elsewhere_is_asked_and_its_silence_told(
    fleet_elsewhere: Path, command: tuple[str, ...], says: str, still: str
) -> None:
    told = run(fleet_elsewhere, *command)

    assert says in told.stderr
    assert "can't reach NATS" in told.stderr
    assert still in told.stdout
    assert told.exit_code == (1 if command == ("status",) else 0)
    assert "no fleet is running" not in told.output
