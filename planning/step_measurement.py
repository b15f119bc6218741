"""Short trainings measured: gangs of training.step_benchmark_worker on this machine, or in a cluster.

A case is a dict as training/step_benchmark_worker.py has it: {"qubits": 12, "batch": 256, "seconds": 2.0, ...}. On
this machine each worker is pinned to its own cores and computes with as many threads.
"""

import contextlib
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import IO, Any, Self

from common.errors import EXIT_BUG, ClusterError, PeerLost, RetryableError, SettingsError
from common.processes import free_ports
from common.settings import Settings
from training.cluster import TF_CONFIG, ClusterSpec, loopback_addresses
from training.step_benchmark_worker import LATER

log = logging.getLogger("qfleet")

ROOT = Path(__file__).resolve().parents[1]
MEASURED_PARTS = ("simulate", "exchange", "input", "other")
# What a case does not say is taken from the settings; BATCH and the like belong to the case.
BENCHMARK_SETTINGS = (
    "model",
    "activation",
    "filters",
    "simulator",
    "partitions",
    "seed",
    "rendezvous_timeout",
)
PLACEMENT_SETTINGS = (
    "context",
    "namespace",
    "overlay",
    "image",
    "cpu",
    "memory",
    "queue",
    "priority_class",
)
# Once one worker has failed, the others have so long to say why.
PEER_EXIT_TIMEOUT_SECONDS = 3.0

Case = Mapping[str, Any]


@dataclass(frozen=True)
class StepMeasurement:
    """What one worker says of one case, over the steps that were measured.

    Attributes:
        case: The case's number in the list.
        rank: The worker's number.
        workers: Workers that train together; 1 where each is alone.
        qubits: Width of the circuit.
        batch: Examples a step, in all workers that train together.
        threads: Threads that it computed with.
        split: Workers that hold one state together.
        alone: Empty for a gang; `all` and `first` as in training/step_benchmark_worker.py.
        data: `turned` or `excitations`.
        steps_per_call: Steps in one call into TensorFlow.
        steps: Steps.
        seconds: How long they took.
        examples_per_second: Rate of all that train together.
        step_ms: Milliseconds a step by PARTS.
        wait_ms: Those of the exchange in which it only waited for a slower worker.
        cpu_seconds: Processor seconds of this worker.
        start_seconds: Processor seconds from the start of the process until it could build a model.
        build_seconds: From there until the first step was done.
        rss_bytes: The most memory that it held.
        cores: The cores that it could run on, by number.
        node: The machine in the cluster; empty for this one.
    """

    case: int
    rank: int
    workers: int
    qubits: int
    batch: int
    threads: int
    split: int
    alone: str
    data: str
    steps_per_call: int
    steps: int
    seconds: float
    examples_per_second: float
    step_ms: Mapping[str, float]
    wait_ms: float
    cpu_seconds: float
    start_seconds: float
    build_seconds: float
    rss_bytes: int
    cores: tuple[int, ...]
    node: str = ""

    @property
    def step_seconds(self) -> float:
        """Seconds a step."""
        return self.seconds / self.steps

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Read a line that a worker printed.

        Raises:
            ValueError: It is none.
        """
        told = json.loads(line)
        names = {field.name for field in fields(cls)}
        try:
            return cls(
                **{n: v for n, v in told.items() if n in names} | {"cores": tuple(told["cores"])}
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not what a probe says: {error}") from None


def measure_group(
    cases: Sequence[Case],
    *,
    workers: int,
    cores: Sequence[Sequence[int]] | None = None,
    settings: Settings | None = None,
    heard: Callable[[StepMeasurement], None] | None = None,
    patience: float = 600.0,
) -> list[list[StepMeasurement]]:
    """Measure cases one after another in one gang.

    Args:
        cases: What to measure; one that comes again takes its turns with the others.
        workers: Processes, or pods where TARGET=k8s.
        cores: The cores of each worker on this machine; `places` unless given.
        settings: Those named in TAKEN hold for all cases; TARGET says where.
        heard: Told of each line as it comes.
        patience: Seconds in which some worker must say something.

    Returns:
        By case, then by rank: a worker that has no part in a case says nothing of it.

    Raises:
        QfleetError: A worker refused a case or was lost; the sentence is its own.
    """
    settings = settings or Settings.from_record({})
    told, text = _told(settings), _text(cases)
    with ExitStack() as stack:
        if settings.job.target == "k8s":
            started = [stack.enter_context(_client(text, told, workers, settings))]
        else:
            cores = cores or cpu_sets(workers)
            started = _gang(stack, text, told, workers, cores, settings.job.verbose)
        return _by_case(cases, _lines(started, patience, heard))


class StandbyGroup:
    """A gang on this machine that is told later what to measure, so that it can start meanwhile.

    A context: leaving it ends its processes.

    Args:
        workers: Processes.
        settings: As in `gang`.
    """

    def __init__(self, workers: int, settings: Settings) -> None:
        self._stack = ExitStack()
        told, cores = _told(settings), cpu_sets(workers)
        with self._stack:
            self._started = _gang(self._stack, LATER, told, workers, cores, settings.job.verbose)
            self._stack = self._stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *cause: object) -> None:
        self._stack.close()

    def ready(self) -> None:
        """Wait until all have started (or ended, which `measure` tells)."""
        for process in self._started:
            process.first_line()

    def measure(
        self, cases: Sequence[Case], patience: float = 600.0
    ) -> list[list[StepMeasurement]]:
        """What `gang` does; once, and after `ready`."""
        for process in self._started:
            process.tell(_text(cases))
        with self:
            return _by_case(cases, _lines(self._started, patience, None))


def _told(settings: Settings) -> list[str]:
    """The settings that hold for all cases, as a probe's arguments."""
    return [f"{name}={settings.get(name)}" for name in BENCHMARK_SETTINGS]


