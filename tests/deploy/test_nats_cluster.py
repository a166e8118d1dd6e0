"""NATS as chart and compose file configure it: the configuration is read by the real server, and three of them
make a cluster on loopback that loses nothing with one of its members."""

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_platform.clock import SystemClock
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet import natsserver
from crawl_platform.fleet.exchange import BUCKETS, INBOX, MANIFESTS, Endpoint, Exchange
from crawl_platform.fleet.prepare import prepare_fleet
from crawl_platform.fleet.shards import shard_owners
from crawl_platform.settings import Settings
from tests.deploy.manifests import DEPLOY, Rendered
from tests.fleet.harness import eventually
from tests.fleet.sites import free_port

pytestmark = pytest.mark.long
USER, PASSWORD = "crawl", "a-Password_1"
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


class Cluster:
    """Servers with the chart's configuration; only addresses, ports and folders are of this machine."""

    def __init__(self, rendered: Rendered, folder: Path) -> None:
        self._text = rendered.file("nats", "nats.conf")
        self._manifest = rendered.one("StatefulSet", "nats")
        self._folder = folder
        self._ports = {number: free_port() for number in (4222, 6222, 8222)}
        self.size: int = self._manifest["spec"]["replicas"]
        self.servers: dict[int, subprocess.Popen[bytes]] = {}

    def url(self, number: int) -> str:
        return f"nats://{HOSTS[number]}:{self._ports[4222]}"

    def start(self, number: int) -> None:
        home = self._folder / f"node-{number}"
        home.mkdir(exist_ok=True)
        text = self._text.replace("0.0.0.0", HOSTS[number]).replace('"/data"', f'"{home}/data"')
        text = text.replace("/tmp/nats.pid", f"{home}/nats.pid")
        for well_known, port in self._ports.items():
            text = text.replace(f":{well_known}", f":{port}")
        config = home / "nats.conf"
        config.write_text(text)
        self.servers[number] = natsserver.spawn(
            [str(natsserver.binary()), "--config", str(config)], home / "out", self._environment(number)
        )

    def _environment(self, number: int) -> dict[str, str]:
        """The container's environment, with references resolved as the kubelet does."""
        (container,) = self._manifest["spec"]["template"]["spec"]["containers"]
        known = {"POD_NAME": f"nats-{number}", "NATS_USER": USER, "NATS_PASSWORD": PASSWORD}
        for entry in container["env"]:
            if "value" in entry:
                value = re.sub(r"\$\((\w+)\)", lambda m: known[m.group(1)], entry["value"])
                node = int(re.search(r"@\S+?-nats-(\d+)\.", value).group(1))  # type: ignore[union-attr]
                known[entry["name"]] = re.sub(r"@.*(?=\")", f"@{HOSTS[node]}:{self._ports[6222]}", value)
        return known

    def stop(self) -> None:
        for server in self.servers.values():
            if server.poll() is None:
                server.terminate()
            server.wait(60)


@pytest.fixture
def cluster(default: Rendered, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(default, tmp_path)
    try:
        for number in range(cluster.size):
            cluster.start(number)
        yield cluster
    finally:
        cluster.stop()


async def connected(endpoint: Endpoint) -> Exchange:
    for _ in range(240):
        try:
            return await Exchange.connect(endpoint, "test")
        except ExchangeError:
            await asyncio.sleep(0.25)
    raise AssertionError(f"no exchange at {endpoint.url}")


async def test_three_servers_keep_everything_three_times(cluster: Cluster, tmp_path: Path) -> None:
    exchange = await connected(Endpoint(cluster.url(0), USER, PASSWORD, replicas=3))
    try:
        streams = [MANIFESTS, INBOX, *(f"KV_{bucket}" for bucket in BUCKETS)]
        kept = [(await exchange._js.stream_info(name)).config.num_replicas for name in streams]
    finally:
        await exchange.close()

    assert cluster.size == 3
    assert set(kept) == {3}


async def test_the_loss_of_a_server_loses_no_shard_and_no_message(cluster: Cluster, tmp_path: Path) -> None:
    settings = Settings(home=str(tmp_path / "home"))
    endpoint = Endpoint(cluster.url(0), USER, PASSWORD, replicas=3)
    await (await connected(endpoint)).close()
    await prepare_fleet(settings, endpoint, SystemClock(), 2, within=60.0)
    first = await connected(endpoint)
    acknowledged = [await first.publish("inbox.3", f"message {n}".encode()) for n in range(20)]
    await first.close()

    cluster.servers[0].kill()

    second = await connected(Endpoint(cluster.url(1), USER, PASSWORD, replicas=3))
    try:
        owners = await _patiently(lambda: shard_owners(second))
        reader = await second.inbox_reader([3], 0)
        found = [message.sequence for message in await reader.present()]
        after = await _patiently(lambda: second.publish("inbox.3", b"after"))
    finally:
        await second.close()
    assert len(owners) == settings.fleet.shards
    assert found == acknowledged
    assert after == acknowledged[-1] + 1


async def _patiently(work):  # type: ignore[no-untyped-def]
    """A new leader takes some seconds."""
    for _ in range(120):
        try:
            return await work()
        except ExchangeError:
            await asyncio.sleep(0.5)
    return await work()


async def test_nobody_without_a_login_gets_in(cluster: Cluster) -> None:
    await (await connected(Endpoint(cluster.url(0), USER, PASSWORD, replicas=3))).close()

    with pytest.raises(ExchangeError):
        await Exchange.connect(Endpoint(cluster.url(0)), "stranger", wait=1.0)
    with pytest.raises(ExchangeError):
        await Exchange.connect(Endpoint(cluster.url(0), USER, "wrong"), "stranger", wait=1.0)


def test_a_single_server_takes_the_trial_s_configuration(trial: Rendered, tmp_path: Path) -> None:
    cluster = Cluster(trial, tmp_path)
    assert cluster.size == 1
    try:
        cluster.start(0)
        exchange = asyncio.run(_connect_and_leave(Endpoint(cluster.url(0), USER, PASSWORD)))
    finally:
        cluster.stop()
    assert exchange == 1


async def _connect_and_leave(endpoint: Endpoint) -> int:
    exchange = await connected(endpoint)
    info = await exchange._js.stream_info(INBOX)
    await exchange.close()
    return int(info.config.num_replicas)


def test_the_server_takes_the_compose_file_s_configuration(tmp_path: Path) -> None:
    command = [str(natsserver.binary()), "--config", str(DEPLOY / "compose" / "nats.conf"), "-t"]

    done = subprocess.run(
        command, env={"NATS_USER": USER, "NATS_PASSWORD": PASSWORD}, capture_output=True, text=True
    )
    without = subprocess.run(command, env={}, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert without.returncode != 0, "without a login it does not start"


def test_a_server_is_told_to_leave_before_it_is_stopped(
    default: Rendered, cluster: Cluster, tmp_path: Path
) -> None:
    (container,) = default.one("StatefulSet", "nats")["spec"]["template"]["spec"]["containers"]
    hook = container["lifecycle"]["preStop"]["exec"]["command"]
    pid = tmp_path / "node-2" / "nats.pid"
    eventually(pid.exists, 30.0, "the server's pid")

    subprocess.run(
        [str(natsserver.binary()), *(word.replace("/tmp/nats.pid", str(pid)) for word in hook[1:])],
        check=True,
    )

    assert cluster.servers[2].wait(90.0) is not None
