"""Training steps on a GPU: the engine there, the engine on this machine's CPU, and peers.

python -m benchmarks.gpu [--device cuda] [--cpu] [--peers SYSTEM ...] [--json FILE]

A step is the values of a batch and the gradient by the trained parameters, in complex64: inputs and
parameters come from the host's memory, and values and gradients return to it. Prints the median
time of a step for each case; with PyTorch, also the rates of products of matrices and of copies
that the device reaches. `make gpu-check` runs it after the tests.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import qfleet
from benchmarks.circuit_models import MODELS, BenchmarkModel, RandomInputs, model, random_inputs
from benchmarks.engine_model import compile_model, step_cost
from qfleet.engine import devices

QUBITS = (4, 8, 10, 12, 13, 14, 16, 18, 20, 24, 28, 30)
BATCHES = (1, 32, 1024, 4096, 16384)
COMPARED = tuple(
    (name, qubits, batch)
    for qubits, batch in ((12, 1024), (8, 4096), (16, 256), (20, 16))
    for name in ("entangling", "qcnn")
)
"""Models, qubits and batches of the CPU's engine and of the peers."""
FEW_THREADS = 2
MOST_AMPLITUDES = 1 << 26
"""Of a batch of several examples: larger ones would take seconds per step."""
CASE_SECONDS, STEPS = 0.2, 5
"""The steps of a case are repeated for this time, and so often. The first two are not counted."""
MAX_CASE_SECONDS = 2.0

Step = Callable[[], object]


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
        flops: Real operations of a gradient by the engine's plan for the CPU, per second; 0 for
            others.
    """

    system: str
    model: str
    qubits: int
    batch: int
    seconds: float
    first_seconds: float
    flops: float


def main() -> None:
    """Measure the cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--qubits", nargs="+", type=int, default=QUBITS)
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    parser.add_argument("--peers", nargs="*", default=())
    parser.add_argument("--peer-seconds", type=float, default=120, help="no case begins later")
    parser.add_argument("--cpu", action="store_true", help="also the engine on this machine's CPU")
    parser.add_argument("--hvp", action="store_true", help="also Hessian-vector products")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    document: dict[str, Any] = {
        "machine": describe_machine(options.device),
        "peaks": measure_peaks(options.device),
        "empty_call_seconds": empty_call_seconds(options.device),
    }
    print(document, flush=True)
    timings: list[Timing] = []
    for timing in measure(options):
        timings.append(timing)
        print(row(timing), flush=True)
        if options.json:  # after each case, because the time of a machine may end
            document["timings"] = [record(one, document["peaks"]) for one in timings]
            options.json.write_text(json.dumps(document, indent=1) + "\n")


def describe_machine(device: str) -> str:
    """Return the device's name and the number of threads of the CPU engine."""
    name = devices.describe(devices.resolve(device))
    return f"{name}; CPU engine: {qfleet.num_threads()} threads"


def measure_peaks(device: str) -> dict[str, float]:
    """Return the rates that PyTorch reaches on a GPU; nothing without one or without PyTorch.

    Returns:
        "flops": real operations per second of a product of float32 matrices, without TF32; "bytes":
        bytes per second that a copy within the device's memory reads and writes.
    """
    try:
        import torch
    except ImportError:
        return {}
    if not torch.cuda.is_available() or not device.startswith("cuda"):
        return {}
    torch.backends.cuda.matmul.allow_tf32 = False
    side, count, repeats = 8192, 1 << 28, 10
    matrix = torch.rand(side, side, device=device)
    source = torch.rand(count, device=device)
    target = torch.empty_like(source)
    work = {
        "flops": (lambda: torch.mm(matrix, matrix), 2.0 * side**3),
        "bytes": (lambda: target.copy_(source), 8.0 * count),
    }
    rates: dict[str, float] = {}
    for name, (run, amount) in work.items():
        run()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        torch.cuda.synchronize()
        rates[name] = repeats * amount / (time.perf_counter() - start)
    return rates


def record(timing: Timing, peaks: dict[str, float]) -> dict[str, Any]:
    """Return the fields of a timing, and the share of the measured rate of float32 operations.

    Args:
        timing: Of any system; the share is that of the engine on the device.
        peaks: Result of `measure_peaks`.
    """
    fields = asdict(timing)
    if "flops" in peaks and timing.system.startswith("qfleet cuda") and timing.flops:
        fields["share_of_peak"] = timing.flops / peaks["flops"]
    return fields


