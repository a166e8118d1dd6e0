"""The topics file: what may be written, and what each fault is called."""

import pytest

from crawl_platform.errors import ConfigurationError
from crawl_platform.value import topics_file
from crawl_platform.value.topics_file import parse_topics, read_topics

GOOD = """\
[[topics]]
name = "wind power"
weight = 0.8
phrases = [
    "wind turbine*",
    "a = b",
]
urls = ["https://example.test/wind/*", "b.test/*"]

[[entities]]
name = "Siemens Gamesa"
phrases = ["Gamesa"]

[[topics]]
name = "casino"
weight = -1
types = ["CasinoGame"]
"""


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as told:
        parse_topics(text.encode(), "t.toml")
    return str(told.value).splitlines()


def test_a_file_names_topics_and_entities():
    topics = parse_topics(GOOD.encode(), "t.toml")

    by_name = {topic.name: topic for topic in topics.entries}
    assert set(by_name) == {"wind power", "casino", "Siemens Gamesa"}
    assert by_name["wind power"].urls == ("example.test/wind/*", "b.test/*")
    assert by_name["Siemens Gamesa"].phrases == ("Siemens Gamesa", "Gamesa")
    assert topics.weights["casino"] == -1.0


def test_another_file_has_another_digest():
    assert parse_topics(GOOD.encode(), "").digest != parse_topics(GOOD.encode() + b"#", "").digest


@pytest.mark.parametrize(
    ("written", "instead", "fault"),
    [
        ("weight = 0.8", "wieght = 0.8", "line 3: wieght is nothing that an entry has; did you mean weight?"),
        ("weight = 0.8", "weight = 3", "line 3: weight must be a number from -1 to 1, and not 0 (not 3)"),
        ("weight = 0.8", "weight = nan", "line 3: weight must be a number from -1 to 1, and not 0 (not nan)"),
        ("weight = 0.8", "weight = true", "line 3: weight must be a number from -1 to 1, and not 0 (not True)"),
        ('"a = b"', '"*"', "line 4: '*' in phrases would stand for everything"),
        ('"a = b"', '"!?"', "line 4: '!?' in phrases has no word"),
        ('"a = b"', "7", "line 4: phrases must be a list of texts"),
        ('name = "casino"', 'name = "wind power"', "line 15: 'wind power' is there already (line 2)"),
        ('name = "casino"\n', "", "line 14: an entry needs a name, one line of text"),
        ('types = ["CasinoGame"]', "", "line 14: a topic needs phrases, urls or types to be found by"),
        ('"Siemens Gamesa"', '"?"', "line 11: the name of an entity is looked for, and '?' has no word"),
        ("[[entities]]", "[[things]]", "things: no such table; there are [[topics]] and [[entities]]"),
    ],
)  # fmt: skip
def test_each_fault_is_told_with_its_line(written, instead, fault):
    assert faults(GOOD.replace(written, instead)) == [f"t.toml, {fault}"]


def test_all_faults_are_told_at_once():
    broken = GOOD.replace("0.8", "8").replace('"casino"', '""')

    assert [line.partition(":")[0] for line in faults(broken)] == ["t.toml, line 3", "t.toml, line 15"]


def test_of_very_many_faults_the_first_are_told():
    many = "".join(f'[[topics]]\nname = "{i}"\nweight = 9\nphrases = ["{i}"]\n' for i in range(30))

    assert len(faults(many)) == topics_file.MOST_TOLD + 1
    assert faults(many)[-1] == "… and 10 more"


def test_what_is_no_toml_is_told_with_its_line():
    assert "line 2" in faults('[[topics]]\nname = "a\n')[0]
    assert faults("[topics]\nname = 1")[0] == "t.toml, topics: write [[topics]] above each entry"
    assert faults("")[0] == "t.toml, line 1: names neither [[topics]] nor [[entities]]"
    with pytest.raises(ConfigurationError, match="line 2: not UTF-8"):
        parse_topics(b'[[topics]]\nname = "\xff"', "t.toml")


def test_where_lines_cannot_be_told_apart_the_entry_is_named():
    text = GOOD.replace("weight = 0.8", "weight = 8").replace('"a = b"', '"""\n[[topics]]\n"""')

    assert faults(text)[0].startswith("t.toml, entry 1 of topics: weight")


def test_a_file_that_is_not_there_or_too_large_is_told(tmp_path, monkeypatch):
    with pytest.raises(ConfigurationError, match="can't be read: No such file"):
        read_topics(tmp_path / "none.toml")
    monkeypatch.setattr(topics_file, "MOST_BYTES", 10)
    with pytest.raises(ConfigurationError, match="at most 10 are read"):
        parse_topics(GOOD.encode(), "t.toml")
