"""The check of a training before a job is submitted, since a job may wait for hours.

The client's own environment can't read tables, so that of the workers does, where there is one.
"""

from common import start_check
from common.built_in_data import check_built_in
from common.environments import WORKER_PYTHON
from common.errors import UserError
from common.processes import ManagedProcess
from common.settings import Settings
from common.waiting import Waiting

COMMAND = (str(WORKER_PYTHON), "-m", "common.start_check")


def check(settings: Settings) -> None:
    """Raise what makes MODEL, SAMPLER, DATA or PRUNE unusable, as far as it shows here.

    A machine without the environment of the workers leaves all but built-in data to the job, and
    one that can't read a bucket leaves DATA there to it.

    Raises:
        UserError: As `common.start_check.check`.
    """
    check_built_in(settings)
    if not start_check.is_needed(settings) or not WORKER_PYTHON.is_file():
        return
    command = [*COMMAND, *settings.to_args()]
    with (
        Waiting("the check of the settings"),
        ManagedProcess(command, name="start check", stdout="discard", stderr="capture") as process,
    ):
        process.discard_events()
        code = process.wait()
    if code == UserError.exit_code:
        raise UserError(process.failure)
    if code:
        raise RuntimeError(f"the check of the settings failed ({code}): {process.failure}")
