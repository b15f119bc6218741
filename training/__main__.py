"""`make training`: train on this machine, in real worker processes."""

import logging
import sys

from common import runs, storage
from common.errors import SettingsError, exit_on_signals, run_main
from common.runs import auto_settings
from common.settings import Settings
from training import logging_setup
from training.local_launcher import LocalLauncher

log = logging.getLogger("qfleet")

PLANNER = (sys.executable, "-m", "planning.auto")
"""Command that chooses WORKERS and BATCH, in this environment."""


def main() -> int:
    """Find out which run is meant, and have a gang of WORKERS processes train it."""
    settings = Settings.from_args(sys.argv[1:])
    logging_setup.start_console(0, verbose=settings.job.verbose)
    if settings.job.target != "local":
        raise SettingsError(f"TARGET={settings.job.target}: training runs with TARGET=local only")
    root = storage.path(settings.job.storage)
    name = runs.next_name(root, settings.run_name)
    if name != settings.run_name:
        log.info(f"run {settings.run_name} is finished: this one is {name}")
    settings = auto_settings.inherit_from_run(settings, root, name)
    if auto_settings.is_automatic(settings):
        exit_on_signals()  # the gang has its own way to end
        log.info("planning: WORKERS and BATCH may stand as numbers, too")
        settings, why = auto_settings.resolve_auto(settings, PLANNER)
        log.info(
            f"WORKERS={settings.training.workers} BATCH={settings.training.global_batch}: {why}"
        )
    workers = f"{settings.training.workers} worker" + "s" * (settings.training.workers > 1)
    log.info(
        f"training {settings.model.model} in {workers} on this machine; TARGET=k8s for the cluster"
    )
    return LocalLauncher(settings.replace(run=name)).train()


if __name__ == "__main__":
    sys.exit(run_main(main))
