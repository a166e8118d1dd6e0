"""Who asks: sticky, healthy, and never a way around a refusal or a clock."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from crawl_platform.admission.identities import (
    PROBE_AGAIN,
    Choice,
    Identities,
    Persona,
    pool_of,
    refused_after,
    verdict_on,
)
from crawl_platform.errors import ConfigurationError
from crawl_platform.fetch.outcome import Outcome
from crawl_platform.settings import CONFIG_NAME, Identity, IdentityHealth, NamedIdentity, Settings, load, save

NOW = 1_800_000_000.0
HOSTS = [f"h{n}.test" for n in range(2_000)]
HEALTH = IdentityHealth(explore_share=0.0, quarantine=100.0, quarantine_cap=350.0)
POOL = tuple(Persona(name, name, f"{name}/0.1 (+me@example.org)") for name in ("one", "two", "three"))


def chosen(identities: Identities, host: str, now: float = NOW, boot: float = 0.0) -> Choice:
    choice = identities.choose(host, now, boot)
    assert choice is not None
    return choice


def owned(identities: Identities, name: str) -> list[str]:
    return [host for host in HOSTS if chosen(identities, host).persona.name == name]


def fail(identities: Identities, hosts: list[str], verdict: str = "timeout", boot: float = 10.0) -> None:
    """Until nobody is left to ask."""
    for host in hosts:
        choice = identities.choose(host, NOW, boot)
        if choice is not None:
            identities.ended(choice, host, verdict, boot)


# stickiness


def test_a_host_is_asked_by_the_same_identity_every_day_and_after_every_start() -> None:
    first, second = (Identities(POOL, HEALTH) for _ in range(2))

    for host in HOSTS[:50]:
        assert {chosen(first, host, NOW + 86_400 * day) for day in range(5)} == {chosen(second, host)}
        assert chosen(first, host).how == "sticky"


def test_hosts_are_spread_evenly_and_a_lost_identity_moves_only_its_own() -> None:
    before = {host: chosen(Identities(POOL, HEALTH), host).persona.name for host in HOSTS}
    after = {host: chosen(Identities(POOL[:2], HEALTH), host).persona.name for host in HOSTS}

    assert all(550 < count < 790 for count in Counter(before.values()).values())
    assert {host for host in HOSTS if before[host] != after[host]} == {
        h for h in HOSTS if before[h] == "three"
    }


def test_an_identity_for_some_hosts_asks_no_others() -> None:
    pool = (POOL[0], replace(POOL[1], hosts=("*.partner.test",)))
    identities = Identities(pool, HEALTH)
    partners = [f"p{n}.partner.test" for n in range(100)]

    assert owned(identities, "two") == []
    assert {chosen(identities, host).persona.name for host in partners} == {"one", "two"}


# health


def test_an_identity_that_fails_at_several_hosts_is_set_aside_and_its_hosts_move() -> None:
    news: list[tuple[str, str]] = []
    identities = Identities(POOL, HEALTH, lambda *said: news.append(said))
    mine = owned(identities, "one")

    fail(identities, mine[:5])

    assert news == [("one", "set aside")]
    moved = [chosen(identities, host, boot=11.0) for host in mine]
    assert {choice.how for choice in moved} == {"moved"}
    assert {choice.persona.name for choice in moved} == {"two", "three"}


def test_one_host_alone_sets_no_identity_aside_however_often_it_fails() -> None:
    identities = Identities(POOL, HEALTH)
    host = owned(identities, "one")[0]

    fail(identities, [host] * 60)

    assert chosen(identities, host).how == "sticky"


def test_failures_among_many_successes_set_nothing_aside() -> None:
    identities = Identities(POOL, HEALTH)
    mine = owned(identities, "one")

    fail(identities, mine[:30], "success")
    fail(identities, mine[30:55])

    assert chosen(identities, mine[0]).how == "sticky"


def test_what_happened_long_ago_counts_little() -> None:
    identities = Identities(POOL, HEALTH)
    mine = owned(identities, "one")

    fail(identities, mine[:4], boot=0.001)
    fail(identities, mine[4:6], boot=10 * HEALTH.half_life)

    assert identities.health["one"].weight == pytest.approx(2.0, abs=0.01)
    assert not identities.health["one"].aside_until


def test_after_its_time_one_request_at_a_time_finds_out_whether_it_works_again() -> None:
    identities = Identities(POOL, HEALTH)
    mine = owned(identities, "one")
    fail(identities, mine[:5])

    assert chosen(identities, mine[7], boot=109.0).how == "moved"
    probe = chosen(identities, mine[7], boot=110.0)
    identities.begins(probe)
    assert (probe.persona.name, probe.how) == ("one", "probe")
    assert chosen(identities, mine[8], boot=110.0).how == "moved"  # the probe is on its way
    identities.ended(probe, mine[7], "success", 111.0)
    assert chosen(identities, mine[8], boot=111.0).how == "sticky"


def test_each_failed_probe_doubles_the_time_up_to_its_cap() -> None:
    identities = Identities(POOL, HEALTH)
    mine = owned(identities, "one")
    fail(identities, mine[:5], boot=0.001)
    waits = []
    for _ in range(3):
        boot = identities.health["one"].aside_until
        probe = chosen(identities, mine[9], boot=boot)
        identities.begins(probe)
        identities.ended(probe, mine[9], "timeout", boot)
        waits.append(identities.health["one"].aside_until - boot)

    assert waits == pytest.approx([200.0, 350.0, 350.0])


def test_when_all_are_set_aside_nobody_asks_until_one_may_probe() -> None:
    identities = Identities(POOL[:2], HEALTH)
    fail(identities, HOSTS)

    assert all(health.aside_until for health in identities.health.values())
    assert identities.choose(HOSTS[0], NOW, 50.0) is None
    probe = chosen(identities, HOSTS[0], boot=110.0)
    identities.begins(probe)
    assert probe.how == "probe"


def test_the_only_identity_is_never_set_aside() -> None:
    identities = Identities(POOL[:1], HEALTH)

    fail(identities, HOSTS[:100], "ban")

    assert chosen(identities, HOSTS[0]) == Choice(POOL[0], "only", 1.0)


def test_a_dead_proxy_is_found_out_by_a_single_host() -> None:
    identities = Identities(POOL, HEALTH)
    host = owned(identities, "one")[0]

    fail(identities, [host] * 5, "proxy")

    assert chosen(identities, host, boot=11.0).how == "moved"


# refusals


def test_a_host_that_refuses_its_identity_is_not_asked_by_another_one() -> None:
    """Not even when that identity is set aside, nor by the draw of any day."""
    identities = Identities(POOL, replace_health(explore_share=0.9))
    host = HOSTS[0]
    refused = chosen(identities, host)
    identities.ended(refused, host, "ban", 1.0)
    fail(identities, [other for other in HOSTS if other != host])
    assert identities.health[refused.persona.name].aside_until

    for day in range(20):
        choice = identities.choose(host, NOW + day * 86_400, 20.0, refused.persona.name)
        assert choice == (refused.persona, "refused", 1.0)


@pytest.mark.parametrize(
    ("before", "verdict", "after"),
    [("", "ban", "one"), ("", "success", ""), ("one", "success", ""), ("one", "timeout", "one"), ("one", "", "one"),
     ("one", "proxy", "one")],
)  # fmt: skip
def test_a_refusal_is_forgotten_when_the_host_answers_again_and_not_before(
    before: str, verdict: str, after: str
) -> None:
    assert refused_after(before, "one", verdict) == after


def test_an_identity_that_is_no_more_in_the_pool_binds_nobody() -> None:
    identities = Identities(POOL, HEALTH)

    assert identities.choose(HOSTS[0], NOW, 0.0, "long gone") == chosen(identities, HOSTS[0])


# proxies


def test_the_only_identity_waits_while_its_proxy_is_dead_and_is_probed() -> None:
    identities = Identities(POOL[:1], HEALTH)

    fail(identities, HOSTS[:5], "proxy", boot=10.0)

    assert identities.choose(HOSTS[0], NOW, 109.0) is None
    assert identities.ask_again_at(HOSTS[0], 11.0) == 110.0
    probe = chosen(identities, HOSTS[7], boot=110.0)
    identities.begins(probe)
    assert probe.how == "probe"
    assert identities.choose(HOSTS[8], NOW, 110.0) is None
    assert identities.ask_again_at(HOSTS[8], 110.0) == 110.0 + PROBE_AGAIN
    identities.ended(probe, HOSTS[7], "proxy", 110.0)
    assert identities.ask_again_at(HOSTS[8], 111.0) == 310.0  # twice as long
    identities.ended(chosen(identities, HOSTS[9], boot=310.0), HOSTS[9], "ban", 311.0)
    assert chosen(identities, HOSTS[0], boot=311.0).how == "only"  # it got through, whatever the host said


def test_a_proxy_that_fails_now_and_then_is_not_dead() -> None:
    identities = Identities(POOL[:1], HEALTH)

    for host in HOSTS[:50]:
        fail(identities, [host] * 4, "proxy")
        fail(identities, [host], "success")

    assert chosen(identities, HOSTS[0]).how == "only"


def test_hosts_of_a_dead_proxy_wait_if_no_other_identity_is_theirs_and_the_others_move() -> None:
    pool = (POOL[0], replace(POOL[1], hosts=("h1.test",)))
    identities = Identities(pool, HEALTH)
    alone = HOSTS[0]

    fail(identities, [alone] * 5, "proxy", boot=10.0)

    assert identities.choose(alone, NOW, 11.0) is None
    assert identities.choose("h1.test", NOW, 11.0, "one") is None, "it has refused `one`, and gets no other"
    assert chosen(identities, "h1.test", boot=11.0).persona.name == "two"


def test_a_proxy_that_dies_after_a_long_good_time_is_found_out_as_fast() -> None:
    identities = Identities(POOL, HEALTH)
    mine = owned(identities, "one")
    fail(identities, mine[:100], "success")

    fail(identities, mine[:5], "proxy", boot=11.0)

    assert chosen(identities, mine[0], boot=12.0).how == "moved"


def test_when_all_are_set_aside_hosts_wait_for_the_earliest_probe() -> None:
    identities = Identities(POOL[:2], HEALTH)
    fail(identities, HOSTS)
    identities.health["two"].aside_until = 95.0

    assert identities.ask_again_at(HOSTS[0], 20.0) == 95.0


def replace_health(**values: float) -> IdentityHealth:
    return IdentityHealth(**{"quarantine": 100.0, **values})


@pytest.mark.parametrize(
    ("outcome", "status", "verdict"),
    [
        (Outcome.OK, 200, "success"),
        (Outcome.NOT_FOUND, 404, "success"),
        (Outcome.UNAUTHORIZED, 403, "ban"),
        (Outcome.RATE_LIMITED, 429, ""),
        (Outcome.UNAVAILABLE, 503, ""),
        (Outcome.SERVER_ERROR, 500, ""),
        (Outcome.READ_TIMEOUT, None, "timeout"),
        (Outcome.CONNECT_REFUSED, None, "timeout"),
        (Outcome.NO_SUCH_HOST, None, ""),
        (Outcome.CLIENT_ERROR, 407, "timeout"),
    ],
)
def test_what_an_outcome_says_of_who_asked(outcome: Outcome, status: int | None, verdict: str) -> None:
    assert verdict_on(outcome, status) == verdict


# the day's draw


def test_the_draw_gives_some_hosts_to_others_and_says_how_likely_that_was() -> None:
    identities = Identities(POOL, replace_health(explore_share=0.3))
    usual = {host: chosen(Identities(POOL, HEALTH), host).persona for host in HOSTS}

    choices = {host: chosen(identities, host) for host in HOSTS}

    moved = [host for host in HOSTS if choices[host].persona is not usual[host]]
    assert 0.15 < len(moved) / len(HOSTS) < 0.25  # 0.3 × two of three
    assert {round(choices[host].propensity, 9) for host in moved} == {0.1}
    kept = {round(choices[host].propensity, 9) for host in HOSTS if host not in set(moved)}
    assert kept == {0.8}


def test_a_draw_holds_for_its_day_and_the_next_day_draws_anew() -> None:
    identities = Identities(POOL, replace_health(explore_share=0.5))
    midnight = 20_000 * 86_400.0

    def drawn(now: float) -> list[Choice]:
        return [chosen(identities, host, now) for host in HOSTS[:200]]

    assert drawn(midnight) == drawn(midnight + 86_399)
    assert drawn(midnight) != drawn(midnight + 86_400)


@given(st.integers(0, 400), st.floats(0, 0.99), st.integers(2, 3))
@examples(deadline=None, max_examples=30)
def test_propensities_are_those_of_a_distribution_over_the_pool(day: int, share: float, size: int) -> None:
    """Over many hosts, the sum of 1/propensity of those who got an identity estimates all of them."""
    identities = Identities(POOL[:size], replace_health(explore_share=share))
    choices = [chosen(identities, host, day * 86_400.0) for host in HOSTS[:100]]

    each = share / size
    assert all(0 < choice.propensity <= 1 for choice in choices)
    assert {round(c.propensity, 9) for c in choices} <= {round(1 - share + each, 9), round(each, 9)}


# settings


def test_without_a_pool_there_is_the_one_identity_of_the_crawl() -> None:
    settings = Settings(home="x", identity=Identity("bot", "me@example.org"))

    assert [one.user_agent for one in pool_of(settings)] == ["bot/0.1 (+me@example.org)"]


def test_every_user_agent_of_a_pool_carries_a_contact() -> None:
    pool = (NamedIdentity("direct"), NamedIdentity("partner", agent="partner-bot", contact="p@example.org"))
    settings = Settings(home="x", identity=Identity("bot", "me@example.org"), identities=pool)

    agents = [one.user_agent for one in pool_of(settings)]

    assert agents == ["bot/0.1 (+me@example.org)", "partner-bot/0.1 (+p@example.org)"]
    settings.require_contact()
    with pytest.raises(ConfigurationError, match="contact"):
        Settings(
            home="x", identity=settings.identity, identities=(NamedIdentity("a", contact="nobody"),)
        ).require_contact()


def test_a_pool_is_saved_and_loaded_again(tmp_path: Path) -> None:
    pool = (NamedIdentity("direct"), NamedIdentity("p", proxy="http://192.0.2.1:3128", hosts=("*.a.test",)))
    settings = Settings(home=str(tmp_path), identities=pool)

    save(settings)

    assert load(tmp_path) == settings


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ('[[identities]]\nname = "a"\n[[identities]]\nname = "a"', "name of its own"),
        ('[[identities]]\nname = "a"\nhosts = ["a.test"]', "for all hosts"),
        ('[[identities]]\nname = "a"\nproxy = "http://proxy.test:3128"', "an address and a port"),
        ('[[identities]]\nname = "a"\nproxy = "socks5://192.0.2.1:1080"', "an address and a port"),
        ('[[identities]]\nname = "a"\nproxy = "http://192.0.2.1:3128"\nproxy_delay = 0', "above 0"),
        ("[identity_health]\nexplore_share = 1.0", "between 0 and 1"),
    ],
)
def test_a_pool_that_makes_no_sense_is_refused(tmp_path: Path, entries: str, said: str) -> None:
    (tmp_path / CONFIG_NAME).write_text(entries)

    with pytest.raises(ConfigurationError, match=said):
        load(tmp_path)
