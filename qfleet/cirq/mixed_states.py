"""Circuits that start at a density matrix, and are evolved as density matrices."""

from collections.abc import Sequence

import cirq
import numpy as np
from numpy.typing import DTypeLike

from qfleet.cirq.measurements import split_measurements
from qfleet.compiler.choose_method import compile_circuit_by
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.engine.point import check_states
from qfleet.errors import ArgumentError, CircuitError


def is_mixed(state: object, qubits: Sequence[cirq.Qid]) -> bool:
    """Return True if an initial state has the shape of a density matrix of these qubits."""
    size = 1 << len(qubits)
    return isinstance(state, np.ndarray) and state.shape == (size, size)


def compile_mixed(
    program: cirq.AbstractCircuit,
    names: Sequence[str],
    points: int,
    observables: Sequence[cirq.PauliSum],
    qubits: Sequence[cirq.Qid],
    noise: cirq.NoiseModel,
    dtype: DTypeLike,
) -> CompiledCircuit:
    """Compile a circuit that takes a density matrix of all qubits.

    Args:
        program: Gates, channels, and measurements at the end, which are left out.
        names: Names of the symbols: inputs if there are several points, else parameters.
        points: Points of the sweep.
        observables: Observables.
        qubits: The circuit's qubits, and further ones.
        noise: The noise after each moment.
        dtype: Of the states.

    Raises:
        CircuitError: An operation follows a measurement, or is not supported.
        MemoryLimitError: The density matrix does not fit into the free memory.
    """
    circuit, _ = split_measurements(program)
    if noise is not cirq.NO_NOISE:
        circuit = cirq.drop_empty_moments(circuit)  # there is no noise after measurements
        circuit = cirq.Circuit(noise.noisy_moments(circuit, sorted(circuit.all_qubits())))
    circuit = cirq.Circuit(cirq.I.on_each(*qubits), circuit)
    inputs, parameters = (names, ()) if points > 1 else ((), names)
    compiled = compile_circuit_by(
        *("density_matrix", circuit, inputs, parameters, observables), takes_states=True
    )
    return CompiledCircuit(compiled, np.dtype(dtype).name)


def starts_of(
    matrix: np.ndarray, qubits: Sequence[cirq.Qid], compiled: CompiledCircuit, points: int
) -> np.ndarray:
    """Return the initial states [points, 2**N, 2**N] of a compiled circuit.

    Args:
        matrix: A density matrix [2**N, 2**N] of `qubits`, the first the most significant bit.
        qubits: The circuit's qubits, in another order.
        compiled: Result of `compile_mixed`.
        points: Points of the sweep.

    Raises:
        CircuitError: The matrix is not Hermitian, not positive, or has another trace than 1.
    """
    width = len(qubits)
    places = [qubits.index(one) for one in compiled.qubits]
    axes = (*places, *(width + place for place in places))
    ordered = matrix.reshape((2,) * 2 * width).transpose(axes).reshape(matrix.shape)
    states = np.ascontiguousarray(ordered, compiled.dtype)[None]
    try:
        check_states(states)
    except ArgumentError as error:
        text = str(error).replace("initial_states[0]", "initial_state")
        raise CircuitError(text.replace("initial_states", "initial_state")) from None
    return np.broadcast_to(states, (points, *matrix.shape))
