"""The commands on a real crawl of a small site: up, look, steer, down."""

import time
from collections.abc import Iterator

import pytest

from tests.cli.crawling import HOST, Command, small_crawl


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Command, str]]:
    with small_crawl(tmp_path_factory.mktemp("crawl")) as crawl:
        yield crawl


@pytest.mark.long
def test_status_says_that_all_is_well(running: tuple[Command, str]) -> None:
    crawl, _ = running

    report = crawl.json("status")

    assert report["well"]
    assert {process["name"] for process in report["processes"]} == {"nats", "committer", "cell-0", "api"}
    assert report["commit"]["commit_id"] >= 1


def test_a_second_up_is_refused(running: tuple[Command, str]) -> None:
    crawl, _ = running

    refused = crawl("up", "--no-dagster", "--detach")

    assert refused.returncode == 2
    assert "already running" in refused.stderr


def test_explain_tells_the_life_of_a_page(running: tuple[Command, str]) -> None:
    crawl, root = running

    facts = crawl.json("explain", f"{root}one.html")

    assert facts["host"]["state"] == "seed"
    assert facts["robots"]["verdict"] == "allowed"
    assert facts["state"]["state"] == "fetched"
    assert facts["last_fetches"][0]["outcome"] == "ok"
    assert facts["linked_by"] == [root]
    assert "waits in the refresh lane" in crawl("explain", f"{root}one.html").stdout


@pytest.mark.long
def test_recrawl_fetches_once_more_and_keeps_the_request(running: tuple[Command, str]) -> None:
    crawl, root = running

    accepted = crawl.json("recrawl", f"{root}one.html", "--reason", "a test")

    rows = crawl.until(5, f"SELECT lane FROM fetches WHERE request_id = '{accepted['request_id']}'")
    assert rows == [{"lane": "fastlane"}]
    asked = crawl.json("sql", "SELECT kind, via, reason FROM requests WHERE kind = 'recrawl'")
    assert asked == [{"kind": "recrawl", "via": "exchange", "reason": "a test"}]


@pytest.mark.long
def test_a_queue_is_cut_after_a_preview_and_the_request_is_kept(running: tuple[Command, str]) -> None:
    crawl, root = running
    crawl("pause")
    crawl("seed", f"{root}three.html")
    deadline = time.monotonic() + 60
    while not (told := crawl.json("frontier", "trim", HOST, "--keep", "0"))["hosts"]:
        assert time.monotonic() < deadline

    assert told == {"done": False, "hosts": [{"host": HOST, "keep": 0, "kept": 0, "dropped": 1}]}
    assert crawl.json("frontier", HOST)["states"]["dropped"] == 0
    done = crawl.json("frontier", "trim", "--keep", "0", "--yes", "--reason", "a test")

    assert done["done"]
    event = crawl.until(30, "SELECT detail, decision_id FROM hosts WHERE event = 'trimmed'")[0]
    asked = crawl.json("sql", "SELECT request_id, target, reason FROM requests WHERE kind = 'trim'")
    crawl("resume")
    assert event["detail"] == "1 URLs dropped from the queue, 0 kept"
    assert [(row["request_id"], row["target"]) for row in asked] == [(event["decision_id"], HOST)]
    assert asked[0]["reason"].startswith("a test: keep 0")
    assert crawl.json("frontier", HOST)["states"]["dropped"] == 1
    assert "nothing to drop" in crawl("frontier", "trim", "--keep", "0").stdout
    assert "not in the frontier" in crawl("frontier", "trim", "elsewhere.test").stderr


def test_recrawl_of_a_horizon_host_is_refused(running: tuple[Command, str]) -> None:
    crawl, _ = running

    refused = crawl("recrawl", "http://elsewhere.test/")

    assert refused.returncode == 2
    assert "on the horizon: promote it first" in refused.stderr


@pytest.mark.long
def test_a_request_to_promote_waits_for_the_decision(running: tuple[Command, str]) -> None:
    crawl, _ = running

    asked = crawl.json("promote", "elsewhere.test", "--reason", "a customer wants it")

    rows = crawl.json("sql", f"SELECT target, via FROM requests WHERE request_id = '{asked['request_id']}'")
    assert rows == [{"target": "elsewhere.test", "via": "table"}]
    assert crawl.json("promotions") == []


def test_seed_lists_and_adds(running: tuple[Command, str]) -> None:
    crawl, _ = running

    assert crawl.json("seed", "nowhere.test") == {"hosts": 1}

    listed = {row["host"]: row for row in crawl.json("seed")}
    assert listed[HOST]["trusted"]
    assert listed["nowhere.test"]["state"] == "seed"


@pytest.mark.long
def test_a_list_is_imported_and_a_host_of_it_removed(running: tuple[Command, str]) -> None:
    crawl, _ = running
    listed = crawl.home / "top.csv"
    listed.write_text("rank,domain\n1,first.test\n2,second.test\n3,third.test\n")

    done = crawl.json("seed", "import", str(listed), "--top", "2")
    (removed,) = crawl.json("seed", "remove", "first.test", "--reason", "nobody needs it")

    assert (done["hosts"], done["new"], done["lines_refused"]) == (2, 2, 0)
    assert removed["was"] == "seed"
    states = {row["host"]: row["state"] for row in crawl.json("seed")}
    assert (states["first.test"], states["second.test"], "third.test" in states) == ("horizon", "seed", False)
    event = "SELECT event, detail FROM hosts WHERE host = 'first.test' AND state = 'horizon'"
    assert crawl.until(20.0, event) == [{"event": "demoted", "detail": "nobody needs it"}]
    assert crawl.json("sql", "SELECT kind, target FROM requests WHERE kind = 'remove'") == [
        {"kind": "remove", "target": "first.test"}
    ]


@pytest.mark.long
def test_exclusion_is_written_down_and_beats_the_seed(running: tuple[Command, str]) -> None:
    crawl, _ = running
    crawl.json("seed", "unwanted.test")

    crawl.json("exclude", "unwanted.test", "--reason", "its owner asked")

    assert {row["host"]: row["state"] for row in crawl.json("seed")}["unwanted.test"] == "excluded"
    refused = crawl("seed", "unwanted.test")
    assert refused.returncode == 2
    assert "excluded" in refused.stderr


@pytest.mark.long
def test_top_shows_one_picture(running: tuple[Command, str]) -> None:
    crawl, _ = running

    shown = crawl("top", "--once").stdout
    assert "outcomes of the last minute" in shown
    assert "busiest hosts of the last minute" in shown
    assert crawl.json("top")["cells"][0]["cell"] == "cell-0"
