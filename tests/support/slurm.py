"""A Slurm of two nodes for tests, in namespaces of its own (tests/slurm/cluster.sh)."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from common.runs import Run
from common.settings.sources import last_of_each
from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "tests" / "slurm"
START_SECONDS = 30.0
CLIENT = (sys.executable, "-m", "launch")
LOCAL_SETTINGS = ("QUBITS=4", "EPOCHS=300", "INITIALIZATIONS=1", "WORKERS=2", "RUN=r")
SETTINGS = (*LOCAL_SETTINGS, "CPU=1", "SLURM_ARGS=--nice=1 --contiguous")
"""Settings of the trainings that end with equal weights."""


def weights(storage: Path) -> bytes:
    """Return the weights of the run."""
    file = Run.at(storage, "r").weights
    assert isinstance(file, Path)
    return file.read_bytes()


def unavailable_reason() -> str:
    """Return why there can be no Slurm here; empty if there can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "it needs root, for namespaces"
    missing = [name for name in ("apt-get", "dpkg-deb", "ip", "nsenter") if not shutil.which(name)]
    return f"it needs {', '.join(missing)}" if missing else ""


class SlurmCluster:
    """The cluster. As a context, its end is the end of all of its processes.

    Args:
        folder: A new folder for its configuration and state.

    Attributes:
        variables: More variables of the environment of commands, and so of jobs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.variables = folder, dict[str, str]()
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._packages = cache / "qfleet-slurm"

    def __enter__(self) -> Self:
        subprocess.run([SCRIPTS / "packages.sh", self._packages], check=True)
        # The end of this process is its end, too.
        own = "setpriv --pdeathsig=KILL unshare --net --mount --uts --pid"
        self._log = (self.folder / "log").open("wb")
        self._process = subprocess.Popen(
            [
                *own.split(),
                *("--fork", "--kill-child", "--mount-proc"),
                *(SCRIPTS / "cluster.sh", self.folder, self._packages),
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        end = time.monotonic() + seconds(START_SECONDS)
        while not (self.folder / "ready").exists():
            if self._process.poll() is not None or time.monotonic() > end:
                self.__exit__(None, None, None)
                raise RuntimeError(f"Slurm has not started:\n{self._logs()}")
            time.sleep(0.1)
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        self._init = children.read_text().split()[0]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment in which Slurm's commands are found."""
        root = self._packages / "root" / "usr"
        libraries = root / "lib" / "x86_64-linux-gnu"
        return {
            **os.environ,
            **self.variables,
            "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": f"{libraries}:{libraries / 'slurm-wlm'}",
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }

    def command(self, *arguments: str | Path) -> list[str]:
        """Return a command line that runs on the login node."""
        entry = ["nsenter", f"--target={self._init}", "--net", "--mount", "--uts", f"--wd={ROOT}"]
        return [*entry, *map(str, arguments)]

    def run(self, *arguments: str | Path, code: int = 0) -> str:
        """Run a program on the login node, and return its output.

        Args:
            arguments: Program and arguments.
            code: The expected exit code.
        """
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds(300),
        )
        assert done.returncode == code, f"exit code {done.returncode}:\n{done.stdout}"
        return done.stdout

    def on_node(self, node: str, *arguments: str) -> str:
        """Run a program in the namespaces of a node, and return its output."""
        pid = (self.folder / f"{node}.pid").read_text().strip()
        inside = ["nsenter", f"--target={pid}", "--net", "--mount", "--uts", *arguments]
        outside = ["nsenter", f"--target={self._init}", "--mount", "--pid", *inside]
        return subprocess.run(outside, check=True, text=True, stdout=subprocess.PIPE).stdout

    def stop_node(self, node: str) -> None:
        """Kill all processes of a node, and keep its slurmd from starting again."""
        (self.folder / f"{node}.stopped").touch()
        pid = (self.folder / f"{node}.pid").read_text().strip()
        namespace = self.on_node(node, "readlink", "/proc/self/ns/net").strip()
        kill = (
            f"for p in /proc/[0-9]*; do p=${{p#/proc/}}; [[ $p == {pid} || $p == $$ ]] ||"
            f" [[ $(readlink /proc/$p/ns/net) != {namespace!r} ]] || kill -KILL $p; done"
        )
        inside = ["nsenter", f"--target={self._init}", "--mount", "--pid", "bash", "-c", kill]
        subprocess.run(inside, check=False, stderr=subprocess.DEVNULL)

    def start_node(self, node: str) -> None:
        """Let a node's slurmd start again."""
        (self.folder / f"{node}.stopped").unlink()

    def train(self, *settings: str) -> "Client":
        """Start `make training TARGET=slurm` on the login node."""
        command = [*CLIENT, "run", "TARGET=slurm", *last_of_each(settings)]
        return Client(self, command, self.folder / "client.log")

    def train_20_epochs(self, storage: Path) -> "Client":
        """Start the training of SETTINGS, and wait until it is in the midst of its epochs."""
        client = self.train(f"STORAGE={storage}", *SETTINGS)
        client.wait_for("epoch 20/")
        return client

    def study(self, *settings: str) -> "Client":
        """Start `make study TARGET=slurm` on the login node."""
        command = [sys.executable, "-m", "studies", "TARGET=slurm", *last_of_each(settings)]
        return Client(self, command, self.folder / "study.log")

    def search(self, *settings: str) -> "Client":
        """Start `make search TARGET=slurm` on the login node."""
        command = [sys.executable, "-m", "studies.search", "TARGET=slurm", *last_of_each(settings)]
        return Client(self, command, self.folder / "search.log")

    def client(self, *arguments: str, code: int = 0) -> str:
        """Run a command of the client, and return its output."""
        return self.run(*CLIENT, *last_of_each(arguments), code=code)

    def workers(self, storage: Path) -> list[int]:
        """Return the process IDs of the workers of a STORAGE, by rank."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_text().split("\0")
                environment = (path / "environ").read_text(errors="replace").split("\0")
            except OSError:
                continue
            if "training.worker" in words and f"--storage={storage}" in words:
                config = next(one for one in environment if one.startswith("TF_CONFIG="))
                found[config.rpartition('"index": ')[2]] = int(path.name)
        return [found[rank] for rank in sorted(found)]

    def _logs(self) -> str:
        files = [self.folder / "log", *self.folder.glob("*.out"), *self.folder.glob("*.log")]
        return "\n".join(f"== {file.name}\n{file.read_text()}" for file in files if file.exists())


class Client:
    """A program that follows its jobs, on the login node.

    Args:
        cluster: The cluster.
        command: Program and arguments.
        log: File of its output.
    """

    def __init__(self, cluster: SlurmCluster, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                cluster.command(*command),
                env=cluster.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        """Its output so far."""
        return self._log.read_text()

    def wait_for(self, text: str, timeout_seconds: float = 90.0) -> None:
        """Wait until its output contains a text."""
        end = time.monotonic() + seconds(timeout_seconds)
        while text not in self.output:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < end, self.output
            time.sleep(0.05)

    def wait(self, code: int, timeout_seconds: float = 240.0) -> str:
        """Wait for its end, and return its output.

        Args:
            code: The expected exit code.
            timeout_seconds: Longest time to wait.
        """
        try:
            found = self.process.wait(seconds(timeout_seconds))
        finally:
            self.process.kill()
        assert found == code, self.output
        return self.output

    def wait_resumed(self) -> str:
        """Wait for the end of a training that was resumed, and return its output."""
        output = self.wait(0)
        assert "Resuming run 'r'" in output, output
        return output

    def interrupt(self) -> str:
        """Press Ctrl-C, and return its output."""
        self.process.send_signal(signal.SIGINT)
        return self.wait(130)
