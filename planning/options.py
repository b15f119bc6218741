"""The options that a plan considers, and checks that need no measurement."""

from collections.abc import Iterator

from common.errors import SettingsError
from common.settings.groups.training import TrainingSettings
from common.settings.settings import AUTO
from planning.costs import MachineMemory, WorkerOption
from planning.workload import WorkloadAnalysis

MAX_PODS = 32
"""Most workers that a plan for a cluster considers."""

MIN_STEPS_PER_EPOCH = 16
"""Fewest steps per epoch with a batch that the planner chooses."""

BATCHES = tuple(2**power for power in range(3, 13))


def require_measurable(target: str) -> None:
    """Check that steps can be measured where a job would run.

    Raises:
        SettingsError: They can't be measured in Slurm.
    """
    if target == "slurm":
        raise SettingsError(
            "TARGET=slurm can't be measured: omit TARGET and run the command on a node, for example"
            " by `srun`"
        )


def check(
    workload: WorkloadAnalysis,
    training: TrainingSettings,
    simulator: str,
    *,
    keep_workers: bool = False,
) -> None:
    """Check settings that are wrong whatever is measured.

    Args:
        workload: Workload of the training.
        training: BATCH and STATE_SHARDS are checked.
        simulator: SIMULATOR, for the message.
        keep_workers: True for a training, which accepts a batch of more than all examples.

    Raises:
        SettingsError: STATE_SHARDS is impossible, or BATCH is more than all examples.
    """
    most = max(workload.shard_exchanges, default=1)
    if training.state_shards > most:
        raise SettingsError(
            f"STATE_SHARDS={training.state_shards} is not possible for {workload.qubits} qubits"
            f" with SIMULATOR={simulator}: set STATE_SHARDS to at most {most}"
        )
    if keep_workers:
        return
    if training.explicit_batch and training.global_batch > workload.train_examples:
        raise SettingsError(
            f"BATCH={training.global_batch} is more than the {workload.train_examples:,} training"
            " examples: lower BATCH, or raise TRAIN_EXAMPLES"
        )


def options(
    workload: WorkloadAnalysis, training: TrainingSettings, machine: MachineMemory
) -> Iterator[WorkerOption]:
    """Yield all options that the explicit settings allow."""
    for workers in _worker_counts(workload, training, machine):
        fair = machine.fair_threads(workers)
        threads_options = sorted({fair, *(2**power for power in range(fair.bit_length()))})
        explicit = training.explicit_batch
        batches = [explicit] if explicit else _automatic_batches(workload)
        for threads in [training.threads] if training.threads else threads_options:
            for shards in _shard_counts(workers, training, workload):
                for batch in batches:
                    if batch * shards >= workers and workers <= workload.partitions * shards:
                        yield WorkerOption(workers, batch, threads, shards)


def _worker_counts(
    workload: WorkloadAnalysis, training: TrainingSettings, machine: MachineMemory
) -> list[int]:
    most = MAX_PODS if machine.dedicated else machine.gpus or 2 * machine.cores
    most = max(most, training.workers, training.min_workers or 1)
    most = min(most, workload.partitions * max(training.state_shards, MAX_PODS))
    workers = {2**power for power in range(most.bit_length())}
    workers |= {
        count for count in (training.workers, training.min_workers or AUTO) if count != AUTO
    }
    fewest = training.min_workers or 1
    return sorted(count for count in workers if fewest <= count <= most)


def _shard_counts(
    workers: int, training: TrainingSettings, workload: WorkloadAnalysis
) -> list[int]:
    explicit = training.state_shards
    possible = [explicit] if explicit > 1 else [1, *workload.shard_exchanges]
    return [
        shards
        for shards in possible
        if workers % shards == 0 and (shards == 1 or shards in workload.shard_exchanges)
    ]


def _automatic_batches(workload: WorkloadAnalysis) -> list[int]:
    examples = workload.train_examples
    if workload.whole_batch:
        return [examples]
    most = max(examples // MIN_STEPS_PER_EPOCH, 1)
    return [batch for batch in BATCHES if batch <= most] or [most]
