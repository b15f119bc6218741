"""The recommended settings: a YAML file for CONFIG, or arguments of a command."""

import os
import shlex
from pathlib import Path

import yaml

from common.commands import command
from common.errors import SettingsError
from common.settings import Scope, Settings, names_in_scope, noise_file
from common.settings.programs import used_by
from planning.costs import MachineMemory, WorkerOption

FILE = Path("plan.yaml")
HEADER = f"# Written by {command('plan')}: for CONFIG.\n"


def apply_plan(
    settings: Settings, option: WorkerOption, machine: MachineMemory
) -> dict[str, object]:
    """Return the settings that differ from their defaults, with the recommended option.

    Args:
        settings: Settings of the plan.
        option: The recommended option.
        machine: Machine of the workers.
    """
    fields = type(settings).fields()
    values: dict[str, object] = {
        name: str(value) if isinstance(value, Path) else value
        for name in names_in_scope(Scope.PLAN_FILE)
        if (value := settings.get(name)) != fields[name].default
    }
    if "noise" in values:
        values["noise"] = noise_file.name_of(settings.model.noise)
    values |= {"workers": option.workers, "batch": option.batch}
    values.pop("threads", None)
    if threads := recommended_threads(option, machine):
        values["threads"] = threads
    if machine.gpus and settings.model.device == "auto":
        values["device"] = "cuda"
    if option.state_shards > 1:
        values["state_shards"] = option.state_shards
    return values


def recommended_threads(option: WorkerOption, machine: MachineMemory) -> int | None:
    """Return THREADS, or None if the default gives the same number."""
    return None if option.threads == machine.fair_threads(option.workers) else option.threads


def to_cli_args(settings: Settings, values: dict[str, object]) -> list[str]:
    """Return the values as arguments of `make training`, quoted for a shell.

    Args:
        settings: Settings of the plan.
        values: Result of `apply_plan`; those that a training does not use are left out.
    """
    used = used_by("train", settings.job.target, settings)
    return [
        f"{name.upper()}={shlex.quote(str(value))}"
        for name, value in values.items()
        if name in used
    ]


def check() -> None:
    """Check that APPLY may write its file, before anything is measured.

    Raises:
        SettingsError: Another file has that name, or the folder is not writable.
    """
    if FILE.exists() or FILE.is_symlink():
        try:
            is_plan = FILE.is_file() and FILE.read_text(encoding="utf-8").startswith(HEADER)
        except (OSError, UnicodeDecodeError):
            is_plan = False
        if not is_plan:
            raise SettingsError(
                f"APPLY would overwrite {FILE}, which {command('plan')} did not write: move that"
                " file"
            )
    if not os.access(FILE.resolve().parent, os.W_OK):
        raise SettingsError(f"APPLY can't write {FILE.resolve()}: this folder is read-only")


def write(values: dict[str, object]) -> Path:
    """Write the file for CONFIG atomically and return its path."""
    part = FILE.with_suffix(".part")
    part.write_text(HEADER + yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    part.replace(FILE)
    return FILE
