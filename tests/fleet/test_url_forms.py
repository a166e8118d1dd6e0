"""The form of a host's URLs from links to the rows of the lake, and the news of a trap: a cell without a wire."""

from pathlib import Path
from typing import Any

import pytest

from crawl_platform.clock import ManualClock
from crawl_platform.commit.faults import Faults
from crawl_platform.commit.manifest import BULK, FAST
from crawl_platform.commit.outbox import Outbox
from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.fleet.epochs import Series
from crawl_platform.fleet.inbox import Inbox
from crawl_platform.fleet.page_answers import PageAnswers
from crawl_platform.fleet.parts import Parts
from crawl_platform.fleet.rows import Origin
from crawl_platform.fleet.telemetry import TURNED_AWAY, Telemetry
from crawl_platform.frontier.lease import Lease
from crawl_platform.settings import Frontier, HostRule
from crawl_platform.testing.builders import FrontierRig

A = "a.test"
ROOT = f"https://{A}/"


class Desk:
    """What a cell does with an answer, from the digest to the commit point."""

    def __init__(self, home: Path, *rules: HostRule, limits: Frontier | None = None) -> None:
        self.rig = FrontierRig(A, host_rules=rules, settings=limits or Frontier(bloom_capacity=10_000))
        self.clock: ManualClock = self.rig.clock
        outbox = Outbox(self.rig.kv, "incarnation-1")
        inbox = Inbox(self.rig.kv, self.rig.frontier, "cell-0", outbox.incarnation)
        self.bulk, self.fast = (self._series(name, home, outbox, inbox) for name in (BULK, FAST))
        self.telemetry = Telemetry("cell-0", 8, self.clock)
        nothing: Any = None
        self.answers = PageAnswers(
            Parts(
                settings=self.rig.settings, clock=self.clock, frontier=self.rig.frontier, gates=self.rig.gates,
                dns=nothing, client=nothing, outbox=outbox, bulk=self.bulk, fast=self.fast, telemetry=self.telemetry,
                origin=Origin("cell-0", outbox.incarnation), addresses=nothing, signer=None, spending=nothing,
                fence=lambda: None,
            )
        )  # fmt: skip
        self.rig.discover(ROOT)

    def _series(self, name: str, home: Path, outbox: Outbox, inbox: Inbox) -> Series:
        return Series(
            name, lake_root=home, cell="cell-0", frontier=self.rig.frontier, outbox=outbox, inbox=inbox,
            settings=self.rig.settings.commit, clock=self.clock, faults=Faults(),
        )  # fmt: skip

    def answer(self, body: str = "", location: str = "") -> None:
        """The next page is fetched and has this body, or redirects."""
        lease = self.rig.claim_page()
        assert isinstance(lease, Lease)
        self.rig.land(lease)
        response = Response(Outcome.REDIRECT if location else Outcome.OK, status=302 if location else 200)
        response.body, response.headers = body.encode(), {"content-type": "text/html"}
        response.redirect_to, response.started_at, response.sent = location or None, self.clock.now(), True
        self.answers.take(lease, response)

    def targets(self) -> list[str]:
        rows, blocks = self.bulk.open.rows.take(), self.bulk.open.rows.take_blocks()
        targets = [row["dst_url"] for row in rows.get("links", ())]
        return targets + [url for block in blocks.get("links", ()) for url in block.columns["dst_url"]]


def page(*links: str) -> str:
    return "<p>words " + " ".join(f'<a href="{link}">x</a>' for link in links)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, HostRule(A, urls={"drop_parameters": ["view"], "sort_parameters": True}))


async def test_rows_and_frontier_know_a_link_in_its_hosts_form(desk: Desk) -> None:
    desk.answer(page("/x?view=1&b=2&a=1", "/x?a=1&b=2", "https://other.test/x?view=1"))

    assert set(desk.targets()) == {f"{ROOT}x?a=1&b=2", "https://other.test/x?view=1"}
    await desk.bulk.close()
    assert desk.rig.record(A, f"{ROOT}x?a=1&b=2") is not None
    assert desk.rig.frontier.known == 2


async def test_a_redirect_is_known_in_the_form_in_which_it_is_followed(desk: Desk) -> None:
    desk.answer(location=f"{ROOT}x?view=1&a=2")
    assert desk.targets() == [f"{ROOT}x?a=2"]

    await desk.bulk.close()
    assert desk.rig.record(A, f"{ROOT}x?a=2") is not None


async def test_a_redirect_that_adds_what_is_dropped_is_followed_as_it_stands(desk: Desk) -> None:
    desk.answer(location=f"{ROOT}?view=1")
    assert desk.targets() == [f"{ROOT}?view=1"]

    await desk.bulk.close()
    assert desk.rig.record(A, f"{ROOT}?view=1") is not None


async def test_the_most_links_of_a_page_are_its_hosts_own(tmp_path: Path) -> None:
    desk = Desk(tmp_path, HostRule(A, frontier={"max_urls_per_page": 2}))

    desk.answer(page("/1", "/2", "/3"))

    assert len(desk.targets()) == 2


async def test_the_first_trap_of_a_kind_is_an_event_and_all_are_counted(tmp_path: Path) -> None:
    desk = Desk(tmp_path, limits=Frontier(max_url_length=40, bloom_capacity=10_000))

    desk.answer(page("/" + "x" * 50, "/" + "y" * 50, "/ok"))
    await desk.bulk.close()

    events = [row for row in desk.bulk.open.rows.take()["hosts"] if row["event"] == "trap"]
    assert [(row["host"], row["detail"]) for row in events] == [(A, f"url-too-long: {ROOT}{'x' * 50}")]
    assert desk.telemetry.summary(desk.rig.frontier)[TURNED_AWAY + "url-too-long"] == 2
