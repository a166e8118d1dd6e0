"""The pictures of the promotion report."""

import pytest

from assets.promotion_figures import Strip, comparison, sheet
from crawl_platform.graph.neighbourhood import neighbourhood
from tests.orchestration.test_plots import drawn, ink, picture

HOSTS = [f"host-{n}.test" for n in range(20)]
pytestmark = pytest.mark.usefixtures("pictures")


def test_hosts_are_compared_in_a_small_picture():
    trust = Strip("trust", [1.0, 2.0, 4.0], [n + 1.0 for n in range(20)], 1.5)
    share = Strip("share", [], [0.5] * 20, log=False)

    many = picture(comparison("Hosts", HOSTS, [trust, share]))
    one = picture(comparison("Hosts", HOSTS[:1], [Strip("trust", [1.0], [1.0])]))

    assert many.height > one.height
    assert ink(many) * many.height > ink(one) * one.height


def test_all_neighbourhoods_stand_on_one_small_sheet():
    around = [
        neighbourhood(host, ["a.test", "b.test"], [("a.test", "b.test")], {host: ["c.test"]})
        for host in HOSTS
    ]
    states = [dict.fromkeys(one.places, "horizon") for one in around]

    many = drawn(sheet("Around", around, states), 40_000)
    one = drawn(sheet("Around", around[:1], states[:1]), 40_000)

    assert (many.width, many.height) > (one.width, one.height)
    assert ink(many.convert("L")) > 0.02
    assert ink(picture(sheet("Around", [], []))) > 0
