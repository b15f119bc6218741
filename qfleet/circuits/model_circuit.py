"""A circuit and its roles in a model."""

from dataclasses import dataclass

import cirq


@dataclass(frozen=True)
class ModelCircuit:
    """A circuit with its data symbols, its trained symbols and its observables.

    Attributes:
        circuit: State preparation, encoding and trained part.
        inputs: Names of the data symbols, one value per example, in radians, in the order of the
            columns of the angles.
        parameters: Names of the trained symbols, shared by all examples, in radians.
        observables: Observables to read; expectation values are in [-1, 1].
        qubits: The qubits, in Cirq's order.
        layers: `parameters` grouped by layer, from the first on.
        initial: Values of `parameters` in radians around which training begins; empty where it may
            begin anywhere.
        gradient_circuit: The circuit without noise, whose gradients are taken; None for `circuit`.
        initial_states: If the circuit starts at a state per example, which the caller passes.
    """

    circuit: cirq.Circuit
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    observables: tuple[cirq.PauliSum, ...]
    qubits: tuple[cirq.Qid, ...]
    layers: tuple[tuple[str, ...], ...]
    initial: tuple[float, ...] = ()
    gradient_circuit: cirq.Circuit | None = None
    initial_states: bool = False
