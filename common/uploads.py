"""Upload of logs during training, so that they outlive the pod.

TensorFlow writes events and profiles to a local folder. An Uploader copies changed files to storage
every few seconds. If STORAGE is a local folder, logs are written there directly.

Logs are less important than the run: an upload that fails is logged and tried again, and never ends
a training.
"""

import contextlib
import logging
import os
import threading
from pathlib import Path
from typing import Self

from common import storage
from common.errors import StorageError, StorageUnavailable
from common.storage import StoragePath

log = logging.getLogger("qfleet")

Version = tuple[int, int]  # time of the last change in ns, size in bytes


class Uploader:
    """Uploads changed files of a local folder in a thread.

    Args:
        local_folder: Folder to upload with all subfolders; it may be created later.
        remote_path: Destination.
        interval_seconds: Time between two uploads.
    """

    def __init__(
        self, local_folder: Path, remote_path: StoragePath, interval_seconds: float
    ) -> None:
        self._local = Path(local_folder)
        self._remote = remote_path
        self._interval = interval_seconds
        self._uploaded: dict[Path, Version] = {}
        self._failing = False
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="uploader", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def upload(self) -> bool:
        """Upload all changes now, and return True if that succeeded."""
        return self._try_upload(until_closed=False)

    def close(self) -> None:
        """Upload the last changes, and stop. Safe to call twice."""
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join()
            self.upload()

    def _run(self) -> None:
        while not self._closing.wait(self._interval):
            self._try_upload(until_closed=True)

    def _try_upload(self, *, until_closed: bool) -> bool:
        try:
            self._upload(until_closed=until_closed)
        except (StorageError, StorageUnavailable) as error:
            if not self._failing:
                log.warning(f"logs are not uploaded at the moment: {error}")
            self._failing = True
            return False
        if self._failing:
            log.info(f"logs are uploaded to {self._remote} again")
        self._failing = False
        return True

    def _upload(self, *, until_closed: bool) -> None:
        """Upload each file that changed since its last upload."""
        for path in self._files():
            if self._closing.is_set() and until_closed:
                return
            self.upload_file(path)

    def upload_file(self, path: Path) -> None:
        """Upload a file if it exists and has changed since its last upload.

        Raises:
            StorageError, StorageUnavailable: Storage refuses, or does not respond.
        """
        target = self._remote / path.relative_to(self._local).as_posix()
        with self._lock, contextlib.suppress(FileNotFoundError):  # it may be deleted at any time
            status = path.stat()  # before it is read, so that later changes count
            version = (status.st_mtime_ns, status.st_size)
            if self._uploaded.get(path) != version:
                storage.write_atomic(target, path)
                self._uploaded[path] = version

    def _files(self) -> list[Path]:
        return [
            Path(folder, name)
            for folder, _, names in os.walk(self._local)
            for name in sorted(names)
            if not name.endswith(storage.PARTIAL_SUFFIX)
        ]
