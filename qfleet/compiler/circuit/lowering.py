"""Lowering of Cirq circuits to factors on one or two qubits.

Every EigenGate is one factor (Cirq defines it by its eigenspaces; the global shift is added to
their half-turns), and so are its controlled forms. All other parametrized gates are decomposed to
these by Cirq.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import cirq
import numpy as np
import sympy

from qfleet.compiler.circuit import expressions, parity
from qfleet.compiler.circuit.channel import MAX_CHANNEL_QUBITS, NoiseChannel, channel_of
from qfleet.compiler.circuit.factor import Factor, fixed_factor, parametrized_factor
from qfleet.compiler.circuit.plain_operations import CONSTANTS, plain, with_values
from qfleet.compiler.circuit.synthesis import decompose, decompose_once, synthesize
from qfleet.errors import CircuitError, LibraryError

NO_QUDITS = "qudits are not supported; use qubits"
MAX_ERROR_LENGTH = 200  # characters of an error of Cirq in another one
MAX_NAME_LENGTH = 80  # characters of a gate in an error message
# Gates on one or two qubits that only their eigenspaces, exponent and shift define.
PLAIN_GATES = frozenset(
    {cirq.XPowGate, cirq.YPowGate, cirq.ZPowGate, cirq.Rx, cirq.Ry, cirq.Rz, cirq.HPowGate}
    | {cirq.CXPowGate, cirq.CZPowGate, cirq.SwapPowGate, cirq.ISwapPowGate}
    | {cirq.XXPowGate, cirq.YYPowGate, cirq.ZZPowGate, cirq.MSGate}
    | {type(cirq.X), type(cirq.Y), type(cirq.Z)}
)
UNITARY_TOLERANCE = 1e-5  # of a matrix, whose numbers may be float32
MATRIX_QUBITS = 4  # the widest gate without parameters that is synthesized from its unitary


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
    location = _Location(operation, moment, next(iter(operation.qubits), qubit), allows_noise)
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


@dataclass(frozen=True)
class _Location:
    operation: cirq.Operation
    moment: int
    qubit: cirq.Qid | None  # for a phase; None in a circuit without qubits
    allows_noise: bool

    def error(self, reason: str) -> CircuitError:
        return CircuitError(
            f"{describe_location(self.operation, self.moment)} cannot be simulated: {reason}"
        )

    def refuse(self, reason: str) -> NoReturn:
        """Refuse an operation that Cirq cannot decompose; its error, if there is one, follows."""
        try:
            decompose_once(self.operation)
        except Exception as error:
            raise self.error(f"{reason} ({describe_error(error)})") from error
        raise self.error(reason)


def describe_error(error: Exception) -> str:
    """Describe an error of Cirq, or of a class of the user, in one line."""
    text = " ".join(str(error).split())[:MAX_ERROR_LENGTH]
    is_plain = isinstance(error, ValueError | ArithmeticError) and text
    return text if is_plain else f"{type(error).__name__}: {text}".removesuffix(": ")


def describe_location(operation: cirq.Operation, moment: int) -> str:
    """Describe an operation for an error message: its gate, moment and qubits."""
    gate = operation.gate if operation.gate is not None else operation.untagged
    try:
        name = str(gate)
    except Exception:  # of the class of the gate
        name = ""
    if not name or "\n" in name or len(name) > MAX_NAME_LENGTH:
        name = type(gate).__name__
    qubits = ", ".join(str(qubit) for qubit in operation.qubits)
    return f"the gate {name} in moment {moment} on qubits {qubits}"


def _lower(operation: cirq.Operation, location: _Location) -> Iterator[Factor | NoiseChannel]:
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
        yield _channel(operation, location)
    else:
        yield from _lower_fixed(operation, location)


def _channel(operation: cirq.Operation, location: _Location) -> NoiseChannel:
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


def _lower_fixed(operation: cirq.Operation, location: _Location) -> Iterator[Factor | NoiseChannel]:
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


def _unitary(operation: cirq.Operation, location: _Location) -> np.ndarray:
    matrix: np.ndarray = cirq.unitary(operation)
    product = matrix.conj().T @ matrix
    if not np.allclose(product, np.eye(len(matrix)), atol=UNITARY_TOLERANCE):  # or NaN
        raise location.error("its matrix is not unitary, or not finite")
    return matrix


def _lower_parametrized(
    operation: cirq.Operation, location: _Location
) -> Iterator[Factor | NoiseChannel]:
    gate = operation.gate
    qubits = operation.qubits
    if (factor := _as_factor(gate, qubits, location)) is not None:
        yield from _narrow(factor, location)
        return
    if isinstance(gate, cirq.ControlledGate) and len(qubits) <= MATRIX_QUBITS:
        inner, controls = gate.sub_gate, gate.num_controls()
        if (factor := _as_factor(inner, qubits[controls:], location)) is not None:
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


def _as_factor(
    gate: cirq.Gate | None, qubits: tuple[cirq.Qid, ...], location: _Location
) -> Factor | None:
    """Return a parametrized gate as one factor; None if it cannot be one."""
    if isinstance(gate, cirq.GlobalPhaseGate):
        return _phase_factor(gate, location)
    if isinstance(gate, cirq.EigenGate) and _only_exponent(gate):
        wide = len(qubits) > 2
        if not wide or (len(qubits) <= MATRIX_QUBITS and decompose(gate.on(*qubits)) is None):
            return _eigen_factor(qubits, gate, location)
    return None


def _narrow(factor: Factor, location: _Location) -> Iterator[Factor | NoiseChannel]:
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


def _only_exponent(gate: cirq.EigenGate) -> bool:
    """Return True if symbols occur in the exponent only (PhasedISwap also has a phase)."""
    if not cirq.is_parameterized(gate):
        return True
    try:
        return not cirq.is_parameterized(gate._with_exponent(1.0))
    except TypeError:
        return False


def _eigen_factor(
    qubits: tuple[cirq.Qid, ...], gate: cirq.EigenGate, location: _Location
) -> Factor:
    # The eigenspaces do not depend on the exponent, which may be a symbol.
    unit = gate._with_exponent(1.0)
    half_turns, projectors = _eigenspaces(unit, unit._global_shift)
    return _factor(qubits, half_turns, projectors, sympy.sympify(gate.exponent), location)


def _factor(
    qubits: tuple[cirq.Qid, ...],
    half_turns: np.ndarray,
    projectors: np.ndarray,
    exponent: sympy.Expr,
    location: _Location,
) -> Factor:
    """Return a factor with an exponent, which may be a number."""
    exponent = _require_supported(exponent, location)
    if exponent.free_symbols:
        return parametrized_factor(qubits, half_turns, projectors, exponent)
    phases = np.exp(1j * np.pi * half_turns * expressions.real_number(exponent))
    return fixed_factor(qubits, np.einsum("k,kij->ij", phases, projectors))


def _eigenspaces(gate: cirq.EigenGate, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the half-turns [K], shifted, and the projectors [K, D, D] of a gate's eigenspaces."""
    components = gate._eigen_components()
    half_turns = np.array([float(one) + shift for one, _ in components])
    return half_turns, np.stack([np.asarray(p, np.complex128) for _, p in components])


