"""What the API server and the operator's webhook say of the manifests, by server-side dry run.

A namespace that enforces `restricted` refuses pods, and never what makes pods: so each pod is asked
about as a pod, too.
"""

import os
from collections.abc import Iterator

import pytest

from common.settings import Settings
from launch import kustomize, manifests
from launch.pods import account
from tests.e2e import kube

PRIORITY = f"qfleet-e2e-{os.getpid()}"
GOOGLE = {
    "storage": "gs://bucket/runs",
    "image": "europe-docker.pkg.dev/project/repository/qfleet",
    "service_account": "a@b.iam.gserviceaccount.com",
}
OPTIONS = {"queue": "team", "gang_scheduling": True, "deadline": 600, "workers": 3}
SAID = {
    "as committed": {},
    "one worker": {"workers": 1},
    "all options": OPTIONS | {"priority_class": PRIORITY},
    "small": {"cpu": "100m", "memory": "100Mi"},
    "text like numbers": {"profile": "10:20", "label": "1e3", "classes": "y,n"},
    "gke": {"overlay": "gke", **GOOGLE},
    "gpu": {"overlay": "gpu", **GOOGLE},
}


@pytest.fixture(scope="module")
def named(namespace: str) -> Iterator[None]:
    """What the manifests name and a dry run must find: the account and a PriorityClass."""
    kube.kubectl("apply", "--server-side", "-f", "-", given=manifests.to_yaml([account()]))
    kube.kubectl("create", "priorityclass", PRIORITY, "--value=1")
    yield
    kube.kubectl("delete", "priorityclass", PRIORITY)


def ask(text: str, check: bool = True) -> str:
    """Apply it, so to speak."""
    words = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"]
    return kube.kubectl(*words, given=text, check=check)


@pytest.mark.parametrize("build", ["training", "inference", "tensorboard"])
@pytest.mark.parametrize("said", SAID)
def test_manifests_and_their_pods_are_admitted(named: None, said: str, build: str) -> None:
    settings = Settings.from_record({**manifests.COMMITTED, **SAID[said]})
    found = getattr(manifests, build)(settings)
    assert len(ask(manifests.to_yaml(found)).splitlines()) == len(found)
    specs = [spec for one in found for spec in kustomize.pod_specs(one)]
    head = {"apiVersion": "v1", "kind": "Pod"}
    pods = [head | {"metadata": {"name": f"p{i}"}, "spec": s} for i, s in enumerate(specs)]
    assert pods
    assert len(ask(manifests.to_yaml(pods)).splitlines()) == len(pods)


def test_the_namespace_refuses_a_pod_that_may_do_more(named: None) -> None:
    found = manifests.training(Settings.from_record(manifests.COMMITTED))
    (spec,) = (s for one in found if one["kind"] == "TFJob" for s in kustomize.pod_specs(one))
    del spec["securityContext"]["seccompProfile"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    assert ask(manifests.to_yaml([pod]), check=False) == ""


def test_an_overlay_that_is_not_filled_in_is_refused_by_the_server_too(namespace: str) -> None:
    build = str(kube.ROOT / "k8s/overlays/gke/inference")
    if 'image: ""' not in kube.kubectl("kustomize", build):
        pytest.skip("own.yaml of overlay gke is filled in here")
    said = kube.kubectl("apply", "--server-side", "--dry-run=server", "-k", build, check=False)
    assert "job.batch" not in said
