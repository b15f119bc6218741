"""Lowering of Cirq circuits to factors on one or two qubits.

Every EigenGate is one factor (Cirq defines it by its eigenspaces; the global shift is added to
their half-turns), and so are its controlled forms. All other parametrized gates are decomposed to
these by Cirq.
"""

import functools
from collections.abc import Hashable, Iterator

import cirq
import numpy as np

from qfleet.compiler.circuit import parity
from qfleet.compiler.circuit.channel import MAX_CHANNEL_QUBITS, NoiseChannel, channel_of
from qfleet.compiler.circuit.factor import Factor, fixed_factor, parametrized_factor
from qfleet.compiler.circuit.gate_factors import MATRIX_QUBITS, as_factor
from qfleet.compiler.circuit.location import Location, describe_error
from qfleet.compiler.circuit.plain_operations import CONSTANTS, plain, with_values
from qfleet.compiler.circuit.synthesis import decompose, synthesize
from qfleet.errors import LibraryError

NO_QUDITS = "qudits are not supported; use qubits"
# Gates on one or two qubits that only their eigenspaces, exponent and shift define.
PLAIN_GATES = frozenset(
    {cirq.XPowGate, cirq.YPowGate, cirq.ZPowGate, cirq.Rx, cirq.Ry, cirq.Rz, cirq.HPowGate}
    | {cirq.CXPowGate, cirq.CZPowGate, cirq.SwapPowGate, cirq.ISwapPowGate}
    | {cirq.XXPowGate, cirq.YYPowGate, cirq.ZZPowGate, cirq.MSGate}
    | {type(cirq.X), type(cirq.Y), type(cirq.Z)}
)
# Channels that only their numbers define, and that Cirq compares by these.
_PLAIN_CHANNELS = (
    cirq.DepolarizingChannel,
    cirq.AmplitudeDampingChannel,
    cirq.PhaseDampingChannel,
    cirq.GeneralizedAmplitudeDampingChannel,
)
UNITARY_TOLERANCE = 1e-5  # of a matrix, whose numbers may be float32


def lower(circuit: cirq.AbstractCircuit) -> list[Factor]:
    """Lower every operation of a circuit without noise, in order; see `lower_noisy`.

    The product of the factors is the circuit's unitary, global phase included. A phase is a
    multiple of the identity on one of the circuit's qubits.
    """
    factors = lower_noisy(circuit, allows_noise=False)
    return [factor for factor in factors if isinstance(factor, Factor)]


def lower_noisy(
    circuit: cirq.AbstractCircuit, *, allows_noise: bool = True
) -> list[Factor | NoiseChannel]:
    """Lower every operation of a circuit, in order.

    Args:
        circuit: Unitary gates, with symbols in any supported sympy expression, and noise channels
            on one or two qubits.
        allows_noise: If channels are allowed.

    Returns:
        Factors and channels on one or two qubits, first applied first.

    Raises:
        CircuitError: An operation is not supported. The message names the gate, the moment and the
            qubits.
    """
    factors: list[Factor | NoiseChannel] = []
    first = min(circuit.all_qubits(), default=None)
    known: dict[Hashable, Factor | NoiseChannel] = {}
    for index, moment in enumerate(circuit):
        for operation in moment:
            if allows_noise and _is_plain_channel(operation):
                factors.append(_plain_channel(operation.gate).on(operation.qubits))
                continue
            key = gate_key(operation.gate) if type(operation) is cirq.GateOperation else None
            if key in known:
                factors.append(known[key].on(operation.qubits))
                continue
            factors += lower_operation(operation, index, first, allows_noise=allows_noise)
            if key is not None:
                known[key] = factors[-1]
    return factors


def lower_operation(
    operation: cirq.Operation,
    moment: int,
    qubit: cirq.Qid | None = None,
    *,
    allows_noise: bool = True,
) -> list[Factor | NoiseChannel]:
    """Lower an operation; see `lower_noisy`.

    Args:
        operation: The operation.
        moment: Its moment, for the error message.
        qubit: Qubit for the phase of an operation on no qubit.
        allows_noise: If channels are allowed.

    Raises:
        CircuitError: The operation is not supported.
    """
    location = Location(operation, moment, next(iter(operation.qubits), qubit), allows_noise)
    try:
        return list(_lower(operation, location))
    except (LibraryError, MemoryError):
        raise
    except Exception as error:  # of Cirq, or of the class of a gate
        raise location.error(describe_error(error)) from error


