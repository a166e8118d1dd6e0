"""The topics file in force, as a cell knows it: what links are worth by it."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.settings import Value
from crawl_platform.value.interest import Interest
from crawl_platform.value.topics import Topic, Topics

WIND = '[[topics]]\nname = "wind"\nphrases = ["wind turbine*"]\nurls = ["a.test/wind/*"]\n'
UNWANTED = '[[topics]]\nname = "casino"\nweight = -1\nphrases = ["casino"]\n'


def test_a_link_on_topic_is_worth_more_and_one_that_is_not_wanted_less(tmp_path: Path) -> None:
    (tmp_path / "topics.toml").write_text(WIND + UNWANTED)
    factor = Interest(tmp_path, Value()).in_force()
    assert factor is not None

    assert factor("https://b.test/1", "More") == 1.0
    assert factor("https://b.test/1", "Wind turbines") == pytest.approx(2**1.5)
    assert factor("https://a.test/wind/1", "Wind turbines") == pytest.approx(2 ** (3 * 0.95))
    assert factor("https://b.test/casino", "") == pytest.approx(2**-1.5)


def test_the_file_is_read_when_it_comes_changes_and_goes_and_a_bad_one_changes_nothing(
    tmp_path: Path,
) -> None:
    interest, file = Interest(tmp_path, Value()), tmp_path / "topics.toml"
    assert interest.in_force() is None

    file.write_text(WIND)
    assert interest.in_force() is not None
    file.write_text("not TOML at all [")
    factor = interest.in_force()
    assert factor is not None
    assert factor("https://b.test/wind-turbines", "") > 1.0

    file.write_text(WIND.replace("wind turbine*", "sun"))
    assert interest.in_force() is not None
    assert factor("https://b.test/wind-turbines", "") == 1.0
    file.unlink()
    assert interest.in_force() is None


TOPICS = Topics(
    (
        Topic("wind", 1.0, ("wind turbine*", "Übersee", "sun"), ("a.test/wind/*", "*/end")),
        Topic("b", phrases=("b*",)),
    )
)
PARTS = st.sampled_from(
    [
        "wind",
        "turbines",
        "turbine",
        "sun",
        "Sun",
        "bee",
        "a",
        "/",
        "-",
        "?q=",
        "%20",
        "+",
        "&",
        "ü",
        "end",
        " ",
    ]
)


@given(st.lists(PARTS, max_size=8), st.lists(PARTS, max_size=5))
@settings(max_examples=200, deadline=None)
def test_the_quick_look_never_misses_what_the_whole_one_finds(path: list[str], anchor: list[str]) -> None:
    url, text = "https://a.test/" + "".join(path), "".join(anchor)

    if not TOPICS.may_say(url, text):
        assert TOPICS.of_link(url, (text,)) == {}
