"""`launch benchmark`: short trainings measured in pods, for planning/cluster_benchmark.py."""

import contextlib
import re
import uuid
from collections.abc import Iterator, Sequence

from common import events
from common.errors import ClusterError
from common.events import Event
from common.settings import Settings, Value
from launch import api_errors, apply, job, manifests
from launch.benchmark_manifest import benchmark_objects
from launch.commands import select
from launch.console import ClientConsole
from launch.engines import BY_KIND
from launch.job_watcher import JobWatcher
from launch.kube_client import KubeClient
from launch.log_stream import read_line
from launch.names import training_job
from launch.pods import Object

TENSORFLOW_LOG = re.compile(r"WARNING: All log messages|[IW]\d{4} \d\d:")
"""Lines that TensorFlow's C++ code prints when it starts."""

TTL_SECONDS = 600
"""Time after which the cluster deletes a finished job that this client could not delete."""


def benchmark(settings: Settings, cases: str) -> int:
    """Run CASES in a job of WORKERS pods, pass on the events of all workers, delete the job.

    The last event is of kind "nodes".

    Args:
        settings: WORKERS, CPU, MEMORY, the cluster, and those that hold for all cases.
        cases: CASES of training/benchmark/worker.py.

    Returns:
        The job's exit code.
    """
    overrides: dict[str, Value] = {
        "run": f"benchmark-{uuid.uuid4().hex[:8]}",  # no run has this name
        "profiler_port": 0,
        "ttl": TTL_SECONDS,
    }
    settings = settings.replace(**overrides)
    cluster = KubeClient.connect(settings)
    cluster.check()
    engine = select.engines(cluster, settings)[0]
    settings = settings.replace(job_api=engine.api)
    objects = benchmark_objects(manifests.build(settings).objects, cases, settings)
    kind, name = engine.kind, training_job(settings.run_name)
    with _MeasurementConsole() as console, _temporary(cluster, objects):
        try:
            outcome = JobWatcher(
                cluster, kind, name, console, settings.fault_tolerance.rendezvous_timeout
            ).until_end()
        except api_errors.Unreachable:
            raise
        except ClusterError as error:
            raise ClusterError(f"{error} (the benchmark {name} was deleted)") from None
        if outcome.code:
            events.emit("error", outcome.sentence, exit_code=outcome.code)
            return outcome.code
        pods = job.sorted_pods(cluster.list("Pod", job.pod_selector(kind, name)))
        for pod in pods:
            for line in cluster.log(pod.name, pod.container, follow=False):
                console.pass_on_measurement(read_line(line.partition(" ")[2], pod.index))
        events.emit("nodes", "", nodes=[pod.node for pod in pods])
    return 0


class _MeasurementConsole(ClientConsole):
    """Passes on each measurement once: the chief's as they arrive, the others' at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._passed_on: set[str] = set()

    def show(self, event: Event) -> None:
        """Pass on a measurement of the chief's, or show another event."""
        if event.kind == "measurement":
            self.pass_on_measurement(event)
        elif not TENSORFLOW_LOG.match(event.message):
            super().show(event)

    def pass_on_measurement(self, event: Event) -> None:
        """Pass on a worker's event, if it is a measurement that was not passed on before."""
        line = event.to_json()
        if event.kind == "measurement" and line not in self._passed_on:
            self._passed_on.add(line)
            events.forward(event)


@contextlib.contextmanager
def _temporary(cluster: KubeClient, objects: Sequence[Object]) -> Iterator[None]:
    """Apply the objects, and delete them at the end except the account, which other jobs use."""
    try:
        apply.apply_all(cluster, objects)
        yield
    finally:
        for body in reversed(apply.apply_order(objects)):  # pods before their policy
            if body["kind"] != "ServiceAccount":
                apply.delete(cluster, body)
    # Waits: the next one may need its resources.
    apply.remove(cluster, next(one for one in objects if one["kind"] in BY_KIND))
