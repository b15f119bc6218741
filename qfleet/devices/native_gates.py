"""Compilation of circuits to a device's gates; symbols stay symbols.

Concrete gates of a pair are joined and synthesized together. A power of Z by a symbol is virtual.
Every other power by a symbol becomes one of Z between concrete gates, but for devices with pulses
about any axis, which have powers of X and Y. Timed gates stay as they are.
"""

from collections.abc import Iterator

import cirq
import numpy as np
import sympy

from qfleet.compiler.circuit.lowering import gate_key, is_plain
from qfleet.devices.interactions import join_interactions
from qfleet.devices.timed_gate import is_timed
from qfleet.errors import NoiseError

DIGITS = 10
"""Digits of angles in half turns: the same on every machine."""

_TOLERANCE = 1e-9
_PAULIS = (cirq.XPowGate, cirq.YPowGate, cirq.ZPowGate)
_KEPT = "qfleet: kept as it is"


def to_two_qubit_gates(circuit: cirq.AbstractCircuit) -> cirq.Circuit:
    """Decompose operations on more than two qubits.

    Raises:
        NoiseError: An operation can't be decomposed.
    """
    operations = cirq.decompose(circuit, keep=_is_kept, on_stuck_raise=_stuck)
    return cirq.Circuit(one for one in operations if one.qubits)  # without global phases


def to_native_gates(circuit: cirq.AbstractCircuit, gate: str, pulse: str) -> cirq.Circuit:
    """Compile a circuit on neighbours to a device's gates.

    Args:
        circuit: Operations on one or two qubits.
        gate: The two-qubit gate, of `calibration.GATES`.
        pulse: The gate on one qubit, of `calibration.PULSES`.

    Returns:
        A circuit of that gate, of pulses (X and its square root, or PhasedXPowGate), of virtual
        powers of Z, and of the timed gates; equal to the given one up to a global phase.

    Raises:
        NoiseError: An operation can't be compiled.
    """
    operations = join_interactions(circuit.all_operations())
    expanded = cirq.Circuit(_expand(one) for one in operations)

    def synthesize(joined: cirq.CircuitOperation) -> list[cirq.Operation]:
        if len(joined.qubits) == 1:
            return list(joined.circuit.all_operations())
        return _cz_gates(joined) if gate == "cz" else _sqrt_iswap_gates(joined)

    joined = cirq.merge_k_qubit_unitaries(
        expanded,
        k=2,
        rewriter=synthesize,
        context=cirq.TransformerContext(tags_to_ignore=(_KEPT,)),
    )
    writer = _PulseWriter(pulse)
    for operation in joined.all_operations():
        writer.add(operation)
    return writer.finish()


def _is_kept(operation: cirq.Operation) -> bool:
    is_part = isinstance(operation.untagged, cirq.CircuitOperation)  # which may have timed gates
    return is_timed(operation) or (len(operation.qubits) <= 2 and not is_part)


def _stuck(operation: cirq.Operation) -> NoiseError:
    return NoiseError(f"{str(operation)[:80]} can't be compiled to a device's gates: decompose it")


def _expand(operation: cirq.Operation) -> Iterator[cirq.Operation]:
    """Yield concrete operations, and powers of X, Y and Z on one qubit by symbols."""
    operation = operation.untagged
    gate = operation.gate
    if is_timed(operation):
        yield operation.with_tags(_KEPT)
    elif not cirq.is_parameterized(operation):
        if not cirq.has_unitary(operation):
            raise _stuck(operation)
        yield operation
    elif is_plain(gate, _PAULIS):
        yield operation
    elif is_plain(gate, cirq.ZZPowGate):
        first, second = operation.qubits
        yield cirq.CNOT(first, second)
        yield cirq.Z(second) ** gate.exponent
        yield cirq.CNOT(first, second)
    elif is_plain(gate, cirq.CZPowGate):
        half = gate.exponent / 2
        yield from (cirq.Z(qubit) ** half for qubit in operation.qubits)
        yield from _expand(cirq.ZZPowGate(exponent=-half).on(*operation.qubits))
    elif isinstance(gate, cirq.ControlledGate) and is_plain(gate.sub_gate, _PAULIS):
        yield from _expand_controlled(operation, gate)
    else:
        parts = cirq.decompose_once(operation, None)
        if parts is None:
            raise _stuck(operation)
        for part in parts:
            yield from _expand(part)


def _expand_controlled(
    operation: cirq.Operation, gate: cirq.ControlledGate
) -> Iterator[cirq.Operation]:
    """Yield a controlled rotation: the phase of the rotation is a power of Z of the control."""
    control, target = operation.qubits
    inner = gate.sub_gate
    if gate.control_values != cirq.ProductOfSums([(1,)]):
        raise _stuck(operation)
    turns = {cirq.XPowGate: [cirq.H], cirq.YPowGate: [cirq.S**-1, cirq.H], cirq.ZPowGate: []}
    before = next(turn for kind, turn in turns.items() if isinstance(inner, kind))
    yield from (one(target) for one in before)
    yield from _expand(cirq.CZPowGate(exponent=inner.exponent).on(control, target))
    yield from (cirq.inverse(one)(target) for one in reversed(before))
    if inner.global_shift:
        yield cirq.Z(control) ** (inner.exponent * inner.global_shift)


def _cz_gates(joined: cirq.CircuitOperation) -> list[cirq.Operation]:
    """Return CZ and gates on one qubit: as the gates are, or by the KAK form if it has fewer."""
    plain = [part for one in joined.circuit.all_operations() for part in _plain_cz(one)]
    if _pairs(plain) < 2:  # gates on one qubit can't replace a CZ
        return plain
    matrix = cirq.unitary(joined)
    first, second = joined.qubits
    kak = cirq.two_qubit_matrix_to_cz_operations(
        first, second, matrix, allow_partial_czs=False, clean_operations=False
    )
    return kak if _pairs(kak) < _pairs(plain) else plain


