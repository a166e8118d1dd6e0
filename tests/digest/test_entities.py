"""Types that pages declare in JSON-LD."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.digest import digest
from crawl_platform.digest.entities import declared_types


def types_of(script: str, kind: str = "application/ld+json") -> tuple[str, ...]:
    page = f"<title>T</title><script type='{kind}'>{script}</script><p>text</p>"
    return digest(page.encode(), "http://s.example/", "text/html").entity_types


@pytest.mark.parametrize(
    ("script", "types"),
    [
        ('{"@type": "Article"}', ("Article",)),
        ('{"@type": ["Product", "Vehicle"], "offers": {"@type": "Offer"}}', ("Product", "Vehicle")),
        ('{"@graph": [{"@type": "WebPage"}, {"@type": "http://schema.org/Recipe"}]}', ("WebPage", "Recipe")),
        ('[{"@type": "Event"}, {"@type": "Event"}, 7, null]', ("Event",)),
        ('{"@type": "Page", "mainEntity": {"@type": "Person", "knows": {"@type": "Person"}}}', ("Page", "Person")),
        ('<!-- {"@type": "Article"} -->', ("Article",)),
        ('//<![CDATA[\n{"@type": "Article"}\n//]]>', ("Article",)),
        ('{"@type": "Article",}', ()),
        ('{"@type": {"no": "name"}}', ()),
        ('{"@type": "two words"}', ()),
        ("", ()),
        ("[" * 100_000, ()),
        ('{"@graph":' * 5_000, ()),
    ],
)  # fmt: skip
def test_types_of_what_the_page_is_about(script: str, types: tuple[str, ...]) -> None:
    assert types_of(script) == types


@pytest.mark.parametrize("kind", ["application/LD+JSON", "application/ld+json; charset=utf-8"])
def test_the_type_of_the_script_may_be_written_otherwise(kind: str) -> None:
    assert types_of('{"@type": "Article"}', kind) == ("Article",)


@pytest.mark.parametrize("kind", ["application/json", "application/ld", "text/javascript", ""])
def test_other_scripts_declare_nothing(kind: str) -> None:
    assert types_of('{"@type": "Article"}', kind) == ()


def test_scripts_are_no_text_and_links_in_them_none() -> None:
    page = digest(
        b"<script type=application/ld+json>{}<a href=x>y</a></script><p>z", "http://s.example/", "text/html"
    )

    assert page.links == ()
    assert "y" not in page.text


def test_there_are_bounds() -> None:
    many = [f'{{"@type": "T{number}"}}' for number in range(30)]

    assert declared_types(many) == tuple(f"T{number}" for number in range(10))
    assert declared_types(['{"@type": "Article", "x": "' + "y" * 100_000 + '"}']) == ()


@given(
    st.lists(st.text() | st.sampled_from(['{"@type":', '"A"}', "[", "]", '{"@graph":', "-->"]), max_size=8)
)
def test_no_script_is_too_broken(parts: list[str]) -> None:
    assert len(declared_types(["".join(parts)])) <= 10
