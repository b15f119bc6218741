"""Terminal measurements of a circuit: removal, sampled records, and the collapse of a state."""

from collections.abc import Mapping, Sequence

import cirq
import numpy as np

from qfleet.compiler.circuit.location import describe_location
from qfleet.compiler.circuit.lowering import NO_QUDITS
from qfleet.errors import CircuitError

MeasurementOps = Sequence[cirq.Operation]


def split_measurements(circuit: cirq.AbstractCircuit) -> tuple[cirq.Circuit, list[cirq.Operation]]:
    """Separate the measurements of a circuit from its gates.

    Args:
        circuit: Its measurements must be terminal.

    Returns:
        The circuit without measurements, and the measurements in order.

    Raises:
        CircuitError: An operation follows a measurement, or a measurement is not by `cirq.measure`.
    """
    if any(isinstance(op.untagged, cirq.CircuitOperation) for op in circuit.all_operations()):
        try:
            circuit = cirq.unroll_circuit_op(circuit, deep=True, tags_to_check=None)
        except ValueError as error:
            raise CircuitError(f"a CircuitOperation can't be unrolled: {error}") from error
    if not circuit.are_all_measurements_terminal():
        raise CircuitError(
            "the circuit has an operation after a measurement: only terminal measurements are"
            " supported; use cirq.Simulator for others"
        )
    measurements: list[cirq.Operation] = []
    moments = []
    for index, moment in enumerate(circuit):
        measured = [op for op in moment if cirq.is_measurement(op)]
        for operation in measured:
            if not isinstance(operation.gate, cirq.MeasurementGate):
                raise CircuitError(
                    f"{describe_location(operation, index)} is a measurement that is not supported:"
                    " use cirq.measure"
                )
            if any(qubit.dimension != 2 for qubit in operation.qubits):
                raise CircuitError(
                    f"{describe_location(operation, index)} cannot be simulated: {NO_QUDITS}"
                )
        measurements += measured
        others = (op for op in moment if not cirq.is_measurement(op))
        moments.append(cirq.Moment(others) if measured else moment)
    return cirq.Circuit(moments), measurements


def outcomes_of(
    measurements: MeasurementOps, bits: np.ndarray, qubits: Sequence[cirq.Qid]
) -> list[np.ndarray]:
    """Return the outcomes [repetitions, measured qubits] of terminal measurements.

    Args:
        measurements: Operations of `cirq.measure`.
        bits: [repetitions, N] bits of all qubits.
        qubits: The N qubits.
    """
    column = {qubit: at for at, qubit in enumerate(qubits)}
    return [bits[:, [column[qubit] for qubit in one.qubits]] for one in measurements]


def records(
    measurements: MeasurementOps, outcomes: Sequence[np.ndarray], random: np.random.RandomState
) -> dict[str, np.ndarray]:
    """Return the records of measurements by key.

    Args:
        measurements: Operations of `cirq.measure`, in order.
        outcomes: [repetitions, measured qubits] of each.
        random: Source of the errors that a confusion map adds.

    Returns:
        uint8 arrays [repetitions, instances of the key, measured qubits].

    Raises:
        CircuitError: A key is used for different numbers of qubits.
    """
    found: dict[str, list[np.ndarray]] = {}
    for operation, bits in zip(measurements, outcomes, strict=True):
        gate = operation.gate
        assert isinstance(gate, cirq.MeasurementGate)
        measured = bits.astype(np.uint8)
        _apply_confusion(measured, gate.confusion_map, random)
        measured ^= np.array(gate.full_invert_mask(), np.uint8)
        instances = found.setdefault(cirq.measurement_key_name(operation), [])
        if instances and instances[0].shape != measured.shape:
            raise CircuitError(
                f"the measurement key {cirq.measurement_key_name(operation)!r} is used for"
                f" {instances[0].shape[1]} and for {measured.shape[1]} qubits: use different keys"
            )
        instances.append(measured)
    return {key: np.stack(instances, axis=1) for key, instances in found.items()}


def _apply_confusion(
    bits: np.ndarray,
    confusion: Mapping[tuple[int, ...], np.ndarray],
    random: np.random.RandomState,
) -> None:
    """Replace bits by what a faulty readout returns, in place.

    Args:
        bits: [repetitions, measured qubits].
        confusion: Matrices of P(read | true) by the positions of their bits.
        random: Source of the errors.
    """
    for positions, matrix in confusion.items():
        places = 2 ** np.arange(len(positions))[::-1]
        true = bits[:, positions] @ places
        cumulative = np.cumsum(matrix, axis=1)[true]
        read = (random.random_sample(len(bits))[:, None] >= cumulative[:, :-1]).sum(axis=1)
        bits[:, positions] = read[:, None] // places % 2


def collapse(
    state: np.ndarray, index: int, qubits: Sequence[cirq.Qid], measured: set[cirq.Qid]
) -> np.ndarray:
    """Project a state on the outcome of a measurement, and normalize it.

    Args:
        state: [2**N] amplitudes.
        index: Basis state that was drawn.
        qubits: The N qubits, the first the most significant bit.
        measured: The measured qubits.
    """
    width = len(qubits)
    outcome = tuple(
        index >> (width - 1 - at) & 1 if qubit in measured else slice(None)
        for at, qubit in enumerate(qubits)
    )
    projected = np.zeros((2,) * width, state.dtype)
    projected[outcome] = state.reshape((2,) * width)[outcome]
    normalized: np.ndarray = projected / np.linalg.norm(projected)
    return normalized.reshape(-1)
