"""NetworkPolicies as rules of iptables and ipset, by which the test cluster enforces them."""

import ipaddress
import itertools
from typing import Any

import pytest

from tests.e2e.cluster.policies.rules import CHAIN, Cluster, Rules, matches, rules_of

NODE = "node"
ADDRESSES = {"web": "10.244.0.2", "client": "10.244.0.3", "other": "10.244.0.4"}


def pod(name: str, namespace: str = "default", **more: Any) -> dict[str, Any]:
    """A pod with a label of its name, two named ports and an address."""
    ports = [
        {"name": "http", "containerPort": 8080},
        {"name": "dns", "containerPort": 53, "protocol": "UDP"},
    ]
    return {
        "metadata": {
            "name": name, "namespace": namespace, "uid": f"{namespace}/{name}",
            "labels": {"app": name},
        },
        "spec": {"nodeName": NODE, "containers": [{"ports": ports}]} | more.pop("spec", {}),
        "status": {"podIP": ADDRESSES[name], "phase": "Running"} | more,
    }  # fmt: skip


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "labels": labels}}


def policy(selects: str, **spec: Any) -> dict[str, Any]:
    """A policy for the pods of a name in the namespace `default`."""
    return {
        "metadata": {"name": selects, "namespace": "default", "uid": f"p/{selects}"},
        "spec": {"podSelector": {"matchLabels": {"app": selects}}} | spec,
    }


def cluster(*policies: dict[str, Any], **pods: dict[str, Any]) -> Cluster:
    """Three pods, of which `other` is in the namespace `far`, and policies."""
    found = {"web": pod("web"), "client": pod("client"), "other": pod("other", "far")} | pods
    return Cluster(
        {one["metadata"]["uid"]: one for one in found.values()},
        {one["metadata"]["uid"]: one for one in (namespace("default"), namespace("far", team="x"))},
        {one["metadata"]["uid"]: one for one in policies},
    )


