"""A way from a port of this machine to a Service of the cluster, by `kubectl port-forward`."""

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


@dataclass(frozen=True)
class PortForward:
    """An open way.

    Args:
        port: The port on 127.0.0.1.
        process: The kubectl that holds it open.
    """

    port: int
    process: subprocess.Popen[str]

    def is_open(self) -> bool:
        """Whether it still holds; it ends with the pod that it leads to."""
        return self.process.poll() is None


@contextlib.contextmanager
def forward_port(
    cluster: KubeClient, service: str, port: int, local: int = 0
) -> Iterator[PortForward]:
    """Lead a port of 127.0.0.1 to a Service; the way closes with the context.

    Args:
        cluster: Where it is.
        service: The Service's name.
        port: Its port.
        local: The port on this machine; 0 takes a free one.

    Raises:
        ClusterError: There is no ready pod behind the Service, or the port is taken.
    """
    command = [*cluster.kubectl, "port-forward", "--address=127.0.0.1", f"service/{service}"]
    process = subprocess.Popen(
        [*command, f"{local or ''}:{port}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C is ours to hear
    )
    try:
        port_here = _opened(process, service)
        # It says a word for each connection; a full pipe would stop it.
        threading.Thread(target=_drain, args=(process,), daemon=True).start()
        yield PortForward(port_here, process)
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _drain(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for _ in process.stdout:
            pass


def _opened(process: subprocess.Popen[str], service: str) -> int:
    """The local port, once kubectl has said it."""
    assert process.stdout is not None
    told = ""
    end = time.monotonic() + OPEN_SECONDS
    while (left := end - time.monotonic()) > 0:
        if select.select([process.stdout], [], [], left)[0]:
            line = process.stdout.readline()
            if said := re.match(r"Forwarding from 127\.0\.0\.1:(\d+) ", line):
                return int(said[1])
            told += line
            if not line:
                why = " ".join(told.split()).removeprefix("error: ")[:200]
                raise ClusterError(f"service {service} can't be reached ({why})")
    raise ClusterError(f"service {service} can't be reached (no answer in {OPEN_SECONDS:.0f} s)")
