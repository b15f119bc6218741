"""Admission of the manifests by the API server and the operator's webhook, in dry runs.

A namespace that enforces `restricted` refuses pods, but not the objects that create pods, so each
pod is submitted on its own, too.
"""

import os
from collections.abc import Iterator

import pytest

from common.settings import Settings
from launch import manifests
from launch.pods import account, pod_specs
from tests.e2e import kube
from tests.e2e.client_environments import namespace

PRIORITY = f"qfleet-e2e-{os.getpid()}"
GOOGLE = {
    "storage": "gs://bucket/runs",
    "image": "europe-docker.pkg.dev/project/repository/qfleet",
    "service_account": "a@b.iam.gserviceaccount.com",
}
OPTIONS = {"queue": "team", "gang_scheduling": True, "deadline": 600, "workers": 3}
VARIANTS = {
    "as committed": {},
    "one worker": {"workers": 1},
    "all options": OPTIONS | {"priority_class": PRIORITY},
    "small": {"cpu": "100m", "memory": "100Mi"},
    "text like numbers": {"profile_steps": "10:20", "label_column": "1e3", "classes": "y,n"},
    "gke": {"overlay": "gke", **GOOGLE},
    "gpu": {"overlay": "gpu", **GOOGLE},
}


@pytest.fixture(scope="module")
def place(cluster: str) -> Iterator[str]:
    """A namespace without the jobs of other tests: a Job's pods can't be changed."""
    with namespace("admission", "pod-security.kubernetes.io/enforce=restricted") as name:
        yield name


@pytest.fixture(scope="module")
def named(place: str) -> Iterator[str]:
    """Create the objects that manifests refer to, the account and a PriorityClass, in `place`."""
    applied = ["apply", "--server-side", "--namespace", place, "-f", "-"]
    kube.kubectl(*applied, given=manifests.to_yaml([account()]))
    kube.kubectl("create", "priorityclass", PRIORITY, "--value=1")
    yield place
    kube.kubectl("delete", "priorityclass", PRIORITY)


def dry_run(place: str, text: str, check: bool = True) -> str:
    """Apply it in a dry run of the server."""
    words = ["apply", "--server-side", "--dry-run=server", "--namespace", place, "-f", "-"]
    return kube.kubectl(*words, given=text, check=check)


@pytest.mark.parametrize("build", ["training", "inference", "tensorboard"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_manifests_and_their_pods_are_admitted(named: str, variant: str, build: str) -> None:
    settings = Settings.from_record({**manifests.COMMITTED, **VARIANTS[variant]})
    found = manifests.build(settings, build).objects
    assert len(dry_run(named, manifests.to_yaml(found)).splitlines()) == len(found)
    specs = [spec for one in found for spec in pod_specs(one)]
    head = {"apiVersion": "v1", "kind": "Pod"}
    pods = [head | {"metadata": {"name": f"p{i}"}, "spec": s} for i, s in enumerate(specs)]
    assert pods
    assert len(dry_run(named, manifests.to_yaml(pods)).splitlines()) == len(pods)


def test_namespace_refuses_pod_with_more_privileges(named: str) -> None:
    found = manifests.build(Settings.from_record(manifests.COMMITTED)).objects
    (spec,) = (s for one in found if one["kind"] == "TFJob" for s in pod_specs(one))
    del spec["securityContext"]["seccompProfile"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    assert dry_run(named, manifests.to_yaml([pod]), check=False) == ""


def test_server_refuses_incomplete_overlay(place: str) -> None:
    build = str(kube.ROOT / "k8s/overlays/gke/inference")
    if 'image: ""' not in kube.kubectl("kustomize", build):
        pytest.skip("own.yaml of overlay gke is complete here")
    words = ["apply", "--server-side", "--dry-run=server", "--namespace", place, "-k", build]
    output = kube.kubectl(*words, check=False)
    assert "job.batch" not in output
