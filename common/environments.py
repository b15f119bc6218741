"""The Python environments of this checkout, commands that run in them, and versions."""

import importlib.metadata
import os
import subprocess
from pathlib import Path

from common.errors import ClusterError

ROOT = Path(__file__).resolve().parents[1]

WORKER_PYTHON = ROOT / ".venv" / "bin" / "python"
"""Interpreter of the environment that has TensorFlow."""

_CLIENT = ROOT / ".venv-launch" / "bin" / "python"


def cluster_client_command() -> list[str]:
    """Return the command that starts the cluster client, without its arguments.

    Raises:
        ClusterError: Its environment is missing.
    """
    if not _CLIENT.is_file():
        raise ClusterError(
            "the environment of the cluster client is missing: `make plan TARGET=k8s` creates it"
        )
    return [str(_CLIENT), "-m", "launch"]


def package_version(name: str) -> str:
    """Return the version of an installed package; tensorflow-cpu is TensorFlow, too.

    Raises:
        importlib.metadata.PackageNotFoundError: It is not installed.
    """
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        if name != "tensorflow":
            raise
        return importlib.metadata.version("tensorflow-cpu")


def code_version() -> str:
    """Return the version of this code, with the commit where this is a checkout.

    Returns:
        Such as 0.5.0, 0.5.0+4e88e75c1a2b or, with changed files, 0.5.0+4e88e75c1a2b-dirty.
    """
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    if not (ROOT / ".git").exists():
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
