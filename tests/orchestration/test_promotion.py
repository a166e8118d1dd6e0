"""From links to a promoted host: the assets and the sensor that hands their decisions over."""

import math
import shutil

import dagster as dg
import msgspec
import pytest

from assets import link_graph as link_graph_module
from assets.promotion_decision import decision_id
from crawl_platform.clock import ManualClock
from crawl_platform.lake.lake import Lake
from crawl_platform.settings import Orchestration, Settings
from resources.requests import Request, append_requests
from tests.orchestration.harness import Harness, without_pictures
from tests.orchestration.made_up_crawl import MadeUpCrawl, RememberingFleet, small_web


@pytest.fixture(scope="module")
def decided(empty_lake, tmp_path_factory):
    """The lake and the run of one decision over the small web. Only read."""
    home, clock = tmp_path_factory.mktemp("decided"), ManualClock()
    shutil.copytree(empty_lake, home / "lake")
    lake = Lake(home / "lake")
    small_web(MadeUpCrawl(lake, clock))
    settings = Settings(home=str(home), orchestration=Orchestration(profile="demo", promotion_quota=5))
    with dg.DagsterInstance.ephemeral() as instance, without_pictures():
        yield lake, Harness(settings, clock, RememberingFleet(), instance).decide()


def promoted(lake):
    return {row["host"]: row for row in lake.query("SELECT * FROM promotions").to_pylist()}


def verdict_of(lake, host):
    rows = lake.query("SELECT verdict, reason FROM decisions WHERE subject = ?", [host]).to_pylist()
    return rows[0] if rows else None


def ask(lake, clock, kind, target, via="table", request_id="r1"):
    append_requests(lake, [Request(request_id, clock.now(), kind, target, "ada", via, "because", 1.0)])


def test_the_best_hosts_of_the_horizon_are_promoted_with_their_evidence(decided):
    lake, _ = decided

    rows = promoted(lake)
    assert len(rows) == 5
    best = rows["honest-0.test"]
    assert best["position"] == 1
    assert best["independent_support"] >= 2
    assert "independent seed hosts" in best["reason"]
    assert all(url.startswith("https://honest-0.test/") for url in best["urls"])
    assert set(dict(best["input_versions"])) >= {"links", "fetches", "hosts", "host_graph", "host_ranks"}


def test_the_link_farm_is_held_and_honest_hosts_are_not(decided):
    lake, _ = decided

    assert "bait.test" not in promoted(lake)
    assert all(host.startswith("honest-") for host in promoted(lake))


@pytest.mark.long
def test_without_the_gate_the_farm_would_be_promoted(harness, crawl, lake, monkeypatch):
    """Ablation: the farm has trust from its hijacked links and enough supporters."""
    monkeypatch.setattr("crawl_platform.graph.host_rank.MOST_DOUBT", math.inf)
    monkeypatch.setattr("assets.promotion_decision.FLOOR_SHARE", 0.0)
    small_web(crawl)

    harness.decide()
    rows = lake.query(
        "SELECT eligible, independent_support FROM host_ranks WHERE host = 'bait.test'"
    ).to_pylist()

    assert rows[0]["eligible"]
    assert rows[0]["independent_support"] >= 2


def test_every_promotion_cites_a_decision_with_numbers_and_words(decided):
    lake, _ = decided

    joined = lake.query(
        "SELECT d.evidence, d.reason FROM promotions p JOIN decisions d USING (decision_id)"
    ).to_pylist()

    assert len(joined) == 5
    evidence = msgspec.json.decode(joined[0]["evidence"])
    assert {"trust", "spam_mass", "independent_support", "rules", "supporters"} <= set(evidence)


