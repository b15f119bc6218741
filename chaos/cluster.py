"""Training jobs on Kubernetes, in the current context, with the faults that pods and nodes have."""

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Self

from chaos import node
from chaos.campaign import SUCCEEDED, Job
from chaos.schedule import Fault, FaultKind
from common.errors import ClusterError
from common.events import Event
from common.settings import Settings
from common.settings.sources import last_of_each
from common.storage import StoragePath
from launch import cluster_storage, job, manifests
from launch.engines import BY_KIND
from launch.kube_client import KubeClient
from launch.log_stream import LogFollower

EVICTION, DELETION = FaultKind("eviction"), FaultKind("deletion")
FORCED = FaultKind("forced deletion")
OUT_OF_MEMORY = FaultKind("out of memory")
# These need the processes of a node that is this machine.
KILL, STOP = FaultKind("SIGKILL"), FaultKind("SIGSTOP")
PAUSE = FaultKind("pause", durations=(1.0, 20.0))
DROP = FaultKind("network drop", durations=(5.0, 60.0))
STORAGE_KILLED = FaultKind("storage killed", of_workers=False)
STORAGE_SILENT = FaultKind("storage silent", of_workers=False, durations=(5.0, 50.0))

API_KINDS = (EVICTION, DELETION, FORCED, OUT_OF_MEMORY)
NODE_KINDS = (KILL, STOP, PAUSE, DROP, STORAGE_KILLED, STORAGE_SILENT)

SETTINGS = (
    "MODEL=hybrid", "QUBITS=4", "TRAIN_EXAMPLES=200", "VALIDATION_EXAMPLES=50",
    "TEST_EXAMPLES=100", "BATCH=32", "INITIALIZATIONS=1", "CHECKPOINT_INTERVAL=5",
    "PARTITIONS=4", "MEMORY=1500Mi",
)  # fmt: skip

STORAGE_LABEL = "app.kubernetes.io/component=storage"
POLL_SECONDS = 1.0
DELETE_SECONDS = 120.0

# Many small processes: the kernel kills the largest one, which must be the container's first.
ALLOCATE = """
import os, time
open("/proc/1/oom_score_adj", "w").write("1000")
for _ in range(7):
    if not os.fork():
        break
blocks = []
while True:
    blocks.append(b"x" * 2**23)
    time.sleep(0.01)
"""


def eviction(pod: str, namespace: str) -> tuple[list[str], str]:
    """Return the words and the input of kubectl that evict a pod, as the drain of a node does."""
    content = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    return ["create", "--raw", path, "-f", "-"], json.dumps(content)