def _plain_cz(operation: cirq.Operation) -> list[cirq.Operation]:
    gate = operation.gate
    if len(operation.qubits) == 1 or gate_key(gate) == gate_key(cirq.CZ):
        return [operation]
    if gate_key(gate) in (gate_key(cirq.CNOT), gate_key(cirq.SWAP)):
        return [part for one in cirq.decompose_once(operation) for part in _plain_cz(one)]
    decomposed: list[cirq.Operation] = cirq.two_qubit_matrix_to_cz_operations(
        *operation.qubits, cirq.unitary(operation), allow_partial_czs=False, clean_operations=False
    )
    return decomposed


def _sqrt_iswap_gates(joined: cirq.CircuitOperation) -> list[cirq.Operation]:
    first, second = joined.qubits
    return list(cirq.two_qubit_matrix_to_sqrt_iswap_operations(first, second, cirq.unitary(joined)))


def _pairs(operations: list[cirq.Operation]) -> int:
    return sum(len(one.qubits) == 2 for one in operations)


class _PulseWriter:
    """Writes gates on one qubit as pulses and virtual rotations; joins concrete ones before."""

    def __init__(self, pulse: str) -> None:
        self._pulse = pulse
        self._waiting: dict[cirq.Qid, np.ndarray] = {}
        self._written: list[cirq.Operation] = []

    def add(self, operation: cirq.Operation) -> None:
        """Append an operation: a pair's or timed gate, a concrete one, or a Pauli gate's power."""
        if len(operation.qubits) == 2 or is_timed(operation):
            for qubit in operation.qubits:
                self._flush(qubit)
            self._written.append(operation.untagged)
        elif not cirq.is_parameterized(operation):
            (qubit,) = operation.qubits
            before = self._waiting.get(qubit, np.eye(2))
            self._waiting[qubit] = cirq.unitary(operation) @ before
        else:
            (qubit,) = operation.qubits
            self._add_power(qubit, operation.gate)

    def finish(self) -> cirq.Circuit:
        """Return the circuit."""
        for qubit in sorted(self._waiting):
            self._flush(qubit)
        return cirq.Circuit(self._written)

    def _add_power(self, qubit: cirq.Qid, gate: cirq.EigenGate) -> None:
        exponent: sympy.Expr = gate.exponent
        if isinstance(gate, cirq.ZPowGate):
            self._flush(qubit)
            self._written.append(cirq.Z(qubit) ** exponent)
        elif self._pulse == "phased_x":
            self._flush(qubit)
            phase = 0.5 if isinstance(gate, cirq.YPowGate) else 0.0
            pulse = cirq.PhasedXPowGate(phase_exponent=phase, exponent=exponent)
            self._written.append(pulse(qubit))
        else:
            # X = H Z H, and Y = S X S^-1.
            turn = [cirq.S**-1, cirq.H] if isinstance(gate, cirq.YPowGate) else [cirq.H]
            for one in turn:
                self.add(one(qubit))
            self._flush(qubit)
            self._written.append(cirq.Z(qubit) ** exponent)
            for one in reversed(turn):
                self.add(cirq.inverse(one)(qubit))

    def _flush(self, qubit: cirq.Qid) -> None:
        matrix = self._waiting.pop(qubit, None)
        if matrix is None:
            return
        pulses = _phased_x_pulse if self._pulse == "phased_x" else _sx_pulses
        self._written += [one(qubit) for one in pulses(matrix)]


def _phased_x_pulse(matrix: np.ndarray) -> Iterator[cirq.Gate]:
    """Yield one turn about an axis of the equator, and a virtual one about Z."""
    gate = cirq.single_qubit_matrix_to_phxz(matrix, atol=_TOLERANCE)
    if gate is None:
        return
    if exponent := round(float(gate.x_exponent), DIGITS):
        phase = round(float(gate.axis_phase_exponent), DIGITS)
        yield cirq.PhasedXPowGate(phase_exponent=phase, exponent=exponent)
    yield from _virtual(float(gate.z_exponent))


def _sx_pulses(matrix: np.ndarray) -> Iterator[cirq.Gate]:
    """Yield at most two quarter turns about X, with virtual turns about Z; X itself is one pulse.

    McKay et al., "Efficient Z gates for quantum computing" (arXiv:1612.00858).
    """
    flip, cosine = abs(matrix[1, 0]), abs(matrix[0, 0])
    theta = 2 * np.arctan2(flip, cosine) / np.pi  # half turns about Y in the form Z Y Z
    if flip < _TOLERANCE:
        yield from _virtual(np.angle(matrix[1, 1] / matrix[0, 0]) / np.pi)
        return
    if cosine < _TOLERANCE:
        yield cirq.X
        yield from _virtual(np.angle(matrix[1, 0] / matrix[0, 1]) / np.pi)
        return
    # matrix = Z^after Y^theta Z^before, up to a phase.
    after = np.angle(matrix[1, 0] / matrix[0, 0]) / np.pi
    before = np.angle(-matrix[0, 1] / matrix[0, 0]) / np.pi
    if abs(theta - 0.5) < _TOLERANCE:
        yield from _virtual(before - 0.5)
        yield cirq.X**0.5
        yield from _virtual(after + 0.5)
        return
    yield from _virtual(before)
    yield cirq.X**0.5
    yield from _virtual(theta + 1)
    yield cirq.X**0.5
    yield from _virtual(after + 1)


def _virtual(exponent: float) -> Iterator[cirq.Gate]:
    turned = round((exponent + 1) % 2 - 1, DIGITS)
    if turned:
        yield cirq.Z**turned
