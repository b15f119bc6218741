"""`lightning` and `qsim`: PennyLane's lightning.qubit and qsimcirq, as their users write them.

python -m benchmarks.run_peers lightning|qsim
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import cirq
import numpy as np
import pennylane as qml
import qsimcirq
import sympy
from pennylane import numpy as pnp

from benchmarks.circuit_models import BenchmarkModel, DrawnInputs, draw, model
from benchmarks.subprocess_protocol import Channel, Message, peak_gib, versions

ROUND_S = 0.4  # how long a round should take; a batch that is longer is a round
TRIED = 2  # examples that a way to run is tried with
SLOW_S = (
    2.0  # a try that takes longer is not followed by others: Python's part does not matter then
)
CHECKED = 2  # examples whose readouts are compared

Run = Callable[[np.ndarray], Any]  # angles [B, inputs] -> readouts [B, K] or gradients


def answer(system: str, talk: Channel, request: Message) -> None:
    """Time a cell in the system's fastest way, one round a message."""
    cell, task = request["cell"], request["task"]
    of = model(cell["model"], cell["qubits"])
    batch = cell["batch"]
    drawn = draw(of, batch, cell["turned"])
    begun = time.perf_counter()
    ways = (_lightning if system == "lightning" else _qsim)(of, drawn, task)
    few = drawn.angles[:TRIED]
    tried = {}
    for name, (run, _) in ways.items():
        tried[name] = _seconds(run, few)
        if tried[name] > SLOW_S:
            break
        tried[name] = _seconds(run, few)  # the first call loads and builds
    way = min(tried, key=tried.__getitem__)
    run, read = ways[way]
    step = tried[way] * batch / len(few)
    times = max(1, int(ROUND_S / step))
    values = np.asarray(read(drawn.angles[:CHECKED]), float)
    first = time.perf_counter() - begun
    talk.say({"values": values.tolist(), "first_step_s": first, "way": way})
    for _ in range(request["rounds"]):
        talk.hear()
        seconds = sum(_seconds(run, drawn.angles) for _ in range(times))
        talk.say({"ms": seconds * 1e3 / (times * batch), "peak_gib": peak_gib()})


def _seconds(run: Run, angles: np.ndarray) -> float:
    begun = time.perf_counter()
    run(angles)
    return time.perf_counter() - begun


def _lightning(of: BenchmarkModel, drawn: DrawnInputs, task: str) -> dict[str, tuple[Run, Run]]:
    """PennyLane: examples in a loop, or as one broadcast call."""
    wires = {qubit: at for at, qubit in enumerate(sorted(of.circuit.all_qubits()))}
    operations = [_translated(operation, of) for operation in of.circuit.all_operations()]
    observables = [wires[qubit] for readout in of.observables for qubit in readout.qubits]
    device = qml.device("lightning.qubit", wires=len(wires), batch_obs=True, c_dtype=np.complex64)

    @qml.qnode(device, diff_method="adjoint")
    def circuit(angles: Any, parameters: Any) -> Any:
        for gate, qubits, coefficient, source, at in operations:
            on = [wires[qubit] for qubit in qubits]
            if source is None:
                gate(wires=on)
            else:
                value = angles[..., at] if source == "data" else parameters[at]
                gate(coefficient * value, wires=on)
        return [qml.expval(qml.Z(wire)) for wire in observables]

    def looped(angles: Any, parameters: Any) -> Any:
        return qml.math.stack([qml.math.stack(circuit(row, parameters)) for row in angles])

    def broadcast(angles: Any, parameters: Any) -> Any:
        return qml.math.transpose(qml.math.stack(circuit(angles, parameters)))

    def way(readouts: Callable[[Any, Any], Any]) -> tuple[Run, Run]:
        first = pnp.array(drawn.parameters, requires_grad=True)
        dense = [pnp.array(array, requires_grad=True) for layer in drawn.dense for array in layer]

        def read(angles: np.ndarray) -> Any:
            return readouts(pnp.array(angles, requires_grad=False), first)

        def model_of(angles: Any, parameters: Any, *dense: Any) -> Any:
            values = readouts(angles, parameters)
            for layer in range(0, len(dense), 2):
                values = values @ dense[layer] + dense[layer + 1]
                values = pnp.tanh(values) if layer + 2 < len(dense) else values
            return values

        def forward(angles: np.ndarray) -> Any:
            return model_of(pnp.array(angles, requires_grad=False), first, *dense)

        def step(angles: np.ndarray) -> Any:
            given = pnp.array(angles, requires_grad=False)
            labels = pnp.array(drawn.labels[: len(angles)], requires_grad=False)

            def loss(*weights: Any) -> Any:
                return pnp.mean((model_of(given, *weights) - labels) ** 2)

            return qml.AdamOptimizer(0.01).step(loss, first, *dense)

        return (step if task == "train" else forward), read

    return {"loop": way(looped), "broadcast": way(broadcast)}