@pytest.mark.long
def test_the_same_inputs_give_the_same_decisions_and_the_same_bytes(harness, crawl, lake):
    small_web(crawl)
    harness.decide()
    graph, ranks = lake.query("SELECT * FROM host_graph"), lake.query("SELECT * FROM host_ranks")
    before = promoted(lake)
    decided = lake.query("SELECT decision_id FROM decisions ORDER BY ALL")

    harness.decide()

    assert lake.query("SELECT * FROM host_graph").equals(graph)
    assert lake.query("SELECT * FROM host_ranks").equals(ranks)
    assert promoted(lake) == before
    assert lake.query("SELECT decision_id FROM decisions ORDER BY ALL").equals(decided)


@pytest.mark.long
def test_new_links_lead_to_the_next_hosts_and_never_to_the_same_again(harness, crawl, lake, clock):
    small_web(crawl)
    harness.decide()
    clock.advance(60)
    crawl.visit("https://seed-0.test/more", "https://another.test/")
    crawl.commit()

    harness.decide()

    hosts = lake.query("SELECT host FROM promotions")["host"].to_pylist()
    assert len(hosts) == 10
    assert len(set(hosts)) == 10


@pytest.mark.long
def test_hosts_that_belong_together_count_once(harness, crawl, lake, settings):
    """Five names on one address link to a host: that is one supporter, and two are needed."""
    for i in range(5):
        crawl.host(f"twin-{i}.test")
        crawl.visit(f"https://twin-{i}.test/", "https://liked.test/", address="127.0.0.9")
    crawl.commit()

    harness.decide()

    assert promoted(lake) == {}
    assert verdict_of(lake, "liked.test") == {
        "verdict": "held",
        "reason": "linked by 5 seed hosts (twin-0.test, twin-1.test, twin-2.test, …); "
        "1 independent and proven, 2 needed; rank 1 of 1 horizon hosts",
    }


@pytest.mark.long
def test_links_marked_nofollow_do_not_vote(harness, crawl, lake):
    for i in range(3):
        crawl.host(f"forum-{i}.test")
        crawl.visit(f"https://forum-{i}.test/", "https://spam.test/", position="comments", nofollow=True)
        crawl.visit(f"https://forum-{i}.test/2", "https://good.test/")
    crawl.commit()

    harness.decide()

    assert list(promoted(lake)) == ["good.test"]


@pytest.mark.long
def test_links_in_comments_do_not_vote_even_if_nobody_marked_them(harness, crawl, lake):
    for i in range(3):
        crawl.host(f"blog-{i}.test")
        crawl.visit(f"https://blog-{i}.test/", "https://farm.test/", position="comments")
        crawl.visit(f"https://blog-{i}.test/2", "https://good.test/", position="other")
    crawl.commit()

    harness.decide()

    assert list(promoted(lake)) == ["good.test"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("days", "hosts"), [(6, []), pytest.param(7, ["liked.test"], marks=pytest.mark.long)]
)
def test_a_host_that_was_promoted_lately_is_nobodys_supporter(harness, crawl, lake, clock, days, hosts):
    """Else one farm that got in would let in all of its accomplices."""
    crawl.host("seed.test")
    crawl.host("new.test", trusted=False, event="promoted")
    clock.advance(days * 86_400.0)
    crawl.visit("https://seed.test/", "https://liked.test/", "https://new.test/")
    crawl.visit("https://new.test/", "https://liked.test/")
    crawl.commit()

    harness.decide()

    assert list(promoted(lake)) == hosts


@pytest.mark.long
def test_an_excluded_host_is_held_also_by_a_pattern(harness, crawl, lake, clock):
    small_web(crawl)
    ask(lake, clock, "exclude", "*.honest-0.test", via="exchange")

    harness.decide()

    assert "honest-0.test" not in promoted(lake)
    assert verdict_of(lake, "honest-0.test")["reason"].startswith("excluded by an operator")


@pytest.mark.long
def test_a_held_host_is_one_decision_however_often_it_is_ranked(harness, crawl, lake, clock):
    small_web(crawl)
    ask(lake, clock, "exclude", "honest-0.test", via="exchange")
    for i in range(2):
        clock.advance(60)
        crawl.visit(f"https://seed-0.test/{i}", f"https://another-{i}.test/")
        crawl.commit()
        harness.decide()

    held = lake.query("SELECT * FROM decisions WHERE subject = 'honest-0.test'")
    assert held.num_rows == 1


