"""May this URL run now, and who asks: each question, their order, and that one yes is one request."""

import itertools
import math

import pytest

from crawl_platform.admission.hosts import EXCLUDED, SEED, HostBook
from crawl_platform.admission.identities import Identities, Persona
from crawl_platform.admission.pace import STEADY
from crawl_platform.admission.politeness import Gates, ImpoliteError
from crawl_platform.admission.robots import RobotsCache
from crawl_platform.admission.service import Admission, Answer, Decision, Reason, proxy_gate
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.settings import IdentityHealth, Politeness

HOST, URL, ADDRESS = "a.test", "https://a.test/page", "192.0.2.1"
NOW, BOOT = 1_800_000_000.0, 100.0
SETTINGS = Politeness(host_delay=1.0, address_delay=0.5)
BOT = Persona("bot", "bot", "bot/1 (+me@example.org)")
PROXIED = Persona("out", "out", "out/1 (+me@example.org)", "http://192.0.2.9:3128", 0.2)


class NoPolicy:
    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.agents: list[str] = []

    def refuses(self, host: str, url: str, agent: str) -> bool:
        self.agents.append(agent)
        return url in self.refused


class Scene:
    """A seed host that may be asked: reserved by a claim, robots.txt known. Tests break one thing each."""

    def __init__(self, *pool: Persona, hosts: tuple[str, ...] = (HOST,)) -> None:
        self.book = HostBook(1)
        self.gates = Gates(SETTINGS, 0.0)
        self.robots = RobotsCache("bot", SETTINGS)
        self.policy = NoPolicy()
        self.identities = Identities(pool or (BOT,), IdentityHealth(explore_share=0.0))
        self.admission = Admission(self.book, self.robots, self.gates, self.identities, self.policy)
        for host in hosts:
            self.book.set(host, SEED)
            self.robots.store(f"https://{host}", "rules", b"user-agent: *\ndisallow: /no\n", math.inf)
            self.gates.take_host(host, BOOT)

    def admit(self, url: str = URL, host: str = HOST, address: str = ADDRESS, **options: bool) -> Decision:
        return self.admission.admit(url, host, address, NOW, BOOT, **options)


def excluded(scene: Scene) -> None:
    scene.book.set(HOST, EXCLUDED)


def robots_unknown(scene: Scene) -> None:
    scene.robots.store(f"https://{HOST}", "rules", b"", NOW - 1)


def robots_away(scene: Scene) -> None:
    scene.robots.store(f"https://{HOST}", "disallow_all", b"", NOW + 60)


def robots_forbids(scene: Scene) -> None:
    scene.robots.store(f"https://{HOST}", "rules", b"user-agent: *\ndisallow: /page\n", math.inf)


def policy_forbids(scene: Scene) -> None:
    scene.policy.refused.add(URL)


def host_held(scene: Scene) -> None:
    scene.gates.hold_host(HOST, BOOT + 7)


def nobody_well(scene: Scene) -> None:
    for health in scene.identities.health.values():
        health.aside_until = BOOT + 60


def proxy_busy(scene: Scene) -> None:
    for name in ("out", "out2"):
        scene.gates.take_address(f"proxy {name}", BOOT)


def address_busy(scene: Scene) -> None:
    scene.gates.take_address(ADDRESS, BOOT)


OBSTACLES = [
    (excluded, Reason.NOT_SEED, math.inf),
    (robots_unknown, Reason.ROBOTS_FIRST, 0.0),
    (robots_forbids, Reason.ROBOTS, math.inf),
    (policy_forbids, Reason.POLICY, math.inf),
    (host_held, Reason.HOST, BOOT + 7),
    (nobody_well, Reason.IDENTITY, BOOT + 60),
    (proxy_busy, Reason.PROXY, math.inf),
    (address_busy, Reason.ADDRESS, math.inf),
]
TWO_PROXIES = (PROXIED, Persona("out2", "out", "out/1 (+me@example.org)", "http://192.0.2.8:3128", 0.2))


