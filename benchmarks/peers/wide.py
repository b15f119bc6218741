"""Serves one peer of the benchmark of wide circuits: python -m benchmarks.peers.wide NAME.

Reads a case as JSON on stdin and writes the result as JSON on stdout. A peer computes a few
readouts of one example; the caller extrapolates to all of them.
"""

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from benchmarks.circuit_models import BenchmarkModel
from benchmarks.peers.gates import GateList, gate_list
from benchmarks.subprocess_protocol import peak_gib
from qfleet.circuits import qcnn
from qfleet.circuits.qcnn import Pooling

if TYPE_CHECKING:
    import jax
    from pennylane.measurements import MeasurementProcess


class WideRequest(TypedDict):
    """A QCNN, and the numbers of readouts to measure, as JSON on stdin."""

    qubits: int
    layers: int
    pool: Pooling
    readouts: list[list[int]]


Function = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From the inputs [I] and the parameters [P] of one example to a result."""

REPETITIONS = 1
PARAMETERS_PER_LAYER = 21
PENNYLANE_GATES = {
    "h": "Hadamard",
    "rxx": "IsingXX",
    "ryy": "IsingYY",
    "rzz": "IsingZZ",
}


class WidePeer(ABC):
    """A simulator of wide circuits.

    Attributes:
        has_gradient: If it differentiates by itself.
    """

    has_gradient = False

    @abstractmethod
    def values(self, circuit: GateList) -> Function:
        """Return a function of the readouts [K]."""

    def gradient(self, circuit: GateList) -> Function:
        """Return a function of the derivatives of the sum of all readouts by the parameters."""
        raise NotImplementedError


class WideQuimb(WidePeer):
    """quimb's Circuit, whose local expectation values are contracted in light cones."""

    def values(self, circuit: GateList) -> Function:
        """Contract the readouts one by one, with one circuit for all of them."""
        import quimb
        import quimb.tensor

        z = quimb.pauli("Z")

        def readouts(inputs: np.ndarray, parameters: np.ndarray) -> np.ndarray:
            simulation = quimb.tensor.Circuit(circuit.qubits)
            for name, wires, angle in _numeric(circuit, inputs, parameters):
                simulation.apply_gate(name.upper(), *angle, *wires)
            return np.array(
                [
                    np.real(simulation.local_expectation(z, wire, optimize="greedy"))
                    for wire in circuit.readouts
                ]
            )

        return readouts


class WideDefaultTensor(WidePeer):
    """PennyLane's default.tensor with the method "tn", which contracts by quimb."""

    def values(self, circuit: GateList) -> Function:
        """Return a QNode of all readouts."""
        import pennylane as qml

        device = qml.device("default.tensor", wires=circuit.qubits, method="tn")

        @qml.qnode(device, diff_method=None)
        def node(inputs: np.ndarray, parameters: np.ndarray) -> list["MeasurementProcess"]:
            for name, wires, angle in _numeric(circuit, inputs, parameters):
                kind = PENNYLANE_GATES.get(name, name.upper())
                getattr(qml, kind)(*angle, wires=wires)
            return [qml.expval(qml.PauliZ(wire)) for wire in circuit.readouts]

        return lambda inputs, parameters: np.array(node(inputs, parameters), float)


