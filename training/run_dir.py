"""Where a worker writes its events and its text log while it trains.

In a local STORAGE that is the run's own folder. For gs:// it is a scratch folder, which an uploader
mirrors to the run every LOG_UPLOAD_INTERVAL seconds, so that logs outlive the pod.
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

# Where TensorBoard looks for profiles below a folder of events, and has them written.
PROFILE_PATH = ("plugins", "profile")


class LocalRunDir:
    """A local folder with the run's layout. A context: leaving it sends what is left."""

    def __init__(self, run: Run, settings: Settings, rank: int, attempt: int) -> None:
        self._uploaders: list[Uploader] = []
        if isinstance(run.path, Path):
            self.folder = run.path
        else:
            self.folder = Path(tempfile.mkdtemp(prefix="qfleet-"))
            if rank == 0:
                with suppress(FileNotFoundError):  # a new run has none yet
                    self.metrics.write_bytes(read_bytes(run.path / "metrics.jsonl"))
            self._uploaders.append(
                Uploader(self.folder, run.path, settings.monitoring.log_upload_interval)
            )
            if settings.monitoring.tensorboard_folder:
                # TensorBoard names a path of its own; the profiled process writes there itself
                asked = Path(settings.monitoring.tensorboard_folder, *PROFILE_PATH)
                place = run.path.joinpath("logs", f"worker-{rank}", *PROFILE_PATH)
                self._uploaders.append(
                    Uploader(asked, place, settings.monitoring.log_upload_interval)
                )
        file = Run(self.folder).text_log(rank, attempt)
        assert isinstance(file, Path)
        self._kept = logging_setup.add_log_file(file, verbose=settings.job.verbose)

    @property
    def logs(self) -> Path:
        """TensorBoard's events."""
        return self.folder / "logs"

    @property
    def metrics(self) -> Path:
        """A line an epoch."""
        return self.folder / "metrics.jsonl"

    def send(self) -> None:
        """Have all that was written so far in the run, before it is called finished."""
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
            logging_setup.log_exit(self._kept, error)
        for uploader in self._uploaders:
            uploader.__exit__(kind, error, trace)
        if self._uploaders:
            shutil.rmtree(self.folder, ignore_errors=True)