def _within(address: str, member: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(member.split()[0])


def _in_set(address: str, members: tuple[str, ...]) -> bool:
    """Return what ipset decides: the longest network counts."""
    found = [one for one in members if _within(address, one)]
    longest = max(found, key=lambda one: ipaddress.ip_network(one.split()[0]).prefixlen, default="")
    return bool(longest) and not longest.endswith("nomatch")


def passes(rules: Rules, sender: str, receiver: str, port: int, protocol: str = "tcp") -> bool:
    """Follow a packet of a new connection through the chains."""

    def verdict(chain: str) -> str:
        for rule in rules.chains[chain]:
            words = rule.split()
            given = dict(itertools.pairwise(words))
            if "--ctstate" in given:
                continue  # a new connection
            if "--match-set" in given:
                members = rules.sets[given["--match-set"]]
                direction = words[words.index("--match-set") + 2]
                if not _in_set(receiver if direction == "dst" else sender, members):
                    continue
            if "-p" in given and given["-p"] != protocol:
                continue
            if "--dport" in given:
                first, _, last = given["--dport"].partition(":")
                if not int(first) <= port <= int(last or first):
                    continue
            if "-s" in given and given["-s"] != f"{sender}/32":
                continue
            if "-d" in given and given["-d"] != f"{receiver}/32":
                continue
            target = given["-j"]
            if target in ("RETURN", "DROP"):
                return target
            if verdict(target) == "DROP":
                return "DROP"
        return "RETURN"

    return verdict(CHAIN) == "RETURN"


def reaches(found: Cluster, sender: str, receiver: str, port: int, protocol: str = "tcp") -> bool:
    places = ADDRESSES | {"internet": "142.250.1.1", "metadata": "169.254.169.254"}
    return passes(rules_of(found, NODE), places[sender], places[receiver], port, protocol)


def test_pods_without_policies_reach_everything():
    assert reaches(cluster(), "client", "web", 1)
    assert rules_of(cluster(), NODE).chains.keys() == {CHAIN}


def test_ingress_admits_labelled_pods_at_their_port():
    peers = [{"podSelector": {"matchLabels": {"app": "client"}}}]
    found = cluster(policy("web", ingress=[{"from": peers, "ports": [{"port": 80}]}]))
    assert reaches(found, "client", "web", 80)
    assert not reaches(found, "client", "web", 81)
    assert not reaches(found, "client", "web", 80, "udp")
    assert not reaches(found, "other", "web", 80)
    assert not reaches(found, "internet", "web", 80)
    assert reaches(found, "web", "other", 80)  # no policy of type Egress


def test_namespace_selector_is_needed_for_other_namespaces():
    everyone: dict[str, Any] = {"podSelector": {}}
    assert not reaches(cluster(policy("web", ingress=[{"from": [everyone]}])), "other", "web", 1)
    team = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    found = cluster(policy("web", ingress=[{"from": [team]}]))
    assert reaches(found, "other", "web", 1)
    assert not reaches(found, "client", "web", 1)
    both = team | {"podSelector": {"matchLabels": {"app": "client"}}}
    assert not reaches(cluster(policy("web", ingress=[{"from": [both]}])), "other", "web", 1)


@pytest.mark.parametrize("kind", ["Ingress", "Egress"])
def test_type_without_rules_denies_everything(kind: str):
    found = cluster(policy("web", policyTypes=[kind]))
    assert reaches(found, "client", "web", 80) == (kind == "Egress")
    assert reaches(found, "web", "client", 80) == (kind == "Ingress")
    assert reaches(found, "web", "internet", 443) == (kind == "Ingress")


def test_empty_rule_admits_everyone():
    assert reaches(cluster(policy("web", ingress=[{}])), "other", "web", 9)


def test_egress_to_block_leaves_out_its_exceptions():
    block = {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16", "10.0.0.0/8"]}
    rule = {"to": [{"ipBlock": block}], "ports": [{"port": 443}]}
    found = cluster(policy("web", policyTypes=["Egress"], egress=[rule]))
    assert reaches(found, "web", "internet", 443)
    assert not reaches(found, "web", "metadata", 443)
    assert not reaches(found, "web", "client", 443)
    assert not reaches(found, "web", "internet", 80)


def test_rule_with_block_and_pods_admits_both():
    block = {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}
    peers = [block, {"podSelector": {"matchLabels": {"app": "client"}}}]
    found = cluster(policy("web", policyTypes=["Egress"], egress=[{"to": peers}]))
    assert reaches(found, "web", "client", 1)
    assert reaches(found, "web", "internet", 1)
    assert not reaches(found, "web", "other", 1)


def test_sender_and_receiver_must_both_agree():
    ingress = policy("web", ingress=[{}])
    egress = policy("client", policyTypes=["Egress"], egress=[])
    assert not reaches(cluster(ingress, egress), "client", "web", 80)
    assert reaches(cluster(ingress, egress), "other", "web", 80)


def test_policies_of_a_pod_add_up():
    one = policy("web", ingress=[{"ports": [{"port": 80}]}])
    two = policy("web", ingress=[{"ports": [{"port": 8000, "endPort": 8010}]}])
    two["metadata"]["uid"] = "p/second"
    found = cluster(one, two)
    assert [reaches(found, "client", "web", port) for port in (80, 8000, 8010, 8011)] == [
        True, True, True, False,
    ]  # fmt: skip


def test_named_ports_are_those_of_the_receiver():
    ingress = policy("web", ingress=[{"ports": [{"port": "http"}]}])
    assert reaches(cluster(ingress), "client", "web", 8080)
    assert not reaches(cluster(ingress), "client", "web", 80)
    rule = {"ports": [{"port": "dns", "protocol": "UDP"}]}
    egress = policy("client", policyTypes=["Egress"], egress=[rule])
    assert reaches(cluster(egress), "client", "web", 53, "udp")
    assert not reaches(cluster(egress), "client", "web", 53)
    absent = policy("web", ingress=[{"ports": [{"port": "absent"}]}])
    assert not reaches(cluster(absent), "client", "web", 80)


def test_policies_hold_in_their_namespace_only():
    moved = policy("other", ingress=[])
    assert reaches(cluster(moved), "client", "other", 80)


def test_rules_are_for_the_pods_of_the_node():
    far = pod("web", spec={"nodeName": "node2"})
    found = cluster(policy("web", ingress=[]), web=far)
    assert rules_of(found, NODE).chains.keys() == {CHAIN}
    assert rules_of(found, "node2").chains.keys() > {CHAIN}


def test_address_of_ended_pod_belongs_to_its_successor():
    ended = pod("client", phase="Succeeded")
    peers = [{"podSelector": {"matchLabels": {"app": "client"}}}]
    found = cluster(policy("web", ingress=[{"from": peers}]), client=ended)
    assert not reaches(found, "client", "web", 80)


def test_assigned_address_counts_before_the_api_knows_it():
    early = pod("client", podIP="")
    peers = [{"podSelector": {"matchLabels": {"app": "client"}}}]
    found = cluster(policy("web", ingress=[{"from": peers}]), client=early)
    assert not reaches(found, "client", "web", 80)
    found.assigned[ADDRESSES["client"]] = early["metadata"]["uid"]
    assert reaches(found, "client", "web", 80)


@pytest.mark.parametrize(
    ("operator", "values", "present", "absent"),
    [("In", ["a"], True, False), ("NotIn", ["a"], False, True), ("NotIn", ["b"], True, True),
     ("Exists", [], True, False), ("DoesNotExist", [], False, True)],
)  # fmt: skip
def test_expression_of_a_selector(operator, values, present, absent):
    selector = {"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}
    assert (matches(selector, {"k": "a"}), matches(selector, {})) == (present, absent)