def _phase_factor(gate: cirq.GlobalPhaseGate, location: _Location) -> Factor:
    """Return `exp(i pi t)` on no qubit, from powers such as `I**s` and `exp(I*s)`."""
    exponent = sympy.Integer(0)
    coefficient = sympy.sympify(gate.coefficient)
    constant, rest = coefficient.as_independent(*coefficient.free_symbols, as_Add=False)
    for part in (constant, *sympy.Mul.make_args(rest)):
        base, power = part.as_base_exp() if part.free_symbols else (part, sympy.Integer(1))
        if base == sympy.E:
            real, imaginary = expressions.real_and_imaginary(power)
            exponent += (imaginary - sympy.I * real) / sympy.pi
        elif base.free_symbols or not np.isclose(abs(expressions.number(base)), 1):
            raise location.error(
                f"{part} is not a phase; write phases as powers of numbers of absolute value 1"
            )
        else:
            exponent += float(np.angle(expressions.number(base)) / np.pi) * power
    return _factor((), np.ones(1), np.ones((1, 1, 1)), exponent, location)


def _require_supported(exponent: sympy.Expr, location: _Location) -> sympy.Expr:
    """Return a real exponent if all of it can be evaluated."""
    unsupported = expressions.unsupported(exponent)
    if unsupported is not None:
        real, imaginary = expressions.real_and_imaginary(exponent)
        if imaginary == 0 and expressions.unsupported(real) is None:
            exponent, unsupported = real, None
    if unsupported is not None:
        raise location.error(
            f"its exponent {exponent} contains {unsupported}; allowed are + - * / **, numbers and"
            f" {', '.join(sorted(expressions.FUNCTIONS))}, Min, Max"
        )
    # Symbols are known by name: those of one name but other assumptions are one symbol.
    plain = {symbol: sympy.Symbol(symbol.name) for symbol in exponent.free_symbols}
    different = {symbol: other for symbol, other in plain.items() if symbol != other}
    return exponent.xreplace(different) if different else exponent


def _lower_controlled(
    gate: cirq.ControlledGate, qubits: tuple[cirq.Qid, ...], inner: Factor, location: _Location
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
