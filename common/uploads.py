"""Uploading logs while training, so that they outlive the pod that wrote them.

TensorFlow writes its events, and the profiler its captures, to a local folder; an Uploader hands
what changed there to storage every few seconds. Where STORAGE is a local folder nothing of this is
needed: logs are written in place.
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

Mark = tuple[int, int]  # time of the last change in ns, size in bytes


class Uploader:
    """Keeps a remote folder like a local one, from a thread of its own.

    Args:
        local_folder: What to upload, at any depth; it may be made later.
        remote_path: Where to.
        every: Seconds between two sweeps.
    """

    def __init__(self, local_folder: Path, remote_path: StoragePath, every: float) -> None:
        self._local = Path(local_folder)
        self._remote = remote_path
        self._every = every
        self._uploaded: dict[Path, Mark] = {}
        self._refused: StorageError | None = None
        self._away = False
        self._closing = threading.Event()
        self._sweeping = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="uploader", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            self.close()
        except (StorageError, StorageUnavailable) as error:
            if kind is None:
                raise
            log.warning(f"the last logs were not uploaded: {error}")  # the first error matters more

    def check(self) -> None:
        """Raise what made storage refuse an upload for good.

        Raises:
            StorageError: Such as permission denied; repeating would not help.
        """
        if self._refused is not None:
            raise self._refused

    def sweep(self) -> None:
        """Upload now what has changed; raises as `close` does."""
        self.check()
        self._sweep(last=True)

    def close(self) -> None:
        """Upload what is left, and stop.

        Raises:
            StorageError: Storage refused an upload for good.
            StorageUnavailable: The last sweep found no storage.
        """
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join()
            self.sweep()

    def _work(self) -> None:
        while not self._closing.wait(self._every):
            try:
                self._sweep(last=False)
                if self._away:
                    log.info(f"logs are uploaded to {self._remote} again")
                self._away = False
            except StorageUnavailable as error:
                if not self._away:
                    log.warning(f"logs wait to be uploaded: {error}")
                self._away = True
            except StorageError as error:
                log.warning(f"logs are no longer uploaded: {error}")
                self._refused = error
                return

    def _sweep(self, *, last: bool) -> None:
        """Upload each file that changed since it was uploaded."""
        with self._sweeping:
            self._sweep_alone(last=last)

    def _sweep_alone(self, *, last: bool) -> None:
        for path, mark in self._changed():
            if self._closing.is_set() and not last:
                return
            try:
                storage.write_atomic(self._remote / path.relative_to(self._local).as_posix(), path)
            except FileNotFoundError:
                continue  # deleted since it was listed
            self._uploaded[path] = mark

    def _changed(self) -> list[tuple[Path, Mark]]:
        """Files to upload; the mark is taken before reading, so that later changes are seen."""
        changed = []
        for folder, _, names in os.walk(self._local):
            for name in sorted(names):
                path = Path(folder, name)
                try:
                    status = path.stat()
                except FileNotFoundError:
                    continue
                mark = (status.st_mtime_ns, status.st_size)
                if not name.endswith(storage.PARTIAL_SUFFIX) and self._uploaded.get(path) != mark:
                    changed.append((path, mark))
        return changed
