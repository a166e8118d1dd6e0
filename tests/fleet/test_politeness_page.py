"""docs/politeness.md promises things to strangers: each promise names a test, and figures are those of the settings."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from crawl_platform.settings import Citizenship, Fetch, Identity, Payment, Politeness, Retention, Sitemaps
from crawl_platform.web.preferences import CATEGORIES

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "politeness.md").read_text()
PROSE = " ".join(TEXT.split())
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))


@cache
def functions(file: str) -> set[str]:
    path = ROOT / file
    if not path.exists():
        return set()
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_test_that_the_page_names_is_there(file: str, name: str) -> None:
    assert name in functions(file)


def test_its_figures_are_the_defaults() -> None:
    politeness, day = Politeness(), 86_400
    assert politeness.host_delay == politeness.address_delay == 1.0
    assert (politeness.backoff_first, politeness.backoff_cap, politeness.retry_after_cap) == (5.0, 3_600, day)
    assert (politeness.robots_ttl, politeness.robots_stale, politeness.robots_patience) == (
        day,
        7 * day,
        30 * day,
    )
    for figure, said in (
        (politeness.crawl_delay_cap, "up to {:.0f}"),
        (Fetch().body_cap / 1000, "cut at {:.0f} KB"),
        (Sitemaps().entries_max, "{:,} entries"),
        (Retention().pages_days, "for {:.0f} days by default"),
    ):
        assert said.format(figure) in PROSE
    assert Fetch().robots_redirects == 5
    assert Sitemaps().max_level == 3


def test_it_names_us_as_the_settings_do() -> None:
    assert Identity(contact="CONTACT").user_agent in TEXT
    assert Citizenship().purposes == ("search",)
    assert (Citizenship().on_refusal, Citizenship().silence) == ("drop", "allow")
    assert not Payment().pays
    assert all(f"`{category}`" in TEXT for category in CATEGORIES)


def test_who_is_told_to_give_a_contact_is_told_of_the_page() -> None:
    assert "docs/politeness.md" in (ROOT / "README.md").read_text()
    assert "docs/politeness.md" in (ROOT / "crawl_platform" / "settings.py").read_text()
