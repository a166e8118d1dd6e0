"""Links in batches: what becomes of each is what would become of it alone, and known ones cost one look."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.frontier.kv import MemoryKV
from crawl_platform.frontier.lease import Found
from crawl_platform.frontier.links import Links
from crawl_platform.frontier.records import FEED, PAGE, SITEMAP, UrlRecord, decode, encode_found, url_key
from crawl_platform.settings import Frontier as Settings
from crawl_platform.settings import HostRule
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, url

OTHER = "other.test"
PATHS = (
    "",
    "a",
    "a/b",
    "a/b/c/d/e/f/g/h",
    "a/a/a/a/a",
    "2024/05/06",
    "9999/05/x",
    "x?b=1&a=2",
    "x?a=2&b=1",
    "x?drop=1",
    "deep",
)
founds = st.builds(
    Found,
    st.sampled_from([f"https://{host}/{path}" for host in (A, OTHER, "horizon.test") for path in PATHS]),
    depth=st.integers(0, 3),
    value=st.sampled_from([0.25, 1.0, 7.0]),
    kind=st.sampled_from([PAGE, PAGE, PAGE, SITEMAP, FEED]),
    sitemap=st.sampled_from(["", "", f"https://{A}/sitemap.xml"]),
    lastmod=st.sampled_from([0.0, 1_790_000_000.0]),
)


class Looks(MemoryKV):
    """Counts how often the store is asked, and for how many keys."""

    gets = many = asked = 0

    def get(self, key: bytes) -> bytes | None:
        self.gets += 1
        return super().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        assert list(keys) == sorted(keys)
        self.many += 1
        self.asked += len(keys)
        return super().get_many(keys)


def a_rig() -> FrontierRig:
    rules = (HostRule(match=A, urls={"drop_parameters": ["drop"], "sort_parameters": True}),)
    return FrontierRig(A, OTHER, settings=Settings(bloom_capacity=100, page_budget=9), host_rules=rules)


def stored(rig: FrontierRig) -> list[tuple[bytes, bytes]]:
    return [(key, value) for key, value in rig.kv.scan(b"\0", b"\xff") if not key.startswith(b"!")]


@given(st.lists(st.lists(founds, max_size=12), max_size=4), st.sampled_from([None, "", A]))
@settings(deadline=None, max_examples=50)
def test_links_together_become_what_they_would_become_one_by_one(
    epochs: list[list[Found]], by: str | None
) -> None:
    together, alone = a_rig(), a_rig()
    for links in epochs:
        at_once = together.apply(lambda planner, links=links: planner.discover_all(links, by))
        one_by_one = alone.apply(*(lambda planner, one=one: planner.discover(one, by) for one in links))
        assert at_once.turned_away == one_by_one.turned_away
        assert at_once.new_urls == one_by_one.new_urls

    assert stored(together) == stored(alone)


def test_links_to_known_pages_cost_one_look_at_the_store_for_all_of_them() -> None:
    rig = FrontierRig(A, kv=(kv := Looks()), settings=Settings(bloom_capacity=1_000, seen_cache=1))
    pages = [url(f"{n}") for n in range(100)]
    rig.discover(*pages)
    kv.gets = kv.many = kv.asked = 0

    plan = rig.apply(lambda planner: planner.discover_all([Found(page, 1, 0.5) for page in pages * 2]))

    assert plan.turned_away == {"seen": 200}
    assert (kv.gets, kv.many) == (0, 1)
    assert kv.asked >= 90


def test_a_url_that_a_request_has_put_into_the_plan_is_known_to_its_links() -> None:
    rig = FrontierRig(A)

    def asked_for(planner) -> None:  # type: ignore[no-untyped-def]
        planner.discover_all([Found(url("first"), 0, 1.0)])
        planner.recrawl(url("asked"), "r1")
        planner.discover_all([Found(url("asked"), 0, 1.0), Found(url("first"), 0, 1.0)])

    plan = rig.apply(asked_for)

    assert (plan.new_urls, plan.turned_away) == (2, {"seen": 2})
    assert decode(rig.kv.get(url_key(0, A, url("asked"))) or b"", UrlRecord).request_id == "r1"


def test_a_page_found_and_asked_for_in_one_plan_is_one_page_with_one_place() -> None:
    rig = FrontierRig(A)

    plan = rig.apply(
        lambda planner: planner.discover(Found(url("both"), 0, 1.0)),
        lambda planner: planner.recrawl(url("both"), "r1"),
    )

    assert plan.new_urls == 1
    assert rig.frontier.hosts[A].record.queued == len(list(rig.kv.scan(b"q", b"r"))) == 1
    assert rig.claim_page().record.request_id == "r1"


def test_ablation_without_a_look_at_the_plan_itself_a_link_undoes_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Links, "_stranger", lambda self, link: self._looked[link])
    rig = FrontierRig(A)

    plan = rig.apply(
        lambda planner: planner.recrawl(url("asked"), "r1"),
        lambda planner: planner.discover_all([Found(url("asked"), 0, 1.0)]),
    )

    assert plan.new_urls == 2


def test_a_host_that_enters_within_the_plan_is_open_to_what_it_turned_away_before() -> None:
    rig = FrontierRig()

    def enters(planner) -> None:  # type: ignore[no-untyped-def]
        assert planner.discover(Found(url("1"), 1, 0.5)) == "horizon"
        planner.admit(A, [], trusted=True, decision_id="d")
        assert planner.discover(Found(url("1"), 1, 0.5)) == "new"

    rig.apply(enters)


def test_ablation_without_new_doors_it_would_be_closed_all_through_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Links, "admitted", lambda self: None)

    with pytest.raises(AssertionError):
        test_a_host_that_enters_within_the_plan_is_open_to_what_it_turned_away_before()


def test_an_excluded_part_of_a_host_stays_closed_to_known_and_new_links() -> None:
    rig = FrontierRig(A)
    rig.discover(url("in/known"))
    rig.exclude(url("in/"))

    links = [Found(url(path), 1, 0.5) for path in ("in/known", "in/new", "out")]
    plan = rig.apply(lambda planner: planner.discover_all(links))

    assert (plan.new_urls, plan.turned_away) == (1, {"excluded": 2})


@given(
    st.integers(0, 40), st.integers(0, 9), st.floats(0, 1), st.integers(1, 2**31 - 1), st.integers(0, 2**45)
)
def test_a_short_record_reads_as_the_whole_one(
    depth: int, hops: int, value: float, group: int, rank: int
) -> None:
    record = UrlRecord(
        lane=3, rank=rank, depth=depth, hops=hops, value=value, group=group, discovered_at=rank / 1000
    )

    assert decode(encode_found(record), UrlRecord) == record
