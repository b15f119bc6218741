"""A pulse as a gate of a circuit, with numbers or with symbols."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import cirq
import numpy as np
import sympy

from qfleet.argument_checks import instance, number, shown
from qfleet.compiler.circuit import expressions
from qfleet.compiler.circuit.numeric_functions import NumericResult
from qfleet.devices.timed_gate import TimedGate
from qfleet.errors import ArgumentError
from qfleet.pulses import description
from qfleet.pulses.closest_unitary import ClosestUnitary
from qfleet.pulses.fidelity import computational_places
from qfleet.pulses.objective import GateObjective
from qfleet.pulses.propagator import Propagator
from qfleet.pulses.pulse import Pulse
from qfleet.pulses.pulse_exponents import PulseExponents
from qfleet.pulses.unitary_angles import Exponential, generators

MAX_TRAINED_QUBITS = 3
MAX_SAVED = 100_000_000
"""Most steps times numbers of a gate in a file, which may be another user's."""

_MAX_NAMES = 3  # in a diagram

Values = Sequence[float | str | sympy.Expr] | np.ndarray


@cirq.value_equality
class PulseGate(TimedGate):
    """The gate of a pulse on one device, for any circuit. Its numbers may be symbols.

    Its matrix is the unitary that is closest to the propagator between the levels 0 and 1, after
    virtual rotations about Z. What leaks is lost in the matrix: see `leakage`.

    A gate with symbols acts on one to three qubits. Its values and first derivatives are exact. It
    has no second derivatives.

    Args:
        propagator: Of one device without decay.
        pulse: The envelopes, on the propagator's channels and samples.
        values: [P] numbers of the envelopes, expressions of symbols, or names of symbols.
        virtual_z: [n] angles in radians of the rotations diag(1, exp(i angle)) after the pulse,
            in the same forms; 0 unless given.

    Raises:
        ArgumentError: The propagator has several devices or decay, or other channels or samples
            than the pulse; a number is missing or out of range; or more than 10 % leaks.
    """

    def __init__(
        self, propagator: Propagator, pulse: Pulse, values: Values, virtual_z: Values | None = None
    ) -> None:
        instance(Propagator, "a Propagator")(propagator, "propagator")
        instance(Pulse, "a Pulse")(pulse, "pulse")
        if propagator.decay:
            raise ArgumentError("the propagator has decay: pass one with decay=False")
        if propagator.count > 1:
            raise ArgumentError(
                f"the propagator has {propagator.count} devices: a gate is of one device"
            )
        propagator.require_pulse(pulse.channels, pulse.grid)
        self.propagator = propagator
        self.pulse = pulse
        count = len(propagator.levels)
        self.values = _numbers(values, "values", len(pulse.names), "numbers of the envelopes")
        angles = (0.0,) * count if virtual_z is None else virtual_z
        self.virtual_z = _numbers(angles, "virtual_z", count, "qubits")
        if not cirq.is_parameterized(self):
            self._closest  # noqa: B018 (checks amplitudes and leakage)

    @classmethod
    def from_objective(cls, objective: GateObjective, values: Values) -> "PulseGate":
        """Return the gate of a pulse that `optimize` found, or one with symbols in its place.

        Args:
            objective: With one device without decay.
            values: [P + n], such as `GateResult.values`, as in the constructor.
        """
        count = len(objective.pulse.names)
        reason = "numbers of the envelopes and angles of virtual rotations"
        listed = _numbers(values, "values", count + objective.angles, reason)
        angles = listed[count:] if objective.angles else None
        return cls(objective.propagator, objective.pulse, listed[:count], angles)

    @property
    def duration(self) -> cirq.Duration:
        """Length of the pulse."""
        return cirq.Duration(nanos=self.propagator.grid.duration)

    @property
    def amplitudes(self) -> np.ndarray:
        """Amplitudes of the channels, [N, C] in rad/ns.

        Raises:
            ArgumentError: The gate has symbols.
        """
        return self.pulse.sample(self._resolved("amplitudes"))

    @property
    def leakage(self) -> float:
        """Mean probability that a computational state leaves the levels 0 and 1.

        Raises:
            ArgumentError: The gate has symbols.
        """
        self._resolved("leakage")
        return float(self._closest.leakage[0])

    def _resolved(self, what: str) -> np.ndarray:
        """Return the numbers of the envelopes."""
        if names := sorted(cirq.parameter_names(self.values)):
            raise ArgumentError(
                f"{what} depends on the symbol {names[0]}: resolve it with"
                " cirq.resolve_parameters first"
            )
        return np.array(self.values, np.float64)

    @cached_property
    def _closest(self) -> ClosestUnitary:
        propagator = self.propagator(self.amplitudes)
        propagator = propagator.reshape(1, *propagator.shape[-2:])
        rows, columns = np.ix_(*[computational_places(self.propagator.levels)] * 2)
        return ClosestUnitary(propagator[:, rows, columns])

    def _num_qubits_(self) -> int:
        return len(self.propagator.levels)

    def _is_parameterized_(self) -> bool:
        return bool(cirq.is_parameterized((*self.values, *self.virtual_z)))

    def _parameter_names_(self) -> frozenset[str]:
        return frozenset(cirq.parameter_names((*self.values, *self.virtual_z)))

    def _resolve_parameters_(self, resolver: cirq.ParamResolver, recursive: bool) -> "PulseGate":
        values, angles = (
            [resolver.value_of(one, recursive) for one in listed]
            for listed in (self.values, self.virtual_z)
        )
        return PulseGate(self.propagator, self.pulse, values, angles)

    def _has_unitary_(self) -> bool:
        return not self._is_parameterized_()

    def _unitary_(self) -> Any:
        if self._is_parameterized_():
            return NotImplemented
        phases = np.ones(1, np.complex128)
        for angle in self.virtual_z:
            phases = np.kron(phases, [1, np.exp(1j * angle)])
        return phases[:, np.newaxis] * self._closest.matrices[0]

    def __pow__(self, power: Any) -> Any:
        """Return the gate of the inverse matrix, for a power of -1. It has no pulse.

        Raises:
            ArgumentError: The gate has symbols.
        """
        if power == -1:
            self._resolved("the inverse")
            return cirq.MatrixGate(cirq.unitary(self).conj().T)
        return self if power == 1 else NotImplemented

    def _decompose_(self, qubits: Sequence[cirq.Qid]) -> Any:
        if not self._is_parameterized_():
            return NotImplemented
        return list(self._exponentials(qubits))

    def _exponentials(self, qubits: Sequence[cirq.Qid]) -> Iterator[cirq.Operation]:
        if cirq.is_parameterized(self.values):
            self._require_few_qubits()
            function = PulseExponents(self.propagator, self.pulse)
            arguments = [sympy.sympify(one) for one in self.values]
            for at, generator in enumerate(generators(len(qubits))):
                yield Exponential(generator, NumericResult.of(function, at, arguments)).on(*qubits)
        else:
            yield cirq.MatrixGate(self._closest.matrices[0]).on(*qubits)
        for angle, qubit in zip(self.virtual_z, qubits, strict=True):
            if angle:
                turn = sympy.pi if isinstance(angle, sympy.Basic) else math.pi
                yield (cirq.Z ** (angle / turn)).on(qubit)

    def _require_few_qubits(self) -> None:
        if (count := self._num_qubits_()) > MAX_TRAINED_QUBITS:
            raise ArgumentError(
                f"a pulse on {count} qubits has the symbol {min(self._parameter_names_())}: resolve"
                f" it, or use at most {MAX_TRAINED_QUBITS} qubits"
            )

    def _circuit_diagram_info_(self, args: cirq.CircuitDiagramInfoArgs) -> tuple[str, ...]:
        del args
        names = sorted(self._parameter_names_())
        shown = [*names[:_MAX_NAMES], *(["..."] if len(names) > _MAX_NAMES else [])]
        inside = ", ".join([f"{self.propagator.grid.duration:g} ns", *shown])
        return (
            f"Pulse({inside})",
            *[f"Pulse#{at}" for at in range(2, self._num_qubits_() + 1)],
        )

    def _value_equality_values_(self) -> Any:
        key = PulseExponents(self.propagator, self.pulse).key
        return key, self.values, self.virtual_z

    @classmethod
    def _json_namespace_(cls) -> str:
        return "qfleet"

    def _json_dict_(self) -> dict[str, Any]:
        return {
            "propagator": description.encoded(self.propagator),
            "pulse": description.encoded(self.pulse),
            "values": list(self.values),
            "virtual_z": list(self.virtual_z),
        }

    @classmethod
    def _from_json_dict_(
        cls,
        propagator: Mapping[str, Any],
        pulse: Mapping[str, Any],
        values: Sequence[float | sympy.Expr],
        virtual_z: Sequence[float | sympy.Expr],
        **_: object,
    ) -> "PulseGate":
        steps, envelopes = description.decoded(propagator), description.decoded(pulse)
        size = steps.grid.samples * steps.steps_per_sample * len(envelopes.names)
        if size > MAX_SAVED:
            raise ArgumentError(
                f"the pulse has {size:,} steps and numbers: use up to {MAX_SAVED:,}"
            )
        return cls(steps, envelopes, list(values), list(virtual_z))

    def __repr__(self) -> str:
        return f"<PulseGate of {self._num_qubits_()} qubits, {self.propagator.grid.duration:g} ns>"


def _numbers(values: Values, name: str, count: int, what: str) -> tuple[float | sympy.Expr, ...]:
    """Return numbers as such, and names as symbols."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise ArgumentError(f"{name} is {shown(values)}: pass a list of numbers or symbols")
    if len(values) != count:
        raise ArgumentError(f"{name} has {len(values)} items: pass one for each of {count} {what}")
    return tuple(_number(one, f"{name}[{at}]") for at, one in enumerate(values))


def _number(value: object, name: str) -> float | sympy.Expr:
    if isinstance(value, str):
        return sympy.Symbol(value)
    if not isinstance(value, sympy.Basic):
        return number(value, name)
    if value.free_symbols:
        return value
    found = expressions.number(value)
    if found.imag:
        raise ArgumentError(f"{name} is {found}: pass a real number")
    return number(found.real, name)
