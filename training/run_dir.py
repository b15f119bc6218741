"""The local folder of events and text logs of a worker.

For local STORAGE it is the run's own folder. For gs:// it is a temporary folder, which an uploader
copies to the run every LOG_UPLOAD_INTERVAL seconds, so that logs outlive the pod.
"""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from common.runs import Run
from common.settings import Settings
from common.storage import read_bytes
from common.uploads import Uploader
from training import logging_setup

PROFILE_PATH = ("plugins", "profile")
"""Path of profiles below a folder of events, as TensorBoard reads and writes them."""


class LocalRunDir:
    """A local folder with the layout of a run. Its context ends with the last upload.

    Args:
        run: The run.
        settings: All settings.
        rank: Rank of this worker.
        attempt: Number of this attempt, counted from 1.
    """

    def __init__(self, run: Run, settings: Settings, rank: int, attempt: int) -> None:
        self._uploaders: list[Uploader] = []
        if isinstance(run.path, Path):
            self.folder = run.path
        else:
            self.folder = Path(tempfile.mkdtemp(prefix="qfleet-"))
            interval_seconds = settings.monitoring.log_upload_interval
            if rank == 0:
                with suppress(FileNotFoundError):  # a new run has none yet
                    self.metrics.write_bytes(read_bytes(run.path / "metrics.jsonl"))
            self._uploaders.append(Uploader(self.folder, run.path, interval_seconds))
            if settings.monitoring.tensorboard_folder:
                # TensorBoard sends a path of its own, to which the profiled process writes.
                profiles = Path(settings.monitoring.tensorboard_folder, *PROFILE_PATH)
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
            uploader.__exit__(kind, error, trace)
        if self._uploaders:
            shutil.rmtree(self.folder, ignore_errors=True)
