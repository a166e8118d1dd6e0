"""docs/outcomes.md says what the code does."""

import re

import pytest

from crawl_platform.fetch.oddities import MEANINGS
from crawl_platform.fetch.outcome import BACKS_OFF, DISPOSITIONS, UNSENT, Outcome
from crawl_platform.fetch.tls import FAILURES
from crawl_platform.settings import Fetch
from tests.web.cases import ROOT

OUTCOMES, ODDITIES = (ROOT / "docs" / "outcomes.md").read_text().split("# Oddities")
WIRE = (ROOT / "docs" / "wire.md").read_text()


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if re.match(r"\| [a-z_0-9]+ \|", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_of_outcomes_is_that_of_the_code() -> None:
    written = {name: (url, rests, sent) for name, url, rests, sent, _ in rows(OUTCOMES)[1:]}

    yes = {True: "yes", False: "no"}
    assert written == {
        outcome.value: (DISPOSITIONS[outcome], yes[outcome in BACKS_OFF], yes[outcome not in UNSENT])
        for outcome in Outcome
    }


def test_the_table_of_oddities_is_that_of_the_code() -> None:
    assert dict(rows(ODDITIES)[1:]) == {oddity.value: text for oddity, text in MEANINGS.items()}


@pytest.mark.parametrize("name", sorted(FAILURES))
def test_every_name_of_a_tls_failure_is_in_the_manual(name: str) -> None:
    assert re.search(rf"\b{name}\b", WIRE)


def test_every_setting_that_the_manual_names_exists() -> None:
    named = set(re.findall(r"`(?:fetch\.)?([a-z]+_[a-z_]+)`", WIRE + OUTCOMES))
    columns = {"dns_ms", "connect_ms", "first_byte_ms", "duration_ms"}

    assert named - columns - set(Outcome) <= set(Fetch.__struct_fields__)
