"""Step benchmarks in the pods of a cluster, started by the cluster client in its environment."""

from collections.abc import Sequence

from common.environments import ROOT, cluster_client_command
from common.processes import ManagedProcess, ProcessGroup
from common.settings import Scope, Settings, names_in_scope
from planning.step_measurement import Case, common_arguments, encode_cases

CLIENT_COMMAND = "benchmark"


def start_client(
    group: ProcessGroup, cases: Sequence[Case], workers: int, settings: Settings
) -> ManagedProcess:
    """Start the cluster client, which runs the benchmark's job and deletes it afterwards.

    Its events are the measurements of all pods and, at the end, their `nodes`.

    Args:
        group: The process group that it becomes part of.
        cases: Cases to measure.
        workers: Number of pods.
        settings: The settings in the scopes BENCHMARK and PLACEMENT are used.

    Raises:
        ClusterError: The environment of the cluster client is missing.
    """
    placement = [f"{name}={settings.get(name)}" for name in names_in_scope(Scope.PLACEMENT)]
    arguments = [*common_arguments(settings), *placement, f"workers={workers}"]
    return group.start(
        [*cluster_client_command(), CLIENT_COMMAND, encode_cases(cases), *arguments],
        name="cluster client",
        cwd=ROOT,
        stdout="capture",
        stderr="capture",
    )
