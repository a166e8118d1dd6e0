"""Dagster as the chart sets it up: what its own configuration schemas and its own launcher make of it.

The launcher talks to a FAKE API server of ours (`fake_api_server.py`): no pod ever runs here.
"""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import kubernetes_validate
import pytest
import yaml
from dagster._config import process_config
from dagster._core.instance.config import dagster_instance_config_schema
from dagster._core.launcher import LaunchRunContext
from dagster._core.test_utils import create_run_for_test
from dagster_k8s import K8sRunLauncher, k8s_job_executor
from sqlalchemy.engine import make_url

from crawl_platform.errors import ConfigurationError
from resources.executor import executor_of
from resources.instance import instance_config
from tests.deploy.fake_api_server import FakeApiServer
from tests.deploy.manifests import CHART, DEPLOY, NAMESPACE, Manifest, Rendered
from tests.deploy.test_chart import VERSIONS

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: fake
clusters: [{{name: fake, cluster: {{server: "{url}"}}}}]
users: [{{name: fake, user: {{}}}}]
contexts: [{{name: fake, context: {{cluster: fake, user: fake}}}}]
"""


@dg.op
def nothing() -> None:
    """A job's only step."""


@dg.job
def some_job() -> None:
    nothing()


def config_of(rendered: Rendered) -> Manifest:
    config: Manifest = yaml.safe_load(rendered.file("dagster", "dagster.yaml"))
    return config


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer().serving() as server:
        yield server


def launcher_of(rendered: Rendered, server: FakeApiServer, folder: Path) -> K8sRunLauncher:
    """dagster-k8s' own launcher with the chart's configuration, pointed at the fake."""
    (folder / "kubeconfig").write_text(KUBECONFIG.format(url=server.url))
    given = config_of(rendered)["run_launcher"]["config"]
    here = {"load_incluster_config": False, "kubeconfig_file": str(folder / "kubeconfig")}
    checked = process_config(K8sRunLauncher.config_type(), given | here)
    assert checked.success, checked.errors
    return K8sRunLauncher(**checked.value)


def launch(rendered: Rendered, server: FakeApiServer, folder: Path) -> Manifest:
    """The job that is made for a run."""
    launcher = launcher_of(rendered, server, folder)
    with dg.DagsterInstance.local_temp(str(folder)) as instance:
        launcher.register_instance(instance)
        origin = dg.reconstructable(some_job).get_python_origin()
        run = create_run_for_test(instance, job_name="some_job", job_code_origin=origin)
        launcher.launch_run(LaunchRunContext(run, workspace=None))
    (job,) = server.jobs
    return job


def test_a_run_is_a_job_that_kubernetes_takes(
    rendered: Rendered, server: FakeApiServer, tmp_path: Path
) -> None:
    job = launch(rendered, server, tmp_path)

    assert server.requests[0] == ("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
    for version in VERSIONS:
        kubernetes_validate.validate(job, version, strict=True)


@pytest.mark.long
def test_a_run_s_pod_is_as_restricted_as_every_other(
    rendered: Rendered, server: FakeApiServer, tmp_path: Path
) -> None:
    spec = launch(rendered, server, tmp_path)["spec"]["template"]["spec"]

    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    assert spec["serviceAccountName"] == "crawl-run"


def test_a_run_s_pod_has_the_crawl_s_home_its_login_and_the_storage(
    default: Rendered, server: FakeApiServer, tmp_path: Path
) -> None:
    spec = launch(default, server, tmp_path)["spec"]["template"]["spec"]
    (container,) = spec["containers"]

    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts >= {
        "/crawl",
        "/crawl/crawl.toml",
        "/crawl/run/nats.json",
        "/dagster",
        "/dagster/dagster.yaml",
        "/tmp",
    }
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in spec["volumes"]}
    assert {e["name"] for e in container["env"]} >= {"DAGSTER_HOME", "CRAWL_DAGSTER_POSTGRES_URL"}
    assert (
        container["image"]
        == default.one("Deployment", "code")["spec"]["template"]["spec"]["containers"][0]["image"]
    )


