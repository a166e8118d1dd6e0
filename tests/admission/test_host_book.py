"""Which hosts may be fetched: the seed minus exclusions, whatever the order in which directives arrive."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.admission.hosts import EXCLUDED, HORIZON, SEED, HostBook
from crawl_platform.web.host import matches


def book(*directives: tuple[str, str]) -> HostBook:
    made = HostBook(64)
    for name, state in directives:
        made.set(name, state)
    return made


@pytest.mark.parametrize(
    ("directives", "host", "state"),
    [
        ([], "a.test", HORIZON),
        ([("a.test", SEED)], "a.test", SEED),
        ([("a.test", SEED)], "sub.a.test", HORIZON),
        ([("a.test", SEED), ("a.test", EXCLUDED)], "a.test", EXCLUDED),
        ([("a.test", EXCLUDED), ("a.test", SEED)], "a.test", SEED),
        ([("sub.a.test", SEED), ("*.a.test", EXCLUDED)], "sub.a.test", EXCLUDED),
        ([("sub.a.test", SEED), ("*.a.test", EXCLUDED)], "other.a.test", EXCLUDED),
        ([("a.test", SEED), ("*.a.test", EXCLUDED)], "a.test", EXCLUDED),
        ([("nota.test", SEED), ("*.a.test", EXCLUDED)], "nota.test", SEED),
        ([("a.test", SEED), ("sub.a.test", EXCLUDED)], "a.test", SEED),
        ([("*.a.test", EXCLUDED), ("*.a.test", SEED), ("x.a.test", SEED)], "x.a.test", SEED),
    ],
)
def test_state_of_a_host(directives: list[tuple[str, str]], host: str, state: str) -> None:
    assert book(*directives).state(host) == state


@pytest.mark.parametrize("order", list(itertools.permutations([0, 1, 2])))
def test_a_domains_exclusion_beats_seed_entries_in_any_order(order: tuple[int, ...]) -> None:
    directives = [("*.a.test", EXCLUDED), ("a.test", SEED), ("sub.a.test", SEED)]

    made = book(*(directives[n] for n in order))

    assert made.state("a.test") == EXCLUDED
    assert made.state("sub.a.test") == EXCLUDED


def test_excluding_the_bare_host_does_not_lift_the_exclusion_of_its_domain() -> None:
    made = book(("*.a.test", EXCLUDED), ("a.test", EXCLUDED))

    assert made.state("sub.a.test") == EXCLUDED


def test_a_forgotten_name_is_horizon_again() -> None:
    made = book(("a.test", SEED))
    made.forget("a.test")

    assert made.state("a.test") == HORIZON
    assert len(made) == 0


NAMES = st.sampled_from(["a.test", "b.a.test", "c.b.a.test", "x.test", "*.a.test", "*.b.a.test", "*.test"])


@given(st.dictionaries(NAMES, st.sampled_from([SEED, EXCLUDED])).map(lambda d: list(d.items())), st.randoms())
@settings(deadline=None)
def test_with_one_directive_per_name_the_order_does_not_matter(
    directives: list[tuple[str, str]], random: object
) -> None:
    shuffled = list(directives)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    made = book(*shuffled)

    for host in ("a.test", "b.a.test", "c.b.a.test", "x.test"):
        excluded = any(state == EXCLUDED and matches(name, host) for name, state in directives)
        seed = (host, SEED) in directives
        assert made.state(host) == (EXCLUDED if excluded else SEED if seed else HORIZON)