_GATES = {
    cirq.XPowGate: qml.RX,
    cirq.YPowGate: qml.RY,
    cirq.ZPowGate: qml.RZ,
    cirq.XXPowGate: qml.IsingXX,
    cirq.YYPowGate: qml.IsingYY,
    cirq.ZZPowGate: qml.IsingZZ,
}
_FIXED = {cirq.H: qml.Hadamard, cirq.CZ: qml.CZ, cirq.CNOT: qml.CNOT}


def _translated(operation: cirq.Operation, of: BenchmarkModel) -> tuple:
    """A gate as PennyLane's: (gate, qubits, coefficient, "data", "trained" or None, index).

    A power t of a Pauli product is a rotation by pi t, up to a phase that no readout sees.
    """
    gate = operation.gate
    if gate in _FIXED:
        return _FIXED[gate], operation.qubits, 1.0, None, 0
    kind = next(kind for known, kind in _GATES.items() if isinstance(gate, known))
    angle = sympy.sympify(gate.exponent) * sympy.pi
    (symbol,) = angle.free_symbols
    coefficient = float(angle.coeff(symbol))
    if symbol.name in of.inputs:
        return kind, operation.qubits, coefficient, "data", of.inputs.index(symbol.name)
    return kind, operation.qubits, coefficient, "trained", of.parameters.index(symbol.name)


def _qsim(of: BenchmarkModel, drawn: DrawnInputs, task: str) -> dict[str, tuple[Run, Run]]:
    """qsim: examples in a loop, with each number of threads and widest fused gate.

    The trained symbols are bound beforehand: a model that is only read binds them once.
    """
    if task == "train":
        raise ValueError("qsim has no gradients")
    bound = cirq.resolve_parameters(
        of.circuit, dict(zip(of.parameters, map(float, drawn.parameters), strict=True))
    )
    cores = len(os.sched_getaffinity(0))

    def way(threads: int, fused: int) -> tuple[Run, Run]:
        simulator = qsimcirq.QSimSimulator({"t": threads, "f": fused})

        def forward(angles: np.ndarray) -> Any:
            return [
                np.real(
                    simulator.simulate_expectation_values(
                        bound,
                        list(of.observables),
                        dict(zip(of.inputs, map(float, row), strict=True)),
                    )
                )
                for row in angles
            ]

        return forward, forward

    return {
        f"{threads} threads, gates fused to {fused} qubits": way(threads, fused)
        for threads in sorted({1, cores})
        for fused in (2, 3, 4)
    }


if __name__ == "__main__":
    system = sys.argv[1]
    talk = Channel()
    packages = {
        "lightning": ["pennylane", "pennylane-lightning"],
        "qsim": ["qsimcirq", "cirq-core"],
    }
    talk.serve(
        {"versions": versions(packages[system])}, lambda request: answer(system, talk, request)
    )
