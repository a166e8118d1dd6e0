"""The Grafana dashboard draws metrics that the API has. It was not opened in Grafana here."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.manifests import DEPLOY

SUFFIX = re.compile(r"_(total|bucket|sum|count)$")


@pytest.fixture
def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana" / "crawl.json").read_text())
    return found


@pytest.fixture
def metrics(repository: Path) -> set[str]:
    """Names of all metrics that the API declares."""
    text = (repository / "crawl_platform" / "api" / "metrics.py").read_text()
    return set(re.findall(r'"(crawl_\w+)"', text))


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_every_metric_that_is_drawn_exists(dashboard: dict[str, Any], metrics: set[str]) -> None:
    drawn = {SUFFIX.sub("", name) for e in expressions(dashboard) for name in re.findall(r"crawl_\w+", e)}

    assert drawn - metrics == set()


def test_no_metric_is_left_out(dashboard: dict[str, Any], metrics: set[str]) -> None:
    drawn = {SUFFIX.sub("", name) for e in expressions(dashboard) for name in re.findall(r"crawl_\w+", e)}

    assert metrics - drawn == {"crawl_window_remaining_seconds"}, "a time that a graph says nothing with"


def test_counters_are_drawn_as_rates_and_gauges_are_not(dashboard: dict[str, Any]) -> None:
    for expression in expressions(dashboard):
        counters = re.findall(r"crawl_\w+_(?:total|bucket)", expression)
        assert expression.count("rate(") == len(counters), expression


def test_panels_do_not_overlap_and_have_a_source(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        assert panel["datasource"]["uid"] == "${datasource}"
        taken |= cells
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
