import pytest

from crawl_platform.graph.probation import LONGEST_REST, Terms, Trial, judge, rest_after

TERMS = Terms(pages=20, enough=10, days=7.0, rest=30.0)


def trial(tried, useless=0, days=1.0, demotions=0, **causes):
    found = {"failed": 0, "copies": useless, "thin": 0, "stuffed": 0} | causes
    return Trial("a.test", days, tried, demotions=demotions, **found)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (trial(20, useless=19), "demoted"),
        (trial(10, useless=7), "demoted"),
        (trial(10, useless=5), "passed"),
        (trial(10, useless=6), "waiting"),
        (trial(9, useless=9), "waiting"),
        (trial(9, useless=9, days=7.0), "demoted"),
        (trial(3, useless=3, days=7.0), "demoted"),
        (trial(2, useless=2, days=30.0), "waiting"),
        (trial(1, days=7.0), "passed"),
        (trial(0, days=6.9), "waiting"),
        (trial(0, days=7.0), "demoted"),
    ],
)
def test_a_host_is_judged_by_its_pages_once_there_are_enough_or_time_is_up(found, verdict):
    assert judge(found, TERMS).verdict == verdict


def test_every_kind_of_useless_page_counts_and_is_named():
    outcome = judge(trial(12, failed=3, copies=4, thin=2, stuffed=1), TERMS)

    assert outcome.verdict == "demoted"
    assert outcome.reason == (
        "10 of 12 pages are useless (3 can't be read, 4 say what other pages say, 2 say next to nothing,"
        " 1 hold little but links); rests for 30 days"
    )


def test_a_rest_doubles_with_each_demotion_and_never_exceeds_a_year():
    assert [rest_after(times, TERMS) for times in (1, 2, 3)] == [30.0, 60.0, 120.0]
    assert rest_after(1_000, TERMS) == LONGEST_REST
    assert judge(trial(20, useless=20, demotions=1), TERMS).rest == 60.0
    assert "was demoted 1 times before" in judge(trial(20, useless=20, demotions=1), TERMS).reason
