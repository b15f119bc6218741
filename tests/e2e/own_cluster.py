"""The cluster of `make cluster`: its network and its second node, which tests interrupt."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.e2e import kube
from tests.support.patience import seconds

FOLDER = Path(__file__).parent / "cluster"
HOME = Path(
    os.environ.get("CLUSTER_HOME")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qfleet-cluster"
)


USUAL_STARTUP_SECONDS = 25.0
"""Time from a job to its first epoch on two free CPUs."""

STARTUP_FACTOR = 2.5


def allowance(startup_seconds: float) -> float:
    """Return the seconds by which limits are extended on a slow machine.

    Args:
        startup_seconds: The time that a job took to its first epoch.
    """
    return max(0.0, STARTUP_FACTOR * startup_seconds - USUAL_STARTUP_SECONDS)


def second_node(*words: str) -> None:
    """Run second_node.sh: up IMAGE..., lose, down."""
    environment = {**os.environ, "KUBECONFIG": str(HOME / "kubeconfig")}
    done = subprocess.run(
        [str(FOLDER / "second_node.sh"), *words],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=seconds(400), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def _iptables(action: str, sender: str, receiver: str) -> None:
    process = (HOME / "first.pid").read_text().strip()
    subprocess.run(
        ["nsenter", f"--target={process}", "--net", "iptables", "--wait", "--table", "mangle",
         f"--{action}", "FORWARD", "--source", sender, "--destination", receiver,
         "--jump", "DROP"],
        check=True, capture_output=True, timeout=seconds(30),
    )  # fmt: skip


@contextlib.contextmanager
def partition(one: str, other: str) -> Iterator[None]:
    """Drop every packet between two addresses of pods."""
    assert kube.is_own_cluster()
    pairs = ((one, other), (other, one))
    for sender, receiver in pairs:
        _iptables("insert", sender, receiver)
    try:
        yield
    finally:
        for sender, receiver in pairs:
            _iptables("delete", sender, receiver)
