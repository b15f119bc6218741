"""Groups of step benchmark workers: processes on this machine, or pods of a cluster.

On this machine, each worker is pinned to its own CPUs and computes with as many threads.
"""

import logging
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

from common import devices, events
from common.environments import ROOT
from common.errors import EXIT_BUG, PeerLost, RetryableError, SettingsError
from common.events import Event
from common.processes import (
    ManagedProcess,
    ProcessGroup,
    clean_environment,
    cpu_sets,
    free_ports,
)
from common.settings import Settings
from planning.cluster_benchmark import start_client
from planning.step_measurement import (
    Case,
    StepMeasurement,
    common_arguments,
    encode_cases,
    group_by_case,
)
from training.benchmark.worker import LATER
from training.cluster.spec import TF_CONFIG, ClusterSpec, loopback_addresses
from training.group.secret import ENVIRONMENT_VARIABLE, new_secret

PEER_EXIT_TIMEOUT_SECONDS = 3.0
"""Time for the other workers to report why they failed, once one worker has failed."""

EVENT_TIMEOUT_SECONDS = 600.0
"""Longest time without an event of any worker."""

GRACE_SECONDS = 30.0
"""Time to end after SIGTERM; the cluster client deletes its job in this time."""

MeasurementCallback = Callable[[StepMeasurement], None]


def measure_group(
    cases: Sequence[Case],
    *,
    workers: int,
    cpus: Sequence[Sequence[int]] | None = None,
    settings: Settings | None = None,
    on_measurement: MeasurementCallback | None = None,
) -> list[list[StepMeasurement]]:
    """Measure cases one after another in one group of workers.

    Args:
        cases: Cases to measure. A case that occurs again is measured in turns with the others.
        workers: Number of processes, or of pods if TARGET=k8s.
        cpus: CPUs of each worker on this machine; `cpu_sets` unless given.
        settings: Settings of all cases, and TARGET.
        on_measurement: Called with each measurement as it arrives.

    Returns:
        Measurements by case and then by rank; only of the workers that take part in a case.

    Raises:
        QfleetError: A worker refused a case or was lost; the message is that of the worker.
    """
    settings = settings or Settings.from_record({})
    with free_ports(workers + 1) as ports, ProcessGroup(GRACE_SECONDS) as group:
        if settings.job.target == "k8s":
            start_client(group, cases, workers, settings)
        else:
            _start_workers(group, encode_cases(cases), ports, settings, cpus)
        return group_by_case(cases, collect_measurements(group, on_measurement))


class StandbyGroup:
    """Workers on this machine that start before their cases are known.

    A context: its end stops the processes.

    Args:
        workers: Number of processes.
        settings: As in `measure_group`.
    """

    def __init__(self, workers: int, settings: Settings) -> None:
        with ExitStack() as stack:
            ports = stack.enter_context(free_ports(workers + 1))
            self._group = stack.enter_context(ProcessGroup(GRACE_SECONDS))
            _start_workers(self._group, LATER, ports, settings)
            self._stack = stack.pop_all()
        self._early: list[tuple[ManagedProcess, Event]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *cause: object) -> None:
        self._stack.close()

    def wait_until_ready(self) -> None:
        """Wait until all workers are ready or one has ended, which `measure` reports.

        Raises:
            PeerLost: No worker emitted an event for EVENT_TIMEOUT_SECONDS.
        """
        starting = set(self._group.processes)
        while starting:
            process, event = _next_event(self._group, EVENT_TIMEOUT_SECONDS)
            if event.kind == "benchmark_ready":
                starting.discard(process)
            else:
                self._early.append((process, event))
            if event.kind == "exit":
                return

    def measure(self, cases: Sequence[Case]) -> list[list[StepMeasurement]]:
        """Measure cases as `measure_group` does. Call it once, after `wait_until_ready`."""
        for process in self._group.processes:
            process.send_line(encode_cases(cases))
            process.close_stdin()
        with self:
            return group_by_case(cases, collect_measurements(self._group, None, self._early))


