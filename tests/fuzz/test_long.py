"""A million inputs (`make test-long`). `CRAWL_FUZZ_SEED` and `CRAWL_FUZZ_INPUTS` choose others."""

import os
from random import Random

import pytest

from tests.fuzz import grammars
from tests.fuzz.mutate import mutate
from tests.fuzz.runner import campaign, keep
from tests.fuzz.targets import BY_NAME, TARGETS
from tests.fuzz.wire import ask

SEED = int(os.environ.get("CRAWL_FUZZ_SEED", "0"))
INPUTS = int(os.environ.get("CRAWL_FUZZ_INPUTS", "1000000"))
LEAST_COVERAGE = 0.5
"""Less would mean that inputs no longer reach the room."""


def test_the_targets_take_all_inputs_between_them() -> None:
    answers = 1 - sum(target.share for target in TARGETS)

    assert 0.009 < answers < 0.011


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", [target.name for target in TARGETS])
def test_a_million_inputs_crash_nothing_and_none_is_slow(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = BY_NAME[name]

    report = campaign(target, round(INPUTS * target.share), SEED)

    kept = keep(report)
    with capsys.disabled():
        print(f"\n{report.words()}")  # noqa: T201
    assert kept == [], [why for _, why in report.crashes[:5]]
    assert report.coverage > LEAST_COVERAGE


@pytest.mark.long
@pytest.mark.timeout(1_800)
async def test_ten_thousand_scripted_answers_each_end_in_one_outcome() -> None:
    rnd = Random(SEED)
    count = round(INPUTS * (1 - sum(target.share for target in TARGETS)))
    made = [grammars.answer(rnd) for _ in range(count // 2)]

    broken = await ask([*made, *(mutate(rnd, rnd.choice(made), made) for _ in range(count // 2))])

    assert [(answer[:300], why) for answer, why in broken[:5]] == []
