"""The batch script of a training job. Here and in array.py are the options of sbatch and srun."""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from common import devices, storage
from common.commands import IS_INSTALLED
from common.errors import DeadlineReached, RetryableError, SettingsError
from common.runs import Run
from common.runs.slurm_job import job_file
from common.settings import Settings
from common.settings.slurm_checks import CHECKPOINT_SECONDS
from common.storage import StoragePath

SHARED_SECONDS = 30
"""Time for a new file to be seen on all nodes: network file systems cache folders for a while."""

JOB_PREFIX = "qfleet-"


@dataclass(frozen=True)
class BatchScript:
    """The script of one job.

    Args:
        settings: All settings; STORAGE is absolute, and RUN exact.
        log: File of the job's output; Slurm replaces %j by the number of the job.
        folder: Working folder of the workers.
        job_id: Identity that all starts of the job share; the shell expands variables in it.
    """

    settings: Settings
    log: Path
    folder: Path
    job_id: str

    def render(self) -> str:
        """Return the text of the script.

        Raises:
            SettingsError: STORAGE has a name that Slurm would change.
        """
        if "%" in str(self.log.parent):
            raise SettingsError(
                f"{self.log.parent} contains %, which Slurm replaces in names of files: choose"
                " another STORAGE"
            )
        options = "\n".join(f"#SBATCH --{option}" for option in self._options())
        return _TEMPLATE.format(
            options=options,
            folder=shlex.quote(str(self.folder)),
            environment=self._environment(),
            python=shlex.join(self._python()),
            settings=self._settings(),
            job=self._job,
            check=self._check(),
            command=self._command,
            program=self._program(),
            first_retryable=RetryableError.exit_code,
            above_signals=RetryableError.exit_code + 32,
            deadline=DeadlineReached.exit_code,
        )

    @property
    def _name(self) -> str:
        """Name of the job, which Slurm lists."""
        return f"{JOB_PREFIX}{self.settings.run_name}"

    @property
    def _job(self) -> str:
        """Identity of the job for Slurm's commands, which the shell expands."""
        return "$SLURM_JOB_ID"

    @property
    def _command(self) -> str:
        """The command that submits the script."""
        return "make training TARGET=slurm"

    def _settings(self) -> str:
        """Return the commands that set the array `settings`."""
        return array("settings", self.settings.to_args())

    def _program(self) -> str:
        """Return the commands that run the job and set `code`."""
        cpus = cpus_per_worker(self.settings.cluster.cpu)
        return _TRAINING.format(cpus=cpus, job_id=self.job_id)

    def _resources(self) -> Iterator[str]:
        settings = self.settings
        workers, per_node = settings.training.workers, settings.slurm.workers_per_node
        yield f"nodes={workers // per_node}"
        yield f"ntasks={workers}"
        yield f"ntasks-per-node={per_node}"
        yield f"cpus-per-task={cpus_per_worker(settings.cluster.cpu)}"
        if devices.device_of(settings) == "cuda":
            yield "gpus-per-task=1"
        if "memory" in settings.explicit:
            yield f"mem={per_node * mebibytes(settings.cluster.memory)}M"

    def _options(self) -> Iterator[str]:
        slurm = self.settings.slurm
        yield f"job-name={self._name}"
        yield from self._resources()
        if slurm.partition:
            yield f"partition={_quoted(slurm.partition)}"
        if slurm.time_limit:
            yield f"time={slurm.time_limit}"
        yield "requeue"
        yield "open-mode=append"
        yield f"signal=TERM@{CHECKPOINT_SECONDS}"
        yield f"output={_quoted(str(self.log))}"
        for option in slurm.options:
            name, equals, value = option.removeprefix("--").partition("=")
            yield f"{name}={_quoted(value)}" if equals else name

    def _environment(self) -> str:
        """Return the line that lets Python find an installed service; a checkout is the folder."""
        if not IS_INSTALLED or self.settings.slurm.apptainer:
            return ""
        return f"export PYTHONPATH={shlex.quote(os.environ['PYTHONPATH'])} PYTHONSAFEPATH=1"

    def _python(self) -> Sequence[str]:
        image = self.settings.slurm.apptainer
        if not image:
            return [sys.executable]
        binds = [str(self.folder)]
        if "://" not in self.settings.job.storage:
            binds.append(self.settings.job.storage)
        return ["apptainer", "exec", *(f"--bind={bind}" for bind in binds), image, "python3"]

    def _check(self) -> str:
        """Return the step that checks on each node what must be shared."""
        settings = self.settings
        root = storage.path(settings.job.storage)
        if not storage.is_local(root):
            return ""
        file, text = self._shared_file(root)
        arguments = shlex.join([settings.job.storage, str(file), text])
        return _CHECK.format(seconds=SHARED_SECONDS, arguments=arguments)

    def _shared_file(self, root: StoragePath) -> tuple[StoragePath, str]:
        """Return a file of STORAGE that each node must see, and a text in it."""
        return job_file(Run.at(root, self.settings.run_name).path), self.job_id


def array(name: str, words: Sequence[str]) -> str:
    """Return the command that sets an array of the shell, one word a line."""
    return "\n".join([f"{name}=(", *(f"    {shlex.quote(word)}" for word in words), ")"])


def cpus_per_worker(cpu: str) -> int:
    """Return CPU as whole cores: Slurm has no parts of them."""
    return -(-int(cpu[:-1]) // 1000) if cpu.endswith("m") else int(cpu)


def mebibytes(memory: str) -> int:
    """Return MEMORY in MiB, which is Slurm's M."""
    return int(memory[:-2]) * (1024 if memory.endswith("Gi") else 1)


def _quoted(value: str) -> str:
    """Return the value of an #SBATCH line, where a backslash escapes a character."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_CHECK = """\
# Every node must see the files of this job.
# shellcheck disable=SC2016
srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 bash -c '
    for ((i = 0; i < 5 * {seconds}; i++)); do
        grep --quiet --no-messages "$3" "$2" && exit
        sleep 0.2
    done
    echo "qfleet: STORAGE=$1 is not shared: $(hostname) does not see $2; choose a folder" \\
        "that all nodes share, or gs://bucket/path" >&2
    exit 2' check {arguments} || exit 2
"""

_TEMPLATE = """\
#!/bin/bash
{options}
#
# Submitted by `{command}`.
set -u
cd {folder} || exit 2
{environment}
python=({python})
job={job}
{settings}

{check}
{program}

# A job that is being cancelled is not RUNNING, and stays cancelled. Higher codes are not qfleet's.
if ((code >= {first_retryable} && code < {above_signals} && code != {deadline})) &&
    [[ $(squeue --noheader --jobs="$job" --format=%T) == RUNNING ]]; then
    echo "Requeueing job $job"
    scontrol requeue "$job" && sleep 60
fi
exit "$code"
"""

_TRAINING = """\
# A worker that fails ends the others: they receive SIGTERM, and SIGKILL after Slurm's KillWait.
srun --cpus-per-task={cpus} --distribution=block --kill-on-bad-exit=1 \\
    "${{python[@]}}" -m training.launcher.slurm_task "{job_id}" "${{settings[@]}}"

export STEP_EXIT_CODE=$?

# The exit code of this start, from the outcomes that the workers have recorded.
"${{python[@]}}" -m training.launcher.slurm_outcome "${{settings[@]}}"
code=$?"""
