"""Noise in circuits: channels and coherent errors after each gate."""

import math
from collections.abc import Iterable, Iterator

import cirq

from qfleet.argument_checks import checked, instance, integer
from qfleet.circuit_checks import CIRCUIT, QUBITS
from qfleet.noise_rates import NoiseRates
from qfleet.zne_factors import MAX_FACTOR


@checked(
    circuit=CIRCUIT,
    rates=instance(NoiseRates, "qfleet.noise_rates.NoiseRates"),
    measured=QUBITS,
    readings=integer(0, MAX_FACTOR),
)
def add_noise(
    circuit: cirq.AbstractCircuit,
    rates: NoiseRates,
    measured: Iterable[cirq.Qid] = (),
    *,
    readings: int = 1,
) -> cirq.Circuit:
    """Return a circuit with noise, for `qfleet.compile`.

    Args:
        circuit: Unitary gates.
        rates: The noise of each gate.
        measured: Qubits that observables read, which have the readout error. It is the same for 0
            and 1, and so shrinks each Pauli word by 1 - 2 `rates.readout` per qubit.
        readings: How often a qubit has the readout error, to amplify it by flips of read bits.

    Raises:
        ArgumentError: An argument has the wrong type or value; the message names it.
    """
    noisy = cirq.Circuit()
    for moment in circuit:
        noisy += moment
        for operation in moment:
            noisy += _after(operation, rates)
    if rates.readout:
        read = sorted(set(measured))
        # Depolarizing noise shrinks X, Y and Z of a qubit by 1 - 4 / 3 of its probability.
        for _ in range(readings):
            noisy += cirq.depolarize(1.5 * rates.readout).on_each(*read)
    return noisy


def _after(operation: cirq.Operation, rates: NoiseRates) -> Iterator[cirq.Operation]:
    """Yield the noise of an operation."""
    qubits = operation.qubits
    if len(qubits) == 1 and rates.over_rotation:
        yield cirq.rx(rates.over_rotation).on(*qubits)
    if len(qubits) == 2 and rates.crosstalk:
        yield cirq.ZZPowGate(exponent=rates.crosstalk / math.pi, global_shift=-0.5).on(*qubits)
    if len(qubits) == 2 and rates.two_qubit_depolarizing:
        yield cirq.depolarize(rates.two_qubit_depolarizing, 2).on(*qubits)
    elif rates.depolarizing:
        yield from cirq.depolarize(rates.depolarizing).on_each(*qubits)
    for rate, channel in (
        (rates.amplitude_damping, cirq.amplitude_damp),
        (rates.phase_damping, cirq.phase_damp),
        (rates.bit_flip, cirq.bit_flip),
        (rates.phase_flip, cirq.phase_flip),
    ):
        if rate:
            yield from channel(rate).on_each(*qubits)
