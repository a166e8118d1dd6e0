"""The form of one host's URLs: parameters that select nothing dropped, and sorted where their order means nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.settings import Urls
from crawl_platform.web.parameters import host_form, name_of, sorted_by_name
from crawl_platform.web.url import canonicalize, host_of

SHOP = "https://shop.example/list"
NAMES = st.sampled_from(["a", "b", "lang", "view", "tags[]", "tags%5B%5D", "utm_x", "sid", "", "b%20", "é"])
PARTS = st.lists(
    st.tuples(NAMES, st.sampled_from(["", "=", "=1", "=2%20", "=%20", "=x?y", "=0123456789abcdef0"]))
)
URLS = st.builds(lambda parts: f"{SHOP}?{'&'.join(name + value for name, value in parts)}", PARTS)
PATTERNS = st.lists(st.sampled_from(["a", "b*", "*", "*l*", "tags[]", "", "lang", "é"]), max_size=3).map(
    tuple
)
SETTINGS = st.builds(Urls, keep_parameters=PATTERNS, drop_parameters=PATTERNS)


@pytest.mark.parametrize(
    ("settings", "query", "form", "rules"),
    [
        (Urls(), "b=1&a=2", "?b=1&a=2", []),
        (Urls(drop_parameters=("view",)), "view=grid&id=7", "?id=7", ["drop-parameters"]),
        (Urls(drop_parameters=("view",)), "View=grid&preview=1", "?View=grid&preview=1", []),
        (Urls(drop_parameters=("*view*",)), "preview=1&views", "", ["drop-parameters"]),
        (Urls(drop_parameters=("tags[]",)), "tags[]=a&tags%5B%5D=b&t=1", "?t=1", ["drop-parameters"]),
        (Urls(keep_parameters=("id", "p*")), "id=7&page=2&x=1", "?id=7&page=2", ["keep-parameters"]),
        (
            Urls(keep_parameters=("id", "p*"), drop_parameters=("print",)),
            "id=7&print=1&x=1",
            "?id=7",
            ["keep-parameters", "drop-parameters"],
        ),
        (Urls(drop_parameters=("x",)), "q=a%20&x=1", "?q=a", ["drop-parameters"]),
    ],
)
def test_what_an_operator_says_about_parameters(
    settings: Urls, query: str, form: str, rules: list[str]
) -> None:
    fired: list[str] = []

    assert host_form(f"{SHOP}?{query}", settings, sort=False, fired=fired) == SHOP + form
    assert fired == rules


def test_sorting_is_by_name_and_leaves_the_values_of_one_name_in_order() -> None:
    fired: list[str] = []

    assert host_form(f"{SHOP}?c=1&a=2&b&a=1", Urls(), sort=True, fired=fired) == f"{SHOP}?a=2&a=1&b&c=1"
    assert fired == ["parameter-order"]
    assert sorted_by_name(f"{SHOP}?c=1&a=2") == f"{SHOP}?a=2&c=1"
    assert sorted_by_name(SHOP) == SHOP


def test_names_are_compared_decoded() -> None:
    assert [name_of(part) for part in ("tags%5B%5D=a", "a+b=c", "x", "=y")] == ["tags[]", "a b", "x", ""]


@given(URLS, SETTINGS, st.booleans())
@settings(deadline=None)
def test_a_hosts_form_is_reached_in_one_step_and_is_canonical(url: str, settings: Urls, sort: bool) -> None:
    canonical = canonicalize(url)
    assert canonical is not None

    form = host_form(canonical, settings, sort=sort)

    assert host_form(form, settings, sort=sort) == form
    assert canonicalize(form) == form
    assert host_of(form) == "shop.example"


@given(URLS)
@settings(max_examples=25, deadline=None)
def test_a_host_of_which_nothing_is_known_has_its_urls_as_they_are(url: str) -> None:
    canonical = canonicalize(url)

    assert canonical is not None
    assert host_form(canonical, Urls(), sort=False) == canonical


@given(PARTS, st.randoms())
@settings(max_examples=25, deadline=None)
def test_sorted_urls_differ_in_more_than_order(parts: list[tuple[str, str]], random: object) -> None:
    once = {name: value for name, value in parts if name}
    shuffled = list(once.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    def form(items: list[tuple[str, str]]) -> str:
        return sorted_by_name(f"{SHOP}?{'&'.join(name + value for name, value in items)}")

    assert form(shuffled) == form(list(once.items()))
