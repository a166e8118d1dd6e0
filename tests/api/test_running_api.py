"""The API on a real crawl: what is asked for happens, also when the API dies in between."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.lake.lake import Lake
from tests.api.serving import Process, api_process, wait_until
from tests.cli.crawling import HOST, Command, small_crawl

pytestmark = pytest.mark.long

DIES_BEFORE_THE_ROW = """
import os, signal
from crawl_platform.api import acceptance
acceptance.append_requests = lambda *rows: os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Command, str]]:
    with small_crawl(tmp_path_factory.mktemp("crawl")) as crawl:
        yield crawl


@pytest.fixture
def api(running: tuple[Command, str]) -> Process:
    """The API that `crawl up` has started."""
    process = subprocess.Popen(["true"])
    process.wait()
    found = Process(running[0].home, process)
    wait_until(lambda: _serves(found))
    return found


def _serves(api: Process) -> bool:
    try:
        return api.call("/healthz").status == 200
    except (OSError, KeyError, ValueError):
        return False


def state_of(api: Process, location: str) -> str:
    state: str = api.call(location).json["state"]
    return state


def test_a_recrawl_is_fetched_and_told(running: tuple[Command, str], api: Process) -> None:
    command, root = running

    accepted = api.call("/v1/recrawl", {"url": f"{root}one.html", "reason": "a test"}, Idempotency_Key="r-1")

    assert accepted.status == 202
    wait_until(lambda: state_of(api, accepted.headers["Location"]) == "fetched")
    told = api.call(accepted.headers["Location"]).json
    assert told["fetch"]["outcome"] in ("ok", "not_modified")
    assert told["requested_by"] == "api:operator"
    fetched = command.json(
        "sql", f"SELECT lane, url FROM fetches WHERE request_id = '{accepted.json['request_id']}'"
    )
    assert fetched == [{"lane": "fastlane", "url": f"{root}one.html"}]


def test_explain_and_status_say_what_the_commands_say(running: tuple[Command, str], api: Process) -> None:
    command, root = running

    explained = api.call(f"/v1/explain?url={root}two.html").json

    assert explained.keys() == command.json("explain", f"{root}two.html").keys()
    assert explained["host"]["state"] == "seed"
    assert explained["state"]["state"] == "fetched"
    status = api.call("/v1/status").json
    assert status["well"]
    assert "api" in {process["name"] for process in status["processes"]}


def test_metrics_are_those_of_the_crawl(running: tuple[Command, str], api: Process) -> None:
    with urllib.request.urlopen(api.file["url"] + "/metrics", timeout=30) as answer:
        text = answer.read().decode()

    assert 'crawl_up{part="exchange"} 1.0' in text
    assert 'crawl_seed_hosts{cell="cell-0"}' in text
    assert 'crawl_fetch_outcomes_total{cell="cell-0",outcome="ok"}' in text
    assert HOST not in text


def test_a_wrong_token_is_refused_and_asks_nothing(running: tuple[Command, str], api: Process) -> None:
    command, root = running
    before = command.json("sql", "SELECT count(*) AS n FROM requests")

    refused = api.call("/v1/recrawl", {"url": root}, token="not-the-token-of-this-api")

    assert refused.status == 401
    assert command.json("sql", "SELECT count(*) AS n FROM requests") == before


def test_a_killed_api_is_started_again_at_the_same_place_and_knows_its_keys(
    running: tuple[Command, str], api: Process
) -> None:
    command, root = running
    first = api.call("/v1/recrawl", {"url": f"{root}two.html"}, Idempotency_Key="r-2")
    place = api.file
    pid = next(p["pid"] for p in command_status(command)["processes"] if p["name"] == "api")

    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not _serves(api))
    wait_until(lambda: _serves(api))

    again = api.call("/v1/recrawl", {"url": f"{root}two.html"}, Idempotency_Key="r-2")
    assert api.file == place
    assert (first.status, again.status) == (202, 200)
    assert again.json == first.json
    assert api.call("/v1/recrawl", {"url": root}, Idempotency_Key="r-2").status == 409


def command_status(command: Command) -> dict[str, list[dict[str, int | str]]]:
    """Also while something is being started again (exit status 1)."""
    found: dict[str, list[dict[str, int | str]]] = json.loads(command("status", "--json").stdout)
    return found


