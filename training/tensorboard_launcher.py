"""`make tensorboard`: TensorBoard for the runs below STORAGE, or for RUN alone.

It runs in an environment of its own, without TensorFlow, because TensorBoard's protobuf and that
of TensorFlow Quantum exclude each other. TensorBoard always reads a local folder: what lies in
gs:// is mirrored while it grows. Its own way to gs:// knows no emulator, and its profile pages
write their caches beside what they read, which a viewer's role in a bucket does not allow.
"""

import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from tensorboard import program

from common import storage
from common.errors import SettingsError, StorageError, StorageUnavailable, run_main
from common.settings import Settings

MIRROR_INTERVAL_SECONDS = (
    5.0  # seconds between two looks at gs://, as often as TensorBoard looks at its folder
)


class StorageMirror:
    """A local copy of the events and profiles below a gs:// path.

    Args:
        path: The GSPath that is mirrored.
        folder: Where the copy lies; paths in it are relative to `path`.
    """

    def __init__(self, path: Any, folder: Path) -> None:
        self._path = path
        self._prefix = f"{path.blob.strip('/')}/".removeprefix("/")
        self._folder = folder

    def renew(self) -> None:
        """Fetch what is new.

        Raises:
            StorageError: No such bucket, no permission, or nobody is signed in.
            StorageUnavailable: Storage does not answer; later it may.
        """
        client = self._path.client.client
        with storage.translate_errors(self._path):
            for blob in client.list_blobs(self._path.bucket, prefix=self._prefix):
                if _is_shown(blob.name):
                    self._fetch(blob)

    def _fetch(self, blob: Any) -> None:
        target = self._folder / blob.name.removeprefix(self._prefix)
        if not target.resolve().is_relative_to(self._folder.resolve()):
            return  # a name with `..` in it
        have = target.stat().st_size if target.exists() else 0
        if have == blob.size:
            return
        # Event files only ever grow, and TensorBoard holds its place in them: append the rest.
        start = have if have < blob.size else 0
        content = blob.download_as_bytes(start=start) if blob.size else b""
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab" if start else "wb") as file:
            file.write(content)


def _is_shown(name: str) -> bool:
    """Whether TensorBoard reads a file of this name: events or a profile."""
    path = PurePosixPath(name)
    return "tfevents" in path.name or path.parts[-4:-2] == ("plugins", "profile")


def logdir_for(settings: Settings) -> storage.StoragePath:
    """The place to show: STORAGE, or RUN in it."""
    # Google's libraries warn of Python 3.11's end of life, a year ahead.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        place = storage.path(settings.job.storage)
    return place / settings.job.run if settings.job.run else place


@contextlib.contextmanager
def local_folder(
    path: storage.StoragePath, copy: str = ""
) -> Iterator[tuple[Path, Callable[[], None]]]:
    """The folder for TensorBoard to read, and what to call to bring it up to date.

    Args:
        path: What is shown.
        copy: TENSORBOARD_FOLDER, for the copy of what lies in gs://.
    """
    if isinstance(path, Path):
        yield path, lambda: None
        return
    with contextlib.ExitStack() as stack:
        name = copy or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="qfleet-tensorboard-")
        )
        mirror = StorageMirror(path, Path(name))
        mirror.renew()
        yield Path(name), mirror.renew


def launch(folder: Path, host: str, port: int, *, verbose: bool = False) -> str:
    """Start TensorBoard in a thread of its own.

    Args:
        folder: The folder below which it looks for events.
        host: The address to listen on.
        port: The port to serve on.
        verbose: Whether to leave its messages on.

    Returns:
        The URL to open.

    Raises:
        SettingsError: The port can't be had.
    """
    with contextlib.ExitStack() as quiet:
        if not verbose:
            # Its profile pages log each call, and keep the stderr that they find when they load.
            os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", ABSL_MIN_LOG_LEVEL="3")
            logging.disable(logging.ERROR)
            nothing = open(os.devnull, "w")  # noqa: SIM115 - they write to it until the end
            quiet.enter_context(contextlib.redirect_stderr(nothing))
        board = program.TensorBoard()
        options = {"logdir": folder, "host": host, "port": port, "load_fast": "false"}
        board.configure(["tensorboard", *(f"--{name}={value}" for name, value in options.items())])
        try:
            return str(board.launch())
        except program.TensorBoardServerException:
            raise SettingsError(
                f"TENSORBOARD_PORT={port} cannot be had on this machine: look whether a"
                f" TensorBoard is at http://{host}:{port} already, or name another, as in"
                f" TENSORBOARD_PORT={port + 1}"
            ) from None


def main() -> None:
    """Show the runs until interrupted."""
    settings = Settings.from_args(sys.argv[1:])
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    place = logdir_for(settings)
    with local_folder(place, settings.monitoring.tensorboard_folder) as (folder, renew):
        address = settings.monitoring.tensorboard_host, settings.monitoring.tensorboard_port
        url = launch(folder, *address, verbose=settings.job.verbose)
        if not any(_is_shown(path.as_posix()) for path in folder.rglob("*")):
            print(f"Nothing to show in {place} yet: runs appear by themselves once they train")
        print(f"TensorBoard of {place}: open {url} (Ctrl-C ends it)", flush=True)
        said: Any = None
        while not ended.wait(MIRROR_INTERVAL_SECONDS):
            try:
                renew()
            except (StorageError, StorageUnavailable) as error:
                # What is there stays on show; the network may come back.
                if str(error) != said:
                    print(f"qfleet: {error}", file=sys.stderr)
                said = str(error)


if __name__ == "__main__":
    sys.exit(run_main(main))
