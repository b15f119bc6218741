"""The storage of overlay `local`: gcp-storage-emulator on a volume, fit for being killed.

    python -m k8s.emulator FOLDER PORT BUCKET

The emulator keeps its list of objects in one file, which it writes in place: killed while it does,
it would lose all. Here each file is written whole. And a bucket keeps what is deleted for a week,
as real ones do, so that its list would grow without end: here it keeps nothing.
"""

import os
import signal
import sys
from typing import NoReturn

from gcp_storage_emulator import storage
from gcp_storage_emulator.server import create_server


class WholeFiles(storage._FileStore):
    """Files that appear whole or not at all."""

    def write_bytes(self, rel: str, content: bytes) -> None:
        """Write beside the file, then put it in the file's place."""
        part = f"{rel}.part"
        super().write_bytes(part, content)
        os.replace(self._disk_path(part), self._disk_path(rel))


def leave(number: int, frame: object) -> NoReturn:
    """End between two requests: nothing is half-written then."""
    raise KeyboardInterrupt


def main(folder: str, port: str, bucket: str) -> None:
    """Serve until SIGTERM."""
    signal.signal(signal.SIGTERM, leave)
    storage._FileStore = WholeFiles
    server = create_server("0.0.0.0", int(port), default_bucket=bucket, data_dir=folder)  # noqa: S104 - a pod's own
    kept = server._storage.buckets[bucket]
    kept["softDeletePolicy"]["retentionDurationSeconds"] = "0"
    server.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
