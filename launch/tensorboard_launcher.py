"""`make tensorboard`: TensorBoard for the runs below STORAGE, or only for RUN.

It runs in an environment of its own, without TensorFlow, because TensorBoard and TensorFlow Quantum
need different versions of protobuf. TensorBoard always reads a local folder; gs:// storage is
mirrored to one continuously. TensorBoard's own gs:// support has no option for an emulator. Its
profile pages write caches next to the events, which a bucket's viewer role does not permit.
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
from typing import TYPE_CHECKING

from common import storage
from common.commands import command
from common.errors import RunError, SettingsError, StorageError, StorageUnavailable, run_main
from common.settings import Settings
from common.settings.launcher_variables import profile_folder
from common.settings.options import TensorBoardOptions
from common.text import did_you_mean
from common.waiting import Waiting

if TYPE_CHECKING:
    from cloudpathlib import GSPath
    from google.cloud.storage import Blob

MIRROR_INTERVAL_SECONDS = 5.0
"""Interval between two updates from gs://; TensorBoard reads its folder as often."""


class StorageMirror:
    """A local copy of the events and profiles below a gs:// path.

    Args:
        path: The mirrored gs:// path.
        folder: Folder of the copy; paths in it are relative to `path`.
    """

    def __init__(self, path: "GSPath", folder: Path) -> None:
        self._path = path
        self._prefix = f"{path.blob.strip('/')}/".removeprefix("/")
        self._folder = folder

    def update(self) -> None:
        """Download new content.

        Raises:
            StorageError: No such bucket, no permission, or no credentials.
            StorageUnavailable: Storage does not respond at the moment.
        """
        client = self._path.client.client
        with storage.translate_errors(self._path):
            for blob in client.list_blobs(self._path.bucket, prefix=self._prefix):
                if _is_shown(blob.name):
                    self._fetch(blob)

    def _fetch(self, blob: "Blob") -> None:
        target = self._folder / blob.name.removeprefix(self._prefix)
        if not target.resolve().is_relative_to(self._folder.resolve()):
            return  # the name contains `..`
        local_bytes = target.stat().st_size if target.exists() else 0
        if local_bytes == blob.size:
            return
        # Event files only grow, and TensorBoard keeps its position in them: append the rest.
        start = local_bytes if local_bytes < blob.size else 0
        content = blob.download_as_bytes(start=start) if blob.size else b""
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab" if start else "wb") as file:
            file.write(content)


def _is_shown(name: str) -> bool:
    """Return True for files that TensorBoard reads: events and profiles."""
    path = PurePosixPath(name)
    profile = path.parts[-4:-2] == ("plugins", "profile") and path.suffix != ".pbtxt"
    return "tfevents" in path.name or profile


def _plugins() -> list[type]:
    """Return TensorBoard's pages but the projector: its files name other files to show."""
    from tensorboard import default  # only while `Waiting` runs: it takes seconds to import

    return [one for one in default.get_plugins() if "projector" not in str(one).lower()]


def _read_regular_files_only() -> None:
    """Let TensorBoard skip a FIFO or a device with the name of events: it would wait for ever."""
    from tensorboard.backend.event_processing import io_wrapper  # as in `_plugins`

    is_events_file = io_wrapper.IsSummaryEventsFile

    def is_regular_events_file(path: str) -> bool:
        return bool(is_events_file(path)) and os.path.isfile(path)

    io_wrapper.IsSummaryEventsFile = is_regular_events_file


def logdir_for(settings: Settings) -> storage.StoragePath:
    """Return the path to show: STORAGE, or RUN in it.

    Raises:
        RunError: There is no such run.
    """
    # Google's libraries warn of the end of life of Python 3.11 a year in advance.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        place = storage.path(settings.job.storage)
    if not (run := settings.job.run):
        return place
    known = [path.name for path in storage.children(place)]
    if run not in known:
        hint = did_you_mean(run, known) or f": `{command('runs')}` lists the runs there"
        raise RunError(f"there is no run {run} in {place}{hint}")
    return place / run


@contextlib.contextmanager
def local_folder(
    path: storage.StoragePath, copy_folder: str = ""
) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Yield the folder for TensorBoard to read, and a function that updates it.

    Args:
        path: The path to show.
        copy_folder: The profile folder of a pod, for the copy of gs:// storage.
    """
    if isinstance(path, Path):
        yield path, lambda: None
        return
    with contextlib.ExitStack() as stack:
        name = copy_folder or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="qfleet-tensorboard-")
        )
        mirror = StorageMirror(path, Path(name))
        mirror.update()
        yield Path(name), mirror.update


def launch(folder: Path, host: str, port: int, *, verbose: bool = False) -> str:
    """Start TensorBoard in a thread.

    Args:
        folder: Folder of events.
        host: Address to listen on.
        port: Port to listen on.
        verbose: Keep its log messages.

    Returns:
        The URL to open.

    Raises:
        SettingsError: The port is taken.
    """
    from tensorboard import program  # as in `_plugins`

    with contextlib.ExitStack() as quiet:
        if not verbose:
            # Its profile pages log each call, and keep the stderr of the time when they load.
            os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", ABSL_MIN_LOG_LEVEL="3")
            logging.disable(logging.ERROR)
            nothing = open(os.devnull, "w")  # noqa: SIM115 - used until the process ends
            quiet.enter_context(contextlib.redirect_stderr(nothing))
        _read_regular_files_only()
        board = program.TensorBoard(plugins=_plugins())
        options = {"logdir": folder, "host": host, "port": port, "load_fast": "false"}
        board.configure(["tensorboard", *(f"--{name}={value}" for name, value in options.items())])
        try:
            return str(board.launch())
        except program.TensorBoardServerException:
            raise SettingsError(
                f"PORT={port} is taken on this machine: check for a TensorBoard at"
                f" http://{host}:{port}, or set another port, such as"
                f" PORT={port + 1}"
            ) from None


def main() -> None:
    """Show the runs until interrupted."""
    settings, options = Settings.with_options(sys.argv[1:], "tensorboard", TensorBoardOptions)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    place = logdir_for(settings)
    with contextlib.ExitStack() as stack:
        with Waiting(f"TensorBoard of {place}"):
            copied = local_folder(place, profile_folder())
            folder, update = stack.enter_context(copied)
            url = launch(folder, options.host, options.port, verbose=settings.job.verbose)
        if not any(_is_shown(path.as_posix()) for path in folder.rglob("*")):
            print(f"No runs in {place} yet; they appear here when they train")
        print(f"TensorBoard of {place}: open {url} (Ctrl-C stops it)", flush=True)
        reported = ""
        while not ended.wait(MIRROR_INTERVAL_SECONDS):
            try:
                update()
            except (StorageError, StorageUnavailable) as error:
                # The copy stays available; the network may recover.
                if str(error) != reported:
                    print(f"qfleet: {error}", file=sys.stderr)
                reported = str(error)


if __name__ == "__main__":
    sys.exit(run_main(main))
