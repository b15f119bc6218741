"""Settings of Slurm: what a job asks for, and the ports of its workers."""

from typing import Annotated, ClassVar

from annotated_types import Ge, Le
from pydantic import StringConstraints, field_validator

from common.settings.fields import Scope, Scopes, Setting, SettingsGroup

_NAME = StringConstraints(pattern=r"^[\w.,:&|*()\[\]-]*$")
MIN_PORT, MAX_PORT = 1024, 65_535


class SlurmSettings(SettingsGroup):
    """A job of TARGET=slurm; CPU and MEMORY of a worker are settings of the cluster."""

    title: ClassVar[str] = "Slurm"
    scope: ClassVar[Scopes] = frozenset({Scope.PLAN_FILE})

    partition: Annotated[
        str,
        _NAME,
        Setting("Slurm partition; default: Slurm's own", allowed="the name of a partition"),
    ] = ""
    account: Annotated[
        str,
        _NAME,
        Setting("Slurm account; default: the user's own", allowed="the name of an account"),
    ] = ""
    qos: Annotated[
        str, _NAME, Setting("Slurm quality of service; default: the account's", allowed="its name")
    ] = ""
    constraint: Annotated[
        str,
        _NAME,
        Setting("features that the nodes must have", allowed="an expression of Slurm, such as cpu"),
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
            allowed="first:last, both from 1024 to 65535",
        ),
    ] = "20000:29999"
    apptainer: Annotated[
        str,
        Setting(
            "image that workers run in (images/apptainer.def); default: this environment",
            allowed="the path of a .sif file on every node",
        ),
    ] = ""

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
            raise ValueError("first and last are not 1024 <= first < last <= 65535")
        return value