class ClusterPlace:
    """The namespace of the current context. A context manager.

    Args:
        settings: Settings of all jobs, as on a command line.
        limit_seconds: Longest time of a job.
    """

    name = "cluster"

    def __init__(self, settings: Sequence[str] = (), limit_seconds: float = 900.0) -> None:
        self.limit_seconds = limit_seconds
        self._settings = last_of_each([*SETTINGS, *settings])
        self._cluster = KubeClient.connect(self._parse("chaos", 2))
        self._location = manifests.build(self._parse("chaos", 2)).storage
        self.kinds: Sequence[FaultKind] = API_KINDS

    def __enter__(self) -> Self:
        self._cluster.check()
        if node.is_here(self._cluster.list("Node", "")):
            self.kinds = (*API_KINDS, *NODE_KINDS)
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: each job removes its own objects."""

    def open_root(self) -> contextlib.AbstractContextManager[StoragePath]:
        """Provide STORAGE, through a forwarded port where it is in the cluster."""
        return cluster_storage.open_storage(self._cluster, self._location)

    def start(self, run: str, workers: int) -> Job:
        """Apply the manifests of a job."""
        objects = manifests.build(self._parse(run, workers)).objects
        applied = subprocess.run(
            [*self._cluster.kubectl, "apply", "--server-side", "--force-conflicts", "-f", "-"],
            input=manifests.to_yaml(objects), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if applied.returncode:
            raise ClusterError(f"job {run} can't be created: {applied.stderr.strip()}")
        ((kind, name),) = (
            (one["kind"], one["metadata"]["name"]) for one in objects if one["kind"] in BY_KIND
        )
        return ClusterJob(self._cluster, kind, name)

    def _parse(self, run: str, workers: int) -> Settings:
        return Settings.from_args([f"RUN={run}", f"WORKERS={workers}", *self._settings])


class ClusterJob:
    """A training job.

    Args:
        cluster: Its cluster.
        kind: Its kind.
        name: Its name.
    """

    def __init__(self, cluster: KubeClient, kind: str, name: str) -> None:
        self._cluster, self._kind, self._name = cluster, kind, name
        self._logs = LogFollower(cluster)
        self._next_look = 0.0
        self._pods: list[job.Pod] = []
        self._outcome = ""
        self._dropped: dict[Fault, list[int]] = {}  # processes whose network is cut
        self._paused: dict[Fault, list[int]] = {}

    def poll(self) -> list[Event]:
        """Return the new lines of all workers' logs."""
        self._look()
        found = []
        while not self._logs.received.empty():
            found.append(self._logs.received.get().event)
        return found

    def apply(self, fault: Fault) -> bool:
        """Make a fault happen."""
        if not fault.ranks:
            pids = self._storage_processes()
            node.send(pids, signal.SIGKILL if fault.kind == STORAGE_KILLED.name else signal.SIGSTOP)
            self._paused[fault] = pids
            return bool(pids)
        self._look(now=True)
        pods = [pod for pod in self._pods if pod.index in fault.ranks and not pod.terminating]
        applied = [self._apply(fault, pod) for pod in pods]
        return any(applied)

    def _apply(self, fault: Fault, pod: job.Pod) -> bool:
        match fault.kind:
            case EVICTION.name:
                return self._evict(pod)
            case DELETION.name:
                return self._kubectl("delete", "pod", pod.name, "--wait=false")
            case FORCED.name:
                return self._kubectl(
                    "delete", "pod", pod.name, "--force", "--grace-period=0", "--wait=false"
                )
            case OUT_OF_MEMORY.name:
                # Ends with the container, or with the chosen process.
                return pod.started and self._kubectl(
                    "exec", pod.name, "--", "python", "-c", ALLOCATE, check=False
                )
        pids = node.processes(pod.uid)
        if fault.kind == DROP.name:
            self._dropped.setdefault(fault, []).extend(pids[:1])
            return bool(pids) and node.cut_network(pids[0])
        node.send(pids, signal.SIGKILL if fault.kind == KILL.name else signal.SIGSTOP)
        if fault.kind == PAUSE.name:
            self._paused.setdefault(fault, []).extend(pids)
        return bool(pids)

    def undo(self, fault: Fault) -> None:
        """End a fault that lasts."""
        for pid in self._dropped.pop(fault, []):
            node.restore_network(pid)
        node.send(self._paused.pop(fault, []), signal.SIGCONT)

    def outcome(self) -> str:
        """Return how the job ended; empty before."""
        return self._outcome

    def close(self) -> None:
        """Delete the job, and wait until its pods are gone."""
        self._logs.finish(timeout_seconds=1.0)
        self._kubectl("delete", self._kind, self._name, "--ignore-not-found", check=False)
        end = time.monotonic() + DELETE_SECONDS
        while self._list_pods() and time.monotonic() < end:
            time.sleep(POLL_SECONDS)

    def _look(self, *, now: bool = False) -> None:
        """Read the states of the job and its pods, and follow the logs of new containers."""
        if not now and time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + POLL_SECONDS
        self._pods = job.newest_per_worker(self._list_pods())
        self._logs.follow(self._pods)
        found = self._cluster.get(self._kind, self._name)
        if found is None:
            self._outcome = "the job was deleted"
        elif job.is_finished(found):
            phase = job.phase(found)
            reasons = [pod.termination_message for pod in self._pods if pod.exit_code]
            self._outcome = SUCCEEDED if phase == "Succeeded" else f"{phase}: {'; '.join(reasons)}"

    def _list_pods(self) -> list[job.Pod]:
        return job.sorted_pods(self._cluster.list("Pod", job.pod_selector(self._kind, self._name)))

    def _storage_processes(self) -> list[int]:
        pods = job.sorted_pods(self._cluster.list("Pod", STORAGE_LABEL))
        return [pid for pod in pods for pid in node.processes(pod.uid)]

    def _evict(self, pod: job.Pod) -> bool:
        words, given = eviction(pod.name, self._cluster.namespace)
        return self._kubectl(*words, given=given)

    def _kubectl(self, *words: str, given: str | None = None, check: bool = True) -> bool:
        done = subprocess.run(
            [*self._cluster.kubectl, *words], input=given, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        return done.returncode == 0 or not check
