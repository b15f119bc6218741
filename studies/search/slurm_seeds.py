"""Seeds of a search as tasks of an array job of Slurm; the ID of a task is the number of its seed.

Tasks write the histories to STORAGE, which all nodes share, and run on when this process ends. The
queue is the only record of submitted tasks: their comment has a hash of the search and its folder.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from common import events
from common.errors import ClusterError, RunError
from common.lease import Lease
from common.text import plural
from launch.slurm import client
from launch.slurm.array import QueuedTask, SearchScript, queued_tasks
from launch.slurm.script import JOB_PREFIX
from launch.slurm.watcher import POLL_SECONDS, UNREACHABLE_SECONDS
from studies.search.definition import SearchDefinition
from studies.search.folder import SearchFolder

MODULE = "studies.search.seed_task"
_REPLACED = ("SEED", "SEEDS", "STORAGE")


class SlurmSeeds:
    """The tasks of one start of a search.

    Args:
        args: The command line.
        definition: The search.
        folder: Its folder, with search.json.
    """

    def __init__(
        self, args: Sequence[str], definition: SearchDefinition, folder: SearchFolder
    ) -> None:
        self._args, self._definition, self._folder = args, definition, folder
        self._path = Path(str(folder.path)).absolute()
        text = f"{json.dumps(definition.to_json())} {self._path}"
        self._comment = f"qfleet-search-{hashlib.sha256(text.encode()).hexdigest()[:24]}"

    def write_histories(self, lease: Lease) -> None:
        """Search all seeds, and return when their tasks have left the queue.

        Tasks that are in the queue, since an earlier start submitted them, are followed.

        Args:
            lease: The lease of the folder, which this process holds.

        Raises:
            RunError: A task failed, or another process has taken the folder over.
            SettingsError: Slurm refuses a setting.
            ClusterError: There is no Slurm here, it refuses the array, or it does not answer.
        """
        queued = queued_tasks(self._comment)
        missing = [seed for seed in self._definition.seeds if seed not in queued]
        jobs = {task: one.job for task, one in queued.items()}
        if missing:
            array = self._submit(missing)
            jobs |= {seed: f"{array}_{seed}" for seed in missing}
            name = f"{JOB_PREFIX}{self._definition.name}"
            _log(
                f"Submitted {plural(len(missing), 'seed')} as job {array}; logs are in"
                f" {self._path}/slurm, and `scancel --name={name}` ends them"
            )
        self._wait(lease)
        for seed in self._definition.seeds:
            self._require_success(seed, jobs[seed])

    def script(self, seeds: Sequence[int]) -> SearchScript:
        """Return the script of the array of some seeds."""
        definition = self._definition
        settings = definition.settings
        return SearchScript(
            settings=settings.replace(storage=str(self._path.parents[1])),
            log=self._path / "slurm" / "job-%A_%a.log",
            folder=Path.cwd(),
            job_id="",
            name=f"{JOB_PREFIX}{definition.name}",
            tasks={seed: self._task(seed) for seed in seeds},
            limit=definition.seeds_at_a_time,
            comment=self._comment,
            shared=(self._path / "search.json", f'"search": "{definition.name}"'),
            module=MODULE,
        )

    def _submit(self, seeds: Sequence[int]) -> int:
        (self._path / "slurm").mkdir(exist_ok=True)
        script = self.script(seeds)
        return client.submit(script.render(), script.settings)

    def _task(self, seed: int) -> Sequence[str]:
        """Return the arguments of the process of a seed, which the seed precedes."""
        kept = [one for one in self._args if _name(one) not in _REPLACED]
        return [*kept, f"SEEDS={seed}", f"STORAGE={self._path.parents[1]}"]

    def _wait(self, lease: Lease) -> None:
        """Wait until no task is in the queue, and print how many wait and run."""
        shown, answered = "", time.monotonic()
        while True:
            lease.check()
            try:
                tasks = queued_tasks(self._comment)
                answered = time.monotonic()
            except ClusterError:
                if time.monotonic() - answered > UNREACHABLE_SECONDS:
                    raise
                time.sleep(POLL_SECONDS)
                continue
            _require_hope(tasks)
            if not tasks:
                return
            counts = Counter(one.state.lower() for one in tasks.values())
            text = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
            if text != shown:
                shown = text
                _log(f"Seeds in Slurm's queue: {text}")
            time.sleep(POLL_SECONDS)

    def _require_success(self, seed: int, job: str) -> None:
        state = client.show(job)
        if state is not None and state.state != "COMPLETED":
            log = self._path / "slurm" / f"job-{job}.log"
            raise RunError(
                f"the task of seed {seed} ended as {state.state}, exit code {state.exit_code}"
                f" (see {log}): run the same command again to continue the search"
            )


def _name(argument: str) -> str:
    return argument.partition("=")[0].lstrip("-").replace("-", "_").upper()


def _require_hope(tasks: Mapping[int, QueuedTask]) -> None:
    for one in tasks.values():
        if one.state == "PENDING" and one.reason in client.HOPELESS:
            client.cancel(one.array)
            raise client.JobCannotStart(
                f"seed {one.task} can't start, as Slurm has no nodes for it ({one.reason}): change"
                " PARTITION, TIME_LIMIT, CPU or MEMORY; `sinfo` lists partitions and nodes"
            )


def _log(text: str) -> None:
    events.emit("log", text, level="INFO")
