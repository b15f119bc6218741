"""The secret of a rendezvous: RUN/rendezvous/GROUP.json, which only the group's account can read.

The chief writes a new one at each start, and deletes it when all workers have started. Workers read
it at each try. So only accounts that may read the run's storage can join. GROUP is a digest
of the job and of the chief's address, because a second job may try to start the same run.
"""

import contextlib
import hashlib
import json
import logging
import os
import secrets
import stat
import uuid
from pathlib import Path
from typing import Protocol

from common import storage
from common.errors import QfleetError, SettingsError
from common.storage import StoragePath
from training.cluster.spec import ClusterSpec

log = logging.getLogger("qfleet")

FOLDER = "rendezvous"
ENVIRONMENT_VARIABLE = "RENDEZVOUS_SECRET"
"""Holds the secret of workers without a run: step benchmarks."""

FORMAT = 1
SECRET_BYTES = 32
MIN_SECRET_CHARACTERS = 32
MAX_FILE_BYTES = 4096
LOCAL_POLL_SECONDS, CLOUD_POLL_SECONDS = 0.2, 1.0


class Secret(Protocol):
    """The secret of one process group, known to the chief and read by the other workers.

    Attributes:
        poll_seconds: Pause between two reads.
    """

    poll_seconds: float

    def write(self) -> bytes:
        """Return the secret of this start, on the chief."""

    def ensure(self) -> None:
        """Write the secret again if another process has replaced or deleted it."""

    def read(self) -> bytes | None:
        """Return the secret; None where the chief has not written one."""

    def delete(self, *, others: bool = False) -> None:
        """Delete the secret; with `others`, also those of other jobs."""

    def __str__(self) -> str:
        """Return where it is, for messages."""


class SecretFile:
    """The secret in a run's folder.

    Args:
        run: Folder of the run.
        job_id: Identity of the process group.
        cluster: All workers.
    """

    def __init__(self, run: StoragePath, job_id: str, cluster: ClusterSpec) -> None:
        group = hashlib.sha256(f"{job_id} {cluster.workers[0]}".encode()).hexdigest()[:16]
        self._path = run / FOLDER / f"{group}.json"
        self._content = b""
        self.poll_seconds = LOCAL_POLL_SECONDS if storage.is_local(run) else CLOUD_POLL_SECONDS

    def write(self) -> bytes:
        """Write a new secret with the narrowest permissions, and return it."""
        secret = secrets.token_hex(SECRET_BYTES)
        content = {"format": FORMAT, "start": uuid.uuid4().hex, "secret": secret}
        self._content = json.dumps(content).encode() + b"\n"
        self._write()
        return secret.encode()

    def ensure(self) -> None:
        """Write this start's secret again, unless it is in place."""
        if self._read() != self._content:
            self._write()

    def read(self) -> bytes | None:
        """Return the secret of the newest start; None where there is none."""
        try:
            content = json.loads(self._read() or b"")
            secret = content["secret"] if content["format"] == FORMAT else ""
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if not isinstance(secret, str) or len(secret) < MIN_SECRET_CHARACTERS:
            return None
        return secret.encode()

    def delete(self, *, others: bool = False) -> None:
        """Delete the secret. A failure is only logged: it is of no use after this start."""
        try:
            if others:
                storage.delete(self._path.parent)
            elif self._content and self._read() == self._content:
                storage.delete(self._path)
                if isinstance(self._path, Path):
                    with contextlib.suppress(OSError):  # not empty: another job's secret, or a run
                        self._path.parent.rmdir()
                        self._path.parent.parent.rmdir()
        except QfleetError as error:
            log.debug(f"the secret of the rendezvous was not deleted: {error}")

    def __str__(self) -> str:
        return str(self._path)

    def _write(self) -> None:
        if not isinstance(self._path, Path):
            storage.write_atomic(self._path, self._content)
            return
        with storage.translate_errors(self._path):
            _write_private(self._path, self._content)

    def _read(self) -> bytes | None:
        try:
            if not isinstance(self._path, Path):
                return storage.read_bytes(self._path)
            with storage.translate_errors(self._path):
                return _read_regular(self._path)
        except FileNotFoundError:
            return None


class GivenSecret:
    """A secret from the environment of workers that have no run.

    Args:
        secret: The secret.
    """

    poll_seconds = LOCAL_POLL_SECONDS

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def from_environment(cls) -> "GivenSecret":
        """Take the secret out of the environment, so that no child inherits it."""
        return cls(os.environ.pop(ENVIRONMENT_VARIABLE, "").encode())

    def write(self) -> bytes:
        """Return the secret; raises like `read`."""
        return self.read()

    def ensure(self) -> None:
        """Do nothing."""

    def read(self) -> bytes:
        """Return the secret.

        Raises:
            SettingsError: It is missing or short: without one, any process could join.
        """
        if len(self._secret) < MIN_SECRET_CHARACTERS:
            raise SettingsError(
                f"{ENVIRONMENT_VARIABLE} has {len(self._secret)} characters: set it to the same"
                f" random text of at least {MIN_SECRET_CHARACTERS} characters for all workers"
            )
        return self._secret

    def delete(self, *, others: bool = False) -> None:
        """Do nothing."""

    def __str__(self) -> str:
        return ENVIRONMENT_VARIABLE


def new_secret() -> str:
    """Return a secret for `GivenSecret.from_environment`."""
    return secrets.token_hex(SECRET_BYTES)


def _write_private(path: Path, content: bytes) -> None:
    """Write a file that only this account can read."""
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}{storage.PARTIAL_SUFFIX}")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _read_regular(path: Path) -> bytes:
    """Read a small file; anything else is as if it did not exist."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(path)
        return file.read(MAX_FILE_BYTES)