def test_killed_between_publication_and_row_the_repeat_completes_it_once(
    running: tuple[Command, str], tmp_path: Path
) -> None:
    command, root = running
    # An API of its own, on a home that shares exchange and lake, so that the crawl's own is left alone.
    home = beside(command.home, tmp_path)
    body, key = {"url": f"{root}one.html", "reason": "died"}, "r-3"
    with (
        api_process(home, before=DIES_BEFORE_THE_ROW) as dying,
        pytest.raises((OSError, urllib.error.URLError)),
    ):
        dying.call("/v1/recrawl", body, Idempotency_Key=key)
    lake = Lake(command.home / "lake")
    assert lake.query("SELECT 1 FROM requests WHERE reason = 'died'").num_rows == 0

    with api_process(home) as api:
        repeated = api.call("/v1/recrawl", body, Idempotency_Key=key)
        wait_until(lambda: state_of(api, repeated.headers["Location"]) == "fetched")
        last = api.call("/v1/recrawl", {"url": f"{root}two.html"}, Idempotency_Key="after")
        wait_until(lambda: state_of(api, last.headers["Location"]) == "fetched")

    assert repeated.status == 202
    asked = lake.query("SELECT request_id, via FROM requests WHERE reason = 'died'").to_pylist()
    assert asked == [{"request_id": repeated.json["request_id"], "via": "exchange"}]
    fetched = lake.query(
        "SELECT count(*) AS n FROM fetches WHERE request_id = $1", [repeated.json["request_id"]]
    )
    assert fetched["n"].to_pylist() == [1]


def test_a_lift_that_was_done_is_recognised_as_its_own(running: tuple[Command, str]) -> None:
    home = running[0].home
    client = FleetClient(home / "run" / "nats.json", Lake(home / "lake").n_shards)
    client.exclude("lifted.test", request_id="e-1")

    first = client.lift("lifted.test", request_id="l-1")

    assert client.lift("lifted.test", request_id="l-1") == first
    with pytest.raises(ConfigurationError, match="not excluded"):
        client.lift("lifted.test", request_id="l-2")
    with pytest.raises(ConfigurationError, match="not excluded"):
        client.lift("lifted.test")


def beside(home: Path, other: Path) -> Path:
    """A home of its own for an API process over the exchange and the lake of another."""
    (other / "lake").symlink_to(home / "lake")
    (other / "run").mkdir()
    (other / "run" / "nats.json").symlink_to(home / "run" / "nats.json")
    return other


def test_an_api_that_others_can_reach_refuses_to_start_without_tokens(running: tuple[Command, str]) -> None:
    command = [
        sys.executable,
        "-m",
        "crawl_platform.api",
        "--home",
        str(running[0].home),
        "--host",
        "0.0.0.0",
    ]

    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert refused.returncode == 3
    assert "CRAWL_API_TOKENS" in refused.stderr


def test_tokens_of_the_environment_are_obeyed(running: tuple[Command, str], tmp_path: Path) -> None:
    home = beside(running[0].home, tmp_path)
    env = {"CRAWL_API_TOKENS": "crm:0123456789abcdef0,grafana:fedcba98765432100:read"}

    with api_process(home, env=env) as api:
        assert api.file["token"] == ""
        assert api.call("/v1/status", token="fedcba98765432100").status == 200
        assert api.call("/v1/exclude", {"host": "x.test"}, token="fedcba98765432100").status == 403
        asked = api.call("/v1/exclude", {"host": "x.test"}, token="0123456789abcdef0")
        assert asked.json["requested_by"] == "api:crm"


def test_an_exclusion_takes_effect_and_can_be_lifted(running: tuple[Command, str], api: Process) -> None:
    command, root = running

    excluded = api.call("/v1/exclude", {"host": f"*.{HOST}", "reason": "its owner asked"})

    assert state_of(api, excluded.headers["Location"]) == "in_force"
    refused = api.call("/v1/recrawl", {"url": root})
    assert refused.status == 422
    assert "excluded" in refused.json["detail"]
    assert api.call(f"/v1/explain?url={root}").json["host"]["state"] == "excluded"
    assert command.until(30, f"SELECT host FROM hosts WHERE event = 'excluded' AND host = '{HOST}'")

    lifted = api.call("/v1/exclude", {"host": f"*.{HOST}", "lift": True}, Idempotency_Key="lift-1")
    assert lifted.status == 202
    assert (
        api.call("/v1/exclude", {"host": f"*.{HOST}", "lift": True}, Idempotency_Key="lift-1").status == 200
    )
    assert api.call("/v1/recrawl", {"url": root}).status == 202
