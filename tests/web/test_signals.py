import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.web.signals import (
    MAX_HEADER_LINKS,
    HeaderLink,
    Refresh,
    bars_follow,
    bars_index,
    link_header,
    refresh,
    robots_directives,
    srcset,
    x_robots_tag,
)

URL = "http://s.example/dir/page"


@pytest.mark.parametrize(
    ("values", "directives"),
    [
        ("noindex", {"noindex"}),
        ("NoIndex, NOFOLLOW", {"noindex", "nofollow"}),
        (["noindex", "nofollow"], {"noindex", "nofollow"}),
        ("ourbot: noindex, noarchive", {"noindex", "noarchive"}),
        ("OurBot: noindex", {"noindex"}),
        ("otherbot: noindex, nofollow", set()),
        ("otherbot: noindex\nnofollow", {"nofollow"}),
        ("noarchive, otherbot: noindex, ourbot: nofollow", {"noarchive", "nofollow"}),
        ("*: noindex", {"noindex"}),
        ("ourbots: noindex", set()),
        ("max-snippet: -1, noimageai", {"max-snippet:-1", "noimageai"}),
        ("unavailable_after: 25 Jun 2010 15:00:00 PST, x", {"unavailable_after:25 jun 2010 15:00:00 pst", "x"}),
        ("", set()),
        (",,: ,", set()),
    ],
)  # fmt: skip
def test_robots_tags_speak_to_everybody_or_to_an_agent(values: str, directives: set[str]) -> None:
    assert x_robots_tag(values, "ourbot") == directives


def test_white_space_separates_directives_as_well() -> None:
    assert list(robots_directives("noindex nofollow,noai")) == ["noindex", "nofollow", "noai"]


def test_none_bars_both() -> None:
    assert bars_index({"none"})
    assert bars_follow({"none"})
    assert not bars_index({"noindexing", "nofollow"})


@pytest.mark.parametrize(
    ("value", "links"),
    [
        ("<x>; rel=next", [HeaderLink("http://s.example/dir/x", ("next",))]),
        (
            '</de>; rel="alternate"; hreflang=de, <http://o.example/>;rel="Canonical next"',
            [
                HeaderLink("http://s.example/de", ("alternate",), "de"),
                HeaderLink("http://o.example/", ("canonical", "next")),
            ],
        ),
        ('</a,b;c>; title="x, <y>; rel=no"; rel=prev', [HeaderLink("http://s.example/a,b;c", ("prev",))]),
        (r'</a>; title="x\"; rel=no"; rel=prev; rel=next', [HeaderLink("http://s.example/a", ("prev",))]),
        ("</a>; rel=canonical; anchor='#x'", []),
        ("<mailto:a@s.example>; rel=author", []),
        ('</f>; rel=x; type="Text/X"', [HeaderLink("http://s.example/f", ("x",), "", "text/x")]),
        ("no link at all, <", []),
        ("</a>", [HeaderLink("http://s.example/a", ())]),
    ],
)  # fmt: skip
def test_link_headers(value: str, links: list[HeaderLink]) -> None:
    assert link_header(value, URL) == links


def test_link_headers_are_bounded() -> None:
    assert len(link_header("</a>," * 1_000, URL)) == MAX_HEADER_LINKS


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("5", Refresh(5, None)),
        ("5;", Refresh(5, None)),
        ("0;url=", Refresh(0, "")),
        ("\n 7 , URL = 'x'y", Refresh(7, "x")),
        ("1e3;url=x", None),
        ("99999999999999999999;x", Refresh(999_999_999, "x")),
        ("", None),
    ],
)
def test_refreshes(content: str, found: Refresh | None) -> None:
    assert refresh(content) == found


@pytest.mark.parametrize(
    ("value", "references"),
    [
        ("a.png", ["a.png"]),
        (" a.png 1x , b.png 2.5x", ["a.png", "b.png"]),
        ("c,d.png 2x,e.png,", ["c,d.png", "e.png"]),
        ("a.png 100w,b.png (x,y),c.png", ["a.png", "c.png"]),
        ("data:,a 1x", ["data:,a"]),
        (",,,", []),
        ("", []),
    ],
)
def test_srcsets(value: str, references: list[str]) -> None:
    assert list(srcset(value)) == references


PARSERS = {
    "tag": lambda text: x_robots_tag(text, "ourbot"),
    "link": lambda text: link_header(text, URL),
    "refresh": refresh,
    "srcset": lambda text: list(srcset(text)),
}
PIECES = st.sampled_from(
    ["<", ">", ";", ",", '"', "\\", "rel=", "x", " ", ":", "0", "url=", "'", "(", ")", "1x", "é", "\n"]
)


@given(st.lists(PIECES, max_size=60).map("".join) | st.text())
@settings(max_examples=150, deadline=None)
def test_no_parser_raises(text: str) -> None:
    for parse in PARSERS.values():
        parse(text)


@pytest.mark.parametrize(
    "unit", ["<", "<a>;", '<a>;x="', "0", ".", " ", ",", "a,", "a (", "a: ", "<a>; a=b "]
)
def test_no_parser_is_slow(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    for name, parse in PARSERS.items():
        started = time.process_time()
        parse(text)
        assert time.process_time() - started < 0.4, name