class WideTensorCircuit(WidePeer):
    """TensorCircuit-NG on JAX: `lightcone_compile`, then a jitted contraction per readout."""

    has_gradient = True

    def values(self, circuit: GateList) -> Function:
        """Return the jitted readouts."""
        import jax

        compiled = jax.jit(self._readouts(circuit))
        return lambda inputs, parameters: np.asarray(compiled(inputs, parameters))

    def gradient(self, circuit: GateList) -> Function:
        """Return the jitted gradient."""
        import jax

        readouts = self._readouts(circuit)
        compiled = jax.jit(jax.grad(lambda inputs, weights: readouts(inputs, weights).sum(), 1))
        return lambda inputs, parameters: np.asarray(compiled(inputs, parameters))

    def _readouts(self, circuit: GateList) -> Callable[["jax.Array", "jax.Array"], "jax.Array"]:
        import sympy
        import tensorcircuit as tc
        from jax import numpy as jnp

        tc.set_backend("jax")
        tc.set_dtype("complex64")
        symbolic = tc.SymbolCircuit(circuit.qubits)
        for gate in circuit.gates:
            apply = getattr(symbolic, gate.name)
            if gate.values is None:
                apply(*gate.wires)
            else:
                symbol = sympy.Symbol(f"{gate.values}_{gate.index}")
                apply(*gate.wires, theta=gate.coefficient * symbol)
        cones = [tc.compiler.lightcone_compile(symbolic, [wire]) for wire in circuit.readouts]

        def readouts(inputs: "jax.Array", parameters: "jax.Array") -> "jax.Array":
            values = []
            for cone, places in cones:
                bound = {
                    symbol: {"inputs": inputs, "parameters": parameters}[kind][int(index)]
                    for symbol in cone.free_symbols()
                    for kind, _, index in [str(symbol).partition("_")]
                }
                values.append(
                    cone.to_circuit(bound).expectation_ps(
                        z=list(places["observable_qubits"]), reuse=False, enable_lightcone=True
                    )
                )
            return jnp.real(jnp.stack(values))

        return readouts


PEERS = {
    "quimb": WideQuimb,
    "default.tensor": WideDefaultTensor,
    "tensorcircuit": WideTensorCircuit,
}


def wide_gates(qubits: int, layers: int, pool: Pooling) -> GateList:
    """Return the gates of a QCNN. Its CZ gates come as two layers, which keeps cones narrow."""
    made = qcnn(qubits, layers=layers, pool=pool)
    model = BenchmarkModel(
        made.circuit[:0], made.circuit, made.inputs, made.parameters, made.observables, ()
    )
    circuit = gate_list(model)
    fixed = [gate for gate in circuit.gates if gate.name in ("h", "cz")]
    fixed.sort(key=lambda gate: (gate.name == "cz", min(gate.wires) % 2))
    others = [gate for gate in circuit.gates if gate.name not in ("h", "cz")]
    return replace(circuit, gates=(*fixed, *others))


def random_example(qubits: int, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs and the parameters of the example that all systems compute."""
    random = np.random.default_rng(0)
    sizes = qubits, PARAMETERS_PER_LAYER * layers
    inputs, parameters = (random.normal(size=size).astype(np.float32) for size in sizes)
    return inputs, parameters


def _numeric(
    circuit: GateList, inputs: np.ndarray, parameters: np.ndarray
) -> list[tuple[str, tuple[int, ...], tuple[float, ...]]]:
    """Return name, wires and angle of each gate; a fixed gate has no angle."""
    values = {"inputs": inputs, "parameters": parameters}
    return [
        (
            gate.name,
            gate.wires,
            ()
            if gate.values is None
            else (float(gate.coefficient * values[gate.values][gate.index]),),
        )
        for gate in circuit.gates
    ]


def _timed(function: Function, inputs: np.ndarray, parameters: np.ndarray) -> dict[str, object]:
    """Return the seconds of the first call and of the fastest later one, and the result."""
    seconds = []
    for _ in range(1 + REPETITIONS):
        begin = time.perf_counter()
        result = function(inputs, parameters)
        seconds.append(time.perf_counter() - begin)
    return {"first": seconds[0], "step": min(seconds[1:]), "result": np.asarray(result).tolist()}


def measure(name: str, case: WideRequest, readouts: Sequence[int]) -> dict[str, object]:
    """Return the times of some readouts, numbered in the order of the circuit's."""
    circuit = wide_gates(case["qubits"], case["layers"], case["pool"])
    circuit = replace(circuit, readouts=tuple(circuit.readouts[at] for at in readouts))
    inputs, parameters = random_example(case["qubits"], case["layers"])
    peer = PEERS[name]()
    begin = time.perf_counter()
    values = peer.values(circuit)
    results = {"build": time.perf_counter() - begin, "value": _timed(values, inputs, parameters)}
    if peer.has_gradient:
        results["gradient"] = _timed(peer.gradient(circuit), inputs, parameters)
    return results


def main() -> int:
    """Measure each number of readouts of a case; a line of JSON each."""
    case = json.loads(sys.stdin.readline())
    for readouts in case["readouts"]:
        result = measure(sys.argv[1], case, readouts)
        print(json.dumps({**result, "peak_gib": peak_gib()}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
