"""The local folder of events and text logs of a worker.

For local STORAGE it is the run's own folder. For gs:// it is a temporary folder, which an uploader
copies to the run every LOG_UPLOAD_INTERVAL seconds, so that logs outlive the pod.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from common.runs import ClaimedRun, Run
from common.settings import Settings
from common.settings.launcher_variables import profile_folder
from common.storage import read_bytes, temporary_folder, write_atomic
from common.uploads import Uploader
from training.process import logging_setup

PROFILE_PATH = ("plugins", "profile")
"""Path of profiles below a folder of events, as TensorBoard reads and writes them."""


class LocalRunDir:
    """A local folder with the layout of a run. Its context ends with the last upload.

    Args:
        run: The run.
        settings: All settings.
        rank: Rank of this worker.
        attempt: Number of this attempt, counted from 1.
        claimed: The claimed run on the chief; None in other workers.
    """

    def __init__(
        self,
        run: Run,
        settings: Settings,
        rank: int,
        attempt: int,
        claimed: ClaimedRun | None = None,
    ) -> None:
        self._claimed = claimed
        self._uploaders: list[Uploader] = []
        if isinstance(run.path, Path):
            self.folder = run.path
        else:
            self._temporary = temporary_folder()
            self.folder = Path(self._temporary.name)
            interval_seconds = settings.monitoring.log_upload_interval
            if rank == 0:
                with suppress(FileNotFoundError):  # a new run has none yet
                    self.metrics.write_bytes(read_bytes(run.path / "metrics.jsonl"))
            self._uploaders.append(Uploader(self.folder, run.path, interval_seconds))
            if folder := profile_folder():
                # TensorBoard sends a path of its own, to which the profiled process writes.
                profiles = Path(folder, *PROFILE_PATH)
                target = run.path.joinpath("logs", f"worker-{rank}", *PROFILE_PATH)
                self._uploaders.append(Uploader(profiles, target, interval_seconds))
        file = Run(self.folder).text_log(rank, attempt)
        assert isinstance(file, Path)
        self._log_file = logging_setup.add_log_file(file, verbose=settings.job.verbose)

    @property
    def logs(self) -> Path:
        """Folder of TensorBoard events."""
        return self.folder / "logs"

    @property
    def metrics(self) -> Path:
        """metrics.jsonl."""
        return self.folder / "metrics.jsonl"

    def metrics_until(self, epoch: int) -> list[str]:
        """Return the lines of metrics.jsonl for epochs up to `epoch`."""
        kept = []
        for line in self.metrics.read_text().splitlines() if self.metrics.exists() else ():
            try:
                number = json.loads(line)["epoch"]
            except (ValueError, KeyError, TypeError):
                continue  # cut short by a kill; the epoch is trained again
            if number <= epoch:
                kept.append(line)
        return kept

    def write_metrics(self, lines: Iterable[str]) -> None:
        """Replace metrics.jsonl, on the chief.

        Raises:
            RunError, PeerLost: Another process group or attempt has taken over the run.
        """
        if self._claimed and self.folder == self._claimed.run.path:
            self._claimed.confirm()  # a process that was stopped may not own the run any more
        write_atomic(self.metrics, "".join(f"{line}\n" for line in lines))

    def upload_metrics(self) -> None:
        """Upload metrics.jsonl, before a checkpoint of its last epoch: no later attempt writes it.

        Raises:
            StorageError, StorageUnavailable: Storage refuses, or does not respond.
        """
        if self._uploaders:
            self._uploaders[0].upload_file(self.metrics)

    def upload(self) -> None:
        """Upload what was written so far, before the run is marked as finished."""
        for uploader in self._uploaders:
            uploader.upload()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            logging_setup.log_exit(self._log_file, error)
        for uploader in self._uploaders:
            uploader.close()
        if self._uploaders:
            self._temporary.cleanup()
