"""Measurements of a tape as readouts of a program: Pauli sums, or the state.

Expectation values of observables that are short sums of Pauli words are readouts. A trained
coefficient is not a part of the program: its terms are read separately and summed in the user's
array library, which differentiates by it. All other measurements are computed from the state.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import cirq
import numpy as np
import pennylane as qml
from pennylane.exceptions import DeviceError
from pennylane.measurements import ExpectationMP, MeasurementProcess
from pennylane.operation import Operator
from pennylane.ops import op_math
from pennylane.typing import TensorLike

from qfleet.pennylane import interfaces

IMAGINARY_TOLERANCE = 1e-6
"""Imaginary part of a Hermitian observable's coefficient, of the largest one: its rounding."""

MATRIX_WIRES = 4  # the widest observable without Pauli words that is expanded in them
_PAULIS = {qml.PauliX: "X", qml.PauliY: "Y", qml.PauliZ: "Z"}


@dataclass(frozen=True)
class Readouts:
    """The readouts of a tape's measurements.

    Attributes:
        key: Hashable content of the observables.
        observables: The observables of the K readouts.
        coefficients: For each measurement the coefficients of its readouts; None for one readout
            with coefficient 1.
    """

    key: tuple[Hashable, ...]
    observables: tuple[Operator, ...]
    coefficients: tuple[tuple[TensorLike, ...] | None, ...]

    def combine(self, values: TensorLike) -> list[TensorLike]:
        """Return the result of each measurement.

        Args:
            values: [..., K] array of any library.

        Returns:
            An array [...] for each measurement.
        """
        results, at = [], 0
        for coefficients in self.coefficients:
            if coefficients is None:
                results.append(values[..., at])
                at += 1
            else:
                parts = [values[..., at + i] * one for i, one in enumerate(coefficients)]
                results.append(sum(parts[1:], start=parts[0]))
                at += len(coefficients)
        return results


def read(measurements: Sequence[MeasurementProcess]) -> Readouts | None:
    """Return the readouts of measurements; None if they need the state.

    Args:
        measurements: The measurements of a tape without shots.
    """
    key: list[Hashable] = []
    observables: list[Operator] = []
    coefficients: list[tuple[TensorLike, ...] | None] = []
    for one in measurements:
        if type(one) is not ExpectationMP or one.obs is None:
            return None
        terms = _terms(one.obs)
        if terms is None:
            return None
        for _, observable in terms:
            content = _describe(observable)
            if content is None:
                return None
            key.append(content)
            observables.append(observable)
        plain = len(terms) == 1 and terms[0][0] is None
        coefficients.append(None if plain else tuple(1.0 if c is None else c for c, _ in terms))
        key.append(len(terms))
    return Readouts(tuple(key), tuple(observables), tuple(coefficients))


def _terms(observable: Operator) -> list[tuple[TensorLike | None, Operator]] | None:
    """Return coefficients, and observables with constant parameters; None for no expansion."""
    if type(observable) in _PAULIS or _is_constant(observable):
        return [(None, observable)]
    if isinstance(observable, op_math.SProd):
        inner = _terms(observable.base)
        return inner and [(_times(observable.scalar, c), base) for c, base in inner]
    if isinstance(observable, op_math.LinearCombination):
        parts = list(zip(*observable.terms(), strict=True))
    elif isinstance(observable, op_math.Sum):
        parts = [(None, operand) for operand in observable.operands]
    else:
        return None
    found: list[tuple[TensorLike | None, Operator]] = []
    for factor, part in parts:
        inner = _terms(part)
        if not inner:
            return None
        found += [(_times(factor, coefficient), base) for coefficient, base in inner]
    return found


def _is_constant(observable: Operator) -> bool:
    """Return True if no parameter is trained, and no coefficient differs per example."""
    if isinstance(observable, op_math.SProd | op_math.Sum) and any(
        getattr(value, "ndim", 0) == 1 for value in observable.data
    ):
        return False
    return all(map(interfaces.is_constant, observable.data))


def _times(first: TensorLike | None, second: TensorLike | None) -> TensorLike | None:
    if first is None or second is None:
        return second if first is None else first
    return first * second


def _describe(observable: Operator) -> Hashable | None:
    kind = type(observable)
    if kind in _PAULIS:
        return kind, observable.wires.labels
    if (sentence := observable.pauli_rep) is not None:
        return frozenset((word, complex(weight)) for word, weight in sentence.items())
    if len(observable.wires) <= MATRIX_WIRES and observable.has_matrix:
        matrix = np.asarray(qml.math.to_numpy(observable.matrix()), np.complex128)
        return observable.wires.labels, matrix.tobytes()
    return None


def pauli_sums(
    observables: Sequence[Operator], qubits: Mapping[Hashable, cirq.Qid]
) -> Iterator[cirq.PauliSum]:
    """Yield the Pauli sum of each observable.

    Args:
        observables: As in Readouts.
        qubits: The qubit of each wire.

    Raises:
        DeviceError: An observable is not Hermitian, as X(0) @ Y(0).
    """
    for observable in observables:
        sentence = observable.pauli_rep
        if sentence is None:
            matrix = np.asarray(qml.math.to_numpy(observable.matrix()), np.complex128)
            sentence = qml.pauli_decompose(
                matrix, wire_order=observable.wires, pauli=True, check_hermitian=False
            )
        weights = {word: complex(weight) for word, weight in sentence.items()}
        largest = max(map(abs, weights.values()), default=0.0)
        if any(abs(weight.imag) > IMAGINARY_TOLERANCE * largest for weight in weights.values()):
            raise DeviceError(
                f"{str(observable)[:80]} is not Hermitian, so its expectation value is not real:"
                " measure a Hermitian observable, or qml.state()"
            )
        strings = [
            cirq.PauliString({qubits[wire]: letter for wire, letter in word.items()}) * weight.real
            for word, weight in weights.items()
        ]
        yield cirq.PauliSum.from_pauli_strings(strings)
