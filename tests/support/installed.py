"""The wheel of the last commit, installed into a bare environment, away from the checkout."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]
WHEEL_ENVIRONMENT = ROOT / ".venv-wheel"
LOCKS = {"train": "worker", "cluster": "launch", "tensorboard": "tensorboard"}
"""Extra -> lock whose versions are installed: newer ones of an index would be other tests."""


def build_wheel(folder: Path, *options: str) -> Path:
    """Build the wheel of the last commit, as `make wheel` does.

    Args:
        folder: Receives the wheel.
        options: Of `python -m tools.wheel`.
    """
    subprocess.run(["./setup.sh", "", WHEEL_ENVIRONMENT.name, "wheel"], cwd=ROOT, check=True)
    python = WHEEL_ENVIRONMENT / "bin/python"
    command = [python, "-m", "tools.wheel", f"--out={folder}", *options]
    subprocess.run(command, cwd=ROOT, check=True)
    (found,) = folder.glob("*.whl")
    return found


class Installed:
    """The command `qfleet` in an environment of its own, which processes of a test share.

    Args:
        folder: Its place; the first process that asks for it makes it.
        extra: Extra that is installed.
        python: Interpreter of the environment.
    """

    def __init__(
        self, folder: Path, extra: str = "train", python: str | Path = sys.executable
    ) -> None:
        self.bin = folder / "venv" / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "ready").exists():
                # Building its libraries takes two minutes and is tested elsewhere.
                wheel = build_wheel(folder, "--quick")
                self._install(wheel, folder, extra, python)
                (folder / "ready").touch()

    def _install(self, wheel: Path, folder: Path, extra: str, python: str | Path) -> None:
        uv = ROOT / ".uv/bin/uv"
        venv = [uv, "venv", "--quiet", "--no-config", f"--python={python}", folder / "venv"]
        subprocess.run(venv, check=True)
        environment = {"UV_SYSTEM_CERTS": "1", "UV_HTTP_RETRIES": "5", **os.environ}
        index = environment.get("UV_DEFAULT_INDEX") or (ROOT / ".uv/index").read_text().strip()
        command = [uv, "pip", "install", "--quiet", f"--python={self.bin / 'python'}"]
        command += [f"--constraint={ROOT / f'requirements/{LOCKS[extra]}.txt'}"]
        command += [f"--default-index={index}"] if index else []
        subprocess.run([*command, f"{wheel}[{extra}]"], check=True, env=environment)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a shell in which nothing but this environment is known."""
        path = f"{self.bin}{os.pathsep}/usr/bin{os.pathsep}/bin"
        return {"PATH": path, "HOME": os.environ.get("HOME", "/"), "CXX": "/nowhere"}

    def command(self, *words: str) -> Sequence[str]:
        """Return a command line of qfleet."""
        return [str(self.bin / "qfleet"), *words]

    def run(self, folder: Path, *words: str, code: int = 0) -> str:
        """Run `qfleet WORDS` in a folder and return its output.

        Args:
            folder: The current folder.
            words: The command line.
            code: The expected exit code.
        """
        return self._run(folder, self.command(*words), code)

    def python(self, folder: Path, *words: str, code: int = 0) -> str:
        """Run Python with arguments in a folder, as `run`."""
        return self._run(folder, [str(self.bin / "python"), *words], code)

    def _run(self, folder: Path, command: Sequence[str], code: int) -> str:
        done = subprocess.run(
            command,
            cwd=folder, env=self.environment, text=True, timeout=seconds(300),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == code, done.stdout
        return done.stdout
