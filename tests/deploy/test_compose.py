"""The compose file: read as text, since there is no container engine here to start it. What it asks of our own
processes is tried with processes."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy.engine import make_url

from crawl_platform import settings as settings_module
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet import natsserver
from crawl_platform.fleet.exchange import Endpoint
from crawl_platform.settings import Fleet as FleetSettings
from tests.deploy.manifests import DEPLOY
from tests.fleet.checks import assert_brought_home
from tests.fleet.harness import Fleet
from tests.fleet.sites import Plan, free_port, serve

REQUIRED = re.compile(r"\$\{(\w+):\?[^}]*\}")
OPTIONAL = re.compile(r"\$\{(\w+):-([^}]*)\}")
ONE_SHOT = "storage"


@pytest.fixture
def text() -> str:
    return (DEPLOY / "compose.yaml").read_text()


@pytest.fixture
def services(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)["services"]
    return found


def long_running(services: dict[str, Any]) -> dict[str, Any]:
    return {name: service for name, service in services.items() if name != ONE_SHOT}


def test_all_parts_are_there(services: dict[str, Any]) -> None:
    assert set(services) == {"nats", "postgres", "fleet", "api", "storage", "code", "webserver", "daemon"}


def test_what_runs_for_ever_is_checked_and_started_again(services: dict[str, Any]) -> None:
    for name, service in long_running(services).items():
        assert service["restart"] == "unless-stopped", name
        if name != "fleet":  # the image's own check is the fleet's
            assert service["healthcheck"]["test"][0] == "CMD", name
    assert services[ONE_SHOT]["restart"] == "on-failure"


def test_every_published_port_is_bound_to_loopback(services: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}

    assert set(published) == {"webserver", "api"}
    for ports in published.values():
        assert all(port.startswith("127.0.0.1:") for port in ports)


def test_stores_and_exchange_are_on_a_network_without_a_way_out(text: str, services: dict[str, Any]) -> None:
    networks = yaml.safe_load(text)["networks"]

    assert networks["inside"]["internal"] is True
    for name in ("nats", "postgres", "code", "daemon", "storage"):
        assert services[name]["networks"] == ["inside"], name
    assert [name for name, service in services.items() if "internet" in service["networks"]] == ["fleet"]


def test_our_containers_can_write_their_volumes_only(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert "no-new-privileges:true" in service["security_opt"], name
        assert "privileged" not in service
        if name != "postgres":
            assert service["read_only"] is True, name
            assert service["cap_drop"] == ["ALL"], name
            assert service["tmpfs"] == ["/tmp"], name


def test_every_service_has_limits(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}, name


def test_every_image_has_a_tag_that_stands(services: dict[str, Any]) -> None:
    images = {OPTIONAL.sub(r"\2", service["image"]) for service in services.values()}

    assert all(re.search(r":\d[\w.-]*$", image) for image in images), images


def test_volumes_networks_and_what_is_waited_for_are_declared(text: str, services: dict[str, Any]) -> None:
    whole = yaml.safe_load(text)
    for name, service in services.items():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source.startswith("./") or source in whole["volumes"], (name, source)
        assert set(service["networks"]) <= set(whole["networks"]), name
        assert set(service.get("depends_on", {})) <= set(services), name


def test_files_that_are_mounted_are_there_or_come_from_an_example(services: dict[str, Any]) -> None:
    mounted = {
        volume.partition(":")[0]
        for service in services.values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    }

    assert mounted == {
        "./compose/nats.conf",
        "./crawl.toml",
        "./compose/dagster.yaml",
        "./compose/workspace.yaml",
    }
    for source in mounted - {"./crawl.toml"}:
        assert (DEPLOY / source).exists(), source
    assert (DEPLOY / "compose" / "crawl.toml").exists()


def test_nothing_starts_with_the_example_as_it_is(text: str) -> None:
    """Compose refuses `${NAME:?}` while NAME is empty; that is what the example leaves it."""
    lines = (DEPLOY / "compose" / "env.example").read_text().splitlines()
    example = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))

    assert (
        set(example)
        == set(REQUIRED.findall(text))
        == {
            "CRAWL_NATS_PASSWORD",
            "CRAWL_POSTGRES_PASSWORD",
            "CRAWL_API_TOKENS",
        }
    )
    assert set(example.values()) == {""}


def test_the_example_of_the_settings_refuses_to_fetch_until_it_names_a_contact(tmp_path: Path) -> None:
    example = (DEPLOY / "compose" / "crawl.toml").read_text()
    (tmp_path / "crawl.toml").write_text(example)

    settings = settings_module.load(tmp_path)

    assert settings.fleet.nats_url == "nats://nats:4222"
    with pytest.raises(ConfigurationError, match="contact"):
        settings.require_contact()
    (tmp_path / "crawl.toml").write_text(example.replace('contact = ""', 'contact = "ops@example.org"'))
    settings_module.load(tmp_path).require_contact()


def test_no_secret_stands_in_the_file(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|TOKEN|URL", variable):
                assert REQUIRED.search(value), (name, variable)


def test_the_storage_s_url_names_a_driver_that_is_installed(services: dict[str, Any]) -> None:
    url = make_url(REQUIRED.sub("x", services["code"]["environment"]["CRAWL_DAGSTER_POSTGRES_URL"]))

    assert url.get_dialect().import_dbapi().__name__ == "psycopg2"
    assert (url.host, url.username, url.database) == ("postgres", "dagster", "dagster")
    assert services["postgres"]["environment"]["POSTGRES_USER"] == url.username


def test_the_webserver_finds_the_code_server(services: dict[str, Any]) -> None:
    workspace = yaml.safe_load((DEPLOY / "compose" / "workspace.yaml").read_text())
    (location,) = workspace["load_from"]

    assert location["grpc_server"]["host"] in services
    assert str(location["grpc_server"]["port"]) == services["code"]["command"][-1]
    assert location["grpc_server"]["location_name"] in services["code"]["command"]


def test_a_stop_leaves_the_fleet_the_time_that_it_takes(services: dict[str, Any]) -> None:
    from crawl_platform.fleet.supervisor import STOP_PATIENCE

    assert int(services["fleet"]["stop_grace_period"].rstrip("s")) >= 2 * STOP_PATIENCE


def test_one_daemon_and_one_storage_job(services: dict[str, Any]) -> None:
    for name in ("daemon", "storage", "fleet"):
        assert "replicas" not in services[name]["deploy"], name
    needs = services["code"]["depends_on"]
    assert needs[ONE_SHOT] == {"condition": "service_completed_successfully"}


@pytest.mark.long
def test_a_supervisor_uses_the_nats_and_the_login_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NATS as a service of its own, with the compose file's configuration; only port and folder are of this machine."""
    port = free_port()
    text = (DEPLOY / "compose" / "nats.conf").read_text()
    text = text.replace("0.0.0.0:4222", f"127.0.0.1:{port}").replace("8222", str(free_port()))
    config = tmp_path / "nats.conf"
    config.write_text(text.replace('"/data"', f'"{tmp_path}/data"'))
    login = {"NATS_USER": "crawl", "NATS_PASSWORD": "a-Password_1"}
    server = natsserver.spawn([str(natsserver.binary()), "--config", str(config)], tmp_path / "out", login)
    for name, value in login.items():
        monkeypatch.setenv(f"CRAWL_{name}", value)
    settings = FleetSettings(nats_url=f"nats://127.0.0.1:{port}", shards=8)
    try:
        with (
            serve(tmp_path / "web", Plan("small.test", 10)) as world,
            Fleet(tmp_path / "home", world.web, fleet=settings).start() as fleet,
        ):
            fleet.seed()
            fleet.wait_quiet()
            children = [child.name for child in fleet.status().children]
            fleet.stop()

            assert_brought_home(fleet, *world.sites.values())
    finally:
        server.terminate()
        server.wait(30)
    file = tmp_path / "home" / "run" / "nats.json"
    assert children == ["committer", "cell-0"], "no server of its own"
    assert Endpoint.read(file) == Endpoint(settings.nats_url, "crawl", "a-Password_1")
    assert file.stat().st_mode & 0o077 == 0


def test_a_supervisor_without_a_contact_says_so_and_ends(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "crawl_platform.fleet",
        "--console",
        "supervisor",
        "--home",
        str(tmp_path),
    ]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert done.returncode == 1
    assert "no contact given" in done.stderr
    assert "Traceback" not in done.stderr