def _start_workers(
    group: ProcessGroup,
    cases: str,
    ports: Sequence[int],
    settings: Settings,
    cpus: Sequence[Sequence[int]] | None = None,
) -> None:
    """Start a worker of a group on each port but the last, which is that of the rendezvous."""
    *worker_ports, rendezvous_port = ports
    workers = len(worker_ports)
    cpus = cpus or cpu_sets(workers)
    command = [sys.executable, "-m", "training.benchmark.worker", cases]
    command += [*common_arguments(settings), f"workers={workers}"]
    command += [f"rendezvous_port={rendezvous_port}", f"verbose={settings.job.verbose}"]
    secret, places = new_secret(), devices.assign(settings, workers)
    for rank in range(workers):
        environment = clean_environment(**{devices.VARIABLE: places[rank]})
        if workers > 1:
            environment[ENVIRONMENT_VARIABLE] = secret
            spec = ClusterSpec(loopback_addresses(worker_ports), rank)
            environment[TF_CONFIG] = spec.to_config()
        group.start(
            command,
            name=f"benchmark worker {rank}",
            cwd=ROOT,
            env=environment,
            cpus=cpus[rank],
            stdin=cases == LATER,
            stdout="capture",
            stderr="capture",
        )


def collect_measurements(
    group: ProcessGroup,
    on_measurement: MeasurementCallback | None,
    early: Sequence[tuple[ManagedProcess, Event]] = (),
) -> list[StepMeasurement]:
    """Return the measurements of all processes once they have ended."""
    measurements: list[StepMeasurement] = []
    failed: list[ManagedProcess] = []
    waiting = list(early)
    running = len(group.processes)
    while running:
        timeout_seconds = PEER_EXIT_TIMEOUT_SECONDS if failed else EVENT_TIMEOUT_SECONDS
        try:
            process, event = waiting.pop(0) if waiting else _next_event(group, timeout_seconds)
        except PeerLost:
            if failed:
                break
            raise
        if event.kind == "exit":
            running -= 1
            code = event.integer("exit_code")
            if code:
                failed.append(process)
            if 0 < code < RetryableError.exit_code:
                break  # permanent; the others only wait for this worker
        elif event.kind == "nodes":
            nodes = [str(node) for node in event.items("nodes")]
            measurements = [replace(one, node=nodes[one.rank]) for one in measurements]
        elif event.kind == "measurement":
            measurement = StepMeasurement.from_result(event.mapping("result"))
            if on_measurement:
                on_measurement(measurement)
            measurements.append(measurement)
        elif event.kind in ("log", "waiting"):
            _forward(event)
    if failed:
        raise _failure(min(failed, key=lambda process: process.exit_code or 0))
    return measurements


def _next_event(group: ProcessGroup, timeout_seconds: float) -> tuple[ManagedProcess, Event]:
    received = group.next_event(timeout_seconds)
    if received is None:
        raise PeerLost(f"no benchmark worker emitted an event for {timeout_seconds:g} s")
    return received


def _forward(event: Event) -> None:
    level = logging.getLevelNamesMapping().get(event.text("level"), logging.INFO)
    if text := events.render(event):
        logging.getLogger("qfleet").log(level, "%s", text)


def _failure(process: ManagedProcess) -> Exception:
    """Return the error that a failed process stands for."""
    code = process.exit_code or 0
    if code == EXIT_BUG:
        return RuntimeError(f"{process.name} failed:\n{process.stderr_text[-4000:]}")
    if code == 128 + signal.SIGKILL:
        message = (
            f"{process.name} was killed by SIGKILL, possibly because memory ran out: use fewer"
            " QUBITS, fewer WORKERS or a smaller BATCH"
        )
    else:
        message = process.error_message or f"{process.name}: {process.describe_exit()}"
    return (SettingsError if code < RetryableError.exit_code else PeerLost)(message)
