"""Groups that overlap the templates: by what pages say they are, and where links to them stand."""

from datetime import timedelta

import pytest

from assets import secondary_groups
from assets.secondary_groups import overlapping
from bench.simulation.tables import MemoryTables
from crawl_platform.clock import DAY, as_datetime
from crawl_platform.scheduling.templates import group_id

AT = as_datetime(20_000 * DAY)


@pytest.fixture
def shop() -> MemoryTables:
    """Ten offers, which change daily, five of them under another template and linked from the footer; and five articles
    that never change."""
    tables = MemoryTables()
    fetches, links, pages = [], [], []
    for n in range(15):
        kind, template = "Offer" if n < 10 else "Article", "/sale/*" if n < 5 else "/p/*"
        url = f"https://a.test{template[:-1]}{n}"
        for day in range(8):
            started = AT - timedelta(days=8 - day)
            fetches.append(
                {"fetch_id": f"{n}-{day}", "url": url, "host": "a.test", "kind": "page", "outcome": "ok",
                 "started_at": started, "previous_success_at": started - timedelta(days=1) if day else None,
                 "changed": (kind == "Offer") if day else None, "group_id": group_id("a.test", template),
                 "template": template, "link_set": f"{n}-0"}
            )  # fmt: skip
        declared = {"fetch_id": f"{n}-0", "fetched_at": AT, "entity_types": [kind, "Thing"]}
        pages.append({"url": url, "host": "a.test", **declared})
        shown = {"fetch_id": "0-0", "src_url": "https://a.test/sale/0", "seen_at": AT}
        links.append({**shown, "dst_url": url, "position": "footer" if n < 5 else "main"})
    tables.append("fetches", fetches)
    tables.append("links", links)
    tables.append("pages", pages)
    return tables


def test_pages_of_one_type_are_a_group_whatever_their_templates(shop: MemoryTables) -> None:
    rows = {(row["kind"], row["name"]): row for row in overlapping(shop.reading).to_pylist()}

    assert {key: row["pages"] for key, row in rows.items()} == {
        ("type", "Offer"): 10, ("type", "Article"): 5, ("type", "Thing"): 15, ("position", "footer"): 5,
        ("position", "main"): 10,
    }  # fmt: skip
    offers, articles = rows["type", "Offer"], rows["type", "Article"]
    assert (offers["primary_groups"], offers["primary_share"]) == (2, 0.5)
    assert (articles["primary_template"], articles["primary_share"]) == ("/p/*", 1.0)
    assert offers["checks"] == offers["changed"] == 70
    assert offers["rate"] > 10 * articles["rate"]
    assert articles["rate"] < rows["position", "main"]["rate"] < offers["rate"], "half of them are offers"
    assert offers["group_id"] == group_id("a.test", "type Offer"), "the same for ever"


def test_a_host_that_invents_types_has_few_groups(
    shop: MemoryTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ablation: with the bound away each is one."""
    shop.append(
        "pages",
        [
            {"url": f"https://a.test/p/{n}", "host": "a.test", "fetch_id": f"{n}-9", "fetched_at": AT + timedelta(1),
             "entity_types": ["Thing", *(f"Made{n}-{k}" for k in range(20))]}
            for n in range(5, 15)
        ],
    )  # fmt: skip

    few = overlapping(shop.reading)
    loose = secondary_groups.MEMBERS.replace(f"<= {secondary_groups.MOST}", "<= 1000")
    monkeypatch.setattr(secondary_groups, "MEMBERS", loose)
    many = overlapping(shop.reading)

    assert secondary_groups._few_and_distinct(few).passed
    assert {"Thing", "Offer"} <= set(few["name"].to_pylist()), "those with most pages stay"
    assert not secondary_groups._few_and_distinct(many).passed


def test_before_anything_was_checked_there_are_groups_without_rates(shop: MemoryTables) -> None:
    shop.reading.connection.execute("DELETE FROM fetches WHERE previous_success_at IS NOT NULL")

    rows = overlapping(shop.reading).to_pylist()

    assert len(rows) == 5
    assert {row["rate"] for row in rows} == {None}
