"""The chart rendered offline: what would be sent to a cluster, as objects."""

import copy
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from helm_python import Chart

Manifest = dict[str, Any]
DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "crawl-platform"
NAMESPACE, RELEASE = "crawling", "crawl"
VALUE_SETS = ("default", "trial", "production")
POD_KINDS = ("Deployment", "StatefulSet", "Job")


def values_of(name: str) -> Manifest:
    """Values of one of the sets; the default set adds nothing to the chart's own."""
    if name == "default":
        return {}
    values: Manifest = yaml.safe_load((DEPLOY / "helm" / "values" / f"{name}.yaml").read_text())
    return values


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Manifest:
    """`over` laid over `base`, mapping by mapping, as helm does with a second values file."""
    result = copy.deepcopy(dict(base))
    for key, value in over.items():
        known = result.get(key)
        result[key] = (
            merged(known, value) if isinstance(known, dict) and isinstance(value, Mapping) else value
        )
    return result


def render(values: Mapping[str, Any]) -> list[Manifest]:
    """Every manifest of the chart with these values."""
    return copy.deepcopy(_render(json.dumps(values, sort_keys=True)))


@cache
def _render(text: str) -> list[Manifest]:
    values = json.loads(text)
    with Chart.load(CHART) as chart:
        texts = chart.render(values, name=RELEASE, namespace=NAMESPACE)
    return [
        document
        for path, text in texts.items()
        if path.endswith(".yaml")
        for document in yaml.safe_load_all(text)
        if document
    ]


class Rendered:
    def __init__(self, manifests: list[Manifest]) -> None:
        self.all = manifests

    def of_kind(self, *kinds: str) -> list[Manifest]:
        return [m for m in self.all if m["kind"] in kinds]

    def one(self, kind: str, name: str) -> Manifest:
        (found,) = [m for m in self.of_kind(kind) if m["metadata"]["name"] == f"{RELEASE}-{name}"]
        return found

    def templates(self) -> dict[str, Manifest]:
        """Pod templates by `Kind/name`."""
        return {label(m): m["spec"]["template"] for m in self.of_kind(*POD_KINDS)}

    def containers(self) -> Iterator[tuple[str, Manifest]]:
        """Containers that run as long as their pod does, and those that come before them."""
        for name, template in self.templates().items():
            for container in (*template["spec"].get("initContainers", ()), *template["spec"]["containers"]):
                yield f"{name}/{container['name']}", container

    def file(self, config_map: str, key: str) -> str:
        text: str = self.one("ConfigMap", config_map)["data"][key]
        return text


def label(manifest: Manifest) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector takes an object with `labels`."""
    wanted = selector.get("matchLabels", {})
    expressions = selector.get("matchExpressions", [])
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        labels.get(e["key"]) in e["values"] for e in expressions if e["operator"] == "In"
    )
