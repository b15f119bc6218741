"""Numbers for WORKERS=auto, BATCH=auto and automatic initializations, before anything starts.

An existing run provides its own numbers. Otherwise a planner chooses them, in a process of its own:
it needs TensorFlow, and half a minute for a model that was not measured on this machine yet. The
program that starts a job passes the planner's command, and needs neither itself.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from common.commands import command
from common.errors import EXIT_BUG, QfleetError, RunError, SettingsError
from common.events import Event
from common.processes import ManagedProcess
from common.runs.run import Run
from common.settings import Settings
from common.settings.forward_checks import require_trainable
from common.settings.settings import AUTO
from common.storage import StoragePath
from common.waiting import Waiting

ROOT = Path(__file__).resolve().parents[2]
"""Folder of this installation."""


def is_automatic(settings: Settings) -> bool:
    """Return True if the planner chooses WORKERS or BATCH."""
    return AUTO in (settings.training.workers, settings.training.batch)


def with_placeholder_numbers(settings: Settings) -> Settings:
    """Return settings with some numbers for `auto`, to find other errors in the settings first."""
    training = settings.training
    numbers = {}
    if training.batch == AUTO:
        numbers["batch"] = training.global_batch
    if training.workers == AUTO:
        numbers["workers"] = training.min_workers or training.state_shards
    return _with(settings, numbers) if numbers else settings


def training_settings(settings: Settings, root: StoragePath, name: str) -> Settings:
    """Check that a run can be trained, and return settings with the automatic numbers of the run.

    These are BATCH=auto and unset initializations, which depend on EPOCHS: others make another run.
    Every worker calls this before `identity()` and `fingerprint()`.

    Args:
        settings: As given by the user.
        root: STORAGE.
        name: Name of the run; without such a run nothing changes.

    Raises:
        RunError: The record of the run is damaged or of another version.
        SettingsError: EPOCHS leaves no epoch after the initializations of the run, or the circuits
            can't be trained; see `require_trainable`.
    """
    require_trainable(settings.model, settings.data)
    run = Run.at(root, name)
    if not run.exists():
        return settings
    recorded = run.record()["settings"]
    if settings.training.batch == AUTO:
        if "batch" not in recorded:
            raise RunError(f"{run.path / 'run.json'} is damaged: it lacks settings.batch")
        settings = _with(settings, {"batch": recorded["batch"]})
    return settings.inherit_initializations(recorded)


def resolve_auto(
    settings: Settings, planner: Sequence[str], cwd: Path | None = None
) -> tuple[Settings, str]:
    """Run the planner and return settings with its numbers.

    Args:
        settings: WORKERS or BATCH is auto.
        planner: Program and arguments, to which the settings are added. It emits one event of kind
            "plan".
        cwd: Working directory of the planner.

    Returns:
        The settings, and the reason for the numbers in one line.

    Raises:
        SettingsError: The planner's environment is missing.
        QfleetError: The planner failed, with its message and exit code.
    """
    if not Path(planner[0]).is_file():
        raise SettingsError(
            "WORKERS=auto and BATCH=auto need the planner, whose environment is missing: create it"
            f" with `{command('plan')}`, or set WORKERS and BATCH to numbers"
        )
    plan: Event | None = None
    words = [*planner, *settings.to_args()]
    with (
        Waiting("the planner, which measures steps"),
        ManagedProcess(
            words, name="planner", cwd=cwd, stdout="discard", stderr="capture"
        ) as process,
    ):
        for event in process.events():
            if event.kind == "plan":
                plan = event
        code = process.wait()
    if code == EXIT_BUG or (code == 0 and plan is None):
        raise RuntimeError(f"the planner failed:\n{process.stderr_text}")
    if code or plan is None:
        raise _PlannerFailed(process.error_message, code)
    return _with(settings, plan.mapping("settings")), plan.text("reason")


class _PlannerFailed(QfleetError):
    """The planner's own error: its message and exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code


def _with(settings: Settings, numbers: Mapping[str, object]) -> Settings:
    """Return settings with other numbers, validated like those of the user."""
    changes = [f"--{name}={value}" for name, value in numbers.items()]
    return Settings.from_args([*settings.to_args(), *changes])
