"""Array jobs: a training or a seed of a search per task; the tasks of an array in the queue."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from common.storage import StoragePath
from launch.slurm import client
from launch.slurm.script import BatchScript, array, cpus_per_worker, mebibytes

TASK = "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"


@dataclass(frozen=True)
class ArrayScript(BatchScript):
    """The script of an array job; its `settings` are those of one of the tasks.

    Args:
        name: Name of the array, which Slurm lists.
        tasks: Arguments of each task's training, by task ID. They differ in a few settings.
        limit: Tasks that run at the same time.
        comment: Recognizes the array in the queue.
        shared: A file of STORAGE that each node must see, and a text in it.
    """

    name: str
    tasks: Mapping[int, Sequence[str]]
    limit: int
    comment: str
    shared: tuple[StoragePath, str]

    @property
    def _name(self) -> str:
        return self.name

    @property
    def _job(self) -> str:
        return TASK

    def _options(self) -> Iterator[str]:
        yield from super()._options()
        yield f"array={ranges(sorted(self.tasks))}%{self.limit}"
        yield f"comment={self.comment}"

    def _settings(self) -> str:
        """Return the settings that all tasks share, and a case for those of each task."""
        given = [*self.tasks.values()]
        common = set(given[0]).intersection(*given)
        cases = [
            f"    {task}) settings+=({shlex.join(one for one in args if one not in common)}) ;;"
            for task, args in self.tasks.items()
        ]
        shared = array("settings", [one for one in given[0] if one in common])
        return "\n".join([shared, "case $SLURM_ARRAY_TASK_ID in", *cases, "esac"])

    def _shared_file(self, root: StoragePath) -> tuple[StoragePath, str]:
        return self.shared


@dataclass(frozen=True)
class SearchScript(ArrayScript):
    """The script of an array whose tasks each search one seed, which is the ID of the task.

    `tasks` has the arguments of `module` after the seed.

    Args:
        module: The program of a task.
    """

    module: str

    @property
    def _command(self) -> str:
        return "make search TARGET=slurm"

    def _resources(self) -> Iterator[str]:
        cluster = self.settings.cluster
        yield "nodes=1"
        yield "ntasks=1"
        yield f"cpus-per-task={cpus_per_worker(cluster.cpu)}"
        if "memory" in self.settings.explicit:
            yield f"mem={mebibytes(cluster.memory)}M"

    def _program(self) -> str:
        cpus = cpus_per_worker(self.settings.cluster.cpu)
        return _SEARCH.format(cpus=cpus, module=self.module)


_SEARCH = """\
export QFLEET_NUM_THREADS={cpus}
srun --cpus-per-task={cpus} "${{python[@]}}" -m {module} \\
    "$SLURM_ARRAY_TASK_ID" "${{settings[@]}}"
code=$?"""


def ranges(numbers: Sequence[int]) -> str:
    """Return sorted numbers as sbatch reads them, such as 0-3,7."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


@dataclass(frozen=True)
class QueuedTask:
    """A task of an array in Slurm's queue.

    Attributes:
        array: Number of the array.
        task: Its task ID.
        state: Such as PENDING, RUNNING or COMPLETING.
        reason: Why it waits.
    """

    array: int
    task: int
    state: str
    reason: str

    @property
    def job(self) -> str:
        """Its identity for Slurm's commands, such as 17_3."""
        return f"{self.array}_{self.task}"


def queued_tasks(comment: str) -> dict[int, QueuedTask]:
    """Return the tasks of this user's arrays with a comment, by task ID; the newest array first.

    Raises:
        ClusterError: Slurm does not answer.
    """
    found: dict[int, QueuedTask] = {}
    for array_id, task, state, reason, text in client.queue("%F|%K|%T|%r|%k"):
        if text == comment and task.isdigit():
            one = QueuedTask(int(array_id), int(task), state, reason)
            if one.task not in found or found[one.task].array < one.array:
                found[one.task] = one
    return found
