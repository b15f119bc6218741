"""NetworkPolicies as rules of iptables and sets of ipset, for the pods of one node.

A set holds the addresses of one peer of a rule. Its name is a digest of its content, so a set never
changes. A packet of a new connection returns from CHAIN if the policies of its sender and of its
receiver allow it; otherwise it is dropped. Packets of existing connections always return.
"""

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CHAIN = "QFLEET-POLICIES"
PREFIX = "QFP-"
"""Start of the names of sets and of the pods' chains."""

ENDED = ("Succeeded", "Failed")
"""Phases of pods whose addresses may belong to other pods by now."""

Object = Mapping[str, Any]
Port = tuple[str, str]
"""A protocol, and a port or range as iptables writes it; two empty texts for all ports."""

ALL_PORTS: Port = ("", "")


@dataclass
class Cluster:
    """The objects that rules are made from.

    Attributes:
        pods: Pods by uid, of all nodes.
        namespaces: Namespaces by uid.
        policies: NetworkPolicies by uid.
        assigned: Addresses of this node's pods, which the network knows before the API: address
            to the pod's uid.
    """

    pods: dict[str, Object] = field(default_factory=dict)
    namespaces: dict[str, Object] = field(default_factory=dict)
    policies: dict[str, Object] = field(default_factory=dict)
    assigned: dict[str, str] = field(default_factory=dict)

    def address(self, pod: Object) -> str:
        """Return a pod's IPv4 address; empty if it has none, or its node's."""
        uid = pod["metadata"]["uid"]
        for address, owner in self.assigned.items():
            if owner == uid:
                return address
        status = pod.get("status") or {}
        found = str(status.get("podIP") or "")
        if pod["spec"].get("hostNetwork") or status.get("phase") in ENDED or ":" in found:
            return ""
        return "" if self.assigned.get(found, uid) != uid else found

    def pods_of(self, namespaces: Iterable[str], selector: Object) -> list[Object]:
        """Return the pods of some namespaces that a label selector matches."""
        names = set(namespaces)
        return [
            pod
            for pod in self.pods.values()
            if pod["metadata"]["namespace"] in names and matches(selector, labels_of(pod))
        ]


@dataclass(frozen=True)
class Rules:
    """Content of the kernel.

    Attributes:
        sets: Members by name of the set, as arguments of `ipset add`.
        chains: Rules by name of the chain, as arguments of `iptables --append CHAIN`.
    """

    sets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    chains: dict[str, list[str]] = field(default_factory=dict)


def labels_of(thing: Object) -> Mapping[str, str]:
    """Return an object's labels."""
    return thing["metadata"].get("labels") or {}


