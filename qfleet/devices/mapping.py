"""Circuits mapped to a device: routed to its best line of qubits, and compiled to its gates."""

from collections.abc import Sequence
from dataclasses import dataclass

import cirq

from qfleet.argument_checks import checked, optional
from qfleet.circuit_checks import CIRCUIT, QUBITS
from qfleet.circuit_checks import qubit as checked_qubit
from qfleet.devices.calibration import Calibration
from qfleet.devices.native_gates import to_native_gates, to_two_qubit_gates
from qfleet.devices.routing import route
from qfleet.engine.arguments import checked_observables
from qfleet.errors import ArgumentError, NoiseError


@dataclass(frozen=True)
class MappedCircuit:
    """A circuit on a device.

    Attributes:
        circuit: Native gates, and pulses as they are, on qubits of the device: line qubits by
            number, or grid qubits.
        observables: The observables on the qubits that have their states in the end.
        qubits: The line of qubits.
    """

    circuit: cirq.Circuit
    observables: tuple[cirq.PauliSum, ...]
    qubits: tuple[cirq.Qid, ...]


@checked(circuit=CIRCUIT, calibration=Calibration.check, qubits=optional(QUBITS))
def map_to_device(
    circuit: cirq.AbstractCircuit,
    calibration: Calibration,
    observables: Sequence[cirq.PauliSum | cirq.PauliString] = (),
    qubits: Sequence[cirq.Qid] | None = None,
) -> MappedCircuit:
    """Map a circuit to a device. Without noise, it has the same expectation values.

    A `qfleet.pulses.PulseGate` on one or two qubits stays as it is, wherever it is routed to: it is
    assumed to be tuned there.

    Args:
        circuit: Unitary gates, whose powers may have symbols.
        calibration: The device.
        observables: Observables of the circuit.
        qubits: All qubits in order; by default those of the circuit and the observables, sorted.

    Raises:
        ArgumentError: An argument has the wrong type, or `qubits` lacks one or has one twice; the
            message names it.
        CircuitError: The circuit has a qudit.
        NoiseError: The device is too small, or a gate can't be compiled to its gates.
    """
    sums = checked_observables(observables)
    used = sorted(circuit.all_qubits().union(*(one.qubits for one in sums)))
    for one in used:
        checked_qubit(one, "a qubit of circuit")
    if qubits is None:
        qubits = used
    _require_all(used, qubits)
    if not qubits:
        raise NoiseError("the circuit and its observables have no qubits")
    routed = route(to_two_qubit_gates(circuit), calibration, qubits)
    native = to_native_gates(routed.circuit, calibration.gate, calibration.pulse)
    moved = tuple(
        cirq.PauliSum.from_pauli_strings([word.map_qubits(dict(routed.final)) for word in one])
        for one in sums
    )
    return MappedCircuit(native, moved, routed.line)


def _require_all(used: Sequence[cirq.Qid], qubits: Sequence[cirq.Qid]) -> None:
    """Check that all qubits are listed, once each."""
    listed = set(qubits)
    if len(listed) < len(qubits):
        twice = next(one for one in qubits if list(qubits).count(one) > 1)
        raise ArgumentError(f"qubits has {twice} more than once: list each qubit once")
    for one in used:
        if one not in listed:
            raise ArgumentError(
                f"qubits lacks {one}, which the circuit or an observable uses: add it"
            )
