"""Whether the order of parameters means anything at a host: learnt from its pages, forgotten at a counter-example."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.clock import DAY
from crawl_platform.frontier import parameter_order
from crawl_platform.frontier.lease import Found
from crawl_platform.frontier.links import Links
from crawl_platform.frontier.parameter_order import KEPT, PROOFS, OrderEvidence
from crawl_platform.frontier.records import encode
from crawl_platform.settings import HostRule
from crawl_platform.testing.builders import FrontierRig
from tests.frontier.scenes import A, known, url


def pair(n: int) -> tuple[str, str]:
    return url(f"p?a={n}&b=1"), url(f"p?b=1&a={n}")


def after(*visits: tuple[str, str, float]) -> OrderEvidence:
    evidence = OrderEvidence()
    for visit in visits:
        evidence = evidence.visited(*visit)
    return evidence


def proofs(count: int) -> list[tuple[str, str, float]]:
    return [(one, f"page {n}", 60.0 * n) for n in range(count) for one in pair(n)]


def test_enough_pairs_that_show_the_same_page_prove_that_the_order_means_nothing() -> None:
    assert not after(*proofs(PROOFS - 1)).irrelevant
    assert after(*proofs(PROOFS)).irrelevant


def test_pairs_that_all_show_one_page_are_one_proof() -> None:
    visits = [(one, "not found", 0.0) for n in range(3 * PROOFS) for one in pair(n)]

    assert len(after(*visits).proofs) == 1


def test_a_pair_is_one_proof_however_often_its_page_changes() -> None:
    visits = [(one, f"page {day}", day * DAY) for day in range(3 * PROOFS) for one in pair(0)]

    assert len(after(*visits).proofs) == 1


def test_one_pair_with_two_pages_refutes_it_for_good() -> None:
    one, other = pair(99)
    refuted = after(*proofs(PROOFS), (one, "this", 0.0), (other, "that", 60.0))

    assert refuted == OrderEvidence(refuted=True)
    for visit in proofs(PROOFS):
        refuted = refuted.visited(*visit)
    assert not refuted.irrelevant


def test_a_page_that_may_have_changed_between_two_visits_refutes_nothing() -> None:
    one, other = pair(99)

    assert after(*proofs(PROOFS), (one, "this", 0.0), (other, "that", 2 * DAY)).irrelevant


def test_a_redirect_to_another_order_refutes_it() -> None:
    one, other = pair(1)
    evidence = after(*proofs(PROOFS))

    assert evidence.redirected(one, url("elsewhere")).irrelevant
    assert not evidence.redirected(one, other).irrelevant


@pytest.mark.parametrize("path", ["p", "p?a=1", "p?a=1&a=2"])
def test_urls_without_two_names_say_nothing(path: str) -> None:
    assert after((url(path), "page", 0.0)) == OrderEvidence()


def test_the_order_of_one_names_values_is_never_in_question() -> None:
    assert not after(*((url(f"p?a=1&a={n}&b=2"), f"{n}", 0.0) for n in range(9))).refuted
    assert after((url("p?a=1&a=2&b=3"), "x", 0.0), (url("p?a=2&a=1&b=3"), "y", 0.0)).refuted is False


VISITS = st.tuples(
    st.integers(0, 120).flatmap(lambda n: st.sampled_from(pair(n))), st.sampled_from("xyz"), st.floats(0, 1e9)
)


@given(st.lists(VISITS, max_size=200))
@settings(max_examples=25, deadline=None)
def test_what_a_host_can_make_us_remember_is_bounded(visits: list[tuple[str, str, float]]) -> None:
    evidence = after(*visits)

    assert len(evidence.samples) <= KEPT
    assert len(evidence.proofs) <= PROOFS


@given(st.lists(VISITS, max_size=60))
@settings(max_examples=40, deadline=None)
def test_no_pair_has_shown_two_pages_at_one_time_where_the_order_means_nothing(
    visits: list[tuple[str, str, float]],
) -> None:
    at_once = [(one, page, 0.0) for one, page, _ in visits]

    if after(*at_once).irrelevant:
        last: dict[str, tuple[str, str]] = {}
        for one, page, _ in at_once:
            form = parameter_order.sorted_by_name(one)
            assert form not in last or last[form][0] == one or last[form][1] == page
            last[form] = (one, page)


def test_a_pair_in_a_large_host_is_found_by_both_or_none_of_its_urls() -> None:
    many = [(one, f"page {n}", 0.0) for n in range(2_000) for one in pair(n)]

    assert after(*many).irrelevant


# in the frontier


@dataclass
class Site:
    """A host of which every page but `strange` is the same whatever the order of the parameters."""

    rig: FrontierRig

    def crawl(self, *urls: str, strange: bool = False) -> None:
        self.rig.discover(*urls)
        for _ in urls:
            lease = self.rig.claim_page()
            page = lease.url if strange else "&".join(sorted(lease.url.partition("?")[2].split("&")))
            self.rig.finish(lease, "success", fingerprint=page)

    def prove(self) -> None:
        self.crawl(*(one for n in range(PROOFS) for one in pair(n)))


def test_a_host_that_has_shown_it_has_its_new_urls_sorted_and_keeps_the_old_ones() -> None:
    site = Site(FrontierRig(A))
    site.prove()

    site.rig.discover(url("new?z=1&c=2"), url("new?c=2&z=1"), pair(0)[1])

    assert site.rig.record(A, url("new?z=1&c=2")) is None
    assert known(site.rig, url("new?c=2&z=1")).state == 0
    assert known(site.rig, pair(0)[1]).last_success_at > 0
    assert site.rig.frontier.form_of(pair(0)[1]) == pair(0)[1]


def test_what_was_learnt_outlives_a_restart() -> None:
    site = Site(FrontierRig(A))
    site.prove()

    site.rig.restart()

    assert site.rig.frontier.form_of(url("x?b=1&a=2")) == url("x?a=2&b=1")


def test_a_host_that_cares_for_the_order_loses_no_url() -> None:
    site = Site(FrontierRig(A))
    site.prove()
    site.rig.discover(url("late?a=1&b=2"))
    lease = site.rig.claim_page()
    site.rig.finish(lease, "redirect", found=[Found(url("late?b=2&a=1"), 0, 0.5, 1)])

    assert known(site.rig, url("late?b=2&a=1")).state == 0
    assert site.rig.frontier.hosts[A].record.order.refuted
    assert site.rig.discover(url("q?b=1&a=1"), url("q?a=1&b=1")).new_urls == 2


def test_ablation_without_a_look_at_redirects_the_page_would_never_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    enter = Links.enter
    monkeypatch.setattr(OrderEvidence, "redirected", lambda self, one, other: self)
    monkeypatch.setattr(Links, "enter", lambda self, found, by=None, **_: enter(self, found, by))
    site = Site(FrontierRig(A))
    site.prove()

    site.rig.discover(url("late?a=1&b=2"))
    site.rig.finish(site.rig.claim_page(), "redirect", found=[Found(url("late?b=2&a=1"), 0, 0.5, 1)])

    assert site.rig.record(A, url("late?b=2&a=1")) is None


@pytest.mark.parametrize(("setting", "form"), [(True, "x?a=2&b=1"), (False, "x?b=1&a=2")])
def test_the_operator_has_the_last_word(setting: bool, form: str) -> None:
    site = Site(FrontierRig(A, host_rules=(HostRule(A, urls={"sort_parameters": setting}),)))
    site.prove()

    assert site.rig.frontier.form_of(url("x?b=1&a=2")) == url(form)
    assert len(encode(site.rig.frontier.hosts[A].record)) < 3_000
