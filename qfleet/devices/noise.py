"""Noise of a device in a mapped circuit: after each gate, while qubits wait, and at the readout."""

import functools
import math
from collections.abc import Iterable, Iterator, Sequence

import cirq

from qfleet.argument_checks import checked, integer
from qfleet.circuit_checks import CIRCUIT
from qfleet.devices.calibration import Calibration
from qfleet.devices.qubit_names import ordered
from qfleet.devices.rates import PairCalibration, QubitCalibration
from qfleet.devices.routing import qubit_name
from qfleet.devices.timed_gate import TimedGate
from qfleet.engine.arguments import checked_observables
from qfleet.errors import NoiseError

_NATIVE = (cirq.XPowGate, cirq.PhasedXPowGate, cirq.CZPowGate, cirq.ISwapPowGate)
_NANOSECONDS = 1e-3  # in microseconds, the unit of T1 and T2


@checked(
    circuit=CIRCUIT,
    calibration=Calibration.check,
    observables=lambda sums, name: checked_observables(sums),
    readings=integer(0),
)
def add_device_noise(
    circuit: cirq.AbstractCircuit,
    calibration: Calibration,
    observables: Sequence[cirq.PauliSum] = (),
    *,
    readings: int = 1,
) -> cirq.Circuit:
    """Return a mapped circuit with the noise of its device, for `qfleet.compile`.

    Each gate is followed by its coherent error, by relaxation for its duration, and by
    depolarizing noise that makes up the rest of its average infidelity. A timed gate, such as a
    pulse, is followed by relaxation for its own duration only. Gates begin as soon as
    their qubits are free; waiting qubits relax, until all readouts begin at once.

    The readout error is exact for a qubit that all observables read in one basis. One that is read
    in several has the mean of both errors, as with readout twirling.

    Args:
        circuit: Circuit of `map_to_device`.
        calibration: The device.
        observables: The mapped observables.
        readings: How often a qubit has the readout error, to amplify it by flips of read bits.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.
        NoiseError: The device has no such gate or qubit, so the circuit is not mapped to it; or
            the circuit was folded, and has timed gates.
    """
    schedule = _Schedule(calibration)
    operations: list[cirq.Operation] = []
    for operation in circuit.all_operations():
        operations += schedule.around(operation)
    letters = read_letters(observables)
    operations += schedule.wait_for_all(letters)
    for qubit, read in sorted(letters.items()):
        for _ in range(readings):
            operations += _readout(qubit_rates(calibration, qubit), qubit, read)
    return cirq.Circuit(operations)


def read_letters(observables: Iterable[cirq.PauliSum]) -> dict[cirq.Qid, set[cirq.Pauli]]:
    """Return the Pauli operators by which observables read each qubit."""
    found: dict[cirq.Qid, set[cirq.Pauli]] = {}
    for observable in observables:
        for word in observable:
            for qubit, letter in word.items():
                found.setdefault(qubit, set()).add(letter)
    return found


@checked(circuit=CIRCUIT, calibration=Calibration.check)
def circuit_duration(circuit: cirq.AbstractCircuit, calibration: Calibration) -> float:
    """Return the time of a mapped circuit on its device in nanoseconds, before the readout.

    Gates begin as soon as their qubits are free; rotations about Z take no time.

    Args:
        circuit: Circuit of `map_to_device`.
        calibration: The device.

    Raises:
        NoiseError: The device has no gate on some qubits, so the circuit is not mapped to it.
    """
    free: dict[cirq.Qid, float] = {}
    for one in circuit.all_operations():
        if isinstance(one.gate, cirq.ZPowGate):
            continue
        duration = _gate_time(one.gate, gate_rates(calibration, one.qubits)[0])
        start = max(free.get(qubit, 0.0) for qubit in one.qubits)
        free |= dict.fromkeys(one.qubits, start + duration)
    return max(free.values(), default=0.0)


def _gate_time(gate: cirq.Gate | None, rates: QubitCalibration | PairCalibration) -> float:
    """Return the nanoseconds of a pulse, or of the device's gate."""
    if isinstance(gate, TimedGate):
        return float(gate.duration.total_nanos())
    return rates.duration


