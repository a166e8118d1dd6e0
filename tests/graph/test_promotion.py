from crawl_platform.graph.promotion import MOST_HELD, Bars, Candidate, Rules, decide, explain

RULES = Rules(quota=3, min_support=2, floor=0.001)


def candidate(position: int, **changes) -> Candidate:
    values = {
        "host": f"host-{position}.test",
        "position": position,
        "trust": 1.0 / (10 + position),
        "uniform": 0.01,
        "spam_mass": 0.1,
        "eligible": True,
        "support": 5,
        "independent_support": 4,
    }
    return Candidate(**{**values, **changes})


def verdicts(*candidates: Candidate, excluded=(), vetoed=(), rules=RULES) -> dict[str, str]:
    bars = Bars(lambda host: host in excluded, dict.fromkeys(vetoed, "vetoed by ada"))
    decided = decide(candidates, rules, bars)
    return {v.candidate.host: v.cause for v in decided}


def test_the_best_are_promoted_until_the_quota_is_used_up():
    decided = verdicts(*(candidate(i) for i in (4, 2, 1, 3, 5)))

    assert decided == {f"host-{i}.test": "promoted" for i in (1, 2, 3)}


def test_each_rule_holds_a_host_back_with_its_own_cause():
    decided = verdicts(
        candidate(1, eligible=False),
        candidate(2, independent_support=1),
        candidate(3),
        candidate(4),
        candidate(5),
        candidate(6, trust=0.0001),
        excluded={"host-4.test"},
        vetoed={"host-5.test"},
    )

    assert list(decided.values()) == ["spam", "support", "promoted", "excluded", "veto", "floor"]


def test_many_links_from_related_hosts_are_not_enough_support():
    assert verdicts(candidate(1, support=40, independent_support=1)) == {"host-1.test": "support"}


def test_a_host_that_nobody_trusted_leads_to_is_not_even_considered():
    assert verdicts(candidate(1, trust=0.0)) == {}


def test_held_hosts_do_not_use_up_the_quota():
    spam = [candidate(i, eligible=False) for i in range(1, 10)]

    assert list(verdicts(*spam, candidate(10)).values())[-1] == "promoted"


def test_a_flood_of_held_hosts_is_reported_in_part_and_does_not_hide_the_good_one():
    spam = [candidate(i, eligible=False, trust=0.5) for i in range(1, 3 * MOST_HELD)]
    decided = verdicts(*spam, candidate(3 * MOST_HELD, trust=0.4))

    assert list(decided.values()).count("spam") == MOST_HELD
    assert list(decided.values())[-1] == "promoted"


def test_the_reason_is_a_sentence_for_people():
    (verdict,) = decide([candidate(3)], RULES, Bars())

    assert explain(verdict, RULES, ["a.test", "b.test", "c.test", "d.test"], 212) == (
        "linked by 4 independent seed hosts (a.test, b.test, c.test, …); "
        "rank 3 of 212 horizon hosts by trust; passes the spam gate"
    )
