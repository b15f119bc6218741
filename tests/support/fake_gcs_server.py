"""fake-gcs-server, an independent implementation of Google Cloud Storage with real generations.

It is built from its Go module (tests/support/fake_gcs) into a cache folder.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.storage_emulator import BUCKET, Emulator

MODULE = Path(__file__).parent / "fake_gcs"
PACKAGE = "github.com/fsouza/fake-gcs-server"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "qfleet-tests")


def program() -> Path:
    """Return the program; build it if it is not in the cache.

    It skips the calling test where Go is not installed.
    """
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("Go is not installed")
    digest = hashlib.sha256((MODULE / "go.sum").read_bytes()).hexdigest()[:12]
    file = CACHE / f"fake-gcs-server-{digest}"
    if not file.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        subprocess.run(
            [go, "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", part, PACKAGE],
            cwd=MODULE,
            env={**os.environ, "CGO_ENABLED": "0"},
            check=True,
        )
        part.replace(file)
    return file


class FakeGcsServer(Emulator):
    """A fake-gcs-server process with one bucket, in memory."""

    def command(self) -> list[str]:
        """Return the command of the server."""
        return [
            str(program()), "-scheme=http", "-host=127.0.0.1", f"-port={self.port}",
            "-backend=memory", f"-external-url={self.address}", "-log-level=error",
        ]  # fmt: skip

    def create_bucket(self) -> None:
        """Create the bucket."""
        self.request("POST", "/storage/v1/b", f'{{"name": "{BUCKET}"}}')