def test_a_requested_host_is_recorded_whatever_its_rank(harness, crawl, lake, clock):
    small_web(crawl)
    ask(lake, clock, "promote", "unknown.test", request_id="ticket-7")

    harness.decide()

    row = promoted(lake)["unknown.test"]
    assert (row["requested"], row["decision_id"]) == (True, "ticket-7")
    assert row["reason"].startswith("asked for by ada: because")


@pytest.mark.long
def test_a_host_that_an_operator_took_out_is_held_until_somebody_asks_for_it(harness, crawl, lake, clock):
    small_web(crawl)
    ask(lake, clock, "remove", "honest-0.test", via="exchange", request_id="v")
    harness.decide()

    assert "honest-0.test" not in promoted(lake)
    assert verdict_of(lake, "honest-0.test")["reason"].startswith(
        "vetoed by ada: because, although linked by"
    )

    clock.advance(60)
    ask(lake, clock, "promote", "honest-0.test", request_id="p")
    harness.execute("promotions")

    assert promoted(lake)["honest-0.test"]["decision_id"] == "p"


@pytest.mark.long
def test_a_request_from_before_a_veto_is_not_recorded_after_it(harness, crawl, lake, clock):
    small_web(crawl)
    ask(lake, clock, "promote", "honest-0.test", via="exchange", request_id="p")
    clock.advance(60)
    ask(lake, clock, "remove", "honest-0.test", via="exchange", request_id="v")

    harness.decide()

    assert "honest-0.test" not in promoted(lake)


@pytest.mark.long
def test_a_requested_host_that_is_excluded_is_not_promoted(harness, crawl, lake, clock):
    small_web(crawl)
    ask(lake, clock, "exclude", "unknown.test", request_id="x")
    ask(lake, clock, "promote", "unknown.test", request_id="p")

    harness.decide()

    assert "unknown.test" not in promoted(lake)


def test_links_without_their_fetch_fail_the_graphs_check_and_nothing_is_promoted(harness, crawl, lake):
    small_web(crawl)
    crawl.link("f-that-is-not-there", "https://seed-0.test/", "https://honest-0.test/")
    crawl.commit()

    result = harness.execute("link_graph", "host_ranks", "promotions", fails=True)

    assert {e.check_name for e in result.get_asset_check_evaluations() if not e.passed} == {
        "links_have_their_fetch"
    }
    assert promoted(lake) == {}


@pytest.mark.long
def test_a_later_run_of_promotions_alone_refuses_as_well(harness, crawl, lake):
    """Blocking checks stop only their own run: the asset looks for itself."""
    small_web(crawl)
    crawl.link("f-that-is-not-there", "https://seed-0.test/", "https://honest-0.test/")
    crawl.commit()
    harness.execute("link_graph", "host_ranks", fails=True)
    harness.execute("host_ranks")

    harness.execute("promotions", fails=True)

    assert promoted(lake) == {}


@pytest.mark.long
def test_without_that_look_it_would_promote(harness, crawl, lake, monkeypatch):
    """Ablation."""
    monkeypatch.setattr("assets.promotion.UPSTREAM_CHECKS", {})
    small_web(crawl)
    crawl.link("f-that-is-not-there", "https://seed-0.test/", "https://honest-0.test/")
    crawl.commit()
    harness.execute("link_graph", fails=True)
    harness.execute("host_ranks")

    harness.execute("promotions")

    assert promoted(lake)


def test_ranks_that_do_not_sum_to_one_stop_the_chain(harness, crawl, lake, monkeypatch):
    rank_hosts = link_graph_module.rank_hosts
    monkeypatch.setattr(
        link_graph_module, "rank_hosts", lambda *a: rank_hosts(*a)._replace(trust=rank_hosts(*a).trust * 2)
    )
    small_web(crawl)

    harness.execute("link_graph", "host_ranks", "promotions", fails=True)

    assert promoted(lake) == {}