@pytest.mark.parametrize(("obstacle", "reason", "retry_at"), OBSTACLES, ids=[o[1].value for o in OBSTACLES])
def test_each_question_has_its_answer(obstacle: object, reason: Reason, retry_at: float) -> None:
    scene = Scene(*TWO_PROXIES)
    obstacle(scene)  # type: ignore[operator]

    decision = scene.admit()

    assert (decision.reason, decision.retry_at, decision.choice) == (reason, retry_at, None)


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.combinations(OBSTACLES, 2)), ids=lambda obstacle: obstacle[1].value
)
def test_of_two_obstacles_the_one_that_waiting_does_not_remove_is_told(first: tuple, second: tuple) -> None:
    if {first[1], second[1]} == {Reason.ROBOTS_FIRST, Reason.ROBOTS}:
        return  # the one replaces the other
    scene = Scene(*TWO_PROXIES)
    second[0](scene)
    first[0](scene)

    assert scene.admit().reason is first[1]


def test_an_origin_that_is_away_is_asked_again_when_its_robots_txt_may_be_there() -> None:
    scene = Scene()
    robots_away(scene)

    assert scene.admit()[:2] == (Reason.ROBOTS_UNREACHABLE, BOOT + 60)


def test_a_url_that_may_run_says_who_asks_and_how_likely_that_was() -> None:
    decision = Scene().admit()

    assert decision.admitted
    assert decision.choice is not None
    assert decision.choice == (BOT, "only", 1.0)
    assert decision.gates == (ADDRESS,)


def test_robots_txt_itself_asks_no_robots_and_no_policy_also_at_a_host_outside_the_seed() -> None:
    scene = Scene()
    robots_unknown(scene)
    policy_forbids(scene)
    scene.gates.take_host("guest.test", BOOT)

    assert scene.admit(robots=True).admitted
    scene.admission.returned(
        Decision(Reason.ADMITTED, 0.0, scene.identities.choose(HOST, NOW, BOOT), (ADDRESS,))
    )
    assert scene.admit("https://guest.test/robots.txt", "guest.test", robots=True).admitted
    excluded(scene)
    assert scene.admit(robots=True).reason is Reason.NOT_SEED


def test_robots_txt_is_asked_about_the_agent_that_would_come() -> None:
    strict, free = Persona("strict", "strictbot", "s"), Persona("free", "freebot", "f", hosts=("b.test",))
    scene = Scene(strict, free, hosts=(HOST, "b.test"))
    for host in (HOST, "b.test"):
        scene.robots.store(f"https://{host}", "rules", b"user-agent: strictbot\ndisallow: /\n", math.inf)

    asked = {}
    for host in (HOST, "b.test"):
        choice = scene.identities.choose(host, NOW, BOOT)
        assert choice is not None
        asked[host] = choice.persona.name, scene.admit(f"https://{host}/x", host).reason

    assert asked[HOST] == ("strict", Reason.ROBOTS)
    assert asked["b.test"] in {("strict", Reason.ROBOTS), ("free", Reason.ADMITTED)}


def test_policy_is_asked_about_the_agent_that_would_come() -> None:
    scene = Scene(PROXIED)

    scene.admit()
    scene.admission.page(f"https://{HOST}", HOST, URL, NOW, BOOT)

    assert scene.policy.agents == ["out", "out"]


def test_a_claim_waits_for_the_earliest_probe_while_nobody_is_there_to_ask() -> None:
    scene = Scene(*TWO_PROXIES)
    nobody_well(scene)
    scene.identities.health["out2"].aside_until = BOOT + 40

    answer = scene.admission.page(f"https://{HOST}", HOST, URL, NOW, BOOT)

    assert answer == Answer(Reason.IDENTITY, BOOT + 40)


def test_who_was_refused_is_the_one_that_is_admitted() -> None:
    scene = Scene(*TWO_PROXIES)
    usual = scene.identities.own(HOST)
    other = next(one for one in TWO_PROXIES if one is not usual)

    decision = scene.admission.admit(URL, HOST, ADDRESS, NOW, BOOT, refused=other.name)

    assert decision.choice == (other, "refused", 1.0)


@pytest.mark.parametrize(
    ("rule", "reason"), [("disallow_all", Reason.ORIGIN_UNREACHABLE), ("given_up", Reason.ORIGIN_GIVEN_UP)]
)
def test_an_origin_without_rules_at_a_host_that_has_answered_elsewhere_is_turned_down_as_what_it_is(
    rule: str, reason: Reason
) -> None:
    scene = Scene()
    origin = f"https://{HOST}:8443"
    scene.robots.store(origin, rule, b"", NOW + 60)

    assert scene.admit(f"{origin}/").reason is reason


# one yes is one request


