"""Noisy circuits: density matrices of qfleet, of Cirq and of PennyLane's default.mixed, in turns,
and trajectories of qfleet and of qsim.

    .venv-peers/bin/python -m benchmarks.noise

Each qubit is rotated by an angle of the example. Each layer rotates by parameters and entangles
neighbours; every gate is followed by depolarizing noise. All values are compared first. Prints
Markdown tables of medians over all rounds. Trajectories are those of one example of 16 qubits, with
one thread and with all CPUs: qfleet estimates Z of the last qubit, qsim measures it once per
trajectory, and fuses gates on two or four qubits, whichever is faster.
"""

import os
import statistics
import time
from collections.abc import Callable

import cirq
import numpy as np
import pennylane as qml
import qsimcirq
import sympy
import torch

import qfleet
from benchmarks import markdown

QUBITS, BATCH, RATE = (4, 6, 8), 32, 0.01
LAYERS = 2
ROUNDS = 5
DEPOLARIZING = cirq.depolarize(RATE)
WIDE, TRAJECTORIES = 16, 100
CHANNELS = {
    "depolarizing, 0.001": cirq.depolarize(0.001),
    "depolarizing, 0.01": cirq.depolarize(0.01),
    "depolarizing, 0.1": cirq.depolarize(0.1),
    "amplitude damping, 0.01": cirq.amplitude_damp(0.01),
}


def main() -> None:
    """Print the table."""
    columns = ["qubits", "forward", "Cirq", "default.mixed", "times", "gradient",
               "default.mixed", "times"]  # fmt: skip
    print(f"Batches of {BATCH}, {LAYERS} layers, complex64, ms per circuit:\n")
    print(markdown.table(columns, [measure(qubits) for qubits in QUBITS]))
    columns = ["noise", "qfleet", "qsim", "times", "qfleet's gradient"]
    for threads in (1, len(os.sched_getaffinity(0))):
        print(f"\n{TRAJECTORIES} trajectories of {WIDE} qubits, ms, threads: {threads}\n")
        qfleet.set_num_threads(threads)
        rows = [measure_trajectories(name, threads) for name in CHANNELS]
        print(markdown.table(columns, rows))


def measure_trajectories(name: str, threads: int) -> list[str]:
    """Return a row of the table of trajectories; qfleet has `threads` threads already."""
    circuit, inputs, parameters = noisy_circuit(WIDE, CHANNELS[name])
    last = cirq.LineQubit(WIDE - 1)
    random = np.random.default_rng(0)
    row = random.uniform(-1, 1, len(inputs))
    weights = random.uniform(-1, 1, len(parameters))
    compiled = qfleet.compile(
        circuit, inputs, parameters, [cirq.Z(last)], dtype="complex64", trajectories=TRAJECTORIES
    )
    resolved = cirq.resolve_parameters(
        circuit, dict(zip([*inputs, *parameters], [*row, *weights], strict=True))
    )
    measured = resolved + cirq.measure(last, key="z")

    def qsim(fused: int) -> float:
        options = qsimcirq.QSimOptions(cpu_threads=threads, max_fused_gate_size=fused)
        found = qsimcirq.QSimSimulator(options, seed=1).run(measured, repetitions=TRAJECTORIES)
        return 1 - 2 * float(found.measurements["z"].mean())

    def value() -> float:
        return float(compiled.expectation(row, weights)[0])

    # The difference has a standard deviation of at most 2 / sqrt(trajectories).
    np.testing.assert_allclose(value(), qsim(4), atol=8 / TRAJECTORIES**0.5)
    calls: list[Callable[[], object]] = [
        value,
        lambda: qsim(2),
        lambda: qsim(4),
        lambda: compiled.vjp(row, weights, np.ones(1), input_gradients=False),
    ]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for call, seconds in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            seconds.append(1e3 * (time.perf_counter() - start))
    own, two, four, slopes = map(statistics.median, times)
    other = min(two, four)
    return [name, f"{own:.3g}", f"{other:.3g}", f"{other / own:.0f}", f"{slopes:.3g}"]


