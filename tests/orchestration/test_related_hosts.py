"""Which hosts belong together, and what a promotion says of it."""

import msgspec
import pytest

from assets import related_hosts as module
from crawl_platform.graph.relations import Related


@pytest.fixture
def linked(crawl):
    """Two seed hosts that link to a host of a network with six names, of which two have been read and one excluded."""
    for i in range(2):
        crawl.host(f"seed-{i}.test")
        names = [f"https://shop-{j}.network.test/" for j in range(6)]
        crawl.visit(f"https://seed-{i}.test/", "https://alone.test/", *names, address=f"127.0.{i}.1")
    crawl.host("shop-0.network.test", trusted=False, event="promoted")
    crawl.host("other.test", trusted=False, event="promoted")
    for host in ("shop-0.network.test", "other.test"):
        crawl.visit(f"https://{host}/", address="127.0.9.9")
    crawl.host("shop-1.network.test", "excluded", event="excluded")
    crawl.commit()
    return crawl


def related(lake) -> list[dict]:
    return lake.query("SELECT * FROM related_hosts ORDER BY host").to_pylist()


def test_hosts_of_one_domain_or_address_are_one_component(harness, linked, lake):
    harness.execute("link_graph", "related_hosts")

    rows = related(lake)
    assert [row["host"] for row in rows] == ["other.test", *(f"shop-{i}.network.test" for i in range(6))]
    assert {(row["component"], row["size"]) for row in rows} == {(1, 7)}
    assert rows[0]["shared"] == ["address:127.0.9.9"]
    assert rows[1]["shared"] == ["address:127.0.9.9", "domain:network.test"]
    assert [row["state"] for row in rows] == ["seed", "seed", "excluded", *["horizon"] * 4]


def test_the_checks_pass_and_the_largest_components_are_named(harness, linked):
    result = harness.execute("link_graph", "related_hosts")

    (event,) = result.asset_materializations_for_node("related_hosts")
    assert all(check.passed for check in result.get_asset_check_evaluations())
    assert event.metadata["largest_component"].value == 7
    shared = "domain:network.test (6), address:127.0.9.9 (2)"
    line = f"| 7 | other.test, shop-0.network.test, shop-1.network.test, … | {shared} | 2 | 4 | 1 |"
    assert line in event.metadata["largest_components"].md_str


def test_a_component_that_votes_do_not_know_of_fails_the_check(harness, linked, monkeypatch):
    """As if the two ways to components had come apart."""
    known = module.related
    monkeypatch.setattr(module, "related", lambda labels: [*known(labels), Related(2, "alone.test", 1, ())])

    result = harness.execute("link_graph", "related_hosts", fails=True)

    passed = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
    assert not passed["components_agree_with_votes"]
    assert not passed["components_are_whole"]


@pytest.mark.long
def test_the_same_inputs_give_the_same_rows(harness, linked, lake):
    harness.execute("link_graph", "related_hosts")
    before = related(lake)

    harness.execute("related_hosts")

    assert related(lake) == before


@pytest.mark.long
def test_a_promotion_says_that_its_host_belongs_to_a_large_component(harness, linked, lake):
    harness.decide()

    rows = lake.query("SELECT subject, reason, evidence FROM decisions WHERE kind = 'promotion'").to_pylist()
    reasons = {row["subject"]: row["reason"] for row in rows}
    evidence = {row["subject"]: msgspec.json.decode(row["evidence"]) for row in rows}
    assert reasons["shop-2.network.test"].endswith(
        "; belongs together with 6 other hosts, 1 of them excluded (shares domain network.test)"
    )
    assert "belongs together" not in reasons["alone.test"]
    assert evidence["shop-2.network.test"]["related_hosts"]["size"] == 7
    assert evidence["alone.test"]["related_hosts"] is None
