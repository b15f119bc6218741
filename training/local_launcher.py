"""The gang on this machine: real worker processes, started again together when one is lost.

The embedded stand-in for the operator: each worker gets the TF_CONFIG that a pod would get, leaves
with the same exit codes, and the gang restarts as a whole by the same rule.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack

from common.errors import DeadlineReached, PeerLost, StorageUnavailable
from common.settings import Settings
from training.cluster import TF_CONFIG, ClusterSpec, loopback_addresses

log = logging.getLogger("qfleet")

# Survivors of a lost peer leave within 30 s by themselves; what is still there then is ended.
PEER_EXIT_TIMEOUT_SECONDS = 30.0
# From the request to stop until the chief's checkpoint is written.
TERMINATION_GRACE_SECONDS = 20.0


class LocalLauncher:
    """W workers on this machine. `train` runs them to the end and returns the exit code."""

    def __init__(self, settings: Settings) -> None:
        """Take settings whose RUN is the exact name of a run."""
        self._settings = settings
        self._name = settings.run_name
        self._identity = settings.job.job_id or uuid.uuid4().hex
        self._deadline = (
            time.monotonic() + settings.fault_tolerance.deadline
            if settings.fault_tolerance.deadline
            else None
        )
        self._stop: int | None = None

    def train(self) -> int:
        """Run the gang until it is done, stopped, or started again MAX_RESTARTS times.

        Returns:
            The exit code: the first permanent one of a worker, else a retryable one, else 0.
        """
        before = {number: signal.signal(number, self._ask_to_stop) for number in _STOPS}
        try:
            for attempt in range(self._settings.fault_tolerance.max_restarts + 1):
                code = self._once()
                if code < 128 or code == DeadlineReached.exit_code or self._stop:
                    break
                if attempt < self._settings.fault_tolerance.max_restarts:
                    log.warning(f"a worker was lost: the gang starts again ({attempt + 1})")
            else:
                if code == StorageUnavailable.exit_code:
                    return code  # its workers have said where, and that the same command goes on
                raise PeerLost(
                    f"the gang was lost {self._settings.fault_tolerance.max_restarts + 1} times, more than RESTARTS"
                    f" allows: its logs are in {self._settings.job.storage}/{self._name}/text, and"
                    f" `make training RUN={self._name}` goes on from its checkpoint"
                )
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._stop:
            log.warning(f"stopped; `make training RUN={self._name}` goes on from its checkpoint")
            return 128 + self._stop
        return code

    def _ask_to_stop(self, number: int, frame: object) -> None:
        self._stop = number

    def _once(self) -> int:
        """Start every worker, wait for all, return the code that counts."""
        with ExitStack() as ports:
            # Held until all are chosen, so that no two are the same.
            *workers, gate = (free_port(ports) for _ in range(self._settings.training.workers + 1))
        addresses = loopback_addresses(workers)
        gang = [
            self._start(ClusterSpec(addresses, rank), gate)
            for rank in range(self._settings.training.workers)
        ]
        try:
            return self._wait(gang)
        finally:
            for worker in gang:
                if worker.poll() is None:
                    worker.kill()
                    worker.wait()

    def _start(self, cluster: ClusterSpec, gate: int) -> subprocess.Popen:
        more: dict[str, str | int] = {
            "run": self._name,
            "rendezvous_port": gate,
            "job_id": self._identity,
        }
        if self._settings.monitoring.profiler_port:
            more["profiler_port"] = self._settings.monitoring.profiler_port + cluster.rank
        if self._deadline is not None:
            more["deadline"] = max(1, round(self._deadline - time.monotonic()))
        settings = self._settings.replace(**more)
        environment = {n: v for n, v in os.environ.items() if not n.startswith("QFLEET_")}
        environment["QFLEET_VERBOSE"] = str(settings.job.verbose).lower()
        if cluster.size > 1:
            environment[TF_CONFIG] = cluster.to_config()
        else:
            environment.pop(TF_CONFIG, None)
        # A session of its own: Ctrl-C in the terminal is for this process, which passes it on.
        return subprocess.Popen(
            [sys.executable, "-m", "training.worker", *settings.to_args()],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _wait(self, gang: list[subprocess.Popen]) -> int:
        """Wait for all workers; once one has failed, the others have PATIENCE seconds to leave."""
        until: float | None = None
        told = False
        while any(worker.poll() is None for worker in gang):
            if self._stop and not told:
                told, until = True, time.monotonic() + TERMINATION_GRACE_SECONDS
                for worker in gang:
                    worker.terminate()
            codes = [_code(worker) for worker in gang if worker.returncode is not None]
            if any(0 < code < 128 for code in codes):
                break  # for good: nothing that the others do can mend it
            if any(codes) and until is None:
                until = time.monotonic() + PEER_EXIT_TIMEOUT_SECONDS
            if until is not None and time.monotonic() > until:
                break
            time.sleep(0.05)
        codes = [_code(worker) for worker in gang if worker.returncode is not None]
        permanent = [code for code in codes if 0 < code < 128]
        failed = [code for code in codes if code]
        # A lost peer is how another's end looks: its own word says more. And the chief's before the
        # others': it alone knows of a deadline.
        causes = [code for code in failed if code != PeerLost.exit_code]
        return (permanent or causes or failed or [0])[0]


_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _code(worker: subprocess.Popen) -> int:
    """The exit code as a shell or the kubelet tells it: 128 + n where signal n ended it."""
    code = worker.returncode
    return 128 - code if code < 0 else code


def free_port(held: ExitStack) -> int:
    """A port of this machine that nobody has, held until `held` is closed."""
    holder = held.enter_context(socket.socket())
    holder.bind(("127.0.0.1", 0))
    return holder.getsockname()[1]