class _Schedule:
    """The times at which qubits are free, in nanoseconds."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._free: dict[cirq.Qid, float] = {}

    def around(self, operation: cirq.Operation) -> Iterator[cirq.Operation]:
        """Yield an operation with the relaxation before, and its errors after it."""
        qubits, gate = operation.qubits, operation.gate
        if isinstance(gate, cirq.ZPowGate):
            yield operation
            return
        rates, angle = gate_rates(self._calibration, qubits)
        duration, error = _gate_time(gate, rates), rates.error
        if isinstance(gate, TimedGate):
            error = angle = 0.0
        elif not isinstance(gate, _NATIVE):
            raise NoiseError(
                f"{str(operation)[:80]} is not a gate of {self._calibration.name}: map the circuit"
                " with map_to_device first, and fold no circuit with pulses"
            )
        start = max(self._free.get(qubit, 0.0) for qubit in qubits)
        yield from self._wait(qubits, start)
        yield operation
        if angle and len(qubits) == 1:
            # About the axis of the pulse.
            phase = getattr(gate, "phase_exponent", 0.0)
            yield cirq.PhasedXPowGate(phase_exponent=phase, exponent=angle / math.pi).on(*qubits)
        elif angle:
            yield cirq.ZZPowGate(exponent=angle / math.pi, global_shift=-0.5).on(*qubits)
        self._free.update(dict.fromkeys(qubits, start + duration))
        times = [self._times(qubit) for qubit in qubits]
        for qubit, (t1, t2) in zip(qubits, times, strict=True):
            yield from (one(qubit) for one in relaxation(duration, t1, t2))
        if probability := depolarizing(error, duration, tuple(times)):
            yield cirq.depolarize(probability, len(qubits)).on(*qubits)

    def wait_for_all(self, qubits: Iterable[cirq.Qid]) -> Iterator[cirq.Operation]:
        """Yield the relaxation of qubits until all gates have ended."""
        yield from self._wait(sorted(qubits), max(self._free.values(), default=0.0))

    def _wait(self, qubits: Iterable[cirq.Qid], end: float) -> Iterator[cirq.Operation]:
        for qubit in qubits:
            # Before its first gate, a qubit is in its ground state.
            idle = end - self._free.get(qubit, end)
            yield from (one(qubit) for one in relaxation(idle, *self._times(qubit)))

    def _times(self, qubit: cirq.Qid) -> tuple[float, float]:
        rates = qubit_rates(self._calibration, qubit)
        return rates.t1, rates.t2


def gate_rates(
    calibration: Calibration, qubits: tuple[cirq.Qid, ...]
) -> tuple[QubitCalibration | PairCalibration, float]:
    """Return the rates of a gate on one or two qubits, and the angle of its coherent error.

    Raises:
        NoiseError: The device has no gate on these qubits.
    """
    if len(qubits) == 1:
        rates = qubit_rates(calibration, *qubits)
        return rates, rates.over_rotation
    names = [qubit_name(qubit) for qubit in qubits]
    pair = calibration.pairs.get(ordered(*names)) if len(names) == 2 else None
    if pair is None:
        raise _not_mapped(calibration, " and ".join(names))
    return pair, pair.crosstalk


def qubit_rates(calibration: Calibration, qubit: cirq.Qid) -> QubitCalibration:
    """Return the rates of a qubit.

    Raises:
        NoiseError: The device has no such qubit.
    """
    found = calibration.qubits.get(qubit_name(qubit))
    if found is None:
        raise _not_mapped(calibration, qubit_name(qubit))
    return found


def _not_mapped(calibration: Calibration, place: str) -> NoiseError:
    return NoiseError(
        f"{calibration.name} has no gate on {place or 'no qubit'}: map the circuit with"
        " map_to_device first"
    )


@functools.lru_cache(maxsize=10_000)
def relaxation(duration: float, t1: float, t2: float) -> tuple[cirq.Gate, ...]:
    """Return the channels of thermal relaxation at zero temperature.

    Args:
        duration: Time in nanoseconds.
        t1: Relaxation time in microseconds.
        t2: Coherence time in microseconds.
    """
    kept, coherence = _kept(duration, t1, t2)
    dephasing = 1 - coherence**2 / kept if kept else 0.0  # without it, nothing is left to dephase
    gates: list[cirq.Gate] = []
    if kept < 1:
        gates.append(cirq.amplitude_damp(1 - kept))
    if dephasing > 0:
        gates.append(cirq.phase_damp(min(dephasing, 1.0)))
    return tuple(gates)


@functools.lru_cache(maxsize=10_000)
def depolarizing(error: float, duration: float, times: tuple[tuple[float, float], ...]) -> float:
    """Return the probability of a Pauli error that makes up the rest of a gate's infidelity.

    Args:
        error: Average infidelity of the gate.
        duration: Its time in nanoseconds.
        times: T1 and T2 of its qubits in microseconds.
    """
    size = 2 ** len(times)
    wanted = 1 - error * (size + 1) / size  # of the process
    relaxed = math.prod(relaxation_fidelity(duration, t1, t2) for t1, t2 in times)
    # Depolarizing by x: (1 - x) E(rho) + x I / size.
    room = relaxed - size**-2  # until the state is fully mixed; none after a long relaxation
    share = min(max((relaxed - wanted) / room, 0.0), 1.0) if room > 0 else 0.0
    return float(share * (1 - size**-2))


def relaxation_fidelity(duration: float, t1: float, t2: float) -> float:
    """Return the process fidelity of thermal relaxation; arguments as of `relaxation`."""
    kept, coherence = _kept(duration, t1, t2)
    return (1 + kept + 2 * coherence) / 4


def _kept(duration: float, t1: float, t2: float) -> tuple[float, float]:
    """Return the shares of the excited state and of the coherence that are left."""
    time = duration * _NANOSECONDS
    return math.exp(-time / t1), math.exp(-time / min(t2, 2 * t1))


def _readout(
    rates: QubitCalibration, qubit: cirq.Qid, letters: set[cirq.Pauli]
) -> Iterator[cirq.Operation]:
    """Yield channels that change <P> to (1 - p01 - p10) <P> + p10 - p01, for a read operator P."""
    lost = rates.p01 + rates.p10
    if not lost:
        return
    if len(letters) > 1:  # X, Y and Z shrink by 1 - 4 / 3 of the probability
        yield cirq.depolarize(0.75 * lost).on(qubit)
        return
    (letter,) = letters
    turn = {cirq.X: [cirq.H], cirq.Y: [cirq.S**-1, cirq.H], cirq.Z: []}[letter]
    yield from (one(qubit) for one in turn)
    yield cirq.generalized_amplitude_damp(rates.p10 / lost, lost).on(qubit)
    yield from (cirq.inverse(one)(qubit) for one in reversed(turn))
