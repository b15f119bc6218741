"""Kueue admits, preempts and readmits jobs, which end with the weights of an undisturbed run."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from common import storage
from launch.engines import ENGINES
from tests.e2e import kube
from tests.e2e.faults import attempt, weights
from tests.e2e.kube import Job, kubectl, until

pytestmark = pytest.mark.nightly

QUEUE = "team"
SETTINGS = (
    "MODEL=hybrid", "QUBITS=4", "TRAIN_EXAMPLES=200", "VALIDATION_EXAMPLES=50",
    "TEST_EXAMPLES=100", "BATCH=32", "INITIALIZATIONS=1", "CHECKPOINT_INTERVAL=5", "EPOCHS=200",
    "MEMORY=1500Mi",
)  # fmt: skip
OVERLAY = kube.ROOT / "k8s/overlays/local/patches/worker.yaml"
(REQUEST,) = map(int, re.findall(r"cpu: (\d+)m", OVERLAY.read_text(encoding="utf-8")))
ROOM = {"cpu": f"{2 * REQUEST}m", "memory": "100Gi", "ephemeral-storage": "100Gi"}
"""Quota of the queue: the CPUs that two workers of one job request in overlay `local`."""


def queue_objects(name: str) -> list[dict[str, object]]:
    """Return a queue with room for one job, and two priorities."""
    version = "kueue.x-k8s.io/v1beta2"
    resources = [{"name": key, "nominalQuota": value} for key, value in ROOM.items()]
    group = {
        "coveredResources": list(ROOM),
        "flavors": [{"name": name, "resources": resources}],
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    specs: list[tuple[str, str, dict[str, object]]] = [
        ("ResourceFlavor", name, {"spec": {}}),
        (
            "ClusterQueue",
            name,
            {
                "spec": {
                    "namespaceSelector": selector,
                    "resourceGroups": [group],
                    "preemption": {"withinClusterQueue": "LowerPriority"},
                }
            },
        ),
        ("WorkloadPriorityClass", f"{name}-low", {"value": 10}),
        ("WorkloadPriorityClass", f"{name}-high", {"value": 100}),
        ("LocalQueue", QUEUE, {"spec": {"clusterQueue": name}}),
    ]
    return [
        {"apiVersion": version, "kind": kind, "metadata": {"name": found}, **rest}
        for kind, found, rest in specs
    ]


@pytest.fixture(scope="module")
def queue(namespace: str, cluster_storage: None) -> Iterator[str]:
    """A LocalQueue `team` with room for one job; its namespace, the prefix of its priorities."""
    if not kubectl("get", "crd", "clusterqueues.kueue.x-k8s.io", "--ignore-not-found"):
        pytest.skip("the cluster has no Kueue: `KUEUE=1 make cluster` installs it")
    kubectl("label", "namespace", namespace, "qfleet/kueue=true")
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": queue_objects(namespace)})
    kubectl("apply", "--server-side", "-f", "-", given=given)
    yield namespace
    kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", given=given)


@pytest.fixture(params=["jobset", "tfjob", "trainjob"])
def api(queue: str, request: pytest.FixtureRequest) -> str:
    """JOB_API."""
    kind = ENGINES[request.param].kind
    if not kubectl("get", "crd", f"{kind.lower()}s.{ENGINES[request.param].group}", check=False):
        pytest.skip(f"the cluster does not serve {kind}: `TRAINER=1 make cluster` installs it")
    return request.param


def start(api: str, name: str, priority: str, *settings: str) -> Job:
    """Start a job in the queue."""
    return kube.start(
        name, f"JOB_API={api}", f"QUEUE={QUEUE}", f"QUEUE_PRIORITY={priority}", *SETTINGS, *settings
    )


def is_suspended(job: Job) -> bool:
    """Return True if Kueue holds it back."""
    spec = job.object()["spec"]
    return bool(spec.get("suspend", spec.get("runPolicy", {}).get("suspend")))


def test_preempted_job_keeps_the_weights(
    api: str, queue: str, root: storage.StoragePath, tmp_path: Path
) -> None:
    calm, name, rival = (f"kueue-{api}-{word}" for word in ("calm", "low", "high"))
    assert start(api, calm, f"{queue}-low").end(180) == "Succeeded"

    job = start(api, name, f"{queue}-low")
    job.reach(6)
    higher = start(api, rival, f"{queue}-high", "EPOCHS=3")
    until(lambda: is_suspended(job), 60, f"the preemption of {name}")
    until(lambda: not running(job), 60, f"the end of {name}'s pods")
    assert higher.end(180) == "Succeeded"

    assert job.end(240) == "Succeeded"
    assert attempt(job)[0] == 2
    assert attempt(job)[1] > 5  # SIGTERM wrote a checkpoint, or its interval did
    for rank in range(2):
        record = json.loads(storage.read_bytes(root / name / "attempts" / f"worker-{rank}.json"))
        assert (record["attempts"], record["failed"]) == (2, 0), record
    difference = np.abs(weights(root / calm, tmp_path) - weights(root / name, tmp_path)).max()
    assert difference <= 1e-6
    for run in (calm, name, rival):
        Job(run, api).delete()


def running(job: Job) -> list[str]:
    """Return the names of its pods that have not ended."""
    phases = [(pod["metadata"]["name"], pod["status"].get("phase")) for pod in job.pods()]
    return [name for name, phase in phases if phase in ("Pending", "Running")]
