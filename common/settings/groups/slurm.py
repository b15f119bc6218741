"""Settings of Slurm: what a job asks for, and the ports of its workers."""

import re
import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, ClassVar, Self

from annotated_types import Ge, Le
from pydantic import StringConstraints, field_validator, model_validator

from common.settings.fields import MAX_PORT, Scope, Scopes, Setting, SettingsGroup

MIN_PORT = 1024

_TAKEN: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("nodes", "ntasks"), "WORKERS"),
        "ntasks-per-node": "WORKERS_PER_NODE",
        "cpus-per-task": "CPU",
        "mem": "MEMORY",
        "partition": "PARTITION",
        "time": "TIME_LIMIT",
        "job-name": "RUN",
        **dict.fromkeys(
            ("array", "chdir", "clusters", "comment", "dependency", "error", "export"), ""
        ),
        **dict.fromkeys(("export-file", "help", "no-requeue", "open-mode", "output"), ""),
        **dict.fromkeys(("parsable", "requeue", "signal", "test-only", "usage"), ""),
        **dict.fromkeys(("gid", "uid", "version", "wait", "wrap"), ""),
    }
)
"""Options of sbatch that would change what qfleet relies on, and the settings that set them."""


class SlurmSettings(SettingsGroup):
    """A job of TARGET=slurm; CPU and MEMORY of a worker are settings of the cluster."""

    title: ClassVar[str] = "Slurm"
    scope: ClassVar[Scopes] = frozenset({Scope.PLAN_FILE})

    partition: Annotated[
        str,
        StringConstraints(pattern=r"^[\w.,-]*$"),
        Setting("Slurm partition; default: Slurm's own", allowed="the name of a partition"),
    ] = ""
    time_limit: Annotated[
        str,
        StringConstraints(pattern=r"^((\d+-)?\d+(:\d{2}){0,2})?$"),
        Setting(
            "time limit of each start of a job, whose last two minutes are for a checkpoint;"
            " default: the partition's",
            allowed="minutes, hours:minutes:seconds or days-hours, as for sbatch",
        ),
    ] = ""
    workers_per_node: Annotated[
        int, Ge(1), Le(1024), Setting("workers on each node; WORKERS must be a multiple of it")
    ] = 1
    ports: Annotated[
        str,
        StringConstraints(pattern=r"^\d{1,5}:\d{1,5}$"),
        Setting(
            "ports that workers may listen on; each start of a job uses WORKERS + 1 of them",
            allowed=f"first:last, both from {MIN_PORT} to {MAX_PORT}",
        ),
    ] = "20000:29999"
    apptainer: Annotated[
        str,
        Setting(
            "image that workers run in (images/apptainer.def); default: this environment",
            allowed="the path of a .sif file on every node",
        ),
    ] = ""

    slurm_args: Annotated[
        str,
        Setting(
            "further options of sbatch",
            allowed="options in their long form, such as --account=m1234 --qos=debug",
        ),
    ] = ""

    @property
    def options(self) -> Sequence[str]:
        """SLURM_ARGS as single options."""
        return shlex.split(self.slurm_args)

    @property
    def port_range(self) -> range:
        """PORTS as numbers."""
        first, last = map(int, self.ports.split(":"))
        return range(first, last + 1)

    @field_validator("ports")
    @classmethod
    def _check_ports(cls, value: str) -> str:
        first, last = map(int, value.split(":"))
        if not MIN_PORT <= first < last <= MAX_PORT:
            raise ValueError(f"first and last are not {MIN_PORT} <= first < last <= {MAX_PORT}")
        return value

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        given = f"SLURM_ARGS={self.slurm_args}"
        try:
            options = self.options
        except ValueError:
            raise ValueError(f"{given} has a quote without its end: add or remove one") from None
        for option in options:
            name, _, value = option.removeprefix("--").partition("=")
            if not re.fullmatch(r"--[a-z][a-z0-9-]*", option.partition("=")[0]):
                raise ValueError(
                    f"{option!r} in SLURM_ARGS is not an option in its long form: write options as"
                    " --account=m1234"
                )
            if not value.isprintable():
                raise ValueError(f"{name} in SLURM_ARGS has a control character: remove it")
            # sbatch also takes the beginning of a name.
            if taken := next((one for one in _TAKEN if one.startswith(name)), ""):
                use = f"set {_TAKEN[taken]}" if _TAKEN[taken] else "omit it"
                raise ValueError(f"--{name} in SLURM_ARGS is an option that qfleet sets: {use}")
        return self
