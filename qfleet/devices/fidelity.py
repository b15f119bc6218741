"""A fast estimate of the fidelity of a mapped circuit under the noise of its device.

The fidelity of a pure state after one channel with Kraus operators K is the sum of |tr(K rho)|^2,
where rho is the reduced state of the channel's qubits. The estimate is a power of the product over
all channels. Reduced states are tracked as Bloch vectors: exactly for product states, and without
the correlations of entangled ones. So an error that does nothing, such as dephasing of |0>, costs
nothing.
"""

import math
from collections.abc import Callable
from typing import TypeVar

import cirq
import numpy as np

from qfleet.argument_checks import checked
from qfleet.circuit_checks import CIRCUIT
from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.devices.calibration import Calibration
from qfleet.devices.noise import depolarizing, gate_rates, qubit_rates
from qfleet.devices.timed_gate import is_timed
from qfleet.errors import ArgumentError, NoiseError

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

EXPONENT = 0.727
"""Power of the product, fitted by benchmarks/fidelity_prediction.py."""

_NANOSECONDS = 1e-3  # in microseconds, the unit of T1 and T2


@checked(circuit=CIRCUIT, calibration=Calibration.check)
def predict_fidelity(circuit: cirq.AbstractCircuit, calibration: Calibration) -> float:
    """Estimate the fidelity of a mapped circuit with its ideal state, before the readout.

    Args:
        circuit: Circuit of `map_to_device`, without free symbols.
        calibration: The device.

    Raises:
        ArgumentError: The circuit has free symbols, or an argument has the wrong type.
        NoiseError: The circuit is not mapped to the device: it has another gate or qubit; or it
            has a timed gate, such as a pulse.
    """
    if names := parameter_names(circuit):
        raise ArgumentError(f"the circuit has the free symbol {min(names)}: resolve its parameters")
    return _Estimate(calibration).of(circuit)


def product_of_fidelities(circuit: cirq.AbstractCircuit) -> float:
    """Return the product f of the process fidelities of all channels, and (1 - f) / 2^n.

    Args:
        circuit: Gates, which may have symbols, and channels. Coherent errors count as gates.
    """
    product = 1.0
    for operation in circuit.all_operations():
        if not cirq.is_parameterized(operation) and not cirq.has_unitary(operation):
            product *= _process_fidelity(operation)
    return product + (1 - product) * 0.5 ** len(circuit.all_qubits())


def _process_fidelity(channel: cirq.Operation) -> float:
    kraus = cirq.kraus(channel)
    return float(sum(abs(np.trace(one)) ** 2 for one in kraus)) / len(kraus[0]) ** 2


class _Computed(dict[_Key, _Value]):
    """Values that are computed when they are first used."""

    def __init__(self, compute: Callable[[_Key], _Value]) -> None:
        self._compute = compute

    def __missing__(self, key: _Key) -> _Value:
        self[key] = value = self._compute(key)
        return value


_Bloch = tuple[float, float, float]


_TURNS = (cirq.XPowGate, cirq.ZPowGate, cirq.PhasedXPowGate)
_INTERACTIONS = (cirq.CZPowGate, cirq.ISwapPowGate)


