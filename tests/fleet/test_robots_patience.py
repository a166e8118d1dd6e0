"""What each answer to robots.txt means, for how long it holds, and how long an outage is borne."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from crawl_platform.fetch.outcome import Outcome
from crawl_platform.frontier.records import DROPPED, RobotsRecord
from crawl_platform.frontier.robots_life import LONGEST_RETRY, after_answer
from crawl_platform.settings import Politeness
from crawl_platform.web.robots import MAX_BYTES
from tests.fleet.robots_cells import Answer, Web, moved, web_of
from tests.web.cases import shared_path

A, B = "a.test", "b.test"
ROBOTS = f"https://{A}/robots.txt"
FIRST, SECOND = f"https://{A}/1", f"https://{A}/2"
RULES = Answer(body=b"user-agent: *\ndisallow: /1\n")
SETTINGS = Politeness()
DAY, HOUR = 86_400.0, 3_600.0


def pages(answer: Answer, seconds: float = 60.0) -> set[str]:
    return {r.url for r in web_of((A,), answers={ROBOTS: answer}).run(seconds).log if r.page}


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        (RULES, {SECOND}),
        (Answer(204), {FIRST, SECOND}),
        *((Answer(status), {FIRST, SECOND}) for status in (400, 401, 403, 404, 410, 418, 429, 451)),
        *((Answer(status), set()) for status in (500, 502, 503, 504, 599)),
        *((Answer(None, outcome=outcome), set()) for outcome in (Outcome.DNS_FAILURE, Outcome.TLS_FAILURE,
                                                                Outcome.READ_TIMEOUT, Outcome.NO_SUCH_HOST)),
        (Answer(200, outcome=Outcome.BAD_ENCODING), set()),
        (Answer(300), {FIRST, SECOND}),
    ],
)  # fmt: skip
def test_what_a_status_allows(answer: Answer, asked: set[str]) -> None:
    assert pages(answer) == asked


def test_the_public_table_of_statuses() -> None:
    rows = json.loads(shared_path("robots/fetch_status.json").read_text())["rows"]
    said = {row.get("status") or row["rule"]: row["result"] for row in rows}

    assert (said["2xx"], pages(RULES)) == ("parse the rules", {SECOND})
    assert "across hosts" in said["3xx"]
    assert "MAY access any resource" in said["400-499"]
    assert "MUST assume complete disallow" in said["500-599 or network error"]
    assert "24 hours" in said["cache"]
    assert said["size"] == "parse at least 500 KiB"


def test_an_answer_is_read_again_after_a_day() -> None:
    web = web_of((A,), answers={ROBOTS: RULES}).run(100)
    web.cells[0].rig.discover(f"https://{A}/3")
    web.run(DAY)
    web.cells[0].rig.discover(f"https://{A}/4")
    web.run(100)

    asked = [r.url for r in web.log]
    assert asked.index(f"https://{A}/3") < asked.index(ROBOTS, 1) < asked.index(f"https://{A}/4")


def test_an_older_copy_is_used_while_nothing_newer_can_be_had_but_not_for_ever() -> None:
    web = web_of((A,), answers={ROBOTS: RULES}).run(100)
    web.answers[ROBOTS] = Answer(503)
    rig = web.cells[0].rig
    web.run(2 * DAY)
    rig.discover(f"https://{A}/3", f"https://{A}/1/x")
    web.run(2 * HOUR)
    assert f"https://{A}/3" in web.asked(A)
    assert f"https://{A}/1/x" not in web.asked(A), "its rules hold"

    web.run(SETTINGS.robots_stale)
    rig.discover(f"https://{A}/4")
    web.run(DAY)

    assert f"https://{A}/4" not in web.asked(A)


def test_a_429_says_nothing_about_the_file() -> None:
    web = web_of((A,), answers={ROBOTS: RULES}).run(100)
    web.answers[ROBOTS] = Answer(429)
    web.run(1.01 * DAY)
    web.cells[0].rig.discover(f"https://{A}/3", f"https://{A}/1/x")
    web.run(HOUR)

    assert f"https://{A}/3" in web.asked(A)
    assert f"https://{A}/1/x" not in web.asked(A)


def test_an_outage_is_borne_for_a_month_then_the_urls_are_dropped_with_the_reason_and_told() -> None:
    web = web_of((A,), answers={ROBOTS: Answer(503)}).run(SETTINGS.robots_patience - DAY)
    assert not dropped(web)
    web.cells[0].restart()

    web.run(1.5 * DAY)

    assert dropped(web) == {FIRST, SECOND}
    events = [row for row in web.rows if row["event"] == "robots_given_up"]
    assert [(row["host"], row["robots_status"]) for row in events] == [(A, "given_up")]
    known = web.cells[0].robots(f"https://{A}")
    assert known is not None
    assert known.failures > 100


def test_what_was_given_up_is_looked_at_again_rarely_and_comes_back_when_it_answers() -> None:
    web = web_of((A,), answers={ROBOTS: Answer(503)}).run(SETTINGS.robots_patience + DAY)
    asked = len(web.asked(A))

    web.run(3 * SETTINGS.robots_given_up_retry)
    assert 1 <= len(web.asked(A)) - asked <= 4
    assert {request.url for request in web.log} == {ROBOTS}
    assert len([row for row in web.rows if row["event"] == "robots_given_up"]) == 1, "told once"

    web.answers[ROBOTS] = RULES
    web.run(2 * SETTINGS.robots_given_up_retry)
    assert SECOND in web.asked(A)
    assert FIRST not in web.asked(A)


def dropped(web: Web) -> set[str]:
    found = {url: web.cells[0].rig.record(A, url) for url in (FIRST, SECOND)}
    return {
        url
        for url, r in found.items()
        if r is not None and (r.state, r.reason) == (DROPPED, "origin_given_up")
    }


def test_patience_is_a_setting() -> None:
    politeness = Politeness(robots_patience=HOUR)
    web = web_of((A,), answers={ROBOTS: Answer(None)}, politeness=politeness).run(2 * HOUR)

    assert dropped(web) == {FIRST, SECOND}


def test_a_host_that_never_answers_is_asked_ever_more_seldom() -> None:
    web = web_of((A,), answers={ROBOTS: Answer(503)}).run(10 * DAY)

    starts = [request.start for request in web.log]
    gaps = [round(later - earlier) for earlier, later in pairwise(starts)]
    assert gaps == sorted(gaps)
    assert max(gaps) <= LONGEST_RETRY + 2
    assert len(starts) < 100


@pytest.mark.parametrize("hops", [0, 1])
def test_the_cap_holds_after_a_redirect_too_and_drops_the_cut_line(hops: int) -> None:
    line = b"disallow: /2/private"
    body = b"user-agent: *\n" + b"#" * (MAX_BYTES - 15 - len(b"disallow: /2")) + b"\n" + line
    cut = Answer(body=body[:MAX_BYTES], truncated=True)
    answers = {ROBOTS: cut} if hops == 0 else {ROBOTS: moved(f"https://{B}/r"), f"https://{B}/r": cut}

    assert cut.body.endswith(b"disallow: /2"), "half a rule would forbid what the site allows"
    assert SECOND in web_of((A,), answers=answers).run(30).asked(A)


def test_the_first_page_waits_the_delay_after_the_robots_fetch() -> None:
    web = web_of((A,), answers={ROBOTS: Answer(body=b"user-agent: *\ncrawl-delay: 7.5\n")}).run(60)

    robots, first, second = web.log[:3]
    assert first.start - robots.end == pytest.approx(7.5, abs=0.2)
    assert second.start - first.end == pytest.approx(7.5, abs=0.2)


def test_an_absurd_delay_is_capped() -> None:
    web = web_of((A,), answers={ROBOTS: Answer(body=b"user-agent: *\nrequest-rate: 1/9999m\n")}).run(1_000)

    assert web.log[1].start - web.log[0].end == pytest.approx(SETTINGS.crawl_delay_cap, abs=0.2)


# the table itself

RECORDS = st.builds(
    RobotsRecord,
    st.sampled_from(["rules", "allow_all", "disallow_all", "given_up"]),
    st.floats(0, 1e8),
    st.floats(0, 1e8),
    st.sampled_from([b"", b"x"]),
    st.floats(0, 1e8),
    st.integers(0, 100),
)


@given(
    st.none() | RECORDS,
    st.sampled_from(["rules", "allow_all", "disallow_all"]),
    st.floats(1, 2e8),
    st.booleans(),
)
def test_nothing_is_kept_for_ever_and_nothing_is_tried_without_a_pause(
    before: RobotsRecord | None, answered: str, now: float, limited: bool
) -> None:
    known = after_answer(before, answered, b"y", now, SETTINGS, limited=limited)

    assert SETTINGS.robots_retry <= known.expires_at - now + 1e-3
    assert known.expires_at - now <= max(SETTINGS.robots_ttl, SETTINGS.robots_given_up_retry) + 1e-3
    assert (known.unreachable_since > 0) == (answered == "disallow_all")
    if answered == "disallow_all" and known.rule in ("rules", "allow_all"):
        assert now - known.fetched_at <= SETTINGS.robots_ttl + SETTINGS.robots_stale


@given(st.lists(st.sampled_from(["rules", "disallow_all"]), min_size=1, max_size=60))
@hypothesis_settings(deadline=None)
def test_an_outage_is_counted_from_its_first_failure_and_ends_with_an_answer(answers: list[str]) -> None:
    known: RobotsRecord | None = None
    now, since, failures = 1e9, 0.0, 0
    for answered in answers:
        known = after_answer(known, answered, b"", now, SETTINGS, limited=False)
        since = (since or now) if answered == "disallow_all" else 0.0
        failures = failures + 1 if answered == "disallow_all" else 0
        assert (known.unreachable_since, known.failures) == (since, failures)
        assert (known.rule == "given_up") == (since > 0 and now - since >= SETTINGS.robots_patience)
        now = known.expires_at


def test_ablation_without_a_count_from_the_first_failure_nothing_is_ever_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgetful(before: RobotsRecord | None, *args: object, **facts: bool) -> RobotsRecord:
        forgotten = None if before is None else replace_since(before)
        return after_answer(forgotten, *args, **facts)  # type: ignore[arg-type]

    monkeypatch.setattr("crawl_platform.fleet.robots_answers.after_answer", forgetful)

    with pytest.raises(AssertionError):
        test_patience_is_a_setting()


def replace_since(record: RobotsRecord) -> RobotsRecord:
    return RobotsRecord(record.rule, record.fetched_at, record.expires_at, record.body)
