"""`python -m tests.support.fake_cluster_client COMMAND SETTINGS`: a cluster for tests of studies.

A job is a fake training on this machine, which outlives the client. STORAGE/.jobs has its process,
its submissions, the clients that follow it, and its exit code.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from common import events
from common.environments import ROOT
from common.errors import run_main
from common.processes import clean_environment
from common.settings import Settings
from common.settings.programs import selected, used_by

POLL_SECONDS = 0.05
JOB = 'echo "$$" >"$1.pid"; echo >>"$1.submissions"; "${@:2}"; echo "$?" >"$1.exit"'


def main() -> int:
    """Run a command of the client."""
    settings = Settings.from_args(sys.argv[2:])
    folder = Path(settings.job.storage) / ".jobs"
    job = folder / settings.run_name
    if sys.argv[1] == "storage":
        folder.mkdir(parents=True, exist_ok=True)
        events.emit("storage_open", storage=settings.job.storage, emulator="")
        sys.stdin.read()
        return 0
    if sys.argv[1] == "stop":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(job.with_suffix(".pid").read_text()), signal.SIGTERM)
        return 0
    if not job.with_suffix(".pid").exists():
        local = settings.replace(target="local", threads=1)
        args = selected(local.to_args(), used_by("train", "local", local))
        command = [sys.executable, "-m", "tests.support.fake_training", *args]
        subprocess.Popen(
            ["bash", "-c", JOB, "job", job, *command], cwd=ROOT, env=clean_environment(),
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
    with job.with_suffix(".clients").open("a") as file:
        file.write(f"{os.getpid()}\n")
    while not (text := read(job.with_suffix(".exit"))):
        if not events.emit("job_phase", job=job.name, phase="Running"):
            return 0
        time.sleep(POLL_SECONDS)
    events.emit("job_phase", job=job.name, phase="Failed" if int(text) else "Succeeded")
    return int(text)


def read(path: Path) -> str:
    """Return the content of a file; empty if it does not exist."""
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(run_main(main))
