"""The Python environments of this checkout, commands that run in them, and versions."""

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from common.commands import IS_INSTALLED, command
from common.errors import ClusterError, SettingsError

ROOT = Path(__file__).resolve().parents[1]

WORKER_PYTHON = Path(sys.executable) if IS_INSTALLED else ROOT / ".venv" / "bin" / "python"
"""Interpreter of the environment that has TensorFlow."""

_CLIENT = ROOT / ".venv-launch" / "bin" / "python"


@dataclass(frozen=True)
class Environment:
    """The packages that a program needs: an extra of qfleet, or an environment of a checkout.

    Args:
        module: A module of these packages.
        extra: The extra that installs them.
        groups: The environment of a checkout that has them, and its groups of packages.
    """

    module: str
    extra: str
    groups: str

    def enter(self, program: str) -> None:
        """Start this process again in the environment of a checkout, if it has no such packages.

        Args:
            program: Words after `qfleet`, for the message.

        Raises:
            SettingsError: They are not installed.
        """
        if importlib.util.find_spec(self.module) is not None:
            return
        folder = ROOT / self.groups.split()[0]
        python = folder / "bin" / "python"
        if python.is_file() and not IS_INSTALLED and Path(sys.prefix) != folder:
            sys.stdout.flush()
            os.execv(python, [str(python), "-m", "qfleet", *sys.argv[1:]])  # noqa: S606
        raise SettingsError(f"qfleet {program} needs {self.module}, which is missing: {self.mend}")

    @property
    def mend(self) -> str:
        """The end of a message that the packages are missing: how to install them."""
        if IS_INSTALLED:
            return f"`pip install 'qfleet[{self.extra}]'` installs it"
        return f"`./setup.sh '' {self.groups}` installs it"


WORKER = Environment("tensorflow", "train", ".venv worker")
STUDIES = Environment("optuna", "studies", ".venv worker studies")
MLFLOW = Environment("mlflow", "mlflow", ".venv worker mlflow")
LAUNCH = Environment("kubernetes", "cluster", ".venv-launch launch")
TENSORBOARD = Environment("xprof", "tensorboard", ".venv-launch launch tensorboard")
DEVICES = Environment("cirq_google", "devices", ".venv-launch launch devices")


def service_version() -> str:
    """Return the version of the service, such as 0.6.0."""
    if IS_INSTALLED:
        return package_version("qfleet")
    return (ROOT / "VERSION").read_text(encoding="utf-8").strip()


def cluster_client_command() -> list[str]:
    """Return the command that starts the cluster client, without its arguments.

    Raises:
        ClusterError: Its environment is missing.
    """
    if IS_INSTALLED:
        LAUNCH.enter("cluster")  # or it raises
        return [sys.executable, "-m", "launch"]
    if not _CLIENT.is_file():
        raise ClusterError(
            f"the environment of the cluster client is missing: `{command('plan')} TARGET=k8s`"
            " creates it"
        )
    return [str(_CLIENT), "-m", "launch"]


def package_version(name: str) -> str:
    """Return the version of an installed package; tensorflow-cpu is TensorFlow, too.

    Raises:
        importlib.metadata.PackageNotFoundError: It is not installed.
    """
    from importlib import metadata  # only here: it takes 50 ms to import

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        if name != "tensorflow":
            raise
        return metadata.version("tensorflow-cpu")


def code_version() -> str:
    """Return the version of this code, with the commit where this is a checkout.

    Returns:
        Such as 0.5.0, 0.5.0+4e88e75c1a2b or, with changed files, 0.5.0+4e88e75c1a2b-dirty.
    """
    version = service_version()
    if IS_INSTALLED or not (ROOT / ".git").exists():
        return version
    command = ["git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # it only reads
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=10,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):  # without git, the commit is not known
        return version
    commit = done.stdout.strip()
    return f"{version}+{commit}" if commit and done.returncode == 0 else version