@pytest.mark.long
def test_a_run_s_pod_mounts_the_home_as_the_code_location_does(
    default: Rendered, server: FakeApiServer, tmp_path: Path
) -> None:
    """Else a run would not see the lake that its definitions were loaded with."""
    (run,) = launch(default, server, tmp_path)["spec"]["template"]["spec"]["containers"]
    (code,) = default.one("Deployment", "code")["spec"]["template"]["spec"]["containers"]

    paths = {mount["mountPath"] for mount in code["volumeMounts"]}
    assert paths == {mount["mountPath"] for mount in run["volumeMounts"]}


def test_the_instance_s_configuration_is_one(rendered: Rendered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWL_DAGSTER_POSTGRES_URL", "postgresql+psycopg2://somewhere/dagster")
    config = config_of(rendered)

    checked = process_config(dagster_instance_config_schema(), config)

    assert checked.success, checked.errors
    assert config["run_coordinator"]["class"] == "QueuedRunCoordinator"
    assert config["concurrency"]["pools"]["default_limit"] == 1
    assert config["storage"]["postgres"]["postgres_url"] == {"env": "CRAWL_DAGSTER_POSTGRES_URL"}


@pytest.mark.parametrize(
    "file", [CHART / "files" / "dagster.yaml", DEPLOY / "compose" / "dagster.yaml"], ids=["chart", "compose"]
)
def test_the_instance_s_configuration_is_the_one_of_every_other_deployment(file: Path) -> None:
    assert yaml.safe_load(file.read_text()) == yaml.safe_load(instance_config("production", postgres=True))


def test_the_storage_s_url_names_a_driver_that_is_installed(trial: Rendered) -> None:
    """SQLAlchemy 2.1 takes `postgresql://` for another driver than the one that dagster-postgres brings."""
    (secret,) = [m for m in trial.of_kind("Secret") if m["metadata"]["name"] == "crawl-postgres"]

    url = make_url(secret["stringData"]["url"])

    assert url.get_dialect().import_dbapi().__name__ == "psycopg2"
    assert url.host == "crawl-postgres.crawling.svc"


# steps in pods of their own


def executor_file(rendered: Rendered, folder: Path) -> Path:
    file = folder / "executor.yaml"
    file.write_text(rendered.file("dagster", "executor.yaml"))
    return file


def test_steps_run_in_the_run_s_process_unless_they_have_pods() -> None:
    assert executor_of(None) is executor_of("") is dg.in_process_executor


def test_with_pods_of_their_own_steps_have_their_own_resources(production: Rendered, tmp_path: Path) -> None:
    executor = executor_of(str(executor_file(production, tmp_path)))

    assert executor.name == "k8s_job"
    config = yaml.safe_load(production.file("dagster", "executor.yaml"))
    step = config["per_step_k8s_config"]["near_duplicates"]["container_config"]["resources"]
    assert step["limits"]["memory"] == "16Gi"
    checked = process_config(k8s_job_executor.config_schema.config_type, config)
    assert checked.success


def test_whether_steps_have_pods_is_told_to_code_and_runs(default: Rendered, production: Rendered) -> None:
    def told(rendered: Rendered) -> set[str]:
        code = rendered.one("Deployment", "code")["spec"]["template"]["spec"]["containers"][0]["env"]
        run = config_of(rendered)["run_launcher"]["config"]["run_k8s_config"]["container_config"]["env"]
        return {e["value"] for e in (*code, *run) if e["name"] == "CRAWL_EXECUTOR_FILE"}

    assert told(default) == {""}
    assert told(production) == {"/etc/dagster/executor.yaml"}


@pytest.mark.parametrize("text", ["nonsense: true", "job_image: [", "max_concurrent: many"])
def test_a_file_that_configures_no_executor_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "executor.yaml").write_text(text)

    with pytest.raises(ConfigurationError, match="CRAWL_EXECUTOR_FILE"):
        executor_of(str(tmp_path / "executor.yaml"))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be read"):
        executor_of(str(tmp_path / "none.yaml"))


@pytest.mark.parametrize(
    "asset", ["link_graph", "host_ranks", "page_ranks", "near_duplicates", "page_values"]
)
def test_the_steps_with_resources_of_their_own_are_assets(default: Rendered, asset: str) -> None:
    from crawl_platform.definitions import ASSETS

    known = {key.path[-1] for definition in ASSETS for key in definition.keys}
    assert asset in known
    assert asset in yaml.safe_load(default.file("dagster", "executor.yaml"))["per_step_k8s_config"]
