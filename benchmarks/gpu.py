"""Training steps on a GPU: the engine there, the engine on this machine's CPU, and peers.

python -m benchmarks.gpu [--device cuda] [--cpu] [--hvp] [--peers PEER ...] [--json FILE]

A step is the values of a batch and the gradient by the trained parameters, in complex64: inputs and
parameters come from the host's memory, and values and gradients return to it. Prints the median
time of a step for each case. Each peer runs in a process of its own, with a limit for each case,
and its values and gradients are compared with the engine's. The file names the cases without a time
and the reasons; `python -m benchmarks.gpu_tables FILE` prints its tables. `make gpu-check` runs
both after the tests.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import qfleet
from benchmarks.circuit_models import MODELS, model, random_inputs
from benchmarks.engine_model import compile_model
from benchmarks.gpu_bounds import DeviceWork, device_work, shared_rate, shares
from benchmarks.gpu_cases import (
    BATCHES,
    COMPARED,
    COMPILED,
    INSTANT,
    QUBITS,
    Step,
    StepCase,
    cases,
    peer_turns,
    time_step,
)
from benchmarks.gpu_peers import NotMeasured, Peers, WrongResults, require_agreement
from benchmarks.gpu_tables import RATE_TITLES
from benchmarks.subprocess_protocol import COMPARED_EXAMPLES
from common.errors import SettingsError, run_main
from qfleet.engine import devices
from qfleet.native.cuda.__main__ import BuildError

FEW_THREADS = 2
HVP_CASES = 4
CASE_SECONDS = 90.0

Results = tuple[np.ndarray, np.ndarray]
"""Values of the first examples, and the gradient."""


@dataclass(frozen=True)
class Timing:
    """The time of a case.

    Attributes:
        system: "qfleet cuda", "qfleet cpu" and its number of threads, a device and "hvp" for a
            Hessian-vector product, or a peer.
        model: One of MODELS.
        qubits: Of the model.
        batch: Examples of a step.
        seconds: Median time of a step.
        first_seconds: Time from the circuit to the first result.
        shares: Shares of the device's rates; see `benchmarks.gpu_bounds.shares`.
    """

    system: str
    model: str
    qubits: int
    batch: int
    seconds: float
    first_seconds: float
    shares: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """A case without a time, and the reason."""

    system: str
    model: str
    qubits: int
    batch: int
    reason: str


def main() -> None:
    """Measure the cases and print them."""
    options = parse_arguments()
    end = time.monotonic() + options.seconds
    document: dict[str, Any] = {"machine": describe_machine(options.device)}
    with closing(Peers(options.device, options.case_seconds, end)) as peers:
        document["peaks"] = measure_peaks(options.device, peers)
        document["empty_call_seconds"] = empty_call_seconds(options.device)
        print(document, flush=True)
        document |= {"peers": peers.versions, "timings": [], "missing": []}
        write(options.json, document)
        benchmark = Benchmark(options.device, peers, document["peaks"] if counts_work() else {})
        for result in benchmark.measure(options):
            print(row(result), flush=True)
            kind = "timings" if isinstance(result, Timing) else "missing"
            document[kind].append(asdict(result))
            write(options.json, document)  # now, because the time of a machine may end
    if benchmark.disagreements:
        sys.exit(f"gpu benchmark: different results in {benchmark.disagreements} cases")


def write(path: Path | None, document: dict[str, Any]) -> None:
    """Write the results so far, if a file is wanted.

    Raises:
        SettingsError: It cannot be written.
    """
    if path is None:
        return
    try:
        path.write_text(json.dumps(document, indent=1) + "\n")
    except OSError as error:
        raise SettingsError(
            f"--json is {path}, which cannot be written ({error.strerror}): name a file in a folder"
            " that exists"
        ) from None


def parse_arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--device", default="cuda", type=device_name, help="cuda, cuda:N, cpu, or host to practise"
    )
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--qubits", nargs="+", type=at_least(2), default=QUBITS)
    parser.add_argument("--batches", nargs="+", type=at_least(1), default=BATCHES)
    parser.add_argument("--peers", nargs="*", default=(), choices=(*INSTANT, *COMPILED))
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="cases of peers end in this time"
    )
    parser.add_argument(
        "--case-seconds",
        type=float,
        default=CASE_SECONDS,
        help="limit of a peer's case, with its compilation (default: %(default)g)",
    )
    parser.add_argument("--cpu", action="store_true", help="also the engine on this machine's CPU")
    parser.add_argument("--hvp", action="store_true", help="also Hessian-vector products")
    parser.add_argument("--json", type=Path, help="file of the results, written after each case")
    return parser.parse_args()


def device_name(text: str) -> str:
    """Return the name of a device other than "auto".

    Raises:
        argparse.ArgumentTypeError: It is another text.
    """
    with suppress(qfleet.ArgumentError):
        if devices.resolve(text).kind != "auto":
            return text
    raise argparse.ArgumentTypeError(f"it is {text!r}: choose cuda, cuda:N, cpu or host")


def at_least(least: int) -> Callable[[str], int]:
    """Return a function that reads a whole number of at least `least`."""

    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"it is {text}, and must be at least {least}")
        return int(text)

    number.__name__ = "whole number"  # for argparse's message about other texts
    return number


def describe_machine(device: str) -> str:
    """Return the device's name and the number of threads of the CPU engine."""
    found = devices.resolve(device)
    name = f"device: {device}" if found == devices.CPU else devices.describe(found)
    return f"{name}; CPU engine: {qfleet.num_threads()} threads"


