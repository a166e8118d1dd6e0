"""The guess for groups that nobody has watched: better than the mean where looks say something, and judged as such."""

import numpy as np
import pytest
from scipy.special import digamma

from crawl_platform.scheduling.cold_prior import Known, Looks, judge, predict
from crawl_platform.scheduling.group_prior import of_a_new_page

KINDS = {"/": 4.0, "/section/*": 5.0, "/story/*": 1.0, "/about": -4.0, "/p/#.html": -1.0, "/wiki/*": 0.0}


def looks(random, templates: list[str]) -> Looks:
    n = len(templates)
    return Looks(
        template=templates,
        depth=np.array([float(t.count("/")) for t in templates]),
        in_links=random.exponential(5.0, n),
        main_share=random.random(n),
        known_urls=random.integers(1, 500, n).astype(float),
        trust=random.exponential(0.01, n),
        anchors=[""] * n,
        types=[""] * n,
        listed=random.random(n),
        dated=random.random(n),
        linked_by=random.exponential(0.01, n),
        linkers_useful=random.random(n),
    )


@pytest.fixture(scope="module")
def web():
    """Twelve hosts, each with its own pace, whose groups change by what they are."""
    random = np.random.default_rng(4)
    host = [f"h{i}.test" for i in range(12) for _ in KINDS]
    found = looks(random, list(KINDS) * 12)
    pace = np.repeat(random.normal(0, 0.4, 12), len(KINDS))
    rate = np.array([KINDS[t] for t in found.template]) + pace + random.normal(0, 0.2, len(host))
    return found, rate, host


def test_on_hosts_that_it_has_not_seen_it_is_far_better_than_the_mean(web):
    found, rate, host = web

    judged = judge(found.features(), rate, host)

    assert judged.better
    assert judged.model < 0.4 * judged.baseline


def test_where_looks_say_nothing_it_is_not_better(web):
    """What the comparison is for: noise is learnt by heart, and held-out hosts tell."""
    found, rate, host = web
    noise = np.random.default_rng(0).permutation(rate)

    assert not judge(found.features(), noise, host).better


def test_it_is_compared_with_its_previous_version_on_the_same_groups(web):
    """A model that has lost most of what it learnt from is worse than the one before; one that learns from as much is
    not. Ablation: beside nothing, or itself, it is no worse."""
    found, rate, host = web
    known = Known(found.features(), rate, host)
    kept = [place for place, name in enumerate(host) if int(name[1:-5]) < 5]
    poor = known.features[kept], rate[kept], [host[place] for place in kept]

    beside, same = judge(*poor, known), judge(*poor, Known(*poor))

    assert beside.previous is not None
    assert beside.previous + beside.chance < beside.model
    assert not beside.no_worse
    assert same.no_worse


def test_judging_on_the_same_hosts_would_flatter_it(web):
    """Ablation: with every group its own fold, a host's other groups give its pace away."""
    found, _, host = web
    paces = np.repeat(np.random.default_rng(1).normal(0, 3.0, 12), len(KINDS))
    told = Looks(
        **{**found.__dict__, "trust": np.exp(np.repeat(np.random.default_rng(2).random(12), len(KINDS)))}
    )

    by_host = judge(told.features(), paces, host)
    by_group = judge(told.features(), paces, [str(i) for i in range(len(host))])

    assert by_group.model < 0.5 * by_host.model


def test_it_guesses_the_same_each_time(web):
    found, rate, _ = web
    cold = looks(np.random.default_rng(8), ["/story/*", "/about"]).features()

    first, second = (predict(found.features(), rate, cold) for _ in range(2))

    assert np.array_equal(first, second)
    assert first[0] > first[1] + 2


def test_what_is_not_known_of_a_group_is_no_obstacle(web):
    found, rate, _ = web
    nothing = {name: np.array([np.nan]) for name in Looks.__dataclass_fields__}
    unknown = Looks(**{**nothing, "template": ["/new/*"], "anchors": [""], "types": [""]})

    assert np.all(np.isfinite(predict(found.features(), rate, unknown.features())))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("types", {True: "NewsArticle WebPage", False: "Product WebPage"}),
        pytest.param("anchors", {True: "latest news", False: "terms and conditions"}, marks=pytest.mark.long),
        pytest.param("dated", {True: 1.0, False: 0.0}, marks=pytest.mark.long),
        pytest.param("linkers_useful", {True: 0.9, False: 0.1}, marks=pytest.mark.long),
    ],
)
def test_each_of_what_is_told_of_a_group_can_teach_its_rate(web, name, told):
    """Hosts whose templates say nothing. Ablation: without this one feature the guess is no better than the mean."""
    found, _, host = web
    random = np.random.default_rng(11)
    lively = random.random(len(host)) < 0.5
    rate = np.where(lively, 2.0, -3.0) + random.normal(0, 0.2, len(host))
    plain = Looks(**{**found.__dict__, "template": ["/p/*"] * len(host)})
    values = [told[bool(is_lively)] for is_lively in lively]
    telling = Looks(**{**plain.__dict__, name: values if isinstance(values[0], str) else np.array(values)})

    assert judge(telling.features(), rate, host).model < 0.3 * judge(plain.features(), rate, host).model


def test_a_feature_that_no_group_has_is_left_out(web):
    found, rate, host = web
    unranked = Looks(**{**found.__dict__, "trust": np.full(len(host), np.nan)})

    assert judge(unranked.features(), rate, host).better


def test_a_vague_guess_makes_a_wide_prior_with_the_guess_in_its_middle():
    sure, vague = (of_a_new_page(np.array([2.0]), error, 3.0) for error in (0.01, 4.0))

    assert vague[0] < sure[0] <= 3.1
    assert digamma(sure[0]) - np.log(sure[1]) == pytest.approx(2.0 + digamma(3.0) - np.log(3.0), abs=0.01)
