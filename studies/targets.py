"""TARGET of a study: where its storage is, and what runs its trials."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from common.processes import cpu_count
from common.settings import Settings
from common.storage import StoragePath
from common.storage.probe import usable_root
from launch.slurm import client
from studies.definition import StudyDefinition
from studies.folder import StudyFolder
from studies.kubernetes_trials import KubernetesTrials, open_cluster_storage
from studies.local_trials import TRIAL_COMMAND, LocalTrials
from studies.slurm_trials import SlurmTrials
from studies.trial_launcher import TrialLauncher

CLUSTER_PARALLELISM = 2
"""Trials at a time in a cluster, unless PARALLELISM is set."""


@contextlib.contextmanager
def open_root(settings: Settings) -> Iterator[StoragePath]:
    """Provide STORAGE, which for TARGET=k8s is that of the cluster's jobs.

    Raises:
        ClusterError: The cluster or its storage can't be reached, or there is no Slurm here.
        StorageError, StorageUnavailable: STORAGE can't be used.
    """
    if settings.job.target == "k8s":
        with open_cluster_storage(settings) as root:
            yield root
        return
    if settings.job.target == "slurm":
        client.require()
    root = usable_root(settings.job.storage)
    yield root.absolute() if isinstance(root, Path) else root


def parallel_trials(definition: StudyDefinition) -> int:
    """Return PARALLELISM; by default, as many trials as this machine has CPUs for."""
    settings = definition.settings
    chosen = settings.inference.parallelism
    if "parallelism" not in settings.explicit:
        cpus = cpu_count() // definition.processes_per_trial
        chosen = max(1, cpus) if settings.job.target == "local" else CLUSTER_PARALLELISM
    return min(chosen, definition.trial_count)


def launcher_for(
    definition: StudyDefinition,
    folder: StudyFolder,
    parallelism: int,
    command: Sequence[str] = TRIAL_COMMAND,
) -> TrialLauncher:
    """Return the launcher of TARGET.

    Args:
        definition: The study.
        folder: Its folder.
        parallelism: Trials at a time.
        command: Program of a trial on this machine.

    Raises:
        ClusterError: The environment of the cluster client is missing.
    """
    match definition.settings.job.target:
        case "k8s":
            return KubernetesTrials(parallelism)
        case "slurm":
            return SlurmTrials(definition, folder, parallelism)
    return LocalTrials(parallelism, command)