def gate_key(gate: cirq.Gate | None) -> Hashable:
    """Return all that the factor of one of the PLAIN_GATES depends on; None for others.

    A wide circuit repeats few gates, and Cirq's own comparison of gates is slow.
    """
    kind = type(gate)
    if kind not in PLAIN_GATES:
        return None
    assert isinstance(gate, cirq.EigenGate)
    exponent, shift, dimension = gate.exponent, gate.global_shift, getattr(gate, "dimension", 2)
    # Eigenphases are multiples of 1, of 1/2 for iSWAP, and the shift adds to them.
    if isinstance(exponent, int | float) and dimension == 2 and 2 * shift % 1 == 0:
        exponent %= 2 if shift % 1 == 0 and kind is not cirq.ISwapPowGate else 4
    key = type(gate)._eigen_components, exponent, shift, dimension
    return key if isinstance(exponent, Hashable) else None


def is_plain(gate: cirq.Gate | None, kinds: type | tuple[type, ...]) -> bool:
    """Return True if a gate is one of the PLAIN_GATES and of some class.

    A user's subclass is not: it may be any gate.
    """
    return type(gate) in PLAIN_GATES and isinstance(gate, kinds)


def _is_plain_channel(operation: cirq.Operation) -> bool:
    return (
        type(operation) is cirq.GateOperation
        and type(operation.gate) in _PLAIN_CHANNELS
        and len(operation.qubits) <= MAX_CHANNEL_QUBITS
    )


@functools.lru_cache(maxsize=1 << 12)  # of a device and its idle times, in many circuits
def _plain_channel(gate: cirq.Gate) -> Factor | NoiseChannel:
    """Return the channel of one of _PLAIN_CHANNELS, on line qubits."""
    (found,) = lower_operation(gate.on(*cirq.LineQubit.range(gate.num_qubits())), 0)
    return found


def _lower(operation: cirq.Operation, location: Location) -> Iterator[Factor | NoiseChannel]:
    operation = plain(operation)
    if any(qubit.dimension != 2 for qubit in operation.qubits):
        raise location.error(NO_QUDITS)
    if isinstance(operation, cirq.ClassicallyControlledOperation):
        raise location.error(
            "classical control needs a measurement, and only unitary gates are supported"
        )
    if cirq.is_measurement(operation):
        raise location.error("it is a measurement; remove it and read observables instead")
    if isinstance(operation, cirq.CircuitOperation):
        parts = decompose(with_values(operation, CONSTANTS))
        if parts is None:
            raise location.error("its repetitions are not a number; resolve them first")
        for part in parts:
            yield from _lower(part, location)
    elif cirq.is_parameterized(operation):
        operation = cirq.resolve_parameters(operation, CONSTANTS)
        if cirq.is_parameterized(operation):
            yield from _lower_parametrized(operation, location)
        else:
            yield from _lower(operation, location)
    elif not cirq.has_unitary(operation):
        parts = None if cirq.kraus(operation, None) is not None else decompose(operation)
        if parts is None:
            yield _channel(operation, location)
        else:
            for part in parts:
                yield from _lower(part, location)
    else:
        yield from _lower_fixed(operation, location)


def _channel(operation: cirq.Operation, location: Location) -> NoiseChannel:
    if not cirq.has_kraus(operation):
        raise location.error("it is neither unitary nor a channel with Kraus operators")
    if not location.allows_noise:
        raise location.error(
            "it is noise, which only the backend qfleet computes, by the method density_matrix or"
            " trajectories, with observables and without an initial state"
        )
    if not 1 <= len(operation.qubits) <= MAX_CHANNEL_QUBITS:
        raise location.error("noise channels act on one or two qubits")
    return channel_of(operation.qubits, cirq.kraus(operation))


