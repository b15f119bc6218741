"""Qulacs: reverse-mode gradients in C++, circuit by circuit."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import qulacs
from threadpoolctl import threadpool_limits

from benchmarks.peers.dense_head import Adam, DenseHead
from benchmarks.peers.gates import Gate, gate_list
from benchmarks.peers.peer import Method, Peer, Problem, fastest
from common.processes import cpu_count
from common.text import plural

PAULIS = {"rxx": 1, "ryy": 2, "rzz": 3}


class QulacsPeer(Peer):
    """`ParametricQuantumCircuit.backprop` in a loop over the examples, complex128."""

    packages = ("qulacs",)

    def prepare(self, problem: Problem) -> Method:
        """Return the method with the faster number of threads."""
        return fastest(
            {
                plural(threads, "thread"): partial(_Loop, threads)
                for threads in sorted({1, cpu_count()})
            },
            problem,
        )


class _Loop(Method):
    """A loop over the examples.

    A training step evolves the state for the readouts. Then `backprop` differentiates the sum of
    the readouts, weighted by the loss's derivatives, so one call yields every gradient.
    """

    def __init__(self, threads: int, problem: Problem) -> None:
        self._problem, self._threads = problem, threads
        circuit = gate_list(problem.model)
        self._qubits, self._readouts = circuit.qubits, circuit.readouts
        self._circuit = qulacs.ParametricQuantumCircuit(circuit.qubits)
        self._rotations = [gate for gate in circuit.gates if gate.values is not None]
        for gate in circuit.gates:
            _add(self._circuit, gate)
        self._observables = [self._weighted([wire], [1.0]) for wire in circuit.readouts]
        self._state = qulacs.QuantumState(circuit.qubits)
        self._weights = [problem.parameters.astype(float)]
        self._weights += [array.astype(float) for layer in problem.dense for array in layer]
        self._adam = Adam(self._weights)
        self._set("parameters", self._weights[0])

    def run(self, steps: int) -> None:
        """Run training steps or forward passes."""
        weights = self._weights
        with threadpool_limits(self._threads, user_api="openmp"):
            for _ in range(steps):
                if self._problem.task == "train":
                    weights = self._adam.step(weights, self._gradients(weights)[1])
                else:
                    self._forward(weights)
        self._set("parameters", self._weights[0])

    def check(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute readouts and gradient with the initial weights."""
        if self._problem.task == "train":
            values, gradients = self._gradients(self._weights)
            return values, gradients[0]
        return np.stack([self._evolve(row) for row in self._problem.angles]), None

    def _forward(self, weights: Sequence[np.ndarray]) -> np.ndarray:
        values = np.stack([self._evolve(row) for row in self._problem.angles])
        return DenseHead(weights[1:]).predict(values)

    def _gradients(self, weights: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the readouts [B, K] and the gradients of the loss by all weights."""
        self._set("parameters", weights[0])
        head = DenseHead(weights[1:])
        batch = len(self._problem.angles)
        values, slopes = [], np.zeros(len(weights[0]))
        dense = [np.zeros_like(array) for array in weights[1:]]
        for row, label in zip(self._problem.angles, self._problem.labels, strict=True):
            readouts = self._evolve(row)
            values.append(readouts)
            upstream, found = head.gradients(readouts, label, batch)
            for total, part in zip(dense, found, strict=True):
                total += part
            derivatives = self._circuit.backprop(self._weighted(self._readouts, upstream))
            for gate, derivative in zip(self._rotations, derivatives, strict=True):
                if gate.values == "parameters":
                    slopes[gate.index] -= gate.coefficient * derivative
        return np.stack(values), [slopes, *dense]

    def _evolve(self, angles: np.ndarray) -> np.ndarray:
        """Return the readouts [K] of one example."""
        self._set("inputs", angles)
        self._state.set_zero_state()
        self._circuit.update_quantum_state(self._state)
        return np.array([each.get_expectation_value(self._state) for each in self._observables])

    def _set(self, kind: str, values: np.ndarray) -> None:
        """Set the angles of the rotations. Qulacs rotates by exp(+i angle/2 P)."""
        for position, gate in enumerate(self._rotations):
            if gate.values == kind:
                angle = -gate.coefficient * float(values[gate.index])
                self._circuit.set_parameter(position, angle)

    def _weighted(self, wires: Sequence[int], weights: Sequence[float]) -> qulacs.Observable:
        observable = qulacs.Observable(self._qubits)
        for wire, weight in zip(wires, weights, strict=True):
            observable.add_operator(float(weight), f"Z {wire}")
        return observable


def _add(circuit: qulacs.ParametricQuantumCircuit, gate: Gate) -> None:
    if gate.name in PAULIS:
        paulis = [PAULIS[gate.name]] * len(gate.wires)
        circuit.add_parametric_multi_Pauli_rotation_gate(list(gate.wires), paulis, 0.0)
    elif gate.values is not None:
        getattr(circuit, f"add_parametric_{gate.name.upper()}_gate")(*gate.wires, 0.0)
    else:
        getattr(circuit, f"add_{gate.name.upper()}_gate")(*gate.wires)