@pytest.mark.long
def test_without_trusted_hosts_there_is_nothing_to_rank_and_no_failure(harness, crawl, lake):
    crawl.host("seed-0.test", trusted=False)
    crawl.visit("https://seed-0.test/", "https://b.test/")
    crawl.commit()

    harness.decide()

    assert lake.query("SELECT * FROM host_ranks").num_rows == 0


# --- handing over ---


@pytest.mark.long
def test_decided_promotions_reach_the_fleet_without_a_run(harness, crawl, fleet, lake):
    small_web(crawl)
    harness.decide()

    result = harness.sense("promotion")

    assert result.run_requests == []
    assert set(fleet.promoted) == set(promoted(lake))
    urls, decision, reason = fleet.promoted["honest-0.test"]
    row = promoted(lake)["honest-0.test"]
    assert (urls, decision, reason) == (row["urls"], row["decision_id"], row["reason"])


@pytest.mark.long
def test_a_repeated_tick_publishes_nothing_again(harness, crawl, fleet):
    small_web(crawl)
    harness.decide()
    harness.sense("promotion")
    calls = fleet.calls

    harness.sense("promotion")

    assert fleet.calls == calls


@pytest.mark.long
def test_what_could_not_be_published_is_published_on_a_later_tick(harness, crawl, fleet):
    small_web(crawl)
    harness.decide()
    fleet.away = True
    with pytest.raises(Exception, match="away"):
        harness.sense("promotion")

    fleet.away = False
    harness.sense("promotion")

    assert len(fleet.promoted) == 5


def fail_own_check(monkeypatch):
    """A promotion that should not be: its host passed as eligible without being so."""
    monkeypatch.setattr(
        "assets.promotion._none_fails_the_spam_gate",
        lambda decided: dg.AssetCheckResult(check_name="none_fails_the_spam_gate", passed=False),
    )


@pytest.mark.long
def test_promotions_whose_own_check_failed_are_neither_written_nor_published(
    harness, crawl, fleet, lake, monkeypatch
):
    small_web(crawl)
    with monkeypatch.context() as patch:
        fail_own_check(patch)
        harness.execute("link_graph", "host_ranks", "promotions", fails=True)
    harness.sense("promotion")

    assert promoted(lake) == {}
    assert fleet.promoted == {}


@pytest.mark.long
def test_rows_are_not_published_on_the_word_of_a_failed_run(harness, crawl, fleet, lake, monkeypatch):
    """The second line: rows are there, but the run that reported them failed its check."""
    small_web(crawl)
    harness.execute("link_graph", "host_ranks")
    with monkeypatch.context() as patch:
        fail_own_check(patch)
        patch.setattr("assets.promotion.all", lambda _: True, raising=False)
        harness.execute("promotions", fails=True)

    harness.sense("promotion")

    assert promoted(lake) != {}
    assert fleet.promoted == {}


def test_a_fleet_that_knows_of_an_exclusion_has_the_last_word(harness, crawl, fleet):
    small_web(crawl)
    harness.decide()
    fleet.excluded["honest-0.test"] = "legal"

    harness.sense("promotion")

    assert "honest-0.test" not in fleet.promoted
    assert len(fleet.promoted) == 4


def test_requests_by_table_are_published_exclusions_first(harness, lake, clock, fleet):
    ask(lake, clock, "promote", "wanted.test", request_id="p")
    ask(lake, clock, "promote", "unwanted.test", request_id="q")
    ask(lake, clock, "exclude", "unwanted.test", request_id="x")

    harness.sense("promotion")

    assert fleet.promoted == {"wanted.test": (["https://wanted.test/"], "p", "asked for by ada: because")}
    assert fleet.excluded == {"unwanted.test": "because"}


