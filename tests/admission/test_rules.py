"""Settings that differ from host to host."""

from pathlib import Path

import pytest

from crawl_platform.admission.rules import HostRules
from crawl_platform.errors import ConfigurationError
from crawl_platform.settings import CONFIG_NAME, HostRule, Settings, load, save


def test_a_host_without_a_rule_has_the_crawls_settings() -> None:
    settings = Settings(home="x", hosts=(HostRule("*.big.test", frontier={"max_depth": 3}),))

    assert HostRules(settings).of("other.test").frontier == settings.frontier


def test_the_later_of_two_entries_wins_field_by_field() -> None:
    rules = HostRules(
        Settings(
            home="x",
            hosts=(
                HostRule("*.big.test", frontier={"max_depth": 3, "page_budget": 10}),
                HostRule("shop.big.test", frontier={"max_depth": 5}, politeness={"host_delay": 9}),
            ),
        )
    )

    assert (rules.of("shop.big.test").frontier.max_depth, rules.of("big.test").frontier.max_depth) == (5, 3)
    assert rules.of("shop.big.test").frontier.page_budget == 10
    assert rules.of("shop.big.test").politeness.host_delay == 9.0


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('[[hosts]]\nmatch = "a.test"\npoliteness.host_delay = 0', "nothing switches politeness off"),
        ('[[hosts]]\nmatch = "a.test"\nfrontier.max_dept = 1', r"a\.test: frontier.*max_dept"),
        ('[[hosts]]\nmatch = "a.test"\nfetch.slots = 1', "fetch"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused(tmp_path: Path, entry: str, said: str) -> None:
    (tmp_path / CONFIG_NAME).write_text(entry)

    with pytest.raises(ConfigurationError, match=said):
        load(tmp_path)


def test_what_is_saved_is_loaded_again(tmp_path: Path) -> None:
    rule = HostRule("*.big.test", frontier={"max_depth": 3}, politeness={"host_delay": 2.5})
    settings = Settings(home=str(tmp_path), hosts=(rule,))

    save(settings)

    assert load(tmp_path) == settings
