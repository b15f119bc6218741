"""What a model needs to know of its circuit."""

from dataclasses import dataclass

import cirq


@dataclass(frozen=True)
class ModelCircuit:
    """A circuit with its data symbols, its trained symbols and its readouts.

    Attributes:
        circuit: All of it: state preparation, encoding, trained part.
        inputs: Data symbols, a value per example, in radians; the order of the angles' columns.
        parameters: Trained symbols, shared by all examples, in radians.
        observables: Readouts; expectation values in [-1, 1].
        qubits: The qubits, in Cirq's order.
        layers: `parameters` again, by layer from the first on.
    """

    circuit: cirq.Circuit
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    observables: tuple[cirq.PauliSum, ...]
    qubits: tuple[cirq.Qid, ...]
    layers: tuple[tuple[str, ...], ...]