def measure(qubits: int) -> list[str]:
    """Return a row of the table."""
    random = np.random.default_rng(qubits)
    inputs = random.uniform(-1, 1, (BATCH, qubits)).astype(np.float32)
    parameters = random.uniform(-1, 1, LAYERS * qubits).astype(np.float32)
    compiled = compile_circuit(qubits)
    upstream = np.ones((BATCH, 1), np.float32)
    cirq_forward = cirq_function(qubits)
    forward, gradient = pennylane_functions(qubits)

    def own_gradient() -> np.ndarray:
        return compiled.vjp(inputs, parameters, upstream, input_gradients=False).parameters

    expected = compiled.expectation(inputs, parameters)[:, 0]
    np.testing.assert_allclose(cirq_forward(inputs[0], parameters), expected[0], atol=1e-5)
    np.testing.assert_allclose(forward(inputs, parameters), expected, atol=1e-5)
    np.testing.assert_allclose(gradient(inputs, parameters), own_gradient(), atol=1e-3)
    calls: list[tuple[int, Callable[[], object]]] = [
        (BATCH, lambda: compiled.expectation(inputs, parameters)),
        (1, lambda: cirq_forward(inputs[0], parameters)),
        (BATCH, lambda: forward(inputs, parameters)),
        (BATCH, own_gradient),
        (BATCH, lambda: gradient(inputs, parameters)),
    ]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for (circuits, call), seconds in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            seconds.append(1e3 * (time.perf_counter() - start) / circuits)
    own, of_cirq, mixed, slopes, mixed_slopes = map(statistics.median, times)
    return [
        *(str(qubits), f"{own:.3g}", f"{of_cirq:.3g}", f"{mixed:.3g}"),
        f"{of_cirq / own:.0f}, {mixed / own:.0f}",
        *(f"{slopes:.3g}", f"{mixed_slopes:.3g}", f"{mixed_slopes / slopes:.0f}"),
    ]


def compile_circuit(qubits: int) -> qfleet.CompiledCircuit:
    """Return qfleet's circuit."""
    circuit, inputs, parameters = noisy_circuit(qubits)
    observables = [cirq.Z(cirq.LineQubit(qubits - 1))]
    return qfleet.compile(circuit, inputs, parameters, observables, dtype="complex64")


def noisy_circuit(
    qubits: int, noise: cirq.Gate = DEPOLARIZING
) -> tuple[cirq.Circuit, list[str], list[str]]:
    """Return the circuit, its inputs and its parameters."""
    line = cirq.LineQubit.range(qubits)
    inputs = [f"x{at}" for at in range(qubits)]
    parameters = [f"p{at}" for at in range(LAYERS * qubits)]
    circuit = cirq.Circuit()
    for qubit, name in zip(line, inputs, strict=True):
        circuit += [cirq.rx(sympy.Symbol(name))(qubit), noise(qubit)]
    for layer in range(LAYERS):
        for at, qubit in enumerate(line):
            circuit += [cirq.ry(sympy.Symbol(f"p{layer * qubits + at}"))(qubit), noise(qubit)]
        for at in range(qubits - 1):
            circuit += [cirq.CNOT(*line[at : at + 2]), noise.on_each(*line[at : at + 2])]
    return circuit, inputs, parameters


def cirq_function(qubits: int) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return Cirq's expectation value, of one example."""
    circuit, inputs, parameters = noisy_circuit(qubits)
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex64)
    observable = cirq.PauliSum.wrap(cirq.Z(cirq.LineQubit(qubits - 1)))

    def value(row: np.ndarray, weights: np.ndarray) -> float:
        symbols = dict(zip([*inputs, *parameters], [*row, *weights], strict=True))
        found = simulator.simulate_expectation_values(circuit, observable, symbols)
        return float(np.real(found[0]))

    return value


def pennylane_functions(qubits: int) -> tuple[Callable, Callable]:
    """Return the values of a batch, and the gradient of their sum by PyTorch."""
    device = qml.device("default.mixed", wires=qubits)

    @qml.qnode(device, interface="torch", diff_method="backprop")
    def circuit(inputs: torch.Tensor, parameters: torch.Tensor) -> qml.measurements.ExpectationMP:
        for wire in range(qubits):
            qml.RX(inputs[:, wire], wire)
            qml.DepolarizingChannel(RATE, wire)
        for layer in range(LAYERS):
            for wire in range(qubits):
                qml.RY(parameters[layer * qubits + wire], wire)
                qml.DepolarizingChannel(RATE, wire)
            for wire in range(qubits - 1):
                qml.CNOT([wire, wire + 1])
                qml.DepolarizingChannel(RATE, wire)
                qml.DepolarizingChannel(RATE, wire + 1)
        return qml.expval(qml.Z(qubits - 1))

    def forward(inputs: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return circuit(torch.tensor(inputs), torch.tensor(parameters)).numpy()

    def gradient(inputs: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        weights = torch.tensor(parameters, requires_grad=True)
        circuit(torch.tensor(inputs), weights).sum().backward()
        assert weights.grad is not None
        return weights.grad.numpy()

    return forward, gradient


if __name__ == "__main__":
    main()
