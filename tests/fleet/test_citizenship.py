"""A real fleet among sites with wishes: it signs, pays within its budget, and keeps what it is welcome to keep."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from crawl_platform.cli import main
from crawl_platform.errors import ExchangeError
from crawl_platform.fetch.signing import ensure_key
from crawl_platform.settings import Citizenship, Frontier, HostRule, Payment, Signing
from crawl_platform.simulation.running import Ready
from tests.fleet.checks import assert_one_row_per_request, assert_polite
from tests.fleet.harness import Fleet, eventually
from tests.fleet.wishful_web import FOR_SALE, REFUSING, SELLING, SIGNED, SLOW, WISHES, WISHING

BUDGET = 4
"""Pages that the budget is enough for."""
pytestmark = pytest.mark.long
SECTIONS = {
    "signing": Signing(enabled=True, agent="https://crawler.example.org"),
    "payment": Payment(max_price=0.05, host_budget=BUDGET / 100, day_budget=1.0),
    "frontier": Frontier(retry_delay=0.2),
    "citizenship": Citizenship(),
}


@contextmanager
def among_wishes(base: Path) -> Iterator[Fleet]:
    """A started fleet of one cell, and a web that knows its public keys. The charges are at `base`/charges."""
    home = base / "home"
    keys = base / "keys.json"
    keys.write_text(json.dumps(ensure_key(home / "run" / "web-bot-auth.pem").jwks()))
    command = [sys.executable, "-m", "tests.fleet.wishful_web", str(base / "log"), str(keys)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as web:
        assert web.stdout
        try:
            ready = msgspec.json.decode(web.stdout.readline(), type=Ready)
            rules = (
                HostRule(WISHING, citizenship={"read_tdmrep": True}),
                HostRule(REFUSING, citizenship={"on_refusal": "stop"}),
            )
            with Fleet(home, ready, **SECTIONS, hosts=rules) as fleet:  # type: ignore[arg-type]
                yield fleet.start()
        finally:
            web.terminate()


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with among_wishes(tmp_path_factory.mktemp("wishes")) as fleet:
        fleet.seed()
        fleet.wait_quiet()
        yield fleet


def charges(fleet: Fleet) -> list[str]:
    found = (fleet.home.parent / "charges").read_text().split()
    assert found
    return found


def test_every_request_is_signed_so_that_a_site_can_check_it(crawled: Fleet) -> None:
    rows = crawled.rows("SELECT kind, status FROM fetches WHERE host = $1 ORDER BY started_at", SIGNED)

    assert rows == [{"kind": "robots", "status": 404}, {"kind": "page", "status": 200}]


def test_pages_are_paid_for_until_the_budget_ends(crawled: Fleet) -> None:
    rows = crawled.rows(
        "SELECT url, status, price, currency, charged, payment FROM fetches "
        "WHERE host = $1 AND kind = 'page' ORDER BY started_at",
        SELLING,
    )

    assert len(charges(crawled)) == BUDGET
    first, *others = rows
    assert (first["status"], first["payment"], first["price"]) == (402, "agreed", 0.01)
    paid = [row for row in others if row["charged"] is not None]
    assert [(row["payment"], row["charged"], row["currency"]) for row in paid] == [
        ("charged", 0.01, "USD")
    ] * BUDGET
    late = [row for row in others if row["status"] == 402]
    assert {row["payment"] for row in late} == {"over_budget"}
    assert len(late) == FOR_SALE - BUDGET


def test_what_was_paid_is_told(crawled: Fleet) -> None:
    told = CliRunner().invoke(main, ["usage", "--json", "--home", str(crawled.home)])

    usage = json.loads(told.output)
    assert sum(day["paid"] for day in usage["by_day"]) == pytest.approx(BUDGET / 100)
    assert {row["host"]: row["paid"] for row in usage["by_host"]}[SELLING] == pytest.approx(BUDGET / 100)


def test_what_was_bought_is_kept_like_any_page(crawled: Fleet) -> None:
    assert len(crawled.rows("SELECT 1 FROM pages WHERE host = $1 AND text IS NOT NULL", SELLING)) == BUDGET


def test_wishes_are_told_with_each_page_and_obeyed(crawled: Fleet) -> None:
    rows = crawled.rows("SELECT * FROM page_uses WHERE host = $1", WISHING)
    pages = {row["url"].partition(".test")[2].partition("/")[2]: row for row in rows}
    robots = {"search": "yes", "ai_train": "no"}

    def said(path: str) -> dict[str, str]:
        names = ("search", "ai_input", "ai_train", "ai_images", "tdm", "archive")
        return {name: pages[path][name] for name in names if pages[path][name] is not None}

    assert said("") == robots
    assert said("private/a") == {"search": "no", "ai_train": "no"}
    assert said("usage") == {"search": "no", "ai_train": "no"}
    assert said("archive") == robots | {"archive": "no"}
    assert said("reserved") == robots | {"tdm": "no"}
    assert said("mined/a") == robots | {"tdm": "no"}
    assert {path: row["kept"] for path, row in pages.items() if row["kept"] != "all"} == {
        "private/a": "facts",
        "usage": "facts",
        "archive": "no_body",
    }
    assert pages["usage"]["refused"] == ["search"]
    assert "robots:content-usage" in dict(pages["private/a"]["preferences_from"]).values()


def test_what_is_refused_is_not_in_the_lake(crawled: Fleet) -> None:
    rows = crawled.rows(
        "SELECT url, title IS NULL AS untitled, text IS NULL AS mute, text_hash IS NULL AS unprinted, "
        "body IS NULL AS empty FROM pages WHERE host = $1 AND kept <> 'all' ORDER BY url",
        WISHING,
    )

    assert [tuple(row.values())[1:] for row in rows] == [
        (False, False, False, True),
        (True, True, True, True),
        (True, True, True, True),
    ]


def test_links_of_a_refusing_page_are_told_without_their_words(crawled: Fleet) -> None:
    rows = crawled.rows("SELECT src_url, anchor FROM links WHERE src_host = $1", WISHING)
    anchors = {bool(row["anchor"]) for row in rows if row["src_url"].endswith("usage")}

    assert anchors == {False}
    assert any(row["anchor"] for row in rows), "others have theirs"


def test_whoever_looks_is_told_what_is_missing_and_why(crawled: Fleet, tmp_path: Path) -> None:
    def told(*arguments: str) -> str:
        return CliRunner().invoke(main, [*arguments, "--home", str(crawled.home)]).output

    root = crawled.web.seeds[2]
    assert "the site refuses its use for search" in told("show", f"{root}usage")
    assert "noarchive" in told("show", f"{root}archive")
    assert "about uses: ai-train=no, search=yes" in told("explain", root)
    exported = tmp_path / "pages.warc.gz"
    told("export", str(exported), "--host", WISHING)
    with gzip.open(exported) as archive:
        text = archive.read()
    assert f"WARC-Target-URI: {root}noai".encode() in text
    assert f"WARC-Target-URI: {root}usage".encode() not in text, "a page without body is no record"


def test_where_the_policy_is_to_stop_a_page_is_not_fetched_again(crawled: Fleet) -> None:
    told = CliRunner().invoke(main, ["explain", crawled.web.seeds[3], "--home", str(crawled.home)]).output

    assert "dropped (use_refused)" in told
    assert [entry.path for entry in crawled.requests_to(REFUSING)] == [
        "/robots.txt"
    ]  # it has said so in there


def test_a_host_event_tells_its_wishes(crawled: Fleet) -> None:
    rows = crawled.rows(
        "SELECT preferences, detail FROM hosts WHERE event = 'preferences' AND host = $1", WISHING
    )

    assert [row["detail"] for row in rows] == ["ai-train=no, search=yes"]
    assert dict(rows[0]["preferences"]) == {"search": "yes", "ai-train": "no"}
    assert crawled.rows("SELECT preferences IS NOT NULL AS told FROM hosts_now WHERE host = $1", WISHING) == [
        {"told": True}
    ]


def test_all_of_it_was_polite(crawled: Fleet) -> None:
    assert_polite(crawled.requests())
    assert_one_row_per_request(crawled.requests(), crawled.fetches())
    assert {entry.path for entry in crawled.requests_to(WISHING)} >= set(WISHES)


def test_a_cell_killed_while_a_page_is_being_paid_for_does_not_spend_the_money_twice(tmp_path: Path) -> None:
    with among_wishes(tmp_path) as fleet:
        root = fleet.web.seeds[1]
        charged = fleet.home.parent / "charges"
        fleet.seed([f"{root}{SLOW[1:]}"])
        eventually(charged.exists, 20.0, "it is paid", 0.02)

        fleet.kill_cell()
        fleet.kill("nats")
        eventually(lambda: fleet.pid("nats") != 0, 30.0, "NATS is back")
        eventually(lambda: _answers(fleet), 30.0, "NATS answers")
        fleet.client.recrawl(root, request_id="all-the-others")
        fleet.wait_quiet(90.0)

        assert len(charges(fleet)) == BUDGET, "what the dead cell had reserved stays spent"


def _answers(fleet: Fleet) -> bool:
    try:
        return fleet.client.hosts() != {}
    except ExchangeError:
        return False
