"""Who may talk to whom, by the chart's NetworkPolicies as the API documents them.

The rules are evaluated here, not by a network: that a cluster's plug-in enforces them is not shown.
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import NAMESPACE, Manifest, Rendered, render, selects, values_of


@dataclass(frozen=True)
class Pod:
    labels: dict[str, str] = field(hash=False)
    namespace: str = NAMESPACE


Peer = Pod | str
"""A pod, or an address outside the cluster."""


class Network:
    def __init__(self, rendered: Rendered) -> None:
        self._policies = [p["spec"] for p in rendered.of_kind("NetworkPolicy")]
        self.pods = {
            name.partition("/")[2].removeprefix("crawl-"): Pod(template["metadata"]["labels"])
            for name, template in rendered.templates().items()
        }
        (job,) = [name for name in self.pods if name.startswith("prepare-")]
        self.pods["prepare"] = self.pods.pop(job)
        self.pods["run"] = Pod(_labels_of_runs(rendered))

    def allows(self, source: Peer | str, target: Peer | str, port: int, protocol: str = "TCP") -> bool:
        source, target = (self.pods.get(x, x) if isinstance(x, str) else x for x in (source, target))
        return self._way("egress", source, target, port, protocol) and self._way(
            "ingress", target, source, port, protocol
        )

    def _way(self, way: str, subject: Peer, other: Peer, port: int, protocol: str) -> bool:
        if isinstance(subject, str) or subject.namespace != NAMESPACE:
            return True
        policies = [
            p
            for p in self._policies
            if way.capitalize() in p["policyTypes"] and selects(p["podSelector"], subject.labels)
        ]
        end = "to" if way == "egress" else "from"
        rules = [rule for policy in policies for rule in policy.get(way, ())]
        return not policies or any(
            any(_is_peer(peer, other) for peer in rule[end])
            and any(_covers(p, port, protocol) for p in rule["ports"])
            for rule in rules
        )


def _labels_of_runs(rendered: Rendered) -> dict[str, str]:
    config = yaml.safe_load(rendered.file("dagster", "dagster.yaml"))["run_launcher"]["config"]
    labels: dict[str, str] = config["run_k8s_config"]["pod_template_spec_metadata"]["labels"]
    return labels


def _is_peer(rule: Manifest, peer: Peer) -> bool:
    if "ipBlock" in rule:
        block = rule["ipBlock"]
        return (
            isinstance(peer, str)
            and _inside(peer, [block["cidr"]])
            and not _inside(peer, block.get("except", []))
        )
    if isinstance(peer, str):
        return False
    if "namespaceSelector" in rule:
        named = selects(rule["namespaceSelector"], {"kubernetes.io/metadata.name": peer.namespace})
    else:
        named = peer.namespace == NAMESPACE
    return named and selects(rule.get("podSelector", {}), peer.labels)


def _inside(address: str, networks: list[str]) -> bool:
    ip = ipaddress.ip_address(address)
    return any(ip in ipaddress.ip_network(network) for network in networks)


def _covers(rule: Manifest, port: int, protocol: str) -> bool:
    return rule["protocol"] == protocol and rule["port"] <= port <= rule.get("endPort", rule["port"])


@pytest.fixture
def network(trial: Rendered) -> Network:
    return Network(trial)


def pairs(network: Network) -> Iterator[tuple[str, str]]:
    for source in network.pods:
        for target in network.pods:
            yield source, target


def test_cells_read_the_internet(network: Network) -> None:
    for address in ("93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07::1"):
        assert network.allows("cell", address, 443)
        assert network.allows("cell", address, 80)
        assert network.allows("cell", address, 8443)


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "172.16.5.5",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "127.0.0.1",
        "fd00::1",
        "fe80::1",
    ],
)
def test_cells_reach_nothing_private(network: Network, address: str) -> None:
    assert not network.allows("cell", address, 443)


def test_nobody_but_cells_reads_the_internet(network: Network) -> None:
    for name in network.pods:
        if name != "cell":
            assert not network.allows(name, "93.184.215.14", 80), name


def test_nats_is_for_those_who_take_part_in_the_exchange(network: Network) -> None:
    allowed = {name for name in network.pods if network.allows(name, "nats", 4222)}

    assert allowed == {"cell", "committer", "api", "prepare", "code", "run"}
    assert {name for name in network.pods if network.allows(name, "nats", 6222)} == {"nats"}
    assert not network.allows(Pod({"app": "stranger"}, "elsewhere"), "nats", 4222)


def test_postgres_is_for_dagster(network: Network) -> None:
    allowed = {name for name in network.pods if network.allows(name, "postgres", 5432)}

    assert allowed == {"webserver", "daemon", "code", "run", "prepare"}


def test_the_code_location_is_for_webserver_and_daemon(network: Network) -> None:
    assert {n for n in network.pods if network.allows(n, "code", 4000)} == {"webserver", "daemon"}


def test_the_ui_is_for_the_proxy_that_authenticates(production: Rendered, network: Network) -> None:
    proxy = Pod({"app.kubernetes.io/name": "oauth2-proxy"})
    behind = Network(production)

    assert behind.allows(proxy, "webserver", 3000)
    for peer in (*behind.pods.values(), Pod({"app": "ingress"}, "ingress-nginx"), "93.184.215.14"):
        assert not behind.allows(peer, "webserver", 3000)
    assert not network.allows(proxy, "webserver", 3000), "nobody, until somebody is named"


def test_the_api_is_for_those_who_are_named(production: Rendered, network: Network) -> None:
    prometheus = Pod({"app": "prometheus"}, "monitoring")

    assert Network(production).allows(prometheus, "api", 8080)
    assert not network.allows(prometheus, "api", 8080)
    assert not network.allows("cell", "api", 8080)


def test_only_those_with_rights_there_reach_the_api_server(production: Rendered) -> None:
    network = Network(production)

    assert {n for n in network.pods if network.allows(n, "10.96.0.1", 443)} == {
        "webserver",
        "daemon",
        "code",
        "run",
    }


def test_what_is_outside_is_reached_where_it_is(production: Rendered) -> None:
    network = Network(production)

    assert network.allows("cell", "10.20.0.7", 4222)
    assert network.allows("run", "10.30.0.5", 5432)
    assert not network.allows("run", "10.30.0.6", 5432)
    assert not network.allows("cell", "10.30.0.5", 5432)


def test_everybody_may_ask_for_names(network: Network) -> None:
    dns = Pod({"k8s-app": "kube-dns"}, "kube-system")
    for name in network.pods:
        assert network.allows(name, dns, 53, "UDP"), name


def test_nothing_else_is_allowed_inside(network: Network) -> None:
    ports = (22, 80, 443, 3000, 4000, 4222, 5432, 6222, 8080, 8222)
    allowed = {
        (source, target, port)
        for source, target in pairs(network)
        for port in ports
        if network.allows(source, target, port)
    }

    assert {(target, port) for _, target, port in allowed} == {
        ("nats", 4222),
        ("nats", 6222),
        ("postgres", 5432),
        ("code", 4000),
    }


def test_without_policies_everything_is_open() -> None:
    """The ablation: the answers above come from the policies."""
    values: dict[str, Any] = {**values_of("trial"), "networkPolicy": {"enabled": False}}

    network = Network(Rendered(render(values)))

    assert network.allows("cell", "169.254.169.254", 80)
    assert network.allows("cell", "postgres", 5432)
