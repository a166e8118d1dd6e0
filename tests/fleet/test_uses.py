"""What a cell does with a host's tdmrep.json, and what preferences cost it."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from crawl_platform.admission.rules import HostRules
from crawl_platform.digest import digest
from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fleet.uses import TDMREP, note_tdmrep, uses_of
from crawl_platform.frontier.lease import Lease
from crawl_platform.frontier.records import DISCOVERY, UrlRecord
from crawl_platform.settings import Citizenship, NamedIdentity, Settings
from crawl_platform.testing.builders import FrontierRig

HOST = "site.test"
ROBOTS = (
    b"User-agent: *\nContent-Signal: search=yes, ai-train=no\nContent-Usage: /a/ train-ai=n\nDisallow: /x\n"
)


def lease_on(path: str) -> Lease:
    return Lease(f"https://{HOST}{path}", HOST, 0, DISCOVERY, UrlRecord())


def parts(citizenship: Citizenship, robots: bytes = b"") -> Any:
    """As much of a cell as the uses of pages need."""
    rig = FrontierRig(HOST)
    rig.discover(f"https://{HOST}/")
    rig.robots.store(f"https://{HOST}", "rules", robots, float("inf"))
    settings = Settings(home="/nowhere", citizenship=citizenship)
    rig.frontier.rules = HostRules(settings)
    return SimpleNamespace(frontier=rig.frontier, settings=settings, clock=rig.clock)


def answered(outcome: Outcome = Outcome.OK, body: bytes = b"", **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(outcome, headers=named, body=body)


def mined(cell: Any) -> bool | None:
    return uses_of(cell, lease_on("/mined/a"), answered(), None).preferences.of("tdm")


def test_a_tdmrep_holds_from_its_answer_on_until_it_is_gone() -> None:
    cell = parts(Citizenship(read_tdmrep=True))
    file = answered(body=b'[{"location": "/mined/", "tdm-reservation": 1}]')

    note_tdmrep(cell, lease_on("/another/.well-known/tdmrep.json"), file)
    assert mined(cell) is None
    note_tdmrep(cell, lease_on(TDMREP), file)
    assert mined(cell) is False
    note_tdmrep(cell, lease_on(TDMREP), answered(Outcome.SERVER_ERROR))
    assert mined(cell) is False, "what can't be had now may still be there"
    note_tdmrep(cell, lease_on(TDMREP), answered(Outcome.NOT_FOUND))
    assert mined(cell) is None


def test_a_tdmrep_that_nobody_asked_for_is_a_page_like_any_other() -> None:
    cell = parts(Citizenship())

    note_tdmrep(cell, lease_on(TDMREP), answered(body=b'[{"location": "/", "tdm-reservation": 1}]'))

    assert mined(cell) is None


def test_directives_for_another_crawler_are_not_ours() -> None:
    cell = parts(Citizenship())

    def says(value: str) -> bool | None:
        response = answered(x_robots_tag=value)
        return uses_of(cell, lease_on("/"), response, None).preferences.of("ai-train")

    assert says("otherbot: noai") is None
    assert says("otherbot: noindex\nnoai") is False, "a second header is for everybody"
    assert says(f"{cell.settings.identity.agent}: noai") is False


def test_what_is_said_to_the_name_that_asked_holds() -> None:
    robots = b"User-agent: picker\nContent-Signal: search=no\n\nUser-agent: *\nContent-Signal: search=yes\n"
    cell = parts(Citizenship(), robots)
    pool = (NamedIdentity("one", agent="picker"), NamedIdentity("two"))
    cell.settings = msgspec.structs.replace(cell.settings, identities=pool)

    def says(identity: str) -> bool | None:
        response = answered()
        response.identity = identity
        return uses_of(cell, lease_on("/"), response, None).preferences.of("search")

    assert (says("one"), says("two"), says("")) == (False, True, True)


def test_the_words_of_a_page_count_like_those_of_its_host() -> None:
    cell = parts(Citizenship(purposes=("search", "ai-train")), ROBOTS)
    page = digest(
        b"<meta name=robots content=noarchive><meta name=tdm-reservation content=1><p>text</p>",
        "https://a.test/",
        "text/html",
    )

    uses = uses_of(cell, lease_on("/a/b"), answered(content_usage="search=y"), page)

    assert uses.preferences.words() == {"search": "yes", "ai-train": "no", "archive": "no", "tdm": "no"}
    assert uses.preferences.sources["search"] == "robots:content-signal"
    assert (uses.treatment.refused, uses.treatment.keep) == (("ai-train",), "facts")
    row = uses.apply({"title": "t", "text": "x", "body": b"b", "links": 3, "fingerprint": "f"})
    assert (row["title"], row["text"], row["body"], row["links"], row["fingerprint"]) == (
        None,
        None,
        None,
        3,
        "f",
    )


def test_preferences_cost_a_page_little(tmp_path: Path) -> None:
    """A page costs some 2,400 µs: this must disappear beside it."""
    cell = parts(Citizenship(), ROBOTS)
    page = digest(b"<p>text</p>", "https://a.test/", "text/html")
    lease, response = lease_on("/a/b"), answered(content_usage="train-ai=n")

    def cost() -> float:
        begun = time.process_time()
        for _ in range(200):
            uses_of(cell, lease, response, page)
        return (time.process_time() - begun) / 200

    least = min(cost() for _ in range(5))
    assert least < 200e-6, f"{least * 1e6:.0f} µs"
