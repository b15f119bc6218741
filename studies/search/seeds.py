"""All seeds of a search: one after another, or several in processes of their own."""

from collections.abc import Sequence

from common.errors import RunError, SettingsError
from common.lease import Lease
from common.processes import ManagedProcess
from qfleet.search import Space
from studies.search.definition import SearchDefinition
from studies.search.display import SearchDisplay
from studies.search.folder import SearchFolder
from studies.search.kubernetes_seeds import KubernetesSeeds
from studies.search.seed_processes import SeedProcesses
from studies.search.slurm_seeds import SlurmSeeds
from studies.search.stages import SeedSearch


def search_seeds(
    args: Sequence[str],
    definition: SearchDefinition,
    folder: SearchFolder,
    space: Space,
    lease: Lease,
) -> list[SeedSearch]:
    """Return the searches of all seeds.

    With WORKERS above 1, processes write the histories first, and with TARGET=slurm or k8s tasks
    or pods. On one machine, a history does not depend on who writes it: each process uses as many
    threads as a search without other processes. More WORKERS than seeds train the circuits of a
    seed.

    Args:
        args: The command line.
        definition: The search.
        folder: Its folder.
        space: Its gates.
        lease: The lease of the folder, which this process holds.

    Raises:
        RunError: Another process has taken the folder over, or a process is killed each time.
        SettingsError: A seed can't be searched.
        ClusterError: There is no Slurm or no client of Kubernetes, or Slurm refuses the tasks.
        ArgumentError: As `qfleet.search.search`.
    """
    target = definition.settings.job.target
    if target == "slurm":
        SlurmSeeds(args, definition, folder).write_histories(lease)
    elif target == "k8s":
        KubernetesSeeds(definition).write_histories(lease)
    elif definition.workers > 1 and len(definition.seeds) > 1:
        _write_histories(args, definition, lease)
    searches = []
    with SearchDisplay() as display:

        def report(search: SeedSearch) -> None:
            lease.check()
            display.show(search)

        for seed in definition.seeds:
            one = SeedSearch(definition, folder, seed, report)
            one.run(space)
            display.end(one)
            searches.append(one)
    return searches


def _write_histories(args: Sequence[str], definition: SearchDefinition, lease: Lease) -> None:
    """Search all seeds, WORKERS at a time, each in a process."""
    waiting = list(definition.seeds)
    with SeedProcesses(args) as processes:
        while waiting or processes.running:
            while waiting and processes.running < definition.workers:
                processes.start(waiting.pop(0))
            ended = processes.next_end()
            lease.check()
            if ended is not None:
                _require_success(ended)


def _require_success(process: ManagedProcess) -> None:
    if process.exit_code == SettingsError.exit_code:
        raise SettingsError(process.failure)
    if process.exit_code:
        raise RunError(
            f"the process of {process.name} failed ({process.failure}): run the same command again"
            " to continue the search"
        )
