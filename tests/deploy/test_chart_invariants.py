"""What holds of every manifest of the chart, with every set of values."""

import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from crawl_platform import settings as settings_module
from tests.deploy.manifests import Manifest, Rendered, label, selects

ALWAYS_ON = ("Deployment", "StatefulSet")


def long_running(rendered: Rendered) -> dict[str, Manifest]:
    return {
        f"{label(m)}/{c['name']}": c
        for m in rendered.of_kind(*ALWAYS_ON)
        for c in m["spec"]["template"]["spec"]["containers"]
    }


def test_no_container_can_gain_rights_or_write_its_image(rendered: Rendered) -> None:
    for name, container in rendered.containers():
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False, name
        assert context["readOnlyRootFilesystem"] is True, name
        assert context["capabilities"] == {"drop": ["ALL"]}, name
        assert "privileged" not in context, name


def test_no_pod_runs_as_root_or_shares_anything_of_its_node(rendered: Rendered) -> None:
    for name, template in rendered.templates().items():
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["runAsUser"] > 0, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
        assert not any("hostPath" in volume for volume in spec["volumes"]), name


def test_every_container_has_requests_and_limits(rendered: Rendered) -> None:
    for name, container in rendered.containers():
        for kind in ("requests", "limits"):
            assert set(container["resources"][kind]) == {"cpu", "memory"}, (name, kind)


def test_whatever_runs_for_ever_has_all_three_probes(rendered: Rendered) -> None:
    assert long_running(rendered)
    for name, container in long_running(rendered).items():
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe], (name, probe)


def test_every_image_has_a_tag_that_stands(rendered: Rendered) -> None:
    for name, container in rendered.containers():
        assert re.search(r":\d[\w.-]*$", container["image"]), name


def test_every_mount_has_its_volume_and_every_volume_is_mounted(rendered: Rendered) -> None:
    for manifest in rendered.of_kind("Deployment", "StatefulSet", "Job"):
        spec = manifest["spec"]["template"]["spec"]
        claims = [c["metadata"]["name"] for c in manifest["spec"].get("volumeClaimTemplates", [])]
        volumes = {volume["name"] for volume in spec["volumes"]} | set(claims)
        containers = [*spec.get("initContainers", ()), *spec["containers"]]
        mounted = {mount["name"] for c in containers for mount in c["volumeMounts"]}
        assert mounted == volumes, label(manifest)


def test_selectors_take_the_pods_that_they_are_for(rendered: Rendered) -> None:
    for manifest in rendered.of_kind(*ALWAYS_ON):
        labels = manifest["spec"]["template"]["metadata"]["labels"]
        assert selects(manifest["spec"]["selector"], labels), label(manifest)


def test_workloads_do_not_take_each_other_s_pods(rendered: Rendered) -> None:
    templates = rendered.templates()
    for manifest in rendered.of_kind(*ALWAYS_ON):
        taken = [
            name
            for name, template in templates.items()
            if selects(manifest["spec"]["selector"], template["metadata"]["labels"])
        ]
        assert taken == [label(manifest)]


def test_services_budgets_and_policies_take_something(rendered: Rendered) -> None:
    labels = [template["metadata"]["labels"] for template in rendered.templates().values()]
    for service in rendered.of_kind("Service"):
        assert any(selects({"matchLabels": service["spec"]["selector"]}, pod) for pod in labels), label(
            service
        )
    for budget in rendered.of_kind("PodDisruptionBudget"):
        assert any(selects(budget["spec"]["selector"], pod) for pod in labels), label(budget)
    for policy in rendered.of_kind("NetworkPolicy"):
        assert any(selects(policy["spec"]["podSelector"], pod) for pod in labels), label(policy)


def test_services_name_ports_that_their_pods_have(rendered: Rendered) -> None:
    for service in rendered.of_kind("Service"):
        for name, template in rendered.templates().items():
            if not selects({"matchLabels": service["spec"]["selector"]}, template["metadata"]["labels"]):
                continue
            ports = {p["name"] for c in template["spec"]["containers"] for p in c.get("ports", ())}
            wanted = {port["targetPort"] for port in service["spec"].get("ports", ())}
            assert wanted <= ports, (label(service), name)


def test_what_is_kept_by_several_pods_survives_the_loss_of_one(default: Rendered) -> None:
    budgets = {
        b["metadata"]["name"]: b["spec"]["maxUnavailable"] for b in default.of_kind("PodDisruptionBudget")
    }

    assert budgets == {"crawl-cell": 1, "crawl-committer": 1, "crawl-nats": 1}


def test_config_maps_and_service_accounts_that_are_named_are_there(rendered: Rendered) -> None:
    maps = {m["metadata"]["name"] for m in rendered.of_kind("ConfigMap")}
    accounts = {m["metadata"]["name"] for m in rendered.of_kind("ServiceAccount")}
    for name, template in rendered.templates().items():
        spec = template["spec"]
        assert {v["configMap"]["name"] for v in spec["volumes"] if "configMap" in v} <= maps, name
        assert spec["serviceAccountName"] in accounts, name


# rights


def test_only_dagster_s_pods_can_talk_to_kubernetes(rendered: Rendered) -> None:
    with_token = {
        name
        for name, template in rendered.templates().items()
        if template["spec"].get("automountServiceAccountToken", True)
    }

    assert with_token == {"Deployment/crawl-webserver", "Deployment/crawl-daemon", "Deployment/crawl-code"}