def row(timing: Timing) -> str:
    """Return a line of the printed table."""
    return (
        f"{timing.system:13} {timing.model:10} {timing.qubits:2} qubits, batch {timing.batch:5}:"
        f" {timing.seconds * 1e3:9.3f} ms, {timing.seconds / timing.batch * 1e6:10.3f} us per"
        f" example, {timing.flops / 1e12:5.2f} Tflop/s, first {timing.first_seconds:.2f} s"
    )


def measure(options: argparse.Namespace) -> Iterator[Timing]:
    """Measure the engine, and then peers in the cases that begin in time."""
    for name in options.models:
        for qubits in options.qubits:
            for batch in options.batches:
                if batch == 1 or batch << qubits <= MOST_AMPLITUDES:
                    yield from measure_case(f"qfleet {options.device}", name, qubits, batch)
    for device in (options.device, "cpu") if options.hvp else ():
        for case in COMPARED[:4]:
            yield from measure_case(f"qfleet {device} hvp", *case)
    threads = qfleet.num_threads()
    for count in (FEW_THREADS, threads) if options.cpu else ():
        qfleet.set_num_threads(count)
        for case in COMPARED:
            yield from measure_case(f"qfleet cpu {count}", *case)
    qfleet.set_num_threads(threads)
    end = time.monotonic() + options.peer_seconds
    for case in COMPARED:
        for peer in options.peers:
            if time.monotonic() < end:
                yield from measure_case(peer, *case, device=options.device)


def measure_case(
    system: str, name: str, qubits: int, batch: int, device: str = ""
) -> Iterator[Timing]:
    """Measure one case; print the reason if it fails. `device` is that of peers."""
    definition = model(name, qubits)
    data = random_inputs(definition, batch, None)
    is_engine = system.startswith("qfleet ")
    start = time.perf_counter()
    try:
        if is_engine:
            step = engine_step(definition, data, *system.split()[1:])
        else:
            step = peer_step(system, definition, data, device)
        step()
        first = time.perf_counter() - start
        seconds = time_step(step)
    except (RuntimeError, TimeoutError, qfleet.MemoryLimitError) as error:
        reason = str(error).partition("\n")[0]
        print(f"{system}, {name}, {qubits} qubits, batch {batch}: {reason}", flush=True)
        return
    is_gradient = is_engine and not system.endswith(" hvp")
    flops = batch * step_cost(definition).operations / seconds if is_gradient else 0
    yield Timing(system, name, qubits, batch, seconds, first, flops)


def engine_step(
    definition: BenchmarkModel, data: RandomInputs, device: str, kind: str = ""
) -> Step:
    """Return a step of the engine's NumPy interface; of kind "hvp", a Hessian-vector product."""
    compiled = compile_model(definition, device)
    if kind == "hvp":
        point = data.angles, data.parameters
        return lambda: compiled.hvp(*point, parameter_tangents=data.parameters)
    return lambda: compiled.value_and_gradient(data.angles, data.parameters, input_gradients=False)


def peer_step(system: str, definition: BenchmarkModel, data: RandomInputs, device: str) -> Step:
    """Return a step of a peer."""
    from benchmarks.peers import gpu_states

    upstream = np.ones((len(data.angles), len(definition.observables)), np.float32)
    return gpu_states.make_step(system, definition, data, upstream, device)


def time_step(step: Step) -> float:
    """Return the median time of the steps after the first two, in seconds."""
    times: list[float] = []
    end = time.monotonic() + CASE_SECONDS
    while len(times) < STEPS + 2 or time.monotonic() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
        if sum(times) > MAX_CASE_SECONDS:
            break
    return statistics.median(times[2:] or times)


def empty_call_seconds(device: str) -> float:
    """Return the median time of a step of one example of one qubit: what a call costs."""
    import cirq
    import sympy

    qubit = cirq.LineQubit(0)
    circuit = cirq.Circuit(cirq.ry(sympy.Symbol("a")).on(qubit))
    compiled = qfleet.compile(circuit, observables=cirq.Z(qubit), dtype="complex64", device=device)
    values = np.array([0.3])
    return time_step(lambda: compiled.value_and_gradient(None, values))


if __name__ == "__main__":
    main()
