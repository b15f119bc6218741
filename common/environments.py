"""The Python environments of this checkout, and commands that run in them."""

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
            "the environment of the cluster client is missing: `make scaling TARGET=k8s` creates it"
        )
    return [str(_CLIENT), "-m", "launch"]