def test_nobody_has_rights_beyond_the_namespace_or_over_everything(rendered: Rendered) -> None:
    assert rendered.of_kind("ClusterRole", "ClusterRoleBinding") == []
    for role in rendered.of_kind("Role"):
        for rule in role["rules"]:
            assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"]), label(role)
            assert "secrets" not in rule["resources"], label(role)


def test_the_fleet_s_control_may_touch_the_cells_alone(default: Rendered) -> None:
    rules = default.one("Role", "fleet-control")["rules"]

    patching = [rule for rule in rules if "patch" in rule["verbs"]]
    assert [rule["resourceNames"] for rule in patching] == [["crawl-cell"]]


def test_runs_start_pods_only_where_steps_have_pods_of_their_own(
    default: Rendered, production: Rendered
) -> None:
    def subjects(rendered: Rendered) -> list[str]:
        return [subject["name"] for subject in rendered.one("RoleBinding", "jobs")["subjects"]]

    assert subjects(default) == ["crawl-dagster"]
    assert subjects(production) == ["crawl-dagster", "crawl-run"]


# commands


def commands(rendered: Rendered) -> dict[str, list[str]]:
    """Every command of ours, hooks included, by where it stands."""
    found: dict[str, list[str]] = {}
    for name, container in rendered.containers():
        if container["image"].startswith("postgres"):
            continue
        found[name] = container["command"]
        if "lifecycle" in container:
            found[f"{name} preStop"] = unwrapped(container["lifecycle"]["preStop"]["exec"]["command"])
    return found


def unwrapped(command: list[str]) -> list[str]:
    return shlex.split(command[2]) if command[:2] == ["sh", "-c"] else command


@cache
def help_of(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout + done.stderr


@pytest.mark.long
def test_every_command_of_ours_exists_with_its_options(rendered: Rendered) -> None:
    ours = {name: line for name, line in commands(rendered).items() if line[0] == "python"}
    assert len(ours) >= 6
    for name, line in ours.items():
        words = [word for word in line[3:] if not word.startswith("-")]
        options = {word for word in line[3:] if word.startswith("--")}
        module = [sys.executable, "-m", line[2]]
        text = help_of(*module, "--help")
        if line[2] == "crawl_platform.fleet":
            text += help_of(*module, words[0], "--help")
        assert all(option in text for option in options), (name, options)


@pytest.mark.long
def test_every_other_command_is_in_the_image_and_knows_its_options(rendered: Rendered) -> None:
    others = {name: line for name, line in commands(rendered).items() if line[0] != "python"}
    assert {line[0] for line in others.values()} >= {"dagster", "dagster-webserver", "dagster-daemon"}
    for name, line in others.items():
        binary = Path(sys.executable).parent / line[0]
        assert binary.exists(), name
        words = [word for word in line[1:] if not word.startswith("-")]
        depth = {"dagster": 2, "dagster-daemon": 1}.get(line[0], 0)
        text = help_of(str(binary), *words[:depth], "--help")
        flags = [word for word in line[1:] if word.startswith("-")]
        assert all(re.search(rf"(?<![\w-]){flag}(?![\w-])", text) for flag in flags), (name, flags)


def test_a_stop_leaves_time_for_the_drain_and_the_last_commit(rendered: Rendered) -> None:
    spec = rendered.one("StatefulSet", "cell")["spec"]["template"]["spec"]
    drain = unwrapped(spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"])
    within = int(drain[drain.index("--within") + 1])

    assert spec["terminationGracePeriodSeconds"] >= within + 60
    assert within > settings_module.Fetch().total_timeout, "the slowest request may land"


def test_probes_of_the_pulse_tell_a_fresh_file_from_an_old_one(default: Rendered, tmp_path: Path) -> None:
    cell = default.one("StatefulSet", "cell")["spec"]["template"]["spec"]["containers"][0]
    probe = cell["livenessProbe"]["exec"]["command"]
    assert cell["startupProbe"]["exec"]["command"] == cell["readinessProbe"]["exec"]["command"] == probe
    command = [*probe[:2], probe[2].replace("/crawl", str(tmp_path))]
    pulse = tmp_path / "run" / "cell-7.alive"
    pulse.parent.mkdir()

    def status() -> int:
        return subprocess.run(command, env={"PATH": "/usr/bin:/bin", "POD_INDEX": "7"}, stderr=-3).returncode

    assert status() != 0, "not there"
    pulse.touch()
    assert status() == 0
    subprocess.run([shutil.which("touch") or "touch", "-d", "-1 minute", str(pulse)], check=True)
    assert status() != 0, "old"


# settings


def test_the_settings_are_settings(rendered: Rendered, tmp_path: Path) -> None:
    (tmp_path / "crawl.toml").write_text(rendered.file("settings", "crawl.toml"))

    settings = settings_module.load(tmp_path)

    cells = rendered.one("StatefulSet", "cell")["spec"]["replicas"]
    assert settings.fleet.cells == cells, "a cell that thinks itself alone shares no address"
    assert settings.fleet.nats_url.startswith("nats://")


def test_cells_are_named_by_their_number(rendered: Rendered) -> None:
    container = rendered.one("StatefulSet", "cell")["spec"]["template"]["spec"]["containers"][0]
    (index,) = [e for e in container["env"] if e["name"] == "POD_INDEX"]

    assert container["command"][-1] == "cell-$(POD_INDEX)"
    assert index["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['apps.kubernetes.io/pod-index']"


@pytest.mark.parametrize("kind", ["cell", "nats"])
def test_disks_outlive_their_pods(default: Rendered, kind: str) -> None:
    spec = default.one("StatefulSet", kind)["spec"]

    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