def _text(cases: Sequence[Case]) -> str:
    """Cases as a probe reads them."""
    return json.dumps([dict(case) for case in cases])


def _by_case(
    cases: Sequence[Case], lines: Sequence[StepMeasurement]
) -> list[list[StepMeasurement]]:
    found: list[list[StepMeasurement]] = [[] for _ in cases]
    for line in sorted(lines, key=lambda line: (line.case, line.rank)):
        found[line.case].append(line)
    return found


def measure_independent(
    cases: Sequence[Case], *, processes: int, **more: Any
) -> list[list[StepMeasurement]]:
    """Measure cases in workers that train each by itself, at the same time.

    Args:
        cases: What each measures; `batch` is one worker's own.
        processes: How many.
        more: As in `gang`.
    """
    return measure_group([{**case, "alone": "all"} for case in cases], workers=processes, **more)


def cpu_sets(workers: int, each: int = 0) -> list[list[int]]:
    """Cores for the workers on this machine: their own while there are enough.

    Args:
        workers: How many.
        each: Cores a worker; 0 shares all of them.
    """
    if not hasattr(os, "sched_getaffinity"):
        return [[] for _ in range(workers)]
    there = sorted(os.sched_getaffinity(0))
    each = min(each or max(1, len(there) // workers), len(there))
    return [[there[(rank * each + i) % len(there)] for i in range(each)] for rank in range(workers)]


def _gang(
    stack: ExitStack,
    text: str,
    told: Sequence[str],
    workers: int,
    cores: Sequence[Sequence[int]],
    verbose: bool,
) -> list["_Process"]:
    with free_ports(workers + 1) as (*chosen, gate):
        pass
    command = [sys.executable, "-m", "training.step_benchmark_worker", text, *told]
    command += [f"workers={workers}", f"gate_port={gate}", f"verbose={verbose}"]
    environment = _environment()
    started = []
    for rank in range(workers):
        if workers > 1:
            environment[TF_CONFIG] = ClusterSpec(loopback_addresses(chosen), rank).to_config()
        name = f"worker {rank}" if workers > 1 else "the worker"
        with _pinned(cores[rank]):
            started.append(stack.enter_context(_Process(name, command, environment)))
    return started


def _client(text: str, told: Sequence[str], workers: int, settings: Settings) -> "_Process":
    """The cluster's client, which prints its pods' lines; in the environment made for it."""
    python = ROOT / ".venv-launch" / "bin" / "python"
    placed = [f"{name}={settings.get(name)}" for name in PLACEMENT_SETTINGS]
    command = [str(python), "-m", "launch", "probe", text, *told, *placed, f"workers={workers}"]
    if not python.is_file():
        raise ClusterError(
            "the cluster's client has no environment yet: `make scaling TARGET=k8s` makes it"
        )
    return _Process("the client", command, _environment())


def _environment() -> dict[str, str]:
    """This process's, without settings: what they say is said in the command."""
    return {n: v for n, v in os.environ.items() if not n.startswith("QFLEET_") and n != TF_CONFIG}


@contextlib.contextmanager
def _pinned(cores: Sequence[int]) -> Iterator[None]:
    """What is started here runs on these cores, all of its threads from the first on."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class _Process:
    """A process whose lines are read as they come. A context: leaving it ends the process."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        # What native code says goes there, too: it matters only where the process fails.
        self._said: IO[str] = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed on exit
        # A session of its own: Ctrl-C in the terminal is for this process alone.
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=dict(environment),
            stdin=subprocess.PIPE if LATER in command else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *cause: object) -> None:
        self.end()
        self._said.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()

    def end(self) -> None:
        """End it, if it has not ended; the client takes what it made out of the cluster."""
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=30)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def first_line(self) -> str:
        """Wait for its first line; empty where it ends without."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def tell(self, line: str) -> None:
        """Give it the only line that it reads."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, which its code tells
            self._process.stdin.write(line + "\n")
            self._process.stdin.close()

    def read(self, lines: "queue.Queue[tuple[_Process, str | None]]") -> None:
        """Put its lines into the queue in a thread of its own; None at the end."""

        def pass_on() -> None:
            assert self._process.stdout is not None
            with self._process.stdout as stream:
                for line in stream:
                    lines.put((self, line))
            self._process.wait()
            lines.put((self, None))

        threading.Thread(target=pass_on, daemon=True).start()

    @property
    def code(self) -> int:
        """How it ended, as a shell tells it."""
        code = self._process.wait()
        return 128 - code if code < 0 else code

    def error(self) -> Exception:
        """Why it failed, in its own words."""
        self._said.seek(0)
        said = self._said.read().strip()
        words = [line for line in said.splitlines() if line.startswith("qfleet: ")]
        if self.code == EXIT_BUG:
            return RuntimeError(f"{self.name} of the probe failed:\n{said[-4000:]}")
        sentence = words[-1].removeprefix("qfleet: ") if words else ""
        if self.code == 128 + signal.SIGKILL:
            sentence = f"{self.name} of the probe was killed, as where memory runs out: use fewer"
            sentence += " QUBITS, fewer WORKERS or a smaller BATCH"
        kind = SettingsError if self.code < RetryableError.exit_code else PeerLost
        return kind(sentence or f"{self.name} of the probe ended with {self.code}")


def _lines(
    started: Sequence[_Process], patience: float, heard: Callable[[StepMeasurement], None] | None
) -> list[StepMeasurement]:
    """What all say, until they have ended."""
    found: list[StepMeasurement] = []
    lines: queue.Queue[tuple[_Process, str | None]] = queue.Queue()
    for process in started:
        process.read(lines)
    left = len(started)
    failed: list[_Process] = []
    while left:
        try:
            process, line = lines.get(timeout=PEER_EXIT_TIMEOUT_SECONDS if failed else patience)
        except queue.Empty:
            if failed:
                break
            raise PeerLost(f"no worker of the probe has said anything for {patience:g} s") from None
        if line is None:
            left -= 1
            if process.code:
                failed.append(process)
            if 0 < process.code < RetryableError.exit_code:
                break  # the others wait for it in vain
        elif line.startswith('{"nodes"'):
            nodes = json.loads(line)["nodes"]
            found = [replace(one, node=nodes[one.rank]) for one in found]
        elif line.startswith("{"):
            measured = StepMeasurement.from_line(line)
            if heard:
                heard(measured)
            found.append(measured)
        else:
            log.info(line.rstrip())
    if failed:
        raise min(failed, key=lambda process: process.code).error()
    return found
