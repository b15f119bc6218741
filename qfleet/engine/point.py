"""The values of one call: inputs, parameters and initial states, checked."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from qfleet.compiler.state.initial_state import MAX_NORM_ERROR
from qfleet.engine.arguments import checked_array, checked_complex, checked_values, require_finite
from qfleet.engine.program_handle import InitialStates
from qfleet.errors import ArgumentError

_NO_VALUES = np.empty(0)


class Point(NamedTuple):
    """Values of all symbols, checked.

    Attributes:
        inputs: [B, I] float64.
        parameters: [P] float64.
        batched: False if the caller's inputs are one example, without a batch axis.
        initial_states: [B, 2**N] of the circuit's dtype, of norm 1, or density matrices
            [B, 2**N, 2**N]; None if it takes no states.
    """

    inputs: np.ndarray
    parameters: np.ndarray
    batched: bool
    initial_states: np.ndarray | None = None

    @property
    def symbols(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and parameters."""
        return self.inputs, self.parameters

    def initial(self, gradients: bool = False) -> InitialStates | None:
        """Return the initial states for the engine.

        Args:
            gradients: If there is to be an array for the gradients by them.
        """
        return InitialStates.of(self.initial_states, gradients=gradients)

    def result(self, array: np.ndarray) -> np.ndarray:
        """Return a result [B, ...] as the caller expects it: without the axis if not batched."""
        return array if self.batched else array[0]

    def weights(self, upstream: ArrayLike | None, readouts: int) -> np.ndarray:
        """Return the gradient [B, K] by the expectation values; all 1 for None."""
        shape = (len(self.inputs), readouts)
        if upstream is None:
            return np.ones(shape)
        wanted = shape if self.batched else shape[1:]
        array = checked_values(upstream, wanted, "upstream", because="the values have this shape")
        return array.reshape(shape)

    def tangents(
        self, input_tangents: ArrayLike | None, parameter_tangents: ArrayLike | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a direction [B, I] and [P]; 0 for None."""
        rows, shared = np.zeros_like(self.inputs), np.zeros_like(self.parameters)
        if input_tangents is not None:
            shape = rows.shape if self.batched else rows.shape[1:]
            rows = checked_values(
                input_tangents, shape, "input_tangents", because="inputs have this shape"
            ).reshape(rows.shape)
        if parameter_tangents is not None:
            shared = checked_values(
                parameter_tangents,
                shared.shape,
                "parameter_tangents",
                because="parameters have this shape",
            )
        return rows, shared

    def states(self, states: ArrayLike, qubits: int, argument: str) -> np.ndarray:
        """Return an array [B, 2**qubits] of complex numbers."""
        shape = (len(self.inputs), 1 << qubits)
        wanted = shape if self.batched else shape[1:]
        array = checked_complex(states, wanted, argument, because="the states have this shape")
        return array.reshape(shape)


def checked_point(
    inputs: ArrayLike | None, parameters: ArrayLike | None, width: int, count: int
) -> Point:
    """Check the values of all symbols.

    Args:
        inputs: [B, width], or [width] for one example; None for one example without inputs.
        parameters: [count]; None if there are none.
        width: Number of inputs.
        count: Number of parameters.
    """
    if inputs is None:
        if width:
            raise ArgumentError(f"inputs are missing: the circuit has {width} inputs")
        inputs = _NO_VALUES
    rows = checked_array(inputs, "inputs")
    batched = rows.ndim != 1
    shape = ("batch", width) if batched else (width,)
    rows = checked_values(rows, shape, "inputs", because=f"the circuit has {width} inputs")
    if parameters is None:
        if count:
            raise ArgumentError(f"parameters are missing: the circuit has {count} parameters")
        parameters = _NO_VALUES
    shared = checked_values(
        parameters, (count,), "parameters", because=f"the circuit has {count} parameters"
    )
    return Point(rows if batched else rows[np.newaxis], shared, batched)


def check_states_given(takes_states: bool, states: object) -> None:
    """Check that there are initial states if a circuit takes them, and none otherwise.

    Args:
        takes_states: As of `CompiledCircuit`.
        states: The argument; None if it is not given.
    """
    if takes_states and states is None:
        raise ArgumentError(
            "initial_states are missing: the circuit is compiled with initial_states=True"
        )
    if states is not None and not takes_states:
        raise ArgumentError(
            "initial_states are not used: compile the circuit with initial_states=True"
        )


def point_with_states(
    point: Point, states: ArrayLike, qubits: int, dtype: np.dtype, *, allow_matrices: bool
) -> Point:
    """Return a point with the initial states of its examples.

    Args:
        point: Without them.
        states: [B, 2**qubits], or [2**qubits] for one example; or density matrices
            [B, 2**qubits, 2**qubits], or [2**qubits, 2**qubits] for one example with inputs.
            Without inputs, they determine the number of examples.
        qubits: Number of qubits.
        dtype: Of the circuit's states.
        allow_matrices: If the method evolves density matrices.
    """
    array = checked_array(states, "initial_states")
    if not point.inputs.shape[1] and not point.batched and array.ndim > 1:  # no inputs
        point = point._replace(inputs=np.empty((len(array), 0)), batched=True)
    is_matrix = array.ndim == 2 + point.batched
    if is_matrix:
        check_takes_matrices(allow_matrices, array.shape)
    shape = (len(point.inputs), *[1 << qubits] * (1 + is_matrix))
    because = f"there is one state of {qubits} qubits per example"
    wanted = shape if point.batched else shape[1:]
    array = checked_complex(array, wanted, "initial_states", because=because)
    # The caller's own array, if it fits: residuals of a forward pass recognize it.
    array = np.ascontiguousarray(array if point.batched else array.reshape(shape), dtype)
    check_states(array)
    return point._replace(initial_states=array)


def check_takes_matrices(allow_matrices: bool, shape: Sequence[int]) -> None:
    """Check that a circuit takes density matrices as initial states.

    Args:
        allow_matrices: If its method evolves density matrices.
        shape: Of the states.
    """
    if not allow_matrices:
        raise ArgumentError(
            f"initial_states has shape {list(shape)}: pass state vectors, or compile the"
            ' circuit with method="density_matrix", which takes density matrices'
        )


def check_states(array: np.ndarray) -> None:
    """Check initial states, contiguous arrays of complex numbers.

    Args:
        array: States [B, D], or density matrices [B, D, D].

    Raises:
        ArgumentError: A state has another norm than 1; a density matrix is not Hermitian, not
            positive or has another trace than 1; or a number is not finite.
    """
    if array.ndim == 3:
        _check_matrices(array)
    else:
        _check_norms(array)


def _check_norms(array: np.ndarray) -> None:
    """Check states [B, D]."""
    parts = array.view(array.real.dtype)
    norms = np.sqrt(np.einsum("bi,bi->b", parts, parts, dtype=np.float64))
    wrong = ~(np.abs(norms - 1) < MAX_NORM_ERROR)
    if wrong.any():
        require_finite(array, "initial_states")
        at = int(np.argmax(wrong))
        raise ArgumentError(
            f"initial_states[{at}] has the norm {norms[at]:g}: normalize it to 1, to"
            f" {MAX_NORM_ERROR:g}"
        )


def _check_matrices(array: np.ndarray) -> None:
    """Check density matrices [B, D, D], to the tolerance of norms."""
    for at, matrix in enumerate(array):
        error = np.abs(matrix - matrix.conj().T).max()
        if not error < MAX_NORM_ERROR:  # also NaN
            require_finite(array, "initial_states")
            raise ArgumentError(
                f"initial_states[{at}] differs from its adjoint by {error:g}: pass a Hermitian"
                " density matrix"
            )
        trace = float(np.trace(matrix).real)
        if not abs(trace - 1) < MAX_NORM_ERROR:
            raise ArgumentError(
                f"initial_states[{at}] has the trace {trace:g}: divide the density matrix by it"
            )
        # Faster than eigenvalues, which are needed for the message only.
        shift = MAX_NORM_ERROR * np.eye(len(matrix))
        try:
            np.linalg.cholesky(matrix.astype(np.complex128) + shift)
        except np.linalg.LinAlgError:
            lowest = np.linalg.eigvalsh(matrix)[0]
            raise ArgumentError(
                f"initial_states[{at}] has the eigenvalue {lowest:g}: pass a positive density"
                " matrix"
            ) from None