class _Estimate:
    """The state of an estimate: times, Bloch vectors, and the fidelity so far."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._rates = _Computed(self._gate)
        self._free: dict[cirq.Qid, float] = {}
        self._bloch: dict[cirq.Qid, _Bloch] = {}
        self._fidelity = 1.0

    def of(self, circuit: cirq.AbstractCircuit) -> float:
        """Return the estimate."""
        turn, interact = self._turn, self._interact
        for moment in circuit:
            for operation in moment.operations:
                qubits, gate = operation.qubits, operation.gate
                if isinstance(gate, _TURNS):
                    turn(qubits, gate)
                elif isinstance(gate, _INTERACTIONS):
                    interact(qubits, gate)
                else:
                    if is_timed(operation):
                        raise NoiseError(
                            f"the estimate does not follow {gate!r}: compile the circuit with"
                            " add_device_noise in place of it"
                        )
                    raise NoiseError(
                        f"{str(operation)[:80]} is not a gate of {self._calibration.name}: map the"
                        " circuit with map_to_device first"
                    )
        end = max(self._free.values(), default=0.0)
        for qubit in self._free:
            self._wait(qubit, end)
        # An error may lead to any state, of which a share is the ideal one.
        product = self._fidelity + (1 - self._fidelity) * 0.5 ** len(self._free)
        return float(product**EXPONENT)

    def _turn(self, qubits: tuple[cirq.Qid, ...], gate: cirq.Gate) -> None:
        """Turn a qubit; the noise of a pulse follows."""
        (qubit,) = qubits
        angle = math.pi * gate.exponent
        x, y, z = self._bloch.get(qubit, (0.0, 0.0, 1.0))
        cosine, sine = math.cos(angle), math.sin(angle)
        if isinstance(gate, cirq.ZPowGate):
            self._bloch[qubit] = x * cosine - y * sine, x * sine + y * cosine, z
            return
        phase = math.pi * getattr(gate, "phase_exponent", 0.0)
        a, b = math.cos(phase), math.sin(phase)  # the axis of the pulse
        along, across = a * x + b * y, a * y - b * x
        across, z = across * cosine - z * sine, across * sine + z * cosine
        x, y = a * along - b * across, b * along + a * across
        self._bloch[qubit] = x, y, z
        duration, share, too_far = self._rates[qubits]
        self._free[qubit] = self._free.get(qubit, 0.0) + duration
        if too_far:
            self._fidelity *= 1 - too_far * (1 - along**2)
        self._relax(qubit, duration)
        self._fidelity *= 1 - share * (3 - x * x - y * y - z * z) / 4

    def _interact(self, qubits: tuple[cirq.Qid, ...], gate: cirq.Gate) -> None:
        """Apply a two-qubit gate, the noise of the time before it, and its own."""
        first, second = qubits
        free, bloch = self._free, self._bloch
        start = max(free.get(first, 0.0), free.get(second, 0.0))
        self._wait(first, start)
        self._wait(second, start)
        a, b = bloch.get(first, (0.0, 0.0, 1.0)), bloch.get(second, (0.0, 0.0, 1.0))
        if isinstance(gate, cirq.CZPowGate):
            bloch[first] = a[0] * b[2], a[1] * b[2], a[2]
            bloch[second] = b[0] * a[2], b[1] * a[2], b[2]
        else:
            bloch[first], bloch[second] = _sqrt_iswap(a, b, gate.exponent)
        duration, share, too_far = self._rates[qubits]
        free[first] = free[second] = start + duration
        if too_far:
            self._fidelity *= 1 - too_far * (1 - (bloch[first][2] * bloch[second][2]) ** 2)
        self._relax(first, duration)
        self._relax(second, duration)
        kept = (1 + _square(bloch[first])) * (1 + _square(bloch[second]))
        self._fidelity *= 1 - share * (16 - kept) / 16

    def _wait(self, qubit: cirq.Qid, end: float) -> None:
        start = self._free.get(qubit, end)  # before its first gate, it is in its ground state
        if start < end:
            self._relax(qubit, end - start)

    def _relax(self, qubit: cirq.Qid, duration: float) -> None:
        """Multiply by the fidelity of relaxation for some nanoseconds."""
        rates = qubit_rates(self._calibration, qubit)
        x, y, z = self._bloch.get(qubit, (0.0, 0.0, 1.0))
        time = duration * _NANOSECONDS
        kept = math.exp(-time / rates.t1)
        coherence = math.exp(-time / min(rates.t2, 2 * rates.t1))
        root = math.sqrt(kept)
        decay = ((1 + root + (1 - root) * z) / 2) ** 2 + (1 - kept) * (x * x + y * y) / 4
        flip = (1 - coherence / root) / 2 if root else 0.0
        self._fidelity *= decay * (1 - flip * (1 - z * z))

    def _gate(self, qubits: tuple[cirq.Qid, ...]) -> tuple[float, float, float]:
        """Return duration, share of white noise, and probability of a coherent error."""
        rates, angle = gate_rates(self._calibration, qubits)
        named = [qubit_rates(self._calibration, qubit) for qubit in qubits]
        times = tuple((one.t1, one.t2) for one in named)
        share = depolarizing(rates.error, rates.duration, times) / (1 - 0.25 ** len(qubits))
        return rates.duration, share, math.sin(angle / 2) ** 2


def _square(vector: _Bloch) -> float:
    x, y, z = vector
    return x * x + y * y + z * z


def _sqrt_iswap(a: _Bloch, b: _Bloch, exponent: float) -> tuple[_Bloch, _Bloch]:
    """Return the Bloch vectors of both qubits of a product state after a power of iSWAP."""
    cosine, sine = math.cos(math.pi * exponent / 2), math.sin(math.pi * exponent / 2)
    mean, half = (a[2] + b[2]) / 2, (a[2] - b[2]) / 2
    # The excitation turns between both: z of each, and x y - y x between them.
    z = half * (cosine**2 - sine**2) + cosine * sine * (a[0] * b[1] - a[1] * b[0])
    first = cosine * a[0] - sine * a[2] * b[1], cosine * a[1] + sine * a[2] * b[0], mean + z
    second = cosine * b[0] - sine * b[2] * a[1], cosine * b[1] + sine * b[2] * a[0], mean - z
    return first, second
