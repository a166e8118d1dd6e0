"""The chart renders and lints without a cluster, and what it renders is what Kubernetes' own schemas allow.

What only a cluster can show (scheduling, volumes, that policies are enforced) is not tested here.
"""

from copy import deepcopy
from typing import Any

import kubernetes_validate
import pytest
from helm_python import Chart, HelmError, lint

from tests.deploy.manifests import CHART, NAMESPACE, VALUE_SETS, Manifest, Rendered, merged, render, values_of

VERSIONS = ("1.34.0", "1.36.0")
WARNING = 2


@pytest.mark.parametrize("values", VALUE_SETS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_chart_lints_strictly(values: str, version: str) -> None:
    report = lint(CHART, values_of(values), strict=True, namespace=NAMESPACE, kube_version=f"v{version}")

    assert [m for m in report["messages"] if m["severity"] >= WARNING] == []
    assert report["errors"] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_valid_in_two_versions_of_kubernetes(rendered: Rendered, version: str) -> None:
    for manifest in rendered.all:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_field_that_kubernetes_does_not_know_would_be_noticed(default: Rendered) -> None:
    manifest = deepcopy(default.one("StatefulSet", "cell"))
    manifest["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, VERSIONS[0], strict=True)


def test_it_is_the_same_every_time() -> None:
    def text() -> dict[str, str]:
        with Chart.load(CHART) as chart:
            return chart.render({}, name="crawl", namespace=NAMESPACE)

    assert text() == text()


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"cells": {"replica": 3}}, "replica"),
        ({"cells": {"replicas": 0}}, "replicas"),
        ({"cells": {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}}, None),
        ({"image": {"tag": "latest"}}, "tag"),
        ({"nats": {"replicas": 2}}, "replicas"),
        ({"nats": {"enabled": False}}, "nats.url"),
        ({"postgres": {"image": "postgres"}}, "image"),
        ({"ingress": {"enabled": True, "host": "crawl.example.org"}}, "authProxy.service"),
        ({"networkPolicy": {"apiServer": ["10.0.0.1"]}}, "apiServer"),
    ],
)
def test_values_that_would_not_do_are_refused(values: dict[str, Any], why: str | None) -> None:
    if why is None:  # what is not said keeps the default: limits are there all the same
        assert Rendered(render(values)).one("StatefulSet", "cell")
        return
    with pytest.raises(HelmError, match=why):
        render(values)


def test_every_manifest_is_of_the_release_and_in_no_other_namespace(rendered: Rendered) -> None:
    names = [(m["kind"], m["metadata"]["name"]) for m in rendered.all]

    assert len(names) == len(set(names))
    assert {m["metadata"]["labels"]["app.kubernetes.io/instance"] for m in rendered.all} == {"crawl"}
    assert {m["metadata"].get("namespace", NAMESPACE) for m in rendered.all} == {NAMESPACE}


def test_logins_are_made_only_where_that_was_asked_for(
    default: Rendered, trial: Rendered, production: Rendered
) -> None:
    assert default.of_kind("Secret") == production.of_kind("Secret") == []

    made = {m["metadata"]["name"]: m["stringData"] for m in trial.of_kind("Secret")}
    assert set(made) == {"crawl-nats", "crawl-api", "crawl-postgres"}
    assert made["crawl-nats"]["password"] in made["crawl-nats"]["nats.json"]
    assert made["crawl-postgres"]["password"] in made["crawl-postgres"]["url"]
    assert len(made["crawl-nats"]["password"]) == 32


def test_no_password_stands_in_a_manifest_that_is_not_a_secret(trial: Rendered) -> None:
    secrets = [v for m in trial.of_kind("Secret") for k, v in m["stringData"].items() if k == "password"]
    others = repr([m for m in trial.all if m["kind"] != "Secret"])

    assert secrets
    assert not any(secret in others for secret in secrets)


def test_a_change_of_the_settings_starts_the_fleet_anew() -> None:
    before, after = (
        Rendered(render(merged(values_of("default"), {"settings": {"fetch": {"slots": slots}}})))
        for slots in (64, 65)
    )

    def annotations(rendered: Rendered, kind: str, name: str) -> Manifest:
        found: Manifest = rendered.one(kind, name)["spec"]["template"]["metadata"].get("annotations", {})
        return found

    for kind, name in (
        ("StatefulSet", "cell"),
        ("Deployment", "committer"),
        ("Deployment", "api"),
        ("Deployment", "code"),
    ):
        assert annotations(before, kind, name) != annotations(after, kind, name)
    assert annotations(before, "StatefulSet", "nats") == annotations(after, "StatefulSet", "nats")


def test_the_job_is_another_one_only_when_there_is_something_to_prepare() -> None:
    def job(values: dict[str, Any]) -> str:
        (found,) = Rendered(render(values)).of_kind("Job")
        name: str = found["metadata"]["name"]
        return name

    assert job({}) == job({"settings": {"fetch": {"slots": 64}}})
    assert job({}) != job({"cells": {"replicas": 4}})
    assert job({}) != job({"image": {"tag": "0.2.0"}})
