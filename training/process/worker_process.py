"""Start and end of every worker process: rank, logging, watchdog, signals and exit code."""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from common import devices, events
from common.errors import run_main
from common.processes import exit_with_parent
from common.settings import Settings
from common.settings.launcher_variables import heartbeat_file
from training.cluster.spec import ClusterSpec
from training.process import logging_setup
from training.process.preemption import Preemption
from training.process.watchdog import Watchdog


def start_worker(
    settings: Settings, *, leaves_checkpoint: bool = True
) -> tuple[Settings, ClusterSpec, Preemption, Watchdog]:
    """Find this worker's rank and device, set up logging and the watchdog, and block SIGTERM.

    Call it before NumPy or TensorFlow are imported: they start threads, which inherit the mask.

    Args:
        settings: Those of the command line.
        leaves_checkpoint: Let the chief write a checkpoint after SIGTERM.

    Returns:
        The settings with the size of TF_CONFIG as WORKERS, all addresses, the SIGTERM state, and
        the watchdog.

    Raises:
        SettingsError: TF_CONFIG is malformed or contradicts WORKERS.
    """
    cluster = ClusterSpec.from_environment(settings.training.workers)
    if settings.training.workers != cluster.size:
        # TF_CONFIG defines the workers; the settings must be valid for that number.
        settings = Settings.from_args([*settings.to_args(), f"--workers={cluster.size}"])
    logging_setup.start_console(cluster.rank, verbose=settings.job.verbose)
    devices.enter(settings)
    limits = settings.fault_tolerance
    watchdog = Watchdog(
        cluster.rank,
        stall_timeout_min=limits.stall_timeout_min,
        stall_timeout_max=limits.stall_timeout_max,
        heartbeat_file=Path(file) if (file := heartbeat_file()) else None,
    )
    preemption = Preemption(watchdog, is_chief=cluster.is_chief and leaves_checkpoint)
    preemption.watch()  # before any thread is started
    watchdog.start()
    exit_with_parent()
    events.log_event(
        "worker_started",
        f"Worker {cluster.rank} of {cluster.size} started",
        level=logging.DEBUG,
        workers=cluster.size,
    )
    return settings, cluster, preemption, watchdog


def exit_worker(main: Callable[[], None]) -> NoReturn:
    """Call the main function of a worker and end the process with its exit code.

    Interpreter shutdown is skipped: TensorFlow's destructors may wait for lost peers.
    """
    code = run_main(main)
    events.flush()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
