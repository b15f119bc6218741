"""The systems `lightning` and `qsim`: idiomatic PennyLane lightning.qubit and qsimcirq.

python -m benchmarks.run_peers lightning|qsim
"""

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

from benchmarks.circuit_models import BenchmarkModel, RandomInputs, model, random_inputs
from benchmarks.subprocess_protocol import Channel, Message, peak_gib, versions
from common.processes import cpu_count
from common.text import plural

ROUND_SECONDS = 0.4  # intended time of a round; a longer batch is a round by itself
TRIAL_EXAMPLES = 2  # examples of a trial of a method
SLOW_SECONDS = 2.0  # after a slower trial there are no others: the overhead of Python is small
COMPARED_EXAMPLES = 2  # examples whose readouts are compared

Run = Callable[[np.ndarray], Any]  # angles [B, inputs] -> readouts [B, K] or gradients


def handle(system: str, channel: Channel, request: Message) -> None:
    """Time a case with the fastest method of the system, with one round per request."""
    case, task = request["case"], request["task"]
    definition = model(case["model"], case["qubits"])
    batch = case["batch"]
    data = random_inputs(definition, batch, case["nonzero_angles"])
    start = time.perf_counter()
    methods = (_lightning if system == "lightning" else _qsim)(definition, data, task)
    few = data.angles[:TRIAL_EXAMPLES]
    trials = {}
    for name, (run, _) in methods.items():
        trials[name] = _seconds(run, few)
        if trials[name] > SLOW_SECONDS:
            break
        trials[name] = _seconds(run, few)  # the first call included the compilation
    method = min(trials, key=trials.__getitem__)
    run, read = methods[method]
    step = trials[method] * batch / len(few)
    times = max(1, int(ROUND_SECONDS / step))
    values = np.asarray(read(data.angles[:COMPARED_EXAMPLES]), float)
    first = time.perf_counter() - start
    channel.send({"values": values.tolist(), "first_step_s": first, "method": method})
    for _ in range(request["rounds"]):
        channel.receive()
        seconds = sum(_seconds(run, data.angles) for _ in range(times))
        channel.send({"ms": seconds * 1e3 / (times * batch), "peak_gib": peak_gib()})


def _seconds(run: Run, angles: np.ndarray) -> float:
    start = time.perf_counter()
    run(angles)
    return time.perf_counter() - start


def _lightning(
    definition: BenchmarkModel, data: RandomInputs, task: str
) -> dict[str, tuple[Run, Run]]:
    """Return the methods of PennyLane: examples in a loop, or as one broadcast call."""
    wires = {qubit: wire for wire, qubit in enumerate(sorted(definition.circuit.all_qubits()))}
    operations = [_translate(op, definition) for op in definition.circuit.all_operations()]
    observables = [wires[qubit] for readout in definition.observables for qubit in readout.qubits]
    device = qml.device("lightning.qubit", wires=len(wires), batch_obs=True, c_dtype=np.complex64)

    @qml.qnode(device, diff_method="adjoint")
    def circuit(angles: Any, parameters: Any) -> Any:
        for gate, qubits, coefficient, source, index in operations:
            targets = [wires[qubit] for qubit in qubits]
            if source is None:
                gate(wires=targets)
            else:
                value = angles[..., index] if source == "data" else parameters[index]
                gate(coefficient * value, wires=targets)
        return [qml.expval(qml.Z(wire)) for wire in observables]

    def looped(angles: Any, parameters: Any) -> Any:
        return qml.math.stack([qml.math.stack(circuit(row, parameters)) for row in angles])

    def broadcast(angles: Any, parameters: Any) -> Any:
        return qml.math.transpose(qml.math.stack(circuit(angles, parameters)))

    def method(readouts: Callable[[Any, Any], Any]) -> tuple[Run, Run]:
        first = pnp.array(data.parameters, requires_grad=True)
        dense = [pnp.array(array, requires_grad=True) for layer in data.dense for array in layer]

        def read(angles: np.ndarray) -> Any:
            return readouts(pnp.array(angles, requires_grad=False), first)

        def predict(angles: Any, parameters: Any, *dense: Any) -> Any:
            values = readouts(angles, parameters)
            for layer in range(0, len(dense), 2):
                values = values @ dense[layer] + dense[layer + 1]
                values = pnp.tanh(values) if layer + 2 < len(dense) else values
            return values

        def forward(angles: np.ndarray) -> Any:
            return predict(pnp.array(angles, requires_grad=False), first, *dense)

        def step(angles: np.ndarray) -> Any:
            inputs = pnp.array(angles, requires_grad=False)
            labels = pnp.array(data.labels[: len(angles)], requires_grad=False)

            def loss(*weights: Any) -> Any:
                return pnp.mean((predict(inputs, *weights) - labels) ** 2)

            return qml.AdamOptimizer(0.01).step(loss, first, *dense)

        return (step if task == "train" else forward), read

    return {"loop": method(looped), "broadcast": method(broadcast)}


