"""Upload of logs during training, so that they outlive the pod.

TensorFlow writes events and profiles to a local folder. An Uploader copies changed files to storage
every few seconds. If STORAGE is a local folder, logs are written there directly.
"""

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
        self._refused: StorageError | None = None
        self._failing = False
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="uploader", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            self.close()
        except (StorageError, StorageUnavailable) as error:
            if kind is None:
                raise
            log.warning(f"the last logs were not uploaded: {error}")  # the first error is the cause

    def check(self) -> None:
        """Raise the error with which storage permanently refused an upload.

        Raises:
            StorageError: For example, permission denied.
        """
        if self._refused is not None:
            raise self._refused

    def upload(self) -> None:
        """Upload all changes now; raises like `close`."""
        self.check()
        self._upload(until_closed=False)

    def close(self) -> None:
        """Upload the last changes, and stop.

        Raises:
            StorageError: Storage permanently refused an upload.
            StorageUnavailable: Storage does not respond to the last upload.
        """
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join()
            self.upload()

    def _run(self) -> None:
        while not self._closing.wait(self._interval):
            try:
                self._upload(until_closed=True)
                if self._failing:
                    log.info(f"logs are uploaded to {self._remote} again")
                self._failing = False
            except StorageUnavailable as error:
                if not self._failing:
                    log.warning(f"logs are not uploaded at the moment: {error}")
                self._failing = True
            except StorageError as error:
                log.warning(f"logs are no longer uploaded: {error}")
                self._refused = error
                return

    def _upload(self, *, until_closed: bool) -> None:
        """Upload each file that changed since its last upload."""
        with self._lock:
            for path, version in self._changed():
                if self._closing.is_set() and until_closed:
                    return
                target = self._remote / path.relative_to(self._local).as_posix()
                try:
                    storage.write_atomic(target, path)
                except FileNotFoundError:
                    continue  # deleted since it was listed
                self._uploaded[path] = version

    def _changed(self) -> list[tuple[Path, Version]]:
        """Return changed files with their versions before reading, so that later changes count."""
        changed = []
        for folder, _, names in os.walk(self._local):
            for name in sorted(names):
                path = Path(folder, name)
                try:
                    status = path.stat()
                except FileNotFoundError:
                    continue
                version = (status.st_mtime_ns, status.st_size)
                if (
                    not name.endswith(storage.PARTIAL_SUFFIX)
                    and self._uploaded.get(path) != version
                ):
                    changed.append((path, version))
        return changed
