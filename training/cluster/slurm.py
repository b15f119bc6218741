"""The cluster description of a Slurm job: from the variables that Slurm sets for each task."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from common.commands import command
from common.errors import SettingsError
from training.cluster.spec import ClusterSpec

MAX_HOSTS = 100_000
RESTART_STRIDE = 7919
"""Blocks of ports between two starts of a job, so that a taken port is not tried twice."""


@dataclass(frozen=True)
class SlurmTask:
    """A task of a job step: one worker.

    Attributes:
        job: Number of the job.
        restart: Starts of the job before this one.
        rank: Rank of the worker.
        hosts: Host name of each rank.
        cpus: CPUs of the task; 0 where Slurm does not set a number.
    """

    job: int
    restart: int
    rank: int
    hosts: tuple[str, ...]
    cpus: int

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] = os.environ) -> Self:
        """Read the variables of a task.

        Raises:
            SettingsError: This is not a task of a job step.
        """
        try:
            names = expand_hosts(variables["SLURM_STEP_NODELIST"])
            counts = expand_counts(variables["SLURM_STEP_TASKS_PER_NODE"])
            hosts = tuple(
                host for host, count in zip(names, counts, strict=True) for _ in range(count)
            )
            task = cls(
                int(variables["SLURM_JOB_ID"]),
                int(variables.get("SLURM_RESTART_COUNT") or 0),
                int(variables["SLURM_PROCID"]),
                hosts,
                int(variables.get("SLURM_CPUS_PER_TASK") or 0),
            )
        except (KeyError, ValueError) as error:
            raise SettingsError(
                f"this is not a task of a Slurm job step ({error}): start it with"
                f" `{command('train')} TARGET=slurm`"
            ) from None
        if not 0 <= task.rank < len(hosts):
            raise SettingsError(
                f"SLURM_PROCID={task.rank} is not a rank of {len(hosts)} tasks on"
                f" {variables['SLURM_STEP_NODELIST']}: start the job again"
            )
        return task

    @property
    def start(self) -> str:
        """Number of the job and of its restart, such as 17-0."""
        return f"{self.job}-{self.restart}"

    def cluster(self, allowed: range) -> tuple[ClusterSpec, int]:
        """Return all workers with their ports, and the port of the rendezvous.

        Args:
            allowed: Ports that the job may use (PORTS).
        """
        rendezvous, *ports = self._ports(allowed)
        addresses = (f"{host}:{port}" for host, port in zip(self.hosts, ports, strict=True))
        return ClusterSpec(tuple(addresses), self.rank), rendezvous

    def _ports(self, allowed: range) -> range:
        """Return the ports of this start: one block of the allowed ones, chosen by the job."""
        size = len(self.hosts) + 1
        blocks = len(allowed) // size
        if not blocks:
            raise SettingsError(
                f"PORTS={allowed[0]}:{allowed[-1]} has fewer than the {size} ports of"
                f" WORKERS={len(self.hosts)}: choose a larger range"
            )
        first = (self.job + self.restart * RESTART_STRIDE) % blocks * size
        return allowed[first : first + size]


def expand_hosts(text: str) -> list[str]:
    """Return the host names in a list of Slurm's, as `scontrol show hostnames` does.

    Args:
        text: Such as login,node[1-3,07-09].

    Raises:
        ValueError: It is malformed.
    """
    if not re.fullmatch(r"([^\[\],\s]+|\[[\d,-]+\])+(,([^\[\],\s]+|\[[\d,-]+\])+)*", text):
        raise ValueError(f"{text!r} is not a list of hosts")
    hosts: list[str] = []
    for word in re.findall(r"(?:[^\[\],]|\[[^\]]*\])+", text):
        hosts += _expand_word(word, MAX_HOSTS - len(hosts))
    return hosts


def _expand_word(word: str, most: int) -> list[str]:
    """Return the hosts of one word; several brackets vary from the right."""
    names = [""]
    for part in re.findall(r"\[[^\]]*\]|[^\[]+", word):
        options = list(_numbers(part[1:-1])) if part.startswith("[") else [part]
        if len(names) * len(options) > most:
            raise ValueError(f"a list of more than {MAX_HOSTS:,} hosts")
        names = [name + option for name in names for option in options]
    return names


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers of a bracket, with their leading zeros."""
    for part in text.split(","):
        first, dash, last = part.partition("-")
        end = int(last) if dash else int(first)
        if end - int(first) > MAX_HOSTS:
            raise ValueError(f"a list of more than {MAX_HOSTS:,} hosts")
        for number in range(int(first), end + 1):
            yield str(number).zfill(len(first))


def expand_counts(text: str) -> list[int]:
    """Return the numbers in a list of Slurm's, such as 2(x3),1 for 2, 2, 2, 1.

    Raises:
        ValueError: It is malformed.
    """
    counts: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part)
        if not found:
            raise ValueError(f"{text!r} is not a list of counts")
        counts += [int(found[1])] * int(found[2] or 1)
    return counts
