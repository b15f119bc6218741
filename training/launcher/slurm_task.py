"""Parent process of a worker: `srun python -m training.launcher.slurm_task ID SETTINGS`.

ID is the identity of the job. The parent gives the worker its TF_CONFIG and ports, kills it when it
is stuck, as the local launcher does, and records its outcome in the run's folder, also if it was
killed.
"""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from common import events, runs, storage
from common.errors import EXIT_BUG, QfleetError, as_qfleet_error, one_line, run_main
from common.processes import Heartbeats, ManagedProcess, StopSignals, clean_environment
from common.runs.slurm_job import Outcome, record_outcome
from common.settings import Settings
from common.settings.launcher_variables import HEARTBEAT_FILE, JOB_ID
from training.cluster.slurm import SlurmTask
from training.cluster.spec import TF_CONFIG
from training.launcher.local_launcher import POLL_INTERVAL_SECONDS, WORKER_COMMAND
from training.process import logging_setup

log = logging.getLogger("qfleet")


def main(worker_command: Sequence[str] = WORKER_COMMAND) -> int:
    """Run one worker to its end.

    Args:
        worker_command: Program of a worker; settings are appended as arguments.

    Returns:
        The worker's exit code, 128 + n where signal n ended it.
    """
    job_id, *args = sys.argv[1:]
    settings = Settings.from_args(args)
    task = SlurmTask.from_environment()
    logging_setup.start_console(task.rank, verbose=settings.job.verbose)
    run = runs.Run.at(storage.path(settings.job.storage), settings.run_name)
    try:
        with storage.temporary_folder() as folder:
            outcome = _run_worker(settings, task, job_id, worker_command, Path(folder))
    except Exception as error:
        known = as_qfleet_error(error)
        _record(run, task, Outcome(known.exit_code if known else EXIT_BUG, one_line(error)))
        raise
    _record(run, task, outcome)
    return outcome.exit_code


def _record(run: runs.Run, task: SlurmTask, outcome: Outcome) -> None:
    try:
        record_outcome(run, task.start, task.rank, outcome)
    except QfleetError as error:
        log.warning(f"the outcome of worker {task.rank} was not recorded: {one_line(error)}")


def _run_worker(
    settings: Settings, task: SlurmTask, job_id: str, command: Sequence[str], folder: Path
) -> Outcome:
    cluster, rendezvous_port = task.cluster(settings.slurm.port_range)
    heartbeat_file = folder / "heartbeat"
    heartbeat_file.touch()
    settings = settings.replace(
        rendezvous_port=rendezvous_port,
        threads=settings.training.threads or task.cpus,
    )
    environment = clean_environment(
        QFLEET_VERBOSE=str(settings.job.verbose).lower(),
        TMPDIR=str(folder),
        **{TF_CONFIG: cluster.to_config(), HEARTBEAT_FILE: str(heartbeat_file), JOB_ID: job_id},
    )
    heartbeats = Heartbeats()
    terminated = ended = False
    command, name = [*command, *settings.to_args()], f"worker {task.rank}"
    with (
        StopSignals() as signals,
        ManagedProcess(command, name=name, env=environment) as worker,
    ):
        heartbeats.watch(worker, heartbeat_file)
        while not ended:
            if signals.received and not terminated:
                terminated = True
                worker.terminate()
            event = worker.next_event(POLL_INTERVAL_SECONDS)
            ended = event is not None and event.kind == "exit"
            if event and not ended and event.kind not in events.LOG_ONLY_KINDS:
                events.forward(event)
            heartbeats.kill_silent()
        code = worker.wait()
        return Outcome(code, worker.failure if code else "")


if __name__ == "__main__":
    sys.exit(run_main(main))