def _lower_fixed(operation: cirq.Operation, location: Location) -> Iterator[Factor | NoiseChannel]:
    qubits = operation.qubits
    if not qubits:
        yield from _narrow(fixed_factor((), _unitary(operation, location)), location)
        return
    if len(qubits) <= 2 and cirq.unitary(operation, None) is not None:
        yield fixed_factor(qubits, _unitary(operation, location))
        return
    parts = decompose(operation)  # of BooleanHamiltonianGate, also with symbols
    if parts is not None:
        for part in parts:
            yield from _lower(part, location)
        return
    if len(qubits) > MATRIX_QUBITS:
        location.refuse(
            f"it acts on {len(qubits)} qubits and Cirq has no decomposition of it; matrix gates act"
            f" on at most {MATRIX_QUBITS} qubits"
        )
    for part in synthesize(qubits, _unitary(operation, location)):
        yield from _lower_fixed(part, location)


def _unitary(operation: cirq.Operation, location: Location) -> np.ndarray:
    matrix: np.ndarray = cirq.unitary(operation)
    product = matrix.conj().T @ matrix
    if not np.allclose(product, np.eye(len(matrix)), atol=UNITARY_TOLERANCE):  # or NaN
        raise location.error("its matrix is not unitary, or not finite")
    return matrix


def _lower_parametrized(
    operation: cirq.Operation, location: Location
) -> Iterator[Factor | NoiseChannel]:
    gate = operation.gate
    qubits = operation.qubits
    if (factor := as_factor(gate, qubits, location)) is not None:
        yield from _narrow(factor, location)
        return
    if isinstance(gate, cirq.ControlledGate) and len(qubits) <= MATRIX_QUBITS:
        inner, controls = gate.sub_gate, gate.num_controls()
        if (factor := as_factor(inner, qubits[controls:], location)) is not None:
            yield from _lower_controlled(gate, qubits, factor, location)
            return
        if (parts := decompose(inner.on(*qubits[controls:]))) is not None:
            for part in parts:
                wrapped = part.controlled_by(*qubits[:controls], control_values=gate.control_values)
                yield from _lower(wrapped, location)
            return
    parts = decompose(operation)
    if parts is None:
        location.refuse(
            "it has symbols, and Cirq cannot decompose it into supported gates; write it with"
            " rotations, powers, PhasedX, FSim or their controlled forms"
        )
    for part in parts:
        yield from _lower(part, location)


def _narrow(factor: Factor, location: Location) -> Iterator[Factor | NoiseChannel]:
    """Rewrite a factor on any number of qubits as factors on one and two."""
    if not factor.qubits and location.qubit is not None:
        identities = factor.projectors * np.eye(2)
        yield Factor((location.qubit,), factor.half_turns, identities, factor.exponents)
    elif len(factor.qubits) <= 2:
        yield factor
    elif factor.fixed:
        yield from _lower_fixed(cirq.MatrixGate(factor.matrix).on(*factor.qubits), location)
    else:
        for part in parity.parity_phases(factor):
            yield from _narrow(part, location)


def _lower_controlled(
    gate: cirq.ControlledGate, qubits: tuple[cirq.Qid, ...], inner: Factor, location: Location
) -> Iterator[Factor | NoiseChannel]:
    on = np.zeros(2 ** gate.num_controls())
    for values in gate.control_values.expand():
        on[int("".join(map(str, values)), 2)] = 1
    off = np.kron(np.diag(1 - on), np.eye(2 ** len(inner.qubits)))
    if inner.fixed:  # its exponent is a number
        yield from _narrow(fixed_factor(qubits, off + np.kron(np.diag(on), inner.matrix)), location)
    elif len(qubits) > 2:
        for part in parity.controlled_phases(qubits[: gate.num_controls()], on, inner):
            yield from _narrow(part, location)
    else:
        projectors = np.stack([off, *(np.kron(np.diag(on), p) for p in inner.projectors)])
        half_turns = np.array([0.0, *inner.half_turns[:, 0]])
        yield parametrized_factor(qubits, half_turns, projectors, inner.exponents[0])