def matches(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Return True if a label selector matches; an empty one matches everything."""
    selector = selector or {}
    if not (selector.get("matchLabels") or {}).items() <= labels.items():
        return False
    return all(_holds(one, labels) for one in selector.get("matchExpressions") or [])


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or []
    present = key in labels
    return {
        "In": present and labels.get(key) in values,
        "NotIn": labels.get(key) not in values or not present,
        "Exists": present,
        "DoesNotExist": not present,
    }[expression["operator"]]


def rules_of(cluster: Cluster, node: str) -> Rules:
    """Return the rules that enforce all policies for the pods of a node."""
    made = Rules({}, {CHAIN: ["-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN"]})
    for pod in sorted(cluster.pods.values(), key=lambda one: one["metadata"]["uid"]):
        address = cluster.address(pod)
        if not address or pod["spec"].get("nodeName") != node:
            continue
        for kind, own, other in (("Egress", "-s", "dst"), ("Ingress", "-d", "src")):
            policies = _policies(cluster, pod, kind)
            if not policies:
                continue
            chain = f"{PREFIX}{kind[0]}-{address}"
            made.chains[chain] = [
                f"{_match(made, members, other)}{_ports(port)} -j RETURN".strip()
                for policy in policies
                for members, port in _allowed(cluster, policy, kind, pod)
            ]
            made.chains[chain].append("-j DROP")
            made.chains[CHAIN].append(f"{own} {address}/32 -j {chain}")
    return made


def _policies(cluster: Cluster, pod: Object, kind: str) -> list[Object]:
    """Return the policies of a kind that select a pod."""
    found = []
    for policy in cluster.policies.values():
        spec = policy["spec"]
        default = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
        if kind not in (spec.get("policyTypes") or default):
            continue
        if policy["metadata"]["namespace"] != pod["metadata"]["namespace"]:
            continue
        if matches(spec.get("podSelector"), labels_of(pod)):
            found.append(policy)
    return sorted(found, key=lambda one: str(one["metadata"]["name"]))


Members = tuple[str, ...] | None
"""The members of a set; None for every address."""


def _allowed(
    cluster: Cluster, policy: Object, kind: str, pod: Object
) -> Iterator[tuple[Members, Port]]:
    """Yield the peers and ports that a policy allows."""
    peers_field = {"Ingress": "from", "Egress": "to"}[kind]
    for rule in policy["spec"].get(kind.lower()) or []:
        ports = rule.get("ports") or []
        peers = rule.get(peers_field) or []
        named = any(isinstance(port.get("port"), str) for port in ports)
        if kind == "Ingress":
            numbers = [found for port in ports for found in _numbers(port, pod)]
            if ports and not numbers:
                continue
            for members in _peers(cluster, policy, peers):
                for number in numbers or [ALL_PORTS]:
                    yield members, number
        elif named:  # each receiver has its own number for the name
            everyone: list[Object] = [{"namespaceSelector": {}}]
            for receiver in _pods(cluster, policy, peers or everyone):
                for port in ports:
                    for number in _numbers(port, receiver):
                        yield (cluster.address(receiver),), number
        else:
            for members in _peers(cluster, policy, peers):
                for number in [n for port in ports for n in _numbers(port, pod)] or [ALL_PORTS]:
                    yield members, number


def _numbers(port: Object, pod: Object) -> list[Port]:
    """Return a policy's port as numbers: one, a range, or those that a pod gives the name to."""
    protocol, number = str(port.get("protocol") or "TCP").lower(), port.get("port")
    if number is None:
        return [(protocol, "")]
    if isinstance(number, int):
        return [(protocol, f"{number}:{port['endPort']}" if port.get("endPort") else str(number))]
    return [
        (protocol, str(one["containerPort"]))
        for container in pod["spec"]["containers"]
        for one in container.get("ports") or []
        if one.get("name") == number and str(one.get("protocol") or "TCP").lower() == protocol
    ]


def _peers(cluster: Cluster, policy: Object, peers: Sequence[Object]) -> Iterator[Members]:
    """Yield the addresses of each peer of a rule."""
    if not peers:
        yield None
    for peer in peers:
        if "ipBlock" in peer:
            yield _block(peer["ipBlock"])
        else:
            yield tuple(sorted(map(cluster.address, _pods(cluster, policy, [peer]))))


def _pods(cluster: Cluster, policy: Object, peers: Sequence[Object]) -> list[Object]:
    """Return the pods of peers that have an address."""
    found = []
    for peer in peers:
        if "ipBlock" in peer:
            continue
        if "namespaceSelector" in peer:
            namespaces = [
                one["metadata"]["name"]
                for one in cluster.namespaces.values()
                if matches(peer["namespaceSelector"], labels_of(one))
            ]
        else:
            namespaces = [policy["metadata"]["namespace"]]
        found += cluster.pods_of(namespaces, peer.get("podSelector") or {})
    return [pod for pod in found if cluster.address(pod)]


def _block(block: Object) -> tuple[str, ...]:
    """Return an ipBlock as members of a set. A set cannot hold a network of length 0."""
    network = ipaddress.ip_network(block["cidr"], strict=False)
    if network.version != 4:
        return ()
    halves = [network] if network.prefixlen else list(network.subnets())
    excluded = (ipaddress.ip_network(one, strict=False) for one in block.get("except") or [])
    return (*map(str, halves), *(f"{one} nomatch" for one in excluded))


def _match(made: Rules, members: Members, direction: str) -> str:
    """Return the match of a set, which is added to the rules."""
    if members is None:
        return ""
    digest = hashlib.sha256("\n".join(members).encode()).hexdigest()
    name = f"{PREFIX}{digest[:20]}"
    made.sets[name] = members
    return f"-m set --match-set {name} {direction} "


def _ports(port: Port) -> str:
    protocol, number = port
    if not protocol:
        return ""
    return f"-p {protocol} -m {protocol} --dport {number}" if number else f"-p {protocol}"
