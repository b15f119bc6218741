"""The check that STORAGE can be used, before anything is written there.

`python -m common.storage.probe` makes it in a pod that `qfleet cluster check` starts.
"""

import secrets
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from common import storage
from common.errors import StorageError, StorageUnavailable, run_main
from common.settings import Settings
from common.storage import StoragePath


def usable_root(text: str) -> StoragePath:
    """Return the path of STORAGE, after a file was written there and deleted.

    A local folder that does not exist is created for that, and removed.

    Args:
        text: STORAGE.

    Raises:
        StorageError: It is not a path, or can't be written; the message names STORAGE.
        StorageUnavailable: It does not respond.
    """
    try:
        root = storage.path(text)
        with storage.translate_errors(root):
            if isinstance(root, Path):
                _try_folder(root)
            else:
                _try_bucket(root)
    except (StorageError, StorageUnavailable) as error:
        is_named = str(error).startswith(text)
        raise type(error)(f"STORAGE={error}" if is_named else f"STORAGE={text}: {error}") from None
    return root


def _try_folder(root: Path) -> None:
    missing = [one for one in (root, *root.parents) if not one.exists()]
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root) as file:
            file.write(b"x")
    except FileNotFoundError:
        raise StorageError(
            f"{root} can't be created: give a folder in which you can create others"
        ) from None
    finally:
        for one in missing:
            with suppress(OSError):  # another process has written there
                one.rmdir()


def _try_bucket(root: StoragePath) -> None:
    file, data = root / f"probe-{secrets.token_hex(8)}", secrets.token_bytes(16)
    storage.write_atomic(file, data)
    try:
        if storage.read_bytes(file) != data:
            raise StorageError(f"{root} does not return what was written: choose another STORAGE")
    finally:
        storage.delete(file)


def main() -> None:
    """Check the STORAGE of the environment.

    Raises:
        StorageError, StorageUnavailable: As for `usable_root`.
    """
    root = usable_root(Settings.from_args([]).job.storage)
    print(f"an object of {root} was written, read and deleted")


if __name__ == "__main__":
    sys.exit(run_main(main))
