"""`launch probe`: short trainings measured in pods, for planning/step_measurement.py."""

import contextlib
import json
import re
import sys
import uuid
from collections.abc import Iterator, Sequence

from common.errors import ClusterError
from common.settings import Settings
from launch import api_errors, apply, job, manifests
from launch.benchmark_manifest import benchmark_objects
from launch.console import ClientConsole
from launch.job_watcher import JobWatcher
from launch.kube_client import KubeClient, Object

NATIVE = re.compile(r"WARNING: All log messages|[IW]\d{4} \d\d:")
"""What TensorFlow says when it starts; of a run it goes to its text logs."""

KEPT_SECONDS = 600
"""How long the cluster keeps a finished job that this client could not take away."""


def benchmark(settings: Settings, cases: str) -> int:
    """Run CASES in a TFJob of WORKERS pods, print the lines of all, and take it away again.

    What the workers say comes out as they said it; the last line tells the node of each. Lines that
    are not JSON are news for the person.

    Args:
        settings: WORKERS, CPU, MEMORY, where, and what holds for all cases.
        cases: CASES of training/step_benchmark_worker.py.

    Returns:
        The job's exit code.
    """
    # TensorFlow's profiler is of no use to it, and a name of its own keeps it apart from runs.
    more: dict[str, str | int] = {
        "run": f"probe-{uuid.uuid4().hex[:8]}",
        "profiler_port": 0,
        "ttl": KEPT_SECONDS,
    }
    settings = settings.replace(**more)
    objects = benchmark_objects(manifests.training(settings), cases, settings)
    cluster = KubeClient.connect(settings)
    cluster.check()
    name = settings.run_name
    screen = _Lines()
    with screen, _there(cluster, objects, name):
        try:
            ended = JobWatcher(
                cluster, "TFJob", name, screen, settings.fault_tolerance.rendezvous_timeout
            ).until_end()
        except api_errors.Unreachable:
            raise
        except ClusterError as error:
            raise ClusterError(f"{error} (the probe {name} is taken away)") from None
        if ended.code:
            print(f"qfleet: {ended.sentence}", file=sys.stderr)
            return ended.code
        pods = job.pods(cluster.list("Pod", job.pods_of("TFJob", name)))
        for pod in pods:
            for line in cluster.log(pod.name, pod.container, follow=False):
                screen.pass_on(line.partition(" ")[2])
        print(json.dumps({"nodes": [pod.node for pod in pods]}), flush=True)
    return 0


class _Lines(ClientConsole):
    """Prints each measurement once: the chief's as they come, the others' at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._printed: set[str] = set()

    def relay(self, line: str) -> None:
        """A line of the chief's."""
        if line.startswith("{"):
            self.pass_on(line)
        elif not NATIVE.match(line):
            super().relay(line)

    def pass_on(self, line: str) -> None:
        """A worker's line, if it is a measurement and was not printed before."""
        if line.startswith("{") and line not in self._printed:
            self._printed.add(line)
            print(line, flush=True)


@contextlib.contextmanager
def _there(cluster: KubeClient, objects: Sequence[Object], name: str) -> Iterator[None]:
    """The objects are in the cluster meanwhile; the account stays, as other jobs use it."""
    try:
        for body in apply.ordered(objects):
            apply.apply(cluster, body)
        yield
    finally:
        for body in objects:
            if body["kind"] != "ServiceAccount":
                cluster.delete(body["kind"], body["metadata"]["name"])
    apply.remove(cluster, "TFJob", name)  # the next one may need its place