def measure_peaks(device: str, peers: Peers) -> dict[str, float]:
    """Return the rates of a GPU that are known, by the names of `gpu_bounds.DeviceWork`.

    PyTorch measures operations and the device's memory. The rate of shared memory is that of its
    banks at the highest clock that the driver reports.
    """
    peaks: dict[str, float] = {}
    try:
        peaks |= peers.rates()
    except NotMeasured as reason:
        print(f"no rates of {device} by PyTorch: {reason}", flush=True)
    rate = shared_rate(devices.resolve(device))
    return peaks | ({} if rate is None else {"shared_bytes": rate})


def counts_work() -> bool:
    """Return True if work is counted; else print the reason: times are worth a run without it."""
    try:
        device_work(model("qcnn", 4))
    except (BuildError, subprocess.CalledProcessError, OSError) as error:
        print(f"no shares of rates, because device_passes.cc is not built: {error}", flush=True)
        return False
    return True


def empty_call_seconds(device: str) -> float:
    """Return the median time of a step of one example of one qubit: what a call costs."""
    import cirq
    import sympy

    qubit = cirq.LineQubit(0)
    circuit = cirq.Circuit(cirq.ry(sympy.Symbol("a")).on(qubit))
    compiled = qfleet.compile(circuit, observables=cirq.Z(qubit), dtype="complex64", device=device)
    values = np.array([0.3])
    return time_step(lambda: compiled.value_and_gradient(None, values))


def row(result: Timing | Missing) -> str:
    """Return a line of the printed table."""
    case = f"{result.system:15} {result.model:10} {result.qubits:2} qubits, batch {result.batch:5}:"
    if isinstance(result, Missing):
        return f"{case} not measured: {result.reason}"
    reached = "".join(
        f", {share:.0%} of {RATE_TITLES[name]}" for name, share in result.shares.items()
    )
    return (
        f"{case} {result.seconds * 1e3:9.3f} ms, {result.seconds / result.batch * 1e6:10.3f} us per"
        f" example, first {result.first_seconds:.2f} s{reached}"
    )


class Benchmark:
    """Measures the engine, and then peers in the cases that end in time.

    Args:
        device: Of the engine.
        peers: The peers.
        peaks: Known rates of the device.

    Attributes:
        disagreements: Number of cases whose results are not those of the engine on the device.
    """

    def __init__(self, device: str, peers: Peers, peaks: dict[str, float]) -> None:
        self.disagreements = 0
        self._device, self._peers, self._peaks = device, peers, peaks
        self._expected: dict[StepCase, Results] = {}

    def measure(self, options: argparse.Namespace) -> Iterator[Timing | Missing]:
        """Measure all cases of the options."""
        ranked = cases(options.models, options.qubits, options.batches)
        compared = ranked[: len(COMPARED)]
        for case in ranked:
            yield self._timed(f"qfleet {self._device}", case)
        threads = qfleet.num_threads()
        for count in dict.fromkeys((FEW_THREADS, threads)) if options.cpu else ():
            qfleet.set_num_threads(count)
            for case in compared:
                yield self._timed(f"qfleet cpu {count}", case)
        qfleet.set_num_threads(threads)
        for device in dict.fromkeys((self._device, "cpu")) if options.hvp else ():
            for case in compared[:HVP_CASES]:
                yield self._timed(f"qfleet {device} hvp", case)
        for peer, case in peer_turns(options.peers, ranked):
            yield self._timed(peer, case)

    def _timed(self, system: str, case: StepCase) -> Timing | Missing:
        measured = _engine if system.startswith("qfleet ") else self._peer
        try:
            timing, results = measured(system, case)
            if results is not None:
                self._check(system, case, results)
        except (NotMeasured, qfleet.DeviceError, qfleet.MemoryLimitError) as reason:
            self.disagreements += isinstance(reason, WrongResults)
            return Missing(system, *vars(case).values(), str(reason).partition("\n")[0])
        return self._rated(timing, case)

    def _peer(self, peer: str, case: StepCase) -> tuple[Timing, Results]:
        found = self._peers.time(peer, case)
        timing = Timing(peer, *vars(case).values(), found["seconds"], found["first_seconds"])
        return timing, (np.array(found["values"], float), np.array(found["gradient"], float))

    def _check(self, system: str, case: StepCase, results: Results) -> None:
        if system == f"qfleet {self._device}":
            self._expected[case] = results
        elif case in self._expected:
            require_agreement(*results, self._expected[case])

    def _rated(self, timing: Timing, case: StepCase) -> Timing:
        """Add the shares of the device's rates to the time of a gradient."""
        if not self._peaks or timing.system != f"qfleet {self._device}":
            return timing
        work = _work(case.model, case.qubits)
        return replace(timing, shares=shares(work, case.batch / timing.seconds, self._peaks))


@cache
def _work(name: str, qubits: int) -> DeviceWork:
    """Return the work of a model on the device."""
    return device_work(model(name, qubits))


def _engine(system: str, case: StepCase) -> tuple[Timing, Results | None]:
    """Measure a case of the engine; `system` names its device, and "hvp" if it is one."""
    _, device, *kind = system.split()
    definition = model(case.model, case.qubits)
    data = random_inputs(definition, case.batch)
    point = data.angles, data.parameters
    start = time.perf_counter()
    compiled = compile_model(definition, device)
    results = None
    if kind == ["hvp"]:
        step: Step = partial(compiled.hvp, *point, parameter_tangents=data.parameters)
        step()
    else:
        step = partial(compiled.value_and_gradient, *point, input_gradients=False)
        values, gradients = compiled.value_and_gradient(*point, input_gradients=False)
        results = values[:COMPARED_EXAMPLES].copy(), gradients.parameters
    first = time.perf_counter() - start
    return Timing(system, *vars(case).values(), time_step(step), first), results


if __name__ == "__main__":
    sys.exit(run_main(main))
