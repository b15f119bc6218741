"""Batches of different circuits: one circuit per row.

batch = qfleet.compile_batch(circuits, observables=[cirq.Z(qubit)])
values, gradients = batch.value_and_gradient(parameters=parameters)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import flag
from qfleet.engine import memory
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.engine.gradients import Gradients
from qfleet.engine.point import Point, check_states_given, checked_point, point_with_states
from qfleet.errors import ArgumentError

_MAX_DESCRIBED = 20  # groups in a description


@dataclass(frozen=True)
class CircuitGroup:
    """Circuits of a batch that differ in the numbers of their gates only.

    Attributes:
        rows: [b] int64, the rows of the batch, in order.
        numbers: [b, n] float64, the numbers that differ, in the unit of their gates.
        compiled: The circuit of all rows. Its inputs are those of the batch and then the n numbers.
    """

    rows: np.ndarray
    numbers: np.ndarray
    compiled: CompiledCircuit


@final
class CircuitBatch:
    """Different circuits that are computed in one call. Make one with `qfleet.compile_batch`.

    Groups are computed one after another, each with all threads of the engine. Values and
    gradients are those that `qfleet.compile` gives for each circuit, up to rounding.

    All methods raise ArgumentError and MemoryLimitError as those of `CompiledCircuit` do.

    Args:
        groups: The groups, in the order of their first rows.
        inputs: Names of the inputs.
        parameters: Names of the parameters.

    Attributes:
        groups: The groups.
        size: B, the number of circuits.
        inputs: Names of the I inputs, in the order of the columns.
        parameters: Names of the P parameters, in order.
        readouts: K, the number of observables; 0 if the result is the state.
        takes_states: If calls need initial states.
        dtype: NumPy dtype of states.
        real_dtype: NumPy dtype of expectation values.
    """

    def __init__(
        self,
        groups: Sequence[CircuitGroup],
        inputs: Sequence[str],
        parameters: Sequence[str],
    ) -> None:
        first = groups[0].compiled
        self.groups = tuple(groups)
        self.size = sum(len(group.rows) for group in groups)
        self.inputs, self.parameters = tuple(inputs), tuple(parameters)
        self.readouts = first.readouts
        self.takes_states = first.takes_states
        self.dtype, self.real_dtype = first.dtype, first.real_dtype

    def expectation(
        self,
        inputs: ArrayLike | None = None,
        parameters: ArrayLike | None = None,
        *,
        initial_states: ArrayLike | None = None,
    ) -> np.ndarray:
        """Compute the expectation values of the observables.

        Args:
            inputs: [B, I], a row for each circuit; None if there are no inputs.
            parameters: [P], shared by all circuits; None if there are no parameters.
            initial_states: [B, 2**N], a state for each circuit, as of `CompiledCircuit`; only for a
                batch that is compiled with `initial_states=True`.

        Returns:
            [B, K] of `real_dtype`, in the order of the circuits.
        """
        point = self._point(inputs, parameters, initial_states)
        values = np.empty((self.size, self.readouts), self.real_dtype)
        for group in self.groups:
            values[group.rows] = group.compiled.expectation(
                *_arguments(group, point), initial_states=_states(group, point)
            )
        return values

    def value_and_gradient(
        self,
        inputs: ArrayLike | None = None,
        parameters: ArrayLike | None = None,
        upstream: ArrayLike | None = None,
        *,
        input_gradients: bool = True,
        initial_states: ArrayLike | None = None,
        state_gradients: bool = False,
    ) -> tuple[np.ndarray, Gradients]:
        """Compute expectation values, and the gradient of sum(upstream * values).

        Args:
            inputs: As for `expectation`.
            parameters: As for `expectation`.
            upstream: [B, K]; all 1 unless given.
            input_gradients: False if gradients by inputs are not wanted, which may be faster.
            initial_states: As for `expectation`.
            state_gradients: True if gradients by the initial states are wanted.

        Returns:
            The values as of `expectation`, and the gradients: by the inputs [B, I], by the
            parameters [P], summed over the circuits, and by the initial states.
        """
        by_inputs = flag(input_gradients, "input_gradients")
        by_states = flag(state_gradients, "state_gradients")
        point = self._point(inputs, parameters, initial_states)
        states = None
        if by_states and point.initial_states is not None:
            states = np.empty_like(point.initial_states)
        weights = point.weights(upstream, self.readouts)
        values = np.empty((self.size, self.readouts), self.real_dtype)
        rows = np.zeros((self.size, len(self.inputs))) if by_inputs else None
        shared = np.zeros(len(self.parameters))
        for group in self.groups:
            values[group.rows], found = group.compiled.value_and_gradient(
                *_arguments(group, point),
                weights[group.rows],
                input_gradients=by_inputs and bool(self.inputs),
                initial_states=_states(group, point),
                state_gradients=by_states,
            )
            shared += found.parameters
            if rows is not None and found.inputs is not None:
                rows[group.rows] = found.inputs[:, : len(self.inputs)]
            if states is not None:
                states[group.rows] = found.initial_states
        return values, Gradients(rows, shared, states)

    def state(
        self,
        inputs: ArrayLike | None = None,
        parameters: ArrayLike | None = None,
        *,
        initial_states: ArrayLike | None = None,
    ) -> np.ndarray:
        """Compute the state vectors, global phase included.

        Args:
            inputs: As for `expectation`.
            parameters: As for `expectation`.
            initial_states: As for `expectation`.

        Returns:
            `[B, 2**N]` of `dtype`; the first of the N sorted qubits is the most significant bit.
        """
        point = self._point(inputs, parameters, initial_states)
        states = None
        for group in self.groups:
            part = group.compiled.state(
                *_arguments(group, point), initial_states=_states(group, point)
            )
            if states is None:
                needed = self.size * part[0].nbytes
                memory.require_bytes(needed, f"the states of {self.size} circuits")
                states = np.empty((self.size, part.shape[1]), self.dtype)
            states[group.rows] = part
        assert states is not None
        return states

    def describe(self) -> str:
        """Describe the groups, the largest first, without those beyond 20."""
        lines = [
            f"{self.size} circuits in {len(self.groups)} groups: {len(self.inputs)} inputs,"
            f" {len(self.parameters)} parameters, {self.readouts} observables, {self.dtype}"
        ]
        largest = sorted(self.groups, key=lambda one: -len(one.rows))
        for group in largest[:_MAX_DESCRIBED]:
            count, first = len(group.rows), group.rows[0]
            lines.append(
                f"  {count} like circuit {first}: {group.numbers.shape[1]} numbers differ,"
                f" {len(group.compiled.qubits)} qubits, {group.compiled.method},"
                f" {group.compiled.device}"
            )
        if len(largest) > _MAX_DESCRIBED:
            lines.append(f"  and {len(largest) - _MAX_DESCRIBED} groups")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<CircuitBatch of {self.size} circuits in {len(self.groups)} groups>"

    def _point(
        self,
        inputs: ArrayLike | None,
        parameters: ArrayLike | None,
        initial_states: ArrayLike | None,
    ) -> Point:
        if inputs is None and not self.inputs:
            inputs = np.empty((self.size, 0))
        count = len(self.inputs)
        point = checked_point(inputs, parameters, count, len(self.parameters))
        if not point.batched or len(point.inputs) != self.size:
            shape = point.inputs.shape if point.batched else point.inputs.shape[1:]
            raise ArgumentError(
                f"inputs has shape {list(shape)}: pass an array [{self.size}, {count}],"
                f" because the batch has {self.size} circuits"
            )
        check_states_given(self.takes_states, initial_states)
        if initial_states is None:
            return point
        # Here, so that errors name rows of the batch.
        first = self.groups[0].compiled
        return point_with_states(
            point,
            initial_states,
            len(first.qubits),
            self.dtype,
            allow_matrices=all(one.compiled.method == "density_matrix" for one in self.groups),
        )


def _arguments(group: CircuitGroup, point: Point) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and parameters of a group's circuit."""
    return np.concatenate([point.inputs[group.rows], group.numbers], axis=1), point.parameters


def _states(group: CircuitGroup, point: Point) -> np.ndarray | None:
    """Return the initial states of a group's circuits; None without initial states."""
    return None if point.initial_states is None else point.initial_states[group.rows]
