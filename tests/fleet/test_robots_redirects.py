"""robots.txt that redirects, also across hosts and cells: who is asked, when, and for whom the answer holds."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from crawl_platform.admission.politeness import Gates
from crawl_platform.admission.robots import Verdict
from crawl_platform.fleet.messages import RobotsHop, RobotsReply, decode_inbox, encode
from crawl_platform.frontier.errands import MOST_HOSTS, MOST_URLS, Errands
from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.kv import Batch
from crawl_platform.frontier.lease import Hop, Lease
from crawl_platform.frontier.records import HostRecord, guest_key
from crawl_platform.frontier.records import encode as encode_record
from crawl_platform.settings import Politeness
from crawl_platform.web.host import shard_of
from tests.fleet.robots_cells import Answer, Web, moved, web_of

A, B, ELSEWHERE = "a.test", "b.test", "elsewhere.test"
PRIVATE = Answer(body=b"user-agent: *\ndisallow: /1\n")
SETTINGS = Politeness(host_delay=1.0, address_delay=1.0, robots_retry=300.0)


def robots(host: str) -> str:
    return f"https://{host}/robots.txt"


def of_shard(shard: int, *, n_shards: int = 2, but: str = "") -> str:
    """A host name of that shard."""
    names = (f"host-{number}.test" for number in range(1000))
    return next(name for name in names if shard_of(name, n_shards) == shard and name != but)


def test_a_redirect_on_the_same_host_is_followed_one_hop_per_turn() -> None:
    web = web_of(
        (A,), answers={robots(A): moved("/r2"), f"https://{A}/r2": PRIVATE}, politeness=SETTINGS
    ).run(5)

    assert web.asked(A)[:3] == [robots(A), f"https://{A}/r2", f"https://{A}/2"]
    assert web.impolite(1.0) == []


def test_rules_found_on_another_host_hold_for_the_first_one_only() -> None:
    answers = {robots(A): moved(f"https://{B}/shared/robots.txt"), f"https://{B}/shared/robots.txt": PRIVATE}
    web = web_of((A, B), answers={**answers, robots(B): Answer(404)}, politeness=SETTINGS).run(20)

    assert f"https://{A}/1" not in web.asked(A)
    assert f"https://{A}/2" in web.asked(A)
    assert f"https://{B}/1" in web.asked(B), "another host's cache was poisoned"
    assert (
        web.cells[0].rig.robots.verdict(f"https://{B}", f"https://{B}/1", web.clock.now())[0]
        is Verdict.ALLOWED
    )


def test_a_hop_is_an_ordinary_turn_of_the_other_host() -> None:
    answers = {robots(A): moved(f"https://{B}/r"), f"https://{B}/r": PRIVATE, robots(B): Answer(404)}
    web = web_of((A, B), answers=answers, politeness=SETTINGS).run(20)

    assert f"https://{B}/r" in web.asked(B)
    assert web.impolite(1.0) == []


def test_the_other_hosts_back_off_holds_for_a_hop_too() -> None:
    answers = {robots(A): moved(f"https://{B}/r"), f"https://{B}/r": PRIVATE, robots(B): Answer(404)}
    web = web_of((A, B), answers=answers, politeness=SETTINGS)
    rig = web.cells[0].rig
    rig.gates.hold_host(B, rig.clock.boottime() + 100)

    web.run(150)

    assert min(request.start for request in web.log if request.host == B) >= 1_000 + 100
    assert f"https://{A}/2" in web.asked(A)


def test_of_a_horizon_host_nothing_but_the_hop_is_asked() -> None:
    answers = {robots(A): moved(f"https://{ELSEWHERE}/robots.txt"), robots(ELSEWHERE): PRIVATE}
    web = web_of((A,), answers=answers, politeness=SETTINGS).run(3_000)

    assert web.asked(ELSEWHERE) == [robots(ELSEWHERE)]
    assert f"https://{A}/2" in web.asked(A)
    assert f"https://{A}/1" not in web.asked(A)
    assert web.cells[0].rig.frontier.moved.guests == {}, "a guest is forgotten after its visit"


def test_an_excluded_host_is_never_asked_and_nothing_is_fetched_instead() -> None:
    web = web_of((A,), answers={robots(A): moved(f"https://{ELSEWHERE}/robots.txt")}, politeness=SETTINGS)
    web.cells[0].rig.exclude(ELSEWHERE)

    web.run(3_000)

    assert web.asked(ELSEWHERE) == []
    assert set(web.asked(A)) == {robots(A)}


def test_a_host_that_is_excluded_while_a_hop_waits_is_not_asked() -> None:
    web = web_of((A,), answers={robots(A): moved(f"https://{ELSEWHERE}/robots.txt")}, politeness=SETTINGS)
    rig = web.cells[0].rig
    rig.gates.hold_host(ELSEWHERE, rig.clock.boottime() + 60)
    web.run(10)
    rig.exclude(ELSEWHERE)

    web.run(1_000)

    assert web.asked(ELSEWHERE) == []


def test_five_hops_are_followed_a_sixth_is_not_and_then_everything_is_allowed() -> None:
    chain = {robots(A): moved(f"https://{B}/r1")} | {
        f"https://{(A, B)[n % 2]}/r{n}": moved(f"https://{(B, A)[n % 2]}/r{n + 1}") for n in range(1, 9)
    }
    web = web_of((A, B), answers={**chain, robots(B): Answer(404)}, politeness=SETTINGS).run(60)

    assert [url for url in [r.url for r in web.log] if "/r" in url and "robots" not in url] == [
        f"https://{(A, B)[n % 2]}/r{n}" for n in range(1, 6)
    ]
    assert f"https://{A}/1" in web.asked(A)


def test_a_redirect_in_a_circle_ends() -> None:
    web = web_of(
        (A, B), answers={robots(A): moved(robots(B)), robots(B): moved(robots(A))}, politeness=SETTINGS
    ).run(100)

    assert f"https://{A}/1" in web.asked(A)
    assert f"https://{B}/1" in web.asked(B)
    assert len([r for r in web.log if not r.page]) <= 12
    assert web.impolite(1.0) == []


@pytest.mark.parametrize("location", ["", "ftp://x.test/", "https://", f"https://{A}/" + "x" * 9_000])
def test_a_redirect_to_nowhere_is_an_answer_without_rules(location: str) -> None:
    web = web_of((A,), answers={robots(A): moved(location)}, politeness=SETTINGS).run(10)

    assert f"https://{A}/1" in web.asked(A)


@pytest.mark.parametrize(
    ("answer", "pages"),
    [
        (PRIVATE, {f"https://{A}/2"}),
        (Answer(404), {f"https://{A}/1", f"https://{A}/2"}),
        (Answer(429, outcome=None), {f"https://{A}/1", f"https://{A}/2"}),
        (Answer(503), set()),
        (Answer(None), set()),
    ],
)
def test_the_answer_at_the_end_of_the_chain_counts(answer: Answer, pages: set[str]) -> None:
    web = web_of(
        (A,), answers={robots(A): moved(robots(ELSEWHERE)), robots(ELSEWHERE): answer}, politeness=SETTINGS
    ).run(60)

    assert {request.url for request in web.log if request.page} == pages


def test_hosts_that_redirect_to_the_same_url_share_one_request() -> None:
    hosts = [f"h{number}.test" for number in range(60)]
    answers = {robots(host): moved(robots(ELSEWHERE)) for host in hosts} | {robots(ELSEWHERE): PRIVATE}
    web = web_of(tuple(hosts), answers=answers, politeness=SETTINGS).run(5)

    assert len(web.asked(ELSEWHERE)) <= 3
    assert all(f"https://{host}/2" in web.asked(host) for host in hosts)


def test_a_host_that_has_left_the_seed_is_asked_for_the_hop_but_for_no_page_of_its_own() -> None:
    answers = {robots(A): moved(f"https://{B}/r"), f"https://{B}/r": PRIVATE, robots(B): Answer(404)}
    web = web_of((A, B), answers=answers, politeness=SETTINGS)
    rig = web.cells[0].rig
    rig.gates.hold_host(B, rig.clock.boottime() + 10)
    rig.book.set(B, "lifted")

    web.run(60)

    assert web.asked(B) == [f"https://{B}/r"]
    assert f"https://{A}/2" in web.asked(A)


def test_errands_take_every_other_turn_of_a_host_at_most() -> None:
    hosts = [f"h{number}.test" for number in range(50)]
    answers = {robots(host): moved(f"https://{B}/robots-of-{host}") for host in hosts} | {
        robots(B): Answer(404)
    }
    web = web_of((*hosts, B), answers=answers, politeness=SETTINGS)
    web.cells[0].rig.discover(*(f"https://{B}/page-{number}" for number in range(50)))
    web.run(40)

    turns = [request.page for request in web.log if request.host == B][2:]
    assert sum(turns) >= len(turns) // 2 - 1
    assert turns.count(False) >= 10


def test_nobody_can_point_thousands_of_hosts_at_one() -> None:
    errands = Errands()
    taken = [
        errands.wait_at(B, Hop(f"https://{n}.test", f"https://{B}/{n}", 1, 1e9), 0.0) for n in range(5_000)
    ]

    assert sum(taken) == MOST_URLS
    assert errands.wait_at(B, Hop("https://x.test", f"https://{B}/0", 1, 1e9), 0.0), "a URL that waits anyway"


def test_hosts_at_which_nobody_waits_any_more_leave_room_for_others() -> None:
    errands = Errands()
    for n in range(MOST_HOSTS):
        assert errands.wait_at(f"{n}.test", Hop(f"https://{n}.example", f"https://{n}.test/r", 1, 300.0), 0.0)

    late = Hop(f"https://{A}", robots(B), 1, 600.0)
    assert not errands.wait_at(B, late, 299.0)
    assert errands.wait_at(B, late, 400.0)


def test_a_guests_back_off_survives_a_restart() -> None:
    web = web_of(
        (A,), answers={robots(A): moved(robots(ELSEWHERE)), robots(ELSEWHERE): PRIVATE}, politeness=SETTINGS
    )
    rig = web.cells[0].rig
    key, batch = guest_key(rig.book.shard(ELSEWHERE), ELSEWHERE), Batch()
    batch.put(key, encode_record(HostRecord(not_before=rig.clock.now() + 500)))
    rig.kv.write(batch)
    web.cells[0].restart()

    begun = rig.clock.boottime()
    web.run(2_000)

    asked = [request.start for request in web.log if request.host == ELSEWHERE]
    assert asked
    assert min(asked) >= begun + 500
    web.cells[0].restart()
    assert rig.kv.get(key) is None, "what has run out is forgotten"


def test_a_reply_that_does_not_come_in_time_leaves_the_host_alone_until_the_next_try() -> None:
    web = web_of((A,), answers={robots(A): moved(robots(ELSEWHERE))}, politeness=SETTINGS)
    rig = web.cells[0].rig
    rig.gates.hold_host(ELSEWHERE, rig.clock.boottime() + 10_000)

    web.run(1_000)

    assert set(web.asked(A)) == {robots(A)}
    assert len(web.asked(A)) == 2, "tried again after patience and retry"
    known = web.cells[0].robots(f"https://{A}")
    assert known is not None
    assert known.rule == "disallow_all"
    assert known.failures == 2


# across cells


def two_cells(**answers: Answer) -> tuple[Web, str, str]:
    here, there = of_shard(0), of_shard(1)
    table = {
        robots(here): moved(f"https://{there}/r"),
        f"https://{there}/r": PRIVATE,
        robots(there): Answer(404),
    }
    table |= {f"https://{there}/{path}": answer for path, answer in answers.items()}
    return web_of((here,), (there,), answers=table, politeness=SETTINGS), here, there


def test_the_owner_of_the_other_host_asks_and_replies() -> None:
    web, here, there = two_cells()

    web.run(30)

    assert f"https://{there}/r" in web.asked(there)
    assert f"https://{here}/2" in web.asked(here)
    assert f"https://{here}/1" not in web.asked(here)
    assert f"https://{there}/1" in web.asked(there), "its own rules are its own"
    assert web.impolite(1.0) == []


def test_a_chain_may_come_back_to_its_own_cell() -> None:
    web, here, _there = two_cells(r=moved(f"https://{of_shard(0)}/end"))
    web.answers[f"https://{here}/end"] = PRIVATE

    web.run(30)

    assert f"https://{here}/end" in web.asked(here)
    assert f"https://{here}/2" in web.asked(here)
    assert f"https://{here}/1" not in web.asked(here)


def test_letters_that_come_twice_change_nothing() -> None:
    web, here, there = two_cells()
    web.copies = 3

    web.run(60)

    assert f"https://{here}/2" in web.asked(here)
    assert f"https://{here}/1" not in web.asked(here)
    assert web.asked(there).count(f"https://{there}/r") <= 2
    assert web.impolite(1.0) == []


@pytest.mark.parametrize("lost", [RobotsHop, RobotsReply])
def test_a_lost_letter_counts_as_unreachable_and_the_chain_begins_again(lost: type) -> None:
    web, here, _ = two_cells()
    letters: list[bytes] = []

    def lose_first(data: bytes) -> bool:
        letters.append(data)
        return (
            isinstance(decode_inbox(data), lost)
            and sum(isinstance(decode_inbox(d), lost) for d in letters) == 1
        )

    web.lose = lose_first
    web.run(250)
    assert set(web.asked(here)) == {robots(here)}

    web.run(600)

    assert f"https://{here}/2" in web.asked(here)


@pytest.mark.parametrize("dies", [0, 1])
def test_a_chain_that_a_restart_cut_off_begins_again(dies: int) -> None:
    web, here, there = two_cells()
    rig = web.cells[1].rig
    rig.gates.hold_host(there, rig.clock.boottime() + 30)
    web.run(10)
    web.cells[dies].restart()

    web.run(1_500)

    assert f"https://{here}/2" in web.asked(here)
    assert f"https://{here}/1" not in web.asked(here)
    assert web.impolite(1.0) == []


@pytest.mark.parametrize(
    "message",
    [
        RobotsHop("https://a.test/", "https://b.test/r", 1, 5.0),
        RobotsHop("https://a.test", "ftp://b.test/r", 1, 5.0),
        RobotsHop("nonsense", "https://b.test/r", 1, 5.0),
        RobotsHop("https://a.test", "https://b.test/r", 0, 5.0),
        RobotsHop("https://a.test", "https://b.test/r", 1, 1e300),
        RobotsReply("https://a.test", "https://b.test/r", 1, "redirect", 301, "javascript:1"),
    ],
)
def test_a_letter_about_what_is_no_origin_or_url_is_refused(message: RobotsHop | RobotsReply) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_inbox(encode(message))


def test_a_letter_keeps_every_byte_of_the_file() -> None:
    reply = RobotsReply("https://a.test", "https://b.test/r", 1, "ok", 200, "", bytes(range(256)) * 2_000)

    assert decode_inbox(encode(reply)) == reply
    assert len(encode(reply)) < 1_000_000, "what NATS takes"


# whatever happens

HOSTS = (A, B, "c.test")
PATHS = ("/robots.txt", "/x", "/y")
TARGETS = st.sampled_from([f"https://{host}{path}" for host in (*HOSTS, ELSEWHERE) for path in PATHS])


@given(
    st.dictionaries(
        TARGETS,
        st.one_of(TARGETS.map(moved), st.sampled_from([PRIVATE, Answer(404), Answer(503), Answer(None)])),
    ),
    st.integers(0, 40),
)
@hypothesis_settings(deadline=None, max_examples=12)
def test_no_web_of_redirects_is_asked_impolitely_or_without_end(
    answers: dict[str, Answer], kill_at: int
) -> None:
    web = web_of(HOSTS, answers=answers, politeness=SETTINGS)
    web.run(kill_at)
    web.cells[0].restart()

    web.run(2_000)

    assert web.impolite(1.0) == []
    assert all(not request.page for request in web.log if request.host == ELSEWHERE)
    assert len(web.log) < 600
    assert_pages_come_after_robots(web)


def assert_pages_come_after_robots(web: Web) -> None:
    asked: set[str] = set()
    for request in web.log:
        assert not request.page or request.host in asked
        asked.add(request.host)


def test_ablation_hops_that_look_at_no_clock_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {robots(A): moved(f"https://{B}/r"), f"https://{B}/r": PRIVATE, robots(B): Answer(404)}
    monkeypatch.setattr(Gates, "take_host", lambda *_: None)
    monkeypatch.setattr(Gates, "host_ready_at", lambda *_: 0.0)

    assert web_of((A, B), answers=answers, politeness=SETTINGS).run(20).impolite(1.0) != []


def test_ablation_errands_without_alternation_starve_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostState, "ran_errand", property(lambda _: False, lambda *_: None), raising=False)

    with pytest.raises(AssertionError):
        test_errands_take_every_other_turn_of_a_host_at_most()


def test_the_lease_of_an_errand_given_back_keeps_who_waits() -> None:
    web = web_of((A,), answers={robots(A): moved(robots(ELSEWHERE))}, politeness=SETTINGS)
    rig = web.cells[0].rig
    rig.gates.hold_host(ELSEWHERE, rig.clock.boottime() + 20)
    web.run(10)
    errand = rig.next_claim()
    assert errand is not None
    assert not isinstance(errand, Lease)
    assert errand.host == ELSEWHERE

    rig.gates.release_host(errand.host)
    rig.frontier.hand_back(errand)
    rig.frontier.free(errand.host)
    rig.frontier.reschedule(errand.host, *rig.times())

    again = rig.next_claim()
    assert again == errand
