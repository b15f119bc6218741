"""The check of DATA before a job is submitted, since a job may wait for hours.

The client's own environment can't read tables, so that of the workers does.
"""

from common.environments import WORKER_PYTHON
from common.errors import DataError
from common.processes import ManagedProcess
from common.settings import Settings
from common.settings.groups.experiment import FITTED_TO_DATA

COMMAND = (str(WORKER_PYTHON), "-m", "common.data.check_command")


def check(settings: Settings) -> None:
    """Raise if DATA, which the nodes read at the same path, can't be used.

    Buckets are left to the job, and so is a machine without the environment of the workers.

    Raises:
        DataError: The data can't be read, or a setting does not fit them.
    """
    data = settings.data.data
    if data.startswith("gs://") or not settings.explicit & FITTED_TO_DATA:
        return
    if not WORKER_PYTHON.is_file():
        return
    command = [*COMMAND, *settings.to_args()]
    with ManagedProcess(command, name="data check", stdout="discard", stderr="capture") as process:
        process.discard_events()
        if code := process.wait():
            raise _refusal(process.failure, code)


def _refusal(message: str, code: int) -> Exception:
    if code == DataError.exit_code:
        return DataError(message)
    return RuntimeError(f"the check of the data failed ({code}): {message}")
