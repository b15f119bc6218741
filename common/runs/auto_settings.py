"""WORKERS=auto and BATCH=auto become numbers, before anything is started with them.

The planner is asked, as a process of its own: it needs TensorFlow, and half a minute where it has
not measured such a model on this machine before, and what starts a job needs neither.
"""

import sys
from pathlib import Path

from common.errors import EXIT_BUG, QfleetError, SettingsError
from common.events import Event
from common.processes import ManagedProcess
from common.runs.run import Run
from common.settings import Settings
from common.settings.settings import AUTO
from common.storage import StoragePath

ROOT = Path(__file__).resolve().parents[2]

_PLANNER_GRACE_SECONDS = 40.0
"""Time for the planner to stop its benchmarks after SIGTERM."""


def is_automatic(settings: Settings) -> bool:
    """Whether a person left WORKERS or BATCH to the planner."""
    return AUTO in (settings.training.workers, settings.training.batch)


def with_placeholder_numbers(settings: Settings) -> Settings:
    """The settings with some numbers for auto: enough to find out what else is wrong with them."""
    if not is_automatic(settings):
        return settings
    batch = {"batch": settings.training.global_batch} if settings.training.batch == AUTO else {}
    workers = (
        {"workers": settings.training.state_shards} if settings.training.workers == AUTO else {}
    )
    return _with(settings, **batch, **workers)


def inherit_batch(settings: Settings, root: StoragePath, name: str) -> Settings:
    """BATCH=auto is the run's own where it was begun before: another would be another run.

    Args:
        settings: As a person said them.
        root: STORAGE.
        name: The run's.
    """
    run = Run.at(root, name)
    if settings.training.batch != AUTO or not run.exists():
        return settings
    return _with(settings, batch=run.record()["settings"]["batch"])


def resolve_auto(settings: Settings, python: Path | None = None) -> tuple[Settings, str]:
    """The settings with numbers, and why these, in one line.

    Args:
        settings: With WORKERS or BATCH auto.
        python: Of the environment that the planner runs in; this process's unless given.

    Raises:
        SettingsError: There is no way to plan here, or none to train that fits.
    """
    python = python or Path(sys.executable)
    if not python.is_file():
        raise SettingsError(
            "WORKERS=auto and BATCH=auto need the planner, whose environment is not there:"
            " `./setup.sh .venv worker` makes it; or set WORKERS and BATCH to numbers"
        )
    command = [str(python), "-m", "planning.auto", *settings.to_args()]
    plan: Event | None = None
    directory = None if python == Path(sys.executable) else ROOT
    planner = ManagedProcess(command, cwd=directory, stdout="discard", stderr="capture")
    try:
        for event in planner.events():
            if event.kind == "plan":
                plan = event
    finally:
        planner.stop(_PLANNER_GRACE_SECONDS)
    if planner.exit_code == EXIT_BUG or (planner.exit_code and not planner.error_message):
        raise RuntimeError(f"the planner failed:\n{planner.stderr_text}")
    if planner.exit_code:
        raise _Ended(planner.error_message, planner.exit_code)
    if plan is None:
        raise RuntimeError("the planner ended without a plan")
    return _with(settings, **plan.mapping("settings")), plan.text("reason")


class _Ended(QfleetError):
    """What the planner ended with, code and sentence."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.exit_code = code


def _with(settings: Settings, **numbers: object) -> Settings:
    """The settings with other numbers, checked again as if a person had said them."""
    batch = {"batch_per_worker": ""} if "batch" in numbers else {}
    said = {**batch, **numbers}
    more = [f"--{name}={value}" for name, value in said.items()]
    return Settings.from_args([*settings.to_args(), *more])
