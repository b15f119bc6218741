"""Objects that are not qfleet's, under the names that it uses: never changed, never deleted."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e import client_environments as places
from tests.e2e import kube
from tests.e2e.client_environments import SMALL, Checkout, in_, refused

POLICY = "networking.k8s.io/v1"
FOREIGN = {
    "policy": (POLICY, "NetworkPolicy", "qfleet-qcnn.training", {"spec": {"podSelector": {}}}),
    "settings": ("v1", "ConfigMap", "qfleet-qcnn.training", {"data": {"QFLEET_SEED": "1"}}),
    "account": ("v1", "ServiceAccount", "qfleet", {}),
    "service": ("v1", "Service", "qfleet-storage", {"spec": {"ports": [{"port": 80}]}}),
}


NUMBERS = itertools.count()


@pytest.fixture
def empty(cluster: str) -> Iterator[str]:
    with places.namespace(f"own-{next(NUMBERS)}") as name:
        yield name


@pytest.fixture(scope="module")
def checkout(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return places.checkout(tmp_path_factory.mktemp("checkout"))


SHARED = {
    "ServiceAccount/qfleet",
    "Deployment/qfleet-storage",
    "Service/qfleet-storage",
    "NetworkPolicy/qfleet-storage",
}
"""Objects that stay when a run is deleted, as others use them."""


def put(namespace: str, one: tuple[str, str, str, dict[str, Any]], **labels: str) -> None:
    version, kind, name, rest = one
    body = {
        "apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels}, **rest,
    }  # fmt: skip
    kube.kubectl("apply", f"--namespace={namespace}", "-f", "-", given=json.dumps(body))


def state(namespace: str) -> dict[str, str]:
    """The objects of a namespace by kind and name, with their versions."""
    words = ["serviceaccounts,configmaps,services,deployments,networkpolicies,tfjobs,jobs"]
    text = kube.kubectl("get", *words, f"--namespace={namespace}", "-o", "json")
    return {
        f"{one['kind']}/{one['metadata']['name']}": one["metadata"]["resourceVersion"]
        for one in json.loads(text)["items"]
        if one["metadata"]["name"] not in ("default", "kube-root-ca.crt")  # Kubernetes' own
    }


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("dry_run", [False, True])
def test_foreign_object_is_refused_and_nothing_applied(
    checkout: Checkout, empty: str, name: str, dry_run: bool
) -> None:
    put(empty, FOREIGN[name], team="theirs")
    before = state(empty)
    _, kind, foreign, _ = FOREIGN[name]
    output = refused(checkout, "run", *SMALL, in_(empty), *(["--dry-run"] if dry_run else []))
    assert f"{kind} {foreign} of this namespace exists and is not qfleet's" in output
    assert state(empty) == before


def test_object_of_another_run_is_refused(checkout: Checkout, empty: str) -> None:
    labels = {"app.kubernetes.io/part-of": "qfleet", "app.kubernetes.io/component": "training"}
    put(empty, FOREIGN["policy"], **labels, **{"qfleet/run": "other"})
    before = state(empty)
    assert "qfleet/run=qcnn" in refused(checkout, "run", *SMALL, in_(empty))
    assert state(empty) == before


@pytest.mark.parametrize("run", ["default-deny", "storage", "tensorboard", "qcnn-tensorboard"])
def test_runs_named_like_other_objects_leave_them_alone(
    checkout: Checkout, empty: str, run: str
) -> None:
    put(empty, (POLICY, "NetworkPolicy", run, {"spec": {"podSelector": {}}}))
    before = state(empty)
    started = checkout.start("run", *SMALL, f"RUN={run}", "OVERLAY=huge", in_(empty))
    with started:
        started.wait_for("no node has enough cpu")
        started.interrupt()
    checkout.launch("tensorboard", "--dry-run", in_(empty))
    done = checkout.launch("delete", "training", run, in_(empty))
    assert done.returncode == 0, done.stderr
    after = state(empty)
    assert {key: after.get(key) for key in before} == before
    assert after.keys() - before == SHARED


def test_delete_leaves_foreign_objects(checkout: Checkout, empty: str) -> None:
    put(empty, FOREIGN["policy"], team="theirs")
    before = state(empty)
    refused(checkout, "delete", "training", "qcnn", in_(empty))
    assert state(empty) == before


def test_objects_applied_by_kubectl_are_taken_over(checkout: Checkout, empty: str) -> None:
    given = checkout.launch("render", *SMALL, "OVERLAY=selecting").stdout
    kube.kubectl("apply", f"--namespace={empty}", "-f", "-", given=given)
    kube.kubectl(
        "label", "networkpolicy", "qfleet-qcnn.training", "extra=kept", f"--namespace={empty}"
    )
    started = checkout.start("run", *SMALL, "SEED=3", "OVERLAY=huge", in_(empty))
    with started:
        started.wait_for("no node has enough cpu")
        started.interrupt()
    found = kube.kubectl(
        "get", "configmap", "qfleet-qcnn.training", f"--namespace={empty}", "-o", "json"
    )
    assert json.loads(found)["data"]["QFLEET_SEED"] == "3"
    policy = kube.kubectl(
        "get", "networkpolicy", "qfleet-qcnn.training", f"--namespace={empty}", "-o", "json"
    )
    assert json.loads(policy)["metadata"]["labels"]["extra"] == "kept"
