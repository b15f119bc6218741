"""Slurm's commands: submit, show and cancel jobs, with its errors as sentences."""

import functools
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.errors import ClusterError, QfleetError, SettingsError
from common.settings import Settings
from launch.slurm.versions import (
    OLDEST,
    Version,
    parse_version,
    show_version,
    too_new,
    unrecognized_option,
)

TIMEOUT_SECONDS = 60.0

ENDED = frozenset(
    {
        "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
        "PREEMPTED", "REVOKED", "TIMEOUT",
    }
)  # fmt: skip
"""States of a job that has ended and is not requeued."""


HOPELESS = frozenset(
    {
        "AccountNotAllowed", "BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionConfig",
        "PartitionNodeLimit", "PartitionTimeLimit", "QOSNotAllowed",
    }
)  # fmt: skip
"""Reasons of a waiting job that do not end by themselves."""


class JobCannotStart(ClusterError):
    """A job would wait for ever."""


@dataclass(frozen=True)
class JobState:
    """A job as Slurm shows it.

    Attributes:
        state: Such as PENDING or RUNNING.
        reason: Why it waits.
        nodes: List of its nodes; empty while it waits.
        restarts: How often it was requeued.
        exit_code: Exit code of the batch script, 128 + n where signal n ended it.
        name: Name of the job.
        number: Its number; a task of an array that has started has one of its own.
    """

    state: str
    reason: str
    nodes: str
    restarts: int
    exit_code: int
    name: str
    number: int = 0

    @property
    def has_ended(self) -> bool:
        """True if it will not run again."""
        return self.state in ENDED

    def __str__(self) -> str:
        if self.state == "PENDING":
            again = f", start {self.restarts + 1}" if self.restarts else ""
            return f"PENDING ({self.reason}{again})"
        return f"{self.state} on {self.nodes}" if self.nodes else self.state


def submit(script: str, settings: Settings) -> int:
    """Submit a batch script, and return the number of the job.

    Raises:
        SettingsError: Slurm refuses a setting, or this version lacks an option of SLURM_ARGS.
        ClusterError: There is no Slurm here, or it refuses the job.
    """
    check_options(settings)
    found = _call(["sbatch", "--parsable"], script)
    if found.returncode:
        raise _refusal(found.stderr, settings)
    number = re.match(r"\d+", found.stdout)
    if number is None:
        raise ClusterError(f"sbatch printed no number of a job: {found.stdout.strip()[:200]}")
    return int(number[0])


@functools.cache
def installed_version() -> Version | None:
    """Return the version of Slurm; None where sbatch does not print one.

    Raises:
        ClusterError: There is no Slurm here.
    """
    return parse_version(_call(["sbatch", "--version"]).stdout)


def check_options(settings: Settings) -> None:
    """Check that this version of Slurm has the options of SLURM_ARGS.

    Raises:
        SettingsError: It lacks one.
        ClusterError: There is no Slurm here.
    """
    version = installed_version()
    if version is not None and (missing := too_new(settings.slurm.options, version)):
        option, since = missing
        raise SettingsError(
            f"--{option} in SLURM_ARGS came with Slurm {show_version(since)}, and this is Slurm"
            f" {show_version(version)}: omit it"
        )


def show(number: int | str) -> JobState | None:
    """Return the state of a job; None if Slurm has forgotten it.

    Args:
        number: Number of the job, or of a task of an array, such as 17_3.

    Raises:
        ClusterError: Slurm does not answer.
    """
    found = _call(["scontrol", "show", "job", "--oneliner", str(number)])
    if found.returncode:
        if "Invalid job id" in found.stderr:
            return None
        raise _unreachable(found.stderr)
    return parse_state(found.stdout)


def parse_state(text: str) -> JobState:
    """Return the state in the output of `scontrol show job --oneliner`."""
    fields = dict(re.findall(r"(\w[\w:/]*)=(\S*)", text))
    code, _, number = fields.get("ExitCode", "0:0").partition(":")
    nodes = fields.get("NodeList", "")
    return JobState(
        state=fields.get("JobState", "UNKNOWN"),
        reason=fields.get("Reason", "None"),
        nodes="" if nodes == "(null)" else nodes,
        restarts=int(fields.get("Restarts", "0")),
        exit_code=int(code) or (128 + int(number) if int(number or 0) else 0),
        name=fields.get("JobName", ""),
        number=int(fields.get("JobId", "0")),
    )


