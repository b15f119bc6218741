"""Forwarding of a local port to a Service of the cluster, by `kubectl port-forward`."""

import contextlib
import re
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from common.errors import ClusterError
from launch.kube_client import KubeClient

OPEN_SECONDS = 15.0
TERMINATION_GRACE_SECONDS = 5.0
MAX_CAUSE_CHARACTERS = 200


@dataclass(frozen=True)
class PortForward:
    """A forwarded port.

    Args:
        port: The port on 127.0.0.1.
        process: The kubectl process that forwards it.
    """

    port: int
    process: subprocess.Popen[str]

    def is_open(self) -> bool:
        """Return False once kubectl has ended, which it does when the pod ends."""
        return self.process.poll() is None


@contextlib.contextmanager
def forward_port(
    cluster: KubeClient, service: str, port: int, local: int = 0
) -> Iterator[PortForward]:
    """Forward a port of 127.0.0.1 to a Service until the context ends.

    Args:
        cluster: The Service's cluster.
        service: The Service's name.
        port: The Service's port.
        local: The port on this machine; 0 selects a free one.

    Raises:
        ClusterError: The Service has no ready pod, or the local port is in use.
    """
    command = [*cluster.kubectl, "port-forward", "--address=127.0.0.1", f"service/{service}"]
    process = subprocess.Popen(
        [*command, f"{local or ''}:{port}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C is handled by this process only
    )
    try:
        local_port = _wait_until_open(process, service)
        # kubectl prints a line per connection; a full pipe would block it.
        threading.Thread(target=_drain, args=(process,), daemon=True).start()
        yield PortForward(local_port, process)
    finally:
        process.terminate()
        try:
            process.wait(TERMINATION_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _drain(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for _ in process.stdout:
            pass


def _wait_until_open(process: subprocess.Popen[str], service: str) -> int:
    """Return the local port, once kubectl has printed it."""
    assert process.stdout is not None
    output = ""
    end = time.monotonic() + OPEN_SECONDS
    while (remaining := end - time.monotonic()) > 0:
        if select.select([process.stdout], [], [], remaining)[0]:
            line = process.stdout.readline()
            if port := re.match(r"Forwarding from 127\.0\.0\.1:(\d+) ", line):
                return int(port[1])
            output += line
            if not line:
                cause = " ".join(output.split()).removeprefix("error: ")[:MAX_CAUSE_CHARACTERS]
                raise ClusterError(f"service {service} can't be reached ({cause})")
    raise ClusterError(f"service {service} can't be reached (no answer in {OPEN_SECONDS:.0f} s)")
