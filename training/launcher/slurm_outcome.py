"""End of one start of a Slurm job: `python -m training.launcher.slurm_outcome SETTINGS`.

The batch script requeues the job where the exit code of this program requests it.
"""

import logging
import os
import sys

from common import runs, storage
from common.errors import EXIT_OK, DeadlineReached, RetryableError, run_main
from common.runs.slurm_job import Outcome, decide, outcomes
from common.settings import Settings
from training.process import logging_setup

log = logging.getLogger("qfleet")


def main() -> int:
    """Log the outcome of this start of the job.

    Returns:
        The exit code that counts; codes of 128 and more, but that of DEADLINE, request a requeue.
    """
    settings = Settings.from_args(sys.argv[1:])
    logging_setup.start_console(0, verbose=settings.job.verbose)
    run = runs.Run.at(storage.path(settings.job.storage), settings.run_name)
    if run.finished():
        return EXIT_OK
    job, restart = os.environ["SLURM_JOB_ID"], int(os.environ.get("SLURM_RESTART_COUNT") or 0)
    workers = settings.training.workers
    found = outcomes(run, f"{job}-{restart}", workers)
    outcome = decide(found, workers)
    step_code = int(os.environ.get("STEP_EXIT_CODE") or 0)
    if not found and step_code:  # no worker has started
        outcome = Outcome(step_code, "no worker has started; srun's own messages are above")
    code = outcome.exit_code
    if code < RetryableError.exit_code or code == DeadlineReached.exit_code:
        log.info(f"Job {job} ends: {outcome.cause or 'all workers have finished'}")
    else:
        log.warning(f"Start {restart + 1} of job {job} ends with code {code}: {outcome.cause}")
    return code


if __name__ == "__main__":
    sys.exit(run_main(main))