def test_of_two_hosts_at_one_address_only_one_is_told_yes() -> None:
    scene = Scene(hosts=(HOST, "b.test"))

    answers = [scene.admit().reason, scene.admit("https://b.test/", "b.test").reason]

    assert answers == [Reason.ADMITTED, Reason.ADDRESS]


def test_two_who_ask_for_one_host_never_both_pass() -> None:
    scene = Scene()

    with pytest.raises(ImpoliteError):
        scene.gates.take_host(HOST, BOOT)  # the second claim
    assert [scene.admit().admitted for _ in range(3)] == [True, False, False]


def test_another_identity_is_no_second_clock() -> None:
    """The clocks are the host's and the address's, whoever asks."""
    scene = Scene(*TWO_PROXIES, hosts=(HOST, "b.test"))
    decision = scene.admit()
    scene.admission.ended(decision, HOST, Outcome.OK, 200, BOOT + 1, 1.0)

    for identity in TWO_PROXIES:
        scene.identities.pool = (identity,)
        soon = scene.admission.admit("https://b.test/", "b.test", ADDRESS, NOW, BOOT + 1.3)
        assert soon.reason is Reason.ADDRESS
    assert scene.gates.host_ready_at(HOST) == BOOT + 2
    assert scene.gates.address_ready_at(ADDRESS) == BOOT + 1.5


def test_a_proxy_has_a_clock_of_its_own_beside_that_of_the_address() -> None:
    scene = Scene(PROXIED, hosts=(HOST, "b.test", "c.test"))
    first = scene.admit()

    second = scene.admit("https://b.test/", "b.test", "192.0.2.2")
    scene.gates.wait_for_address(second.gates[0], "b.test")
    called = scene.admission.ended(first, HOST, Outcome.OK, 200, BOOT, 1.0)

    assert (first.gates, second.reason, second.gates) == (
        (ADDRESS, "proxy out"),
        Reason.PROXY,
        ("proxy out",),
    )
    assert called == ["b.test"]
    assert scene.gates.address_ready_at("proxy out") == BOOT + PROXIED.proxy_delay


def test_a_proxy_that_failed_is_left_alone_for_its_delay() -> None:
    scene = Scene(PROXIED)
    decision = scene.admit()

    scene.admission.proxy_failed(decision, HOST, BOOT)

    assert scene.gates.address_ready_at("proxy out") == BOOT + PROXIED.proxy_delay
    assert scene.gates.address_ready_at(ADDRESS) <= BOOT, "nothing has reached the site"


def test_what_was_admitted_and_not_sent_owes_nothing() -> None:
    scene = Scene(PROXIED)
    decision = scene.admit()

    scene.admission.returned(decision)

    assert scene.admit().admitted


def test_a_probe_that_was_not_sent_leaves_its_place_to_another() -> None:
    scene = Scene(*TWO_PROXIES)
    for health in scene.identities.health.values():
        health.aside_until = BOOT - 1
    probe = scene.admit()
    assert probe.choice is not None
    assert probe.choice.how == "probe"

    scene.admission.returned(probe)

    assert scene.admit().choice == probe.choice


def test_a_claim_asks_the_cheap_questions_first() -> None:
    scene = Scene()
    scene.gates.release_host(HOST)

    assert scene.admission.turn(HOST, ADDRESS, BOOT).reason is Reason.ADMITTED
    scene.gates.take_address(ADDRESS, BOOT)
    assert scene.admission.turn(HOST, ADDRESS, BOOT).reason is Reason.ADDRESS
    assert scene.admission.turn(HOST, None, BOOT).reason is Reason.ADMITTED
    host_held(scene)
    assert scene.admission.turn(HOST, ADDRESS, BOOT) == Answer(Reason.HOST, BOOT + 7)
    excluded(scene)
    assert scene.admission.turn(HOST, ADDRESS, BOOT).reason is Reason.NOT_SEED
    assert (
        scene.admission.page(f"https://{HOST}", HOST, f"https://{HOST}/no", NOW, BOOT).reason is Reason.ROBOTS
    )
    assert scene.gates.delay(HOST, 0.0, STEADY) == 1.0


def test_the_direct_way_has_no_proxy_gate() -> None:
    scene = Scene()
    choice = scene.identities.choose(HOST, NOW, BOOT)

    assert choice is not None
    assert proxy_gate(choice) == ""
