"""`make training`: train on this machine, in real worker processes."""

import logging
import sys
from collections.abc import Sequence

from common import devices, events, runs, start_check, storage
from common.errors import Preempted, SettingsError, exit_on_signals, run_main
from common.native_watchdog import start_heartbeat
from common.processes import exit_with_parent, tfq_environment
from common.runs import auto_settings
from common.settings import Settings
from common.settings.circuit_file import short_model
from common.settings.launcher_variables import heartbeat_file
from common.text import plural
from training.launcher.local_launcher import WORKER_COMMAND, LocalLauncher
from training.process import logging_setup

log = logging.getLogger("qfleet")

PLANNER = (sys.executable, "-m", "planning.auto")
"""Command that chooses WORKERS and BATCH, in this environment."""


def main(worker_command: Sequence[str] = WORKER_COMMAND) -> int:
    """Choose the run, resolve WORKERS=auto and BATCH=auto, and train in WORKERS processes.

    Args:
        worker_command: Program of a worker.

    Returns:
        The exit code of `LocalLauncher.train`.

    Raises:
        DataError, SettingsError, SimulationError: As `start_check`; no worker was started.
    """
    settings = Settings.from_args(sys.argv[1:], "train")
    if events.is_read_by_parent():
        _end_with_reader()
    tfq_environment.enter_if_needed(settings.model.simulator, "training")
    start_heartbeat(heartbeat_file())
    logging_setup.start_console(0, verbose=settings.job.verbose)
    if settings.job.target != "local":
        raise SettingsError(f"TARGET={settings.job.target}: training runs with TARGET=local only")
    root = storage.path(settings.job.storage)
    name = runs.next_name(root, settings.run_name)
    if name != settings.run_name:
        log.info(f"Run '{settings.run_name}' is finished; starting run '{name}'")
    settings = auto_settings.training_settings(settings, root, name)
    if start_check.is_needed(settings):
        from training.contraction_paths import use_paths  # it takes a second to import

        use_paths(root / name, settings)
        start_check.check(settings)
    if auto_settings.is_automatic(settings):
        settings = _resolve_auto(settings)
    start_check.require_ports(settings)
    devices.prepare(settings, settings.training.workers)
    log.info(
        f"Training {short_model(settings.model.model)} with"
        f" {plural(settings.training.workers, 'worker')} on this machine"
        " (TARGET=k8s uses the cluster)"
    )
    return LocalLauncher(settings.replace(run=name), worker_command).train()


def _end_with_reader() -> None:
    """Stop when the process ends that started this one and reads its events, such as a study.

    Raises:
        Preempted: It has ended already.
    """
    exit_with_parent()
    if not events.emit("log", level="DEBUG"):
        raise Preempted("the process that started this training has ended")


def _resolve_auto(settings: Settings) -> Settings:
    exit_on_signals()  # the launcher handles signals itself, later
    log.info("Planning WORKERS and BATCH (set both to numbers to skip this)")
    settings, reason = auto_settings.resolve_auto(settings, PLANNER)
    training = settings.training
    log.info(f"WORKERS={training.workers} BATCH={training.global_batch}: {reason}")
    return settings


if __name__ == "__main__":
    sys.exit(run_main(main))
