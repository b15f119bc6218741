"""The storage of overlay `local`: gcp-storage-emulator on a volume, made safe against SIGKILL.

    python -m k8s.emulator FOLDER PORT BUCKET

The emulator overwrites its list of objects in place, so SIGKILL could destroy the list. Here each
file is replaced atomically. Buckets retain deleted objects for a week, as real ones do, so the list
would grow without limit. Here retention is off.
"""

import os
import signal
import sys
from typing import NoReturn

from gcp_storage_emulator import storage
from gcp_storage_emulator.server import create_server


class AtomicFileStore(storage._FileStore):
    """A file store that replaces files atomically."""

    def write_bytes(self, rel: str, content: bytes) -> None:
        """Write a temporary file, then rename it."""
        part = f"{rel}.part"
        super().write_bytes(part, content)
        os.replace(self._disk_path(part), self._disk_path(rel))


def interrupt(number: int, frame: object) -> NoReturn:
    """End the server between two requests, when no file is partially written."""
    raise KeyboardInterrupt


def main(folder: str, port: str, bucket: str) -> None:
    """Serve until SIGTERM."""
    signal.signal(signal.SIGTERM, interrupt)
    storage._FileStore = AtomicFileStore
    server = create_server("0.0.0.0", int(port), default_bucket=bucket, data_dir=folder)  # noqa: S104 - in a pod
    created = server._storage.buckets[bucket]
    created["softDeletePolicy"]["retentionDurationSeconds"] = "0"
    server.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
