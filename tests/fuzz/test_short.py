"""Every room takes whatever the web sends: a few inputs of each kind at every test run, a million in the long one."""

import time
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import grammars
from tests.fuzz.mutate import mutate
from tests.fuzz.runner import LIMIT, allowed, campaign, covered, inputs, smaller
from tests.fuzz.targets import BY_NAME, FOUND, TARGETS, Target, found_files
from tests.fuzz.wire import ask

NAMES = [target.name for target in TARGETS]
INPUTS = {"url": 200, "robots": 60, "html": 30, "sitemap": 50, "headers": 150, "encoded": 100}
LEISURE = 4.0
"""The machine is busy with other tests: only what is several times over the limit is reported here."""


@pytest.mark.parametrize("name", NAMES)
def test_a_short_campaign_finds_nothing(name: str) -> None:
    report = campaign(BY_NAME[name], INPUTS[name], seed=7, trace=False)

    assert report.crashes == []
    assert [
        (data[:200], seconds)
        for data, seconds in report.slow
        if seconds > LEISURE * allowed(BY_NAME[name].size(data))
    ] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_input_that_the_grammar_can_make_breaks_a_promise(name: str) -> None:
    target = BY_NAME[name]

    @given(st.randoms(use_true_random=False))
    @settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def holds(rnd: Random) -> None:
        target.run(target.make(rnd))

    holds()


@pytest.mark.parametrize("path", sorted(FOUND.iterdir()), ids=lambda path: path.name)
def test_what_was_found_once_stays_mended(path: object) -> None:
    name, data = path.name, path.read_bytes()  # type: ignore[attr-defined]
    target = BY_NAME[name.partition("-")[0]]

    report = campaign(
        Target(target.name, lambda rnd: data, target.run, list, (), 0.0), 2, seed=0, trace=False
    )

    assert report.crashes == []
    assert report.slowest < LEISURE


async def test_every_scripted_answer_ends_in_one_outcome() -> None:
    rnd = Random(7)
    made = [grammars.answer(rnd) for _ in range(40)]

    assert await ask([*made, *(mutate(rnd, rnd.choice(made), made) for _ in range(40))]) == []


# the runner itself


def planted(run: object) -> Target:
    return Target("url", grammars.url, run, lambda: [b"http://a.example/"], ("web/url.py",), 1.0)  # type: ignore[arg-type]


def test_a_crash_is_found_and_told() -> None:
    def run(data: bytes) -> None:
        if b"%20" in data:
            raise LookupError("planted")

    report = campaign(planted(run), 300, seed=1, trace=False)

    assert report.crashes
    assert report.crashes[0][1].startswith("LookupError: planted at test_short.py:")
    assert "crashes" in report.words()


def test_a_slow_input_is_found_and_measured_against_its_length() -> None:
    def run(data: bytes) -> None:
        end = time.thread_time() + 1.3 * LIMIT
        while time.thread_time() < end:
            pass

    report = campaign(planted(run), 1, seed=1, trace=False)

    assert report.slow
    assert report.slowest > 1
    assert allowed(1) == allowed(100_000) == LIMIT
    assert allowed(200_000) == 2 * LIMIT


def test_what_is_kept_is_made_smaller() -> None:
    assert smaller(b"a" * 500 + b"<b>" + b"c" * 500, lambda data: b"<b>" in data) == b"<b>"


def test_a_seed_makes_the_same_inputs_again() -> None:
    def first(seed: int) -> list[bytes]:
        source = inputs(BY_NAME["url"], seed)
        return [next(source) for _ in range(50)]

    assert first(3) == first(3) != first(4)


def test_lines_that_inputs_run_are_counted() -> None:
    lines = covered(BY_NAME["url"], seed=0, sample=20)

    run, all_ = lines["url.py"]
    assert 30 < run <= all_


def test_every_target_has_found_inputs_of_its_own_or_none() -> None:
    assert {path.name for target in TARGETS for path in found_files(target.name)} == {
        path.name for path in FOUND.iterdir()
    }
