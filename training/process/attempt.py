"""The start of a worker: counted before anything that can fail, and delayed after failures.

Imports neither NumPy nor TensorFlow: a worker may run out of memory when it imports them.
"""

import logging
import threading
import time
from types import TracebackType
from typing import Self

from common import runs, storage
from common.errors import (
    EXIT_BUG,
    EXIT_INTERRUPTED,
    EXIT_OK,
    QfleetError,
    StorageUnavailable,
    as_qfleet_error,
    one_line,
    write_termination_message,
)
from common.runs import auto_settings
from common.settings import Settings
from common.settings.launcher_variables import job_id
from training.cluster.spec import ClusterSpec
from training.process.watchdog import STORAGE_SECONDS, Watchdog

log = logging.getLogger("qfleet")

BACKOFF_STAGE_SECONDS = 2 * runs.attempts.MAX_BACKOFF_SECONDS


class WorkerAttempt:
    """One start of this worker. Its context ends with the end recorded and the run released.

    Args:
        settings: All settings.
        cluster: All workers, and the rank of this one.
        watchdog: Limits the time of each step, and ends this process when the run is lost.

    Attributes:
        settings: All settings, with the automatic numbers of an existing run.
        run: The run.
        number: Number of the attempt; 0 in workers other than the chief, and before it is counted.
        claimed: The claimed run; None in workers other than the chief, and if it is finished.
    """

    def __init__(self, settings: Settings, cluster: ClusterSpec, watchdog: Watchdog) -> None:
        self.settings = settings
        self.run = runs.Run.at(storage.path(settings.job.storage), settings.run_name)
        self.number = 0
        self.claimed: runs.ClaimedRun | None = None
        self._cluster, self._watchdog = cluster, watchdog
        self._attempts = runs.Attempts(self.run.path, cluster.rank)
        self._ended = threading.Lock()

    def begin(self) -> bool:
        """Claim the run on the chief, count this start, and wait after repeated failures.

        Returns:
            False if the run was finished before; then there is nothing to do.

        Raises:
            RunError: Another process group trains the run, or MAX_ATTEMPTS starts in a row failed.
        """
        self._watchdog.enter("claiming the run", STORAGE_SECONDS, StorageUnavailable)
        if self._report_finished():
            return False
        # The same on every worker, and before the run's identity is computed.
        self.settings = auto_settings.training_settings(
            self.settings, self.run.path.parent, self.run.name
        )
        limit = self.settings.fault_tolerance.max_attempts
        if self._cluster.is_chief and not self._claim():
            return True  # the chief reports the end to the workers that wait for it
        self._watchdog.at_end(record=self._record_end)
        record = self._attempts.begin(limit, job_id())
        if self.claimed:
            # Whoever counted its start without the lease ends here; so attempts are in order.
            self.claimed.confirm()
            self.number = record.attempts
        self._back_off(record, limit)
        return True

    def failure_of(self, rank: int) -> tuple[str, bool]:
        """Return the last failure of another worker; see `Attempts.failure`."""
        return runs.Attempts(self.run.path, rank).failure(job_id())

    def _report_finished(self) -> bool:
        if not self.run.finished():
            return False
        text = str(runs.FinishedRun(self.run))
        log.info(text)
        write_termination_message(text)
        return True

    def _claim(self) -> bool:
        """Claim the run; return False if another process group has finished it meanwhile."""
        settings = self.settings
        claimed = runs.claim_for_training(
            self.run.path.parent,
            self.run.name,
            settings.identity(),
            settings.fingerprint(),
            job_id(),
            on_lost=self._watchdog.end,
        )
        if isinstance(claimed, runs.FinishedRun):
            return not self._report_finished()
        self.claimed = claimed
        return True

    def _back_off(self, record: runs.AttemptRecord, limit: int) -> None:
        failed = record.failed - 1  # without this start
        seconds = runs.backoff_seconds(failed)
        if not seconds:
            return
        log.warning(
            f"{failed} starts in a row failed (MAX_ATTEMPTS={limit}): waiting {seconds:g} s before"
            f" the next one; the last one failed: {record.failure}"
        )
        self._watchdog.enter("pause after failed starts", BACKOFF_STAGE_SECONDS)
        time.sleep(seconds)

    def _record_end(self, cause: str, exit_code: int) -> None:
        """Record the end, once: the main thread and the watchdog may both call this."""
        if self._ended.acquire(blocking=False):
            self._attempts.end(cause, exit_code)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if isinstance(error, storage.PartialFileDeleted) and self.claimed:
                self.claimed.confirm()  # the new owner of a run deletes partial files
        except QfleetError as lost:
            error = lost
            raise
        finally:
            self._record_error(error)
            if self.claimed:
                self.claimed.close()

    def _record_error(self, error: BaseException | None) -> None:
        if not isinstance(error, Exception):
            self._record_end("", EXIT_OK if error is None else EXIT_INTERRUPTED)
        elif known := as_qfleet_error(error):
            self._record_end(one_line(known), known.exit_code)
        else:
            self._record_end(f"a bug: {error!r}", EXIT_BUG)