_GATES = {
    cirq.XPowGate: qml.RX,
    cirq.YPowGate: qml.RY,
    cirq.ZPowGate: qml.RZ,
    cirq.XXPowGate: qml.IsingXX,
    cirq.YYPowGate: qml.IsingYY,
    cirq.ZZPowGate: qml.IsingZZ,
}
_FIXED = {cirq.H: qml.Hadamard, cirq.CZ: qml.CZ, cirq.CNOT: qml.CNOT}


def _translate(operation: cirq.Operation, definition: BenchmarkModel) -> tuple:
    """Return PennyLane's gate: (gate, qubits, coefficient, "data", "trained" or None, index).

    A power t of a Pauli product is a rotation by pi t, up to a global phase, which has no effect.
    """
    gate = operation.gate
    if gate in _FIXED:
        return _FIXED[gate], operation.qubits, 1.0, None, 0
    kind = next(kind for known, kind in _GATES.items() if isinstance(gate, known))
    angle = sympy.sympify(gate.exponent) * sympy.pi
    (symbol,) = angle.free_symbols
    coefficient = float(angle.coeff(symbol))
    if symbol.name in definition.inputs:
        return kind, operation.qubits, coefficient, "data", definition.inputs.index(symbol.name)
    return kind, operation.qubits, coefficient, "trained", definition.parameters.index(symbol.name)


def _qsim(definition: BenchmarkModel, data: RandomInputs, task: str) -> dict[str, tuple[Run, Run]]:
    """Return the methods of qsim: a loop, by number of threads and width of fused gates.

    Trained symbols are bound in advance, because they are constant in a forward pass.
    """
    if task == "train":
        raise ValueError("qsim has no gradients")
    bound = cirq.resolve_parameters(
        definition.circuit,
        dict(zip(definition.parameters, map(float, data.parameters), strict=True)),
    )
    cores = cpu_count()

    def method(threads: int, fused: int) -> tuple[Run, Run]:
        simulator = qsimcirq.QSimSimulator({"t": threads, "f": fused})

        def forward(angles: np.ndarray) -> Any:
            return [
                np.real(
                    simulator.simulate_expectation_values(
                        bound,
                        list(definition.observables),
                        dict(zip(definition.inputs, map(float, row), strict=True)),
                    )
                )
                for row in angles
            ]

        return forward, forward

    return {
        f"{plural(threads, 'thread')}, gates fused to {fused} qubits": method(threads, fused)
        for threads in sorted({1, cores})
        for fused in (2, 3, 4)
    }


if __name__ == "__main__":
    system = sys.argv[1]
    channel = Channel()
    packages = {
        "lightning": ["pennylane", "pennylane-lightning"],
        "qsim": ["qsimcirq", "cirq-core"],
    }
    channel.serve(
        {"versions": versions(packages[system])}, lambda request: handle(system, channel, request)
    )
