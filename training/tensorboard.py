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

from common.errors import SettingsError, StorageError, StorageUnavailable, run_main
from common.settings import Settings

with warnings.catch_warnings():
    # It warns of Python 3.11's end of life, a year ahead.
    warnings.simplefilter("ignore", FutureWarning)
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth
    from google.cloud import storage

HOST = "127.0.0.1"
EVERY = 5.0  # seconds between two looks at gs://, as often as TensorBoard looks at its folder


class Mirror:
    """A local copy of the events and profiles below a gs:// address.

    Args:
        address: gs://bucket or gs://bucket/path.
        folder: Where the copy lies; paths in it are relative to the address.
    """

    def __init__(self, address: str, folder: Path) -> None:
        bucket, _, path = address.removeprefix("gs://").partition("/")
        self._address = address
        self._bucket = bucket
        self._prefix = f"{path.strip('/')}/".removeprefix("/")
        self._folder = folder
        self._client: storage.Client | None = None

    def renew(self) -> None:
        """Fetch what is new.

        Raises:
            StorageError: No such bucket, no permission, or nobody is signed in.
            StorageUnavailable: Storage does not answer; later it may.
        """
        try:
            self._client = self._client or storage.Client()
            for blob in self._client.list_blobs(self._bucket, prefix=self._prefix):
                if _is_shown(blob.name):
                    self._fetch(blob)
        except api.NotFound:
            raise StorageError(
                f"STORAGE={self._address}: there is no bucket {self._bucket}"
            ) from None
        except (api.Forbidden, api.Unauthorized):
            raise StorageError(
                f"STORAGE={self._address}: this account may not read the bucket {self._bucket}"
            ) from None
        except auth.DefaultCredentialsError:
            raise StorageError(
                f"STORAGE={self._address}: nobody is signed in to Google Cloud on this machine:"
                " say `gcloud auth application-default login`"
            ) from None
        except (api.GoogleAPICallError, api.RetryError, auth.TransportError, OSError) as error:
            raise StorageUnavailable(f"{self._address} does not answer: {error}") from None

    def _fetch(self, blob: storage.Blob) -> None:
        target = self._folder / blob.name.removeprefix(self._prefix)
        if not target.resolve().is_relative_to(self._folder.resolve()):
            return
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
    """Whether TensorBoard reads an object of this name: an event file or a profile."""
    path = PurePosixPath(name)
    return "tfevents" in path.name or path.parts[-4:-2] == ("plugins", "profile")


def where(settings: Settings) -> str:
    """The folder or gs:// address to show."""
    return "/".join(filter(None, (settings.storage.rstrip("/"), settings.run))) or "/"


@contextlib.contextmanager
def local_folder(address: str) -> Iterator[tuple[Path, Callable[[], None]]]:
    """The folder for TensorBoard to read, and what to call to bring it up to date."""
    if not address.startswith("gs://"):
        yield Path(address), lambda: None
        return
    with tempfile.TemporaryDirectory(prefix="qfleet-tensorboard-") as name:
        mirror = Mirror(address, Path(name))
        mirror.renew()
        yield Path(name), mirror.renew


def launch(folder: Path, port: int, *, verbose: bool = False) -> str:
    """Start TensorBoard in a thread of its own.

    Args:
        folder: The folder below which it looks for events.
        port: The port to serve on, on this machine alone.
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
        options = {"logdir": folder, "host": HOST, "port": port, "load_fast": "false"}
        board.configure(["tensorboard", *(f"--{name}={value}" for name, value in options.items())])
        try:
            return str(board.launch())
        except program.TensorBoardServerException:
            raise SettingsError(
                f"TENSORBOARD_PORT={port} cannot be had on this machine: look whether a"
                f" TensorBoard is at http://{HOST}:{port} already, or name another, as in"
                f" TENSORBOARD_PORT={port + 1}"
            ) from None


def main() -> None:
    """Show the runs until interrupted."""
    settings = Settings.from_args(sys.argv[1:])
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    address = where(settings)
    with local_folder(address) as (folder, renew):
        url = launch(folder, settings.tensorboard_port, verbose=settings.verbose)
        if not any(_is_shown(path.as_posix()) for path in folder.rglob("*")):
            print(f"Nothing to show in {address} yet: runs appear by themselves once they train")
        print(f"TensorBoard of {address}: open {url} (Ctrl-C ends it)", flush=True)
        said: Any = None
        while not ended.wait(EVERY):
            try:
                renew()
            except (StorageError, StorageUnavailable) as error:
                # What is there stays on show; the network may come back.
                if str(error) != said:
                    print(f"qfleet: {error}", file=sys.stderr)
                said = str(error)


if __name__ == "__main__":
    sys.exit(run_main(main))