def cancel(number: int | str) -> None:
    """Cancel a job or a task of an array; Slurm does not requeue it.

    Raises:
        ClusterError: Slurm refuses.
    """
    found = _call(["scancel", str(number)])
    if found.returncode:
        raise _unreachable(found.stderr)


def queued(prefix: str) -> list[Sequence[str]]:
    """Return this user's jobs: number, name, state, elapsed time, and nodes or reason.

    Args:
        prefix: Start of the names of the jobs.

    Raises:
        ClusterError: Slurm does not answer.
    """
    return [row for row in queue("%i|%j|%T|%M|%R") if row[1].startswith(prefix)]


def queue(columns: str) -> list[Sequence[str]]:
    """Return this user's jobs in the queue, each task of an array as a job of its own.

    Args:
        columns: Columns of squeue, separated by |.

    Raises:
        ClusterError: Slurm does not answer.
    """
    user = f"--user={os.getuid()}"  # the option --me does not exist in all versions
    found = _call(["squeue", user, "--array", "--noheader", f"--format={columns}"])
    if found.returncode:
        raise _unreachable(found.stderr)
    separators = columns.count("|")
    rows = [line.split("|", separators) for line in found.stdout.splitlines()]
    return [row for row in rows if len(row) == separators + 1]


def require() -> None:
    """Check that Slurm's commands are on this machine.

    Raises:
        ClusterError: They are not.
    """
    _call(["squeue", "--version"])


def _call(command: Sequence[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise ClusterError(
            f"TARGET=slurm needs the command {command[0]}, which is not on this machine: run this"
            " on a login node of the cluster"
        ) from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{command[0]} did not answer within {TIMEOUT_SECONDS:.0f} s") from None


def _lacks(option: str) -> ClusterError:
    return ClusterError(
        f"this Slurm ({show_version(installed_version())}) lacks the option {option}, which qfleet"
        f" needs: use Slurm {show_version(OLDEST)} or newer"
    )


def _unreachable(stderr: str) -> ClusterError:
    if option := unrecognized_option(stderr):
        return _lacks(option)
    return ClusterError(f"Slurm does not answer: {_last_line(stderr)}")


_REFUSALS: Mapping[str, tuple[str, str]] = {
    r"invalid partition": ("partition", "Slurm does not know this partition"),
    r"invalid account": (
        "slurm_args",
        "Slurm refuses this account, or this account in the partition; `sacctmgr show associations"
        " user=$USER` lists yours",
    ),
    r"invalid qos": ("slurm_args", "Slurm refuses this quality of service"),
    r"invalid feature": ("slurm_args", "no node has these features; `sinfo -o %f` lists them"),
    r"time limit": (
        "time_limit",
        "Slurm refuses it; `sinfo -o '%P %l'` lists the limits",
    ),
}
"""Patterns in sbatch's errors: the setting, and what is wrong with it."""


def _refusal(stderr: str, settings: Settings) -> QfleetError:
    """Return the error for a job that sbatch refused."""
    if option := unrecognized_option(stderr):
        if option not in [one.partition("=")[0] for one in settings.slurm.options]:
            return _lacks(option)
        return SettingsError(
            f"{option} in SLURM_ARGS is not an option of this Slurm"
            f" ({show_version(installed_version())}): omit it, or correct its name"
        )
    for pattern, (name, problem) in _REFUSALS.items():
        if re.search(pattern, stderr, re.IGNORECASE):
            known = f": choose one of {_partitions()}" if name == "partition" else ""
            value = getattr(settings.slurm, name)
            return SettingsError(f"{name.upper()}={value}: {problem}{known}")
    if re.search(r"job array", stderr, re.IGNORECASE):
        return ClusterError(
            "Slurm allows no array of this many trials: vary fewer values, or lower TRIALS;"
            " `scontrol show config | grep MaxArraySize` prints the limit"
        )
    if re.search(r"memory specification|node configuration|node count", stderr, re.IGNORECASE):
        return ClusterError(
            f"Slurm has no nodes for WORKERS={settings.training.workers},"
            f" WORKERS_PER_NODE={settings.slurm.workers_per_node}, CPU={settings.cluster.cpu} and"
            f" MEMORY={settings.cluster.memory}: change one of them ({_last_line(stderr)})"
        )
    return ClusterError(f"Slurm refused the job: {_last_line(stderr)}")


def _partitions() -> str:
    found = _call(["sinfo", "--noheader", "--format=%R"])
    return ", ".join(sorted(set(found.stdout.split()))) or "those that `sinfo` lists"


def _last_line(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1] if lines else "it gave no reason"
