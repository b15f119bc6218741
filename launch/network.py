"""NetworkPolicies: the connections that qfleet's pods may accept and open.

Every pod of qfleet is selected by a policy of both types, so what no rule names is refused. The
overlays replace rule 1 of `egress`, that of storage (local), and append to it (gke): k8s/overlays.
"""

import ipaddress
from collections.abc import Sequence

from launch.pods import Object, labels, manifest

DNS_PORT = 53
HTTPS_PORT = 443
NODE_LOCAL_DNS = "169.254.20.10/32"
"""Address of NodeLocal DNSCache, which serves DNS on each node of some clusters."""

NOT_PUBLIC = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/3",
    "::/127", "64:ff9b:1::/48", "fc00::/7", "fe80::/10", "ff00::/8",
)  # fmt: skip
"""Addresses that no network on the internet has: nodes, pods, the metadata server."""


def pods_with(selected: dict[str, str]) -> list[Object]:
    """Return the peers of a rule: pods of the same namespace with these labels."""
    return [{"podSelector": {"matchLabels": selected}}]


def ingress(sender: dict[str, str], *ports: int) -> Object:
    """Return a rule: pods with these labels may reach these TCP ports."""
    return {"from": pods_with(sender), "ports": _tcp(*ports)}


def egress(receiver: dict[str, str], *ports: int) -> Object:
    """Return a rule: pods with these labels may be reached, at these TCP ports or at all."""
    rule: Object = {"to": pods_with(receiver)}
    return {**rule, "ports": _tcp(*ports)} if ports else rule


def egress_to(namespace: str, receiver: dict[str, str], *ports: int) -> Object:
    """Return a rule: pods of another namespace with these labels may be reached at TCP ports."""
    peer = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": receiver},
    }
    return {"to": [peer], "ports": _tcp(*ports)}


def client_egress(storage_cidrs: str) -> list[Object]:
    """Return the rules that every pod with runs needs: DNS, then storage.

    Args:
        storage_cidrs: STORAGE_CIDR.
    """
    return [_dns(), _storage(storage_cidrs)]


def _dns() -> Object:
    apps = {"key": "k8s-app", "operator": "In", "values": ["kube-dns", "node-local-dns"]}
    servers = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchExpressions": [apps]},
    }
    ports = [{"port": DNS_PORT, "protocol": protocol} for protocol in ("UDP", "TCP")]
    return {"to": [servers, {"ipBlock": {"cidr": NODE_LOCAL_DNS}}], "ports": ports}


def _storage(cidrs: str) -> Object:
    blocks = [{"ipBlock": _block(cidr)} for cidr in cidrs.split(",")]
    return {"to": blocks, "ports": _tcp(HTTPS_PORT)}


def _block(cidr: str) -> Object:
    """Return an ipBlock without the addresses in it that are not public."""
    network = ipaddress.ip_network(cidr)
    inside = [
        text
        for text in NOT_PUBLIC
        if (other := ipaddress.ip_network(text)).version == network.version
        and other != network
        and other.subnet_of(network)  # type: ignore[arg-type]
    ]
    return {"cidr": cidr, "except": inside} if inside else {"cidr": cidr}


def _tcp(*ports: int) -> list[Object]:
    return [{"port": port, "protocol": "TCP"} for port in ports]


def policy(
    name: str,
    component: str,
    selected: dict[str, str],
    *,
    accepts: Sequence[Object] = (),
    opens: Sequence[Object] = (),
    run: str = "",
) -> Object:
    """Return a NetworkPolicy that refuses all other connections to and from the selected pods.

    Args:
        name: Its name.
        component: The component that it belongs to.
        selected: Labels of the pods that it applies to.
        accepts: Rules for connections to the pods.
        opens: Rules for connections from the pods.
        run: The run that it belongs to, if any.
    """
    spec = {
        "podSelector": {"matchLabels": selected},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": list(accepts),
        "egress": list(opens),
    }
    return manifest("networking.k8s.io/v1", "NetworkPolicy", name, component, run, spec=spec)


def component_policy(
    name: str, component: str, *, accepts: Sequence[Object] = (), opens: Sequence[Object] = ()
) -> Object:
    """Return the NetworkPolicy of the pods of a component that belongs to no run."""
    return policy(name, component, labels(component), accepts=accepts, opens=opens)