@pytest.mark.long
def test_a_request_that_makes_no_sense_is_refused_in_words_and_holds_up_nobody(harness, lake, clock, fleet):
    ask(lake, clock, "promote", "https://a.test/page", request_id="bad")
    ask(lake, clock, "promote", "good.test", request_id="good")

    harness.sense("promotion")

    assert list(fleet.promoted) == ["good.test"]
    assert verdict_of(lake, "https://a.test/page")["verdict"] == "refused"
    assert "not a hostname" in verdict_of(lake, "https://a.test/page")["reason"]


def test_a_lift_by_table_takes_the_exclusion_back_before_promotions(harness, lake, clock, fleet):
    fleet.excluded["back.test"] = "by mistake"
    ask(lake, clock, "promote", "back.test", request_id="p")
    ask(lake, clock, "lift", "back.test", request_id="l")

    harness.sense("promotion")

    assert fleet.excluded == {}
    assert list(fleet.promoted) == ["back.test"]


@pytest.mark.parametrize(("kinds", "excluded"), [(("exclude", "lift"), False), (("lift", "exclude"), True)])
def test_exclusions_and_lifts_are_handed_over_in_the_order_they_were_asked_for(
    harness, lake, clock, fleet, kinds, excluded
):
    fleet.excluded["a.test"] = "before"
    for number, kind in enumerate(kinds):
        priority = float(number)
        request = Request(f"{9 - number}", clock.now(), kind, "a.test", "ada", "table", "because", priority)
        append_requests(lake, [request])
        clock.advance(1)

    harness.sense("promotion")

    assert ("a.test" in fleet.excluded) == excluded


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "why"), [("lift", "b.test is not excluded"), ("erase", "unknown kind 'erase': write recrawl")]
)
def test_a_lift_of_nothing_and_an_unknown_kind_are_refused_in_words(harness, lake, clock, fleet, kind, why):
    ask(lake, clock, kind, "b.test")

    harness.sense("promotion")

    told = verdict_of(lake, "b.test")
    assert told["verdict"] == "refused"
    assert told["reason"].startswith(why)
    assert fleet.calls == 0


def test_requests_published_by_others_are_left_alone(harness, lake, clock, fleet):
    ask(lake, clock, "promote", "a.test", via="exchange")

    harness.sense("promotion")

    assert fleet.calls == 0


@pytest.mark.long
def test_links_that_were_under_way_follow_their_host(harness, crawl, lake, clock, fleet):
    small_web(crawl)
    harness.decide()
    harness.sense("promotion")
    clock.advance(5)
    crawl.visit("https://seed-3.test/late", "https://honest-0.test/late-page")
    crawl.commit()

    harness.sense("promotion")
    assert "https://honest-0.test/late-page" not in fleet.promoted["honest-0.test"][0]

    clock.advance(30)
    harness.sense("promotion")
    assert "https://honest-0.test/late-page" in fleet.promoted["honest-0.test"][0]


@pytest.mark.long
def test_late_links_do_not_bring_back_a_host_that_was_taken_out(harness, crawl, lake, clock, fleet):
    small_web(crawl)
    harness.decide()
    harness.sense("promotion")
    clock.advance(5)
    crawl.visit("https://seed-3.test/late", "https://honest-0.test/late-page")
    crawl.commit()
    ask(lake, clock, "remove", "honest-0.test", via="exchange", request_id="v")

    clock.advance(30)
    harness.sense("promotion")

    assert "https://honest-0.test/late-page" not in fleet.promoted["honest-0.test"][0]


def test_decision_ids_depend_on_subject_inputs_and_kind():
    ids = {
        decision_id("a.test", {"links": 1}),
        decision_id("b.test", {"links": 1}),
        decision_id("a.test", {"links": 2}),
        decision_id("a.test", {"links": 1}, "schedule"),
    }

    assert len(ids) == 4
    assert decision_id("a.test", {"x": 1, "y": 2}) == decision_id("a.test", {"y": 2, "x": 1})
