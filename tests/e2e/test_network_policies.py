"""NetworkPolicies: the cluster enforces them, and those of qfleet's pods leave nothing else open.

The cluster of `make cluster` must enforce them: nothing here is skipped on it.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e import client_environments as places
from tests.e2e import kube, probes
from tests.e2e.kube import kubectl

API = "kubernetes.default.svc.cluster.local"
BOARD = {"app.kubernetes.io/part-of": "qfleet", "app.kubernetes.io/component": "tensorboard"}


def policy(name: str, selected: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A NetworkPolicy for the pods with these labels."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name},
        "spec": {"podSelector": {"matchLabels": selected}, **spec},
    }


class Room:
    """Two namespaces with pods `server`, `client`, `other` and, far away, `stranger`."""

    def __init__(self, near: str, far: str) -> None:
        self.near, self.far = near, far
        for name in ("server", "client", "other"):
            probes.start(name, namespace=near, app=name)
        probes.start("stranger", namespace=far, app="client")
        probes.wait("server", "client", "other", namespace=near)
        probes.wait("stranger", namespace=far)
        self.server = probes.address("server", near)

    def apply(self, *policies: dict[str, Any]) -> None:
        """Replace all policies of the near namespace."""
        kubectl("delete", "networkpolicies", "--all", f"--namespace={self.near}")
        for one in policies:
            kubectl("apply", f"--namespace={self.near}", "-f", "-", given=json.dumps(one))

    def reaches(self, pod: str, host: str, port: int, protocol: str = "tcp") -> bool:
        """Return True if a pod can exchange data with a host."""
        namespace = self.far if pod == "stranger" else self.near
        return probes.reaches(pod, host, port, protocol, namespace=namespace)

    def check(self, *expected: tuple[str, str, int, str, bool]) -> None:
        """Check connections: pod, host, port, protocol, and True if it must succeed.

        The first one is waited for, as policies take effect after a moment.
        """
        (pod, host, port, protocol, is_open), *rest = expected
        kube.until(
            lambda: self.reaches(pod, host, port, protocol) == is_open,
            30,
            f"{pod} to {host}:{port} is {'open' if is_open else 'closed'}",
        )
        for pod, host, port, protocol, is_open in rest:
            assert self.reaches(pod, host, port, protocol) == is_open, (pod, host, port, protocol)


@pytest.fixture(scope="module")
def room(cluster: str) -> Iterator[Room]:
    with places.namespace("near") as near, places.namespace("far", "team=far") as far:
        made = Room(near, far)
        if not kube.is_own_cluster():
            made.apply(policy("deny", {}, policyTypes=["Ingress"]))
            if made.reaches("client", made.server, 8080):
                pytest.skip("this cluster does not enforce NetworkPolicy")
        yield made


def test_without_policies_everything_is_open(room: Room) -> None:
    room.apply()
    room.check(
        ("client", room.server, 8080, "tcp", True),
        ("stranger", room.server, 8081, "tcp", True),
        ("other", room.server, 5353, "udp", True),
        ("client", API, 443, "open", True),
    )


def test_ingress_policy_admits_pods_and_ports(room: Room) -> None:
    peers = [{"podSelector": {"matchLabels": {"app": "client"}}}]
    ports = [{"port": "web"}, {"port": 5353, "protocol": "UDP"}]
    room.apply(policy("in", {"app": "server"}, ingress=[{"from": peers, "ports": ports}]))
    room.check(
        ("client", room.server, 8081, "tcp", False),
        ("client", room.server, 8080, "tcp", True),  # the answers come back as well
        ("client", room.server, 5353, "udp", True),
        ("other", room.server, 8080, "tcp", False),
        ("other", room.server, 5353, "udp", False),
        ("stranger", room.server, 8080, "tcp", False),
        ("server", API, 443, "open", True),  # no policy of type Egress
    )


def test_ingress_policy_admits_namespaces(room: Room) -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"team": "far"}}}]
    room.apply(policy("in", {"app": "server"}, ingress=[{"from": peers}]))
    room.check(
        ("client", room.server, 8080, "tcp", False), ("stranger", room.server, 8080, "tcp", True)
    )


def test_egress_policy_admits_pods_and_ports(room: Room) -> None:
    rule = {
        "to": [{"podSelector": {"matchLabels": {"app": "server"}}}],
        "ports": [{"port": 8080}],
    }
    room.apply(policy("out", {"app": "client"}, policyTypes=["Egress"], egress=[rule]))
    room.check(
        ("client", room.server, 8081, "tcp", False),
        ("client", room.server, 8080, "tcp", True),
        ("client", room.server, 5353, "udp", False),
        ("client", "10.96.0.1", 443, "open", False),  # a Service, of a process on a node
        ("other", room.server, 8081, "tcp", True),
        ("stranger", probes.address("client", room.near), 8080, "tcp", True),
    )


def test_egress_policy_leaves_out_exceptions_of_a_block(room: Room) -> None:
    block = {"cidr": "0.0.0.0/0", "except": [f"{room.server}/32"]}
    room.apply(
        policy(
            "out", {"app": "client"}, policyTypes=["Egress"], egress=[{"to": [{"ipBlock": block}]}]
        )
    )
    other = probes.address("other", room.near)
    room.check(
        ("client", room.server, 8080, "tcp", False),
        ("client", other, 8080, "tcp", True),
        ("client", API, 443, "open", True),
    )


def test_default_deny_closes_both_directions(room: Room) -> None:
    room.apply(policy("deny", {}, policyTypes=["Ingress", "Egress"]))
    room.check(
        ("client", room.server, 8080, "tcp", False),
        ("stranger", room.server, 8080, "tcp", False),
        ("server", probes.address("stranger", room.far), 8080, "tcp", False),
        ("client", "10.96.0.1", 443, "open", False),
    )
    room.apply()
    room.check(("client", room.server, 8080, "tcp", True))


def test_new_pod_is_restricted_from_its_first_moment(room: Room) -> None:
    room.apply(policy("deny", {"app": "new"}, policyTypes=["Egress"]))
    room.check(("client", room.server, 8080, "tcp", True))
    for _ in range(3):
        labels = {"app": "new"}
        assert not probes.first_connection(room.server, 8080, namespace=room.near, labels=labels)
    open_labels = {"app": "open"}
    assert probes.first_connection(room.server, 8080, namespace=room.near, labels=open_labels)


def test_policies_of_a_job_admit_peers_and_storage_only(
    cluster_storage: None, namespace: str, room: Room
) -> None:
    job = kube.start(
        "private", "MODEL=hybrid", "QUBITS=2", "TRAIN_EXAMPLES=100", "VALIDATION_EXAMPLES=30",
        "TEST_EXAMPLES=50", "BATCH=32", "INITIALIZATIONS=1", "PROFILER_PORT=2223",
        "EPOCHS=100000",
    )  # fmt: skip
    probes.start("stranger", namespace=namespace, other="yes")
    probes.start("board", namespace=namespace, **BOARD)
    probes.wait("stranger", "board", namespace=namespace)
    job.reach(1)
    worker = probes.address(job.pod(1), namespace)

    def reaches(pod: str, host: str, port: int) -> bool:
        return probes.reaches(pod, host, port, "open", namespace=namespace)

    for port in (2222, 2223, 2224):
        assert not reaches("stranger", worker, port)
    assert reaches("board", worker, 2223)
    assert not reaches("board", worker, 2222)
    assert not reaches("stranger", "qfleet-storage", 9023)
    assert reaches("board", "qfleet-storage", 9023)
    # The names resolve, so DNS is open.
    assert reaches(job.pod(0), "qfleet-storage", 9023)
    assert reaches(job.pod(0), f"{job.pod(1)}.{namespace}.svc", 2222)
    assert reaches("stranger", API, 443)
    for host, port in ((API, 443), ("10.96.0.1", 443), (room.server, 8080), (room.server, 2222)):
        assert not reaches(job.pod(0), host, port)
    storage = kubectl("get", "pods", "-l", "app.kubernetes.io/component=storage", "-o", "name")
    assert not reaches(storage.strip().removeprefix("pod/"), worker, 2222)
    job.delete()
    kubectl("delete", "pod", "stranger", "board", "--wait=false")
