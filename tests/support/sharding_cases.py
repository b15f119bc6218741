"""Circuits whose states are sharded over processes, and their arguments."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import cirq
import numpy as np
import sympy

from qfleet.circuits.qcnn import qcnn
from tests.support import random_circuits


@dataclass(frozen=True)
class ShardingCase:
    """A circuit to be simulated and differentiated.

    Attributes:
        circuit: With symbols in `inputs` and `parameters`.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        observables: Observables to read.
        batch: Number of examples.
        takes_states: If each example starts at a random state.
    """

    circuit: cirq.Circuit
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    observables: tuple[cirq.PauliSum, ...]
    batch: int
    takes_states: bool = False

    def arguments(self, name: str) -> tuple[np.ndarray, ...]:
        """Return float32 [batch, inputs] angles and [parameters], equal in every process.

        Initial states [batch, 2**qubits], if any, come last.
        """
        draw = np.random.default_rng(zlib.crc32(name.encode()))
        angles = draw.uniform(-2, 2, (self.batch, len(self.inputs)))
        parameters = draw.uniform(-2, 2, len(self.parameters))
        found = angles.astype(np.float32), parameters.astype(np.float32)
        if not self.takes_states:
            return found
        shape = (self.batch, 2 ** len(self.circuit.all_qubits()))
        states = draw.normal(size=shape) + 1j * draw.normal(size=shape)
        states /= np.linalg.norm(states, axis=1, keepdims=True)
        return *found, states.astype(np.complex64)

    def upstream(self, name: str, rank: int) -> np.ndarray:
        """Return float32 [batch, readouts] gradients of a process's loss by the readouts."""
        draw = np.random.default_rng(zlib.crc32(name.encode()) + 1 + rank)
        return draw.normal(size=(self.batch, len(self.observables))).astype(np.float32)


def qcnn_case(qubits: int, batch: int) -> ShardingCase:
    """Return a QCNN."""
    model = qcnn(qubits, encoder="angle", features=qubits)
    return ShardingCase(
        model.circuit,
        tuple(model.inputs),
        tuple(model.parameters),
        tuple(model.observables),
        batch,
    )


def brickwork_case(qubits: int, layers: int, batch: int) -> ShardingCase:
    """Return a circuit that uses every qubit until the end, with X, Y and Z on all qubits."""
    line = cirq.LineQubit.range(qubits)
    circuit = cirq.Circuit(
        cirq.ry(sympy.Symbol(f"x{at % 3}") + at).on(q) for at, q in enumerate(line)
    )
    for layer in range(layers):
        for at in range(layer % 2, qubits - 1, 2):
            circuit.append((cirq.XX ** sympy.Symbol(f"s{layer}")).on(*line[at : at + 2]))
            circuit.append(cirq.rz(sympy.Symbol(f"t{layer}")).on(line[at]))
    every = cirq.DensePauliString(("XYZ" * qubits)[:qubits]).on(*line)
    pairs = cirq.PauliSum() + 0.25
    for at in range(qubits - 1):
        pairs += 0.5 * cirq.X(line[at]) * cirq.Y(line[at + 1])
    ends = cirq.Z(line[0]) * cirq.Z(line[-1]) + cirq.PauliSum()
    names = [f"{kind}{layer}" for layer in range(layers) for kind in "st"]
    return ShardingCase(
        circuit, ("x0", "x1", "x2"), tuple(names), (cirq.PauliSum() + every, pairs, ends), batch
    )


def random_case(seed: int, qubits: int, gates: int, batch: int) -> ShardingCase:
    """Return a random circuit with data and trained symbols in any expression."""
    draw = random_circuits._Draw(Random(seed), list(cirq.LineQubit.range(qubits)))
    circuit = cirq.Circuit(cirq.H.on_each(draw.qubits))
    circuit.append(draw.operation() for _ in range(gates))
    observables = [draw.observable() + cirq.Z(draw.qubits[-1]) * 0.5 for _ in range(2)]
    return ShardingCase(
        circuit, random_circuits.INPUTS, random_circuits.PARAMETERS, tuple(observables), batch
    )


CASES: dict[int, dict[str, Callable[[], ShardingCase]]] = {
    2: {
        "qcnn of 14": lambda: qcnn_case(14, 3),
        "bricks of 8": lambda: brickwork_case(8, 4, 17),
        "random of 6": lambda: random_case(1, 6, 8, 3),
        "random of 10": lambda: random_case(2, 10, 10, 1),
        "no example": lambda: qcnn_case(8, 0),
        "bricks from states": lambda: replace(brickwork_case(8, 3, 5), takes_states=True),
    },
    4: {
        "qcnn of 12": lambda: qcnn_case(12, 2),
        "bricks of 7": lambda: brickwork_case(7, 3, 2),
    },
    8: {"bricks of 9": lambda: brickwork_case(9, 2, 2)},
}
"""Cases by the number of processes."""
