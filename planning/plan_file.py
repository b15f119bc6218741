"""What was recommended, as settings: a YAML file for CONFIG, or words for the command line."""

import os
import shlex
from pathlib import Path
from typing import Any

import yaml

from common.errors import SettingsError
from common.settings import Settings
from common.settings import Scope, names_in_scope
from planning.costs import MachineMemory, WorkerOption

FILE = Path("plan.yaml")
HEAD = "# Written by make plan: for CONFIG.\n"


def apply_plan(settings: Settings, option: WorkerOption, machine: MachineMemory) -> dict[str, Any]:
    """The settings that differ from their defaults, with what was recommended.

    Args:
        settings: What was planned for.
        option: What is recommended.
        machine: Where.
    """
    fields = type(settings).fields()
    said = {
        name: str(value) if isinstance(value, Path) else value
        for name in names_in_scope(Scope.PLAN_FILE)
        if (value := settings.get(name)) != fields[name].default
    }
    said |= {"workers": option.workers, "batch": option.batch}
    said.pop("threads", None)
    if threads := recommended_threads(option, machine):
        said["threads"] = threads
    if option.split > 1:
        said["state_shards"] = option.split
    return said


def recommended_threads(option: WorkerOption, machine: MachineMemory) -> int | None:
    """THREADS, where a worker is not to take its fair share of the machine anyway."""
    fair = machine.cores if machine.own else max(1, machine.cores // option.workers)
    return None if option.threads == fair else option.threads


def to_cli_args(said: dict[str, Any]) -> list[str]:
    """The settings as they follow a verb in a shell."""
    return [f"{name.upper()}={shlex.quote(str(value))}" for name, value in said.items()]


def check() -> None:
    """Refuse early to write over a file that is not a plan.

    Raises:
        SettingsError: There is another file of that name, or none can be written here.
    """
    if FILE.exists():
        try:
            ours = FILE.read_text(encoding="utf-8").startswith(HEAD)
        except (OSError, UnicodeDecodeError):
            ours = False
        if not ours:
            raise SettingsError(
                f"APPLY would write over {FILE}, which make plan did not write: move it away"
            )
    if not os.access(FILE.resolve().parent, os.W_OK):
        raise SettingsError(f"APPLY can't write {FILE.resolve()}: this folder is read-only")


def write(said: dict[str, Any]) -> Path:
    """Write the file that CONFIG takes, whole or not at all; returns its path."""
    part = FILE.with_suffix(".part")
    part.write_text(HEAD + yaml.safe_dump(said, sort_keys=False), encoding="utf-8")
    part.replace(FILE)
    return FILE
