import base64
import io

import numpy as np
import pytest
from PIL import Image

from assets.plots import (
    CENTRE_COLOUR,
    STATE_COLOURS,
    bars,
    histogram,
    markdown_table,
    network,
    rank_curve,
    trend,
)
from crawl_platform.graph.neighbourhood import neighbourhood

pytestmark = pytest.mark.usefixtures("pictures")


def picture(metadata, most: int = 20_000) -> Image.Image:
    return drawn(metadata, most).convert("L")


def drawn(metadata, most: int) -> Image.Image:
    _, encoded = metadata.md_str.removesuffix(")").split("base64,")
    data = base64.b64decode(encoded)
    assert len(data) < most
    return Image.open(io.BytesIO(data)).convert("RGB")


def ink(image: Image.Image) -> float:
    return float(np.mean(np.asarray(image) < 200))


def test_a_rank_curve_is_a_small_picture_with_something_on_it():
    empty = picture(rank_curve("Trust", {"seed": []}, {}))
    full = picture(
        rank_curve("Trust", {"seed": np.geomspace(1, 1e-6, 5_000), "horizon": [0.5]}, {"floor": 1e-3})
    )

    assert ink(full) > ink(empty) > 0


def test_a_histogram_and_bars_are_drawn_also_of_nothing():
    for values in ([], [1], [1, 5, 900]):
        assert ink(picture(histogram("Hosts", "links", values))) > 0
        names = [f"host-{v}.test" for v in values]
        assert ink(picture(bars("Fetches", "fetches", names, {"reserved": values, "by value": values}))) > 0


def test_a_trend_shows_a_week_of_hours_and_has_gaps_where_nothing_was_measured():
    hours, values = np.arange(-167, 1), 0.5 + 0.3 * np.sin(np.arange(168) / 9)
    gapped = np.where(np.arange(168) % 2, np.nan, values)
    series = {"freshness": values, "by value": values + 0.05, "believed": values - 0.1}

    whole = ink(picture(trend("Freshness", "share", hours, series)))

    assert whole > ink(picture(trend("Freshness", "share", hours, dict.fromkeys(series, gapped)))) > 0


def test_the_same_numbers_give_the_same_bytes():
    assert rank_curve("T", {"a": [3, 2, 1]}, {}) == rank_curve("T", {"a": [3, 2, 1]}, {})


def test_a_table_keeps_its_cells_apart_and_says_when_it_is_empty():
    assert markdown_table(["a"], []).md_str == "*none this time*"
    assert markdown_table(["a", "b"], [["x|y", 1]]).md_str == "| a | b |\n| --- | --- |\n| x\\|y | 1 |"


def crowd():
    """A host with as much around it as is ever shown."""
    supporters = [f"www.supporter-{i}.example.org" for i in range(12)]
    others = [f"neighbour-number-{i}.example.com" for i in range(12)]
    links = [(s, o) for i, s in enumerate(supporters) for o in others[i % 5 :: 2]]
    kin = {"new.example.net": [f"farm-{i}.example.net" for i in range(6)]}
    return neighbourhood("new.example.net", supporters, links, kin)


def test_a_neighbourhood_is_one_small_picture_with_a_colour_for_each_state():
    around = crowd()
    names = list(STATE_COLOURS)
    states = {host: names[i % len(names)] for i, host in enumerate(around.places)}

    image = drawn(network("new.example.net", around, states), 30_000)

    pixels = np.asarray(image).reshape(-1, 3).astype(int)
    for colour in (CENTRE_COLOUR, *STATE_COLOURS.values()):
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        near = np.abs(pixels - (red, green, blue)).max(axis=1) < 24
        assert near.sum() > 30, colour


def test_a_host_that_stands_alone_is_drawn_too():
    alone = neighbourhood("new.example.net", [], [], {})

    assert ink(picture(network("new.example.net", alone, {"new.example.net": "horizon"}))) > 0
