"""Write, read and delete one object of STORAGE, as a pod that `qfleet cluster check` starts."""

import secrets
import sys

from common import storage
from common.errors import StorageError, run_main
from common.settings import Settings


def main() -> None:
    """Probe the STORAGE of the environment.

    Raises:
        StorageError: It refuses one of the requests, or returns other content.
        StorageUnavailable: It does not respond.
    """
    root = storage.path(Settings.from_args([]).job.storage)
    file, data = root / f"probe-{secrets.token_hex(8)}", secrets.token_bytes(16)
    storage.write_atomic(file, data)
    try:
        if storage.read_bytes(file) != data:
            raise StorageError(f"{root} does not return what was written: choose another STORAGE")
    finally:
        storage.delete(file)
    print(f"an object of {root} was written, read and deleted")


if __name__ == "__main__":
    sys.exit(run_main(main))
