"""Checks of the arguments of compiled circuits. Every error names the argument."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Complex
from typing import TypeAlias, cast

import cirq
import numpy as np
import sympy
from numpy.typing import ArrayLike, DTypeLike

from qfleet import circuit_checks
from qfleet.argument_checks import choice, instance, items, shown
from qfleet.compiler.choose_method import Method, method_names
from qfleet.compiler.state.initial_state import MAX_NORM_ERROR
from qfleet.engine.exponent_program import REAL_DTYPES
from qfleet.engine.program_handle import InitialStates
from qfleet.errors import ArgumentError, CircuitError

_NO_VALUES = np.empty(0)
_NAMES = items(instance(str | sympy.Symbol, "names of symbols"), "a sequence such as ['x']")
_OBSERVABLES = items(
    instance(cirq.PauliSum | cirq.PauliString | Complex, "a cirq.PauliSum or cirq.PauliString"),
    "a sequence of cirq.PauliSum",
)
_Observable: TypeAlias = cirq.PauliSum | cirq.PauliString | complex
Observables: TypeAlias = _Observable | Iterable[_Observable]
"""One observable or several, as users pass them."""

_REAL_KINDS = "fiub"  # NumPy's kinds: floats, integers, unsigned integers, booleans


@dataclass(frozen=True)
class Point:
    """Values of all symbols, checked.

    Attributes:
        inputs: [B, I] float64.
        parameters: [P] float64.
        batched: False if the caller's inputs are one example, without a batch axis.
        initial_states: [B, 2**N] of the circuit's dtype, of norm 1; None if it takes no states.
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
        if self.initial_states is None:
            return None
        states = self.initial_states
        return InitialStates(states, np.empty_like(states) if gradients else None)

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


def point_with_states(
    point: Point, states: ArrayLike | None, qubits: int, dtype: np.dtype
) -> Point:
    """Return a point with the initial states of its examples.

    Args:
        point: Without them.
        states: [B, 2**qubits], or [2**qubits] for one example. Without inputs, they determine the
            number of examples.
        qubits: Number of qubits.
        dtype: Of the circuit's states.
    """
    if states is None:
        raise ArgumentError(
            "initial_states are missing: the circuit is compiled with initial_states=True"
        )
    array = checked_array(states, "initial_states")
    if not point.inputs.shape[1] and not point.batched and array.ndim > 1:  # no inputs
        point = replace(point, inputs=np.empty((len(array), 0)), batched=True)
    shape = (len(point.inputs), 1 << qubits)
    because = f"there is one state of {qubits} qubits per example"
    wanted = shape if point.batched else shape[1:]
    array = checked_complex(array, wanted, "initial_states", because=because).reshape(shape)
    array = np.ascontiguousarray(array, dtype)
    parts = array.view(array.real.dtype)
    norms = np.sqrt(np.einsum("bi,bi->b", parts, parts, dtype=np.float64))
    wrong = ~(np.abs(norms - 1) < MAX_NORM_ERROR)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ArgumentError(
            f"initial_states[{at}] has the norm {norms[at]:g}: normalize it to 1, to"
            f" {MAX_NORM_ERROR:g}"
        )
    return replace(point, initial_states=array)


def checked_method(method: object) -> Method:
    """Check the name of a method."""
    return cast(Method, choice(method_names())(method, "method"))


def checked_dtype(dtype: DTypeLike) -> str:
    """Return the name of the dtype of states."""
    try:
        name = np.dtype(dtype).name
    except Exception:  # TypeError, SyntaxError and others, by the kind of the value
        name = shown(dtype)
    if name not in REAL_DTYPES:
        raise ArgumentError(f"dtype is {name}: use {' or '.join(REAL_DTYPES)}")
    return str(name)


def checked_names(names: Iterable[str | sympy.Symbol], argument: str) -> tuple[str, ...]:
    """Return the names of symbols.

    Args:
        names: Names or symbols.
        argument: Name of the argument.
    """
    return tuple(map(str, _NAMES(names, argument)))


def checked_observables(observables: Observables) -> tuple[cirq.PauliSum, ...]:
    """Return observables as sums; one observable is a sequence of one."""
    if isinstance(observables, cirq.PauliSum | cirq.PauliString):
        observables = (observables,)
    # Copies, since the caller may add terms to a sum.
    sums = [cirq.PauliSum.wrap(one).copy() for one in _OBSERVABLES(observables, "observables")]
    for at, observable in enumerate(sums):
        for qubit in observable.qubits:
            circuit_checks.qubit(qubit, f"a qubit of observables[{at}]")
        for string in observable:
            if cirq.is_parameterized(string) or not np.isfinite(complex(string.coefficient)):
                raise CircuitError(
                    f"observables[{at}] has the coefficient {string.coefficient}: use finite"
                    " numbers"
                )
    return tuple(sums)


def required_observables(observables: Observables) -> tuple[cirq.PauliSum, ...]:
    """Return observables as sums, at least one."""
    sums = checked_observables(observables)
    if not sums:
        raise ArgumentError("observables is empty: pass the observables to read")
    return sums


def checked_symbols(
    inputs: Iterable[str | sympy.Symbol],
    parameters: Iterable[str | sympy.Symbol] | None,
    names: Sequence[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of inputs and parameters.

    Args:
        inputs: Names or symbols.
        parameters: Names or symbols; all other names unless given.
        names: Names of all symbols.
    """
    columns = checked_names(inputs, "inputs")
    if parameters is None:
        return columns, tuple(name for name in names if name not in columns)
    return columns, checked_names(parameters, "parameters")


def checked_initial_state(state: ArrayLike | None) -> np.ndarray | None:
    """Return an initial state; the compiler checks its size and norm."""
    if state is None:
        return None
    array = checked_array(state, "initial_state")
    checked_complex(array, array.shape, "initial_state", because="")
    require_finite(array, "initial_state")
    return array


def checked_array(values: ArrayLike, argument: str) -> np.ndarray:
    """Return values as an array.

    Args:
        values: The values.
        argument: Name of the argument.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise ArgumentError(f"{argument} is a masked array: fill it, or leave masked rows out")
    try:
        return np.asarray(values)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{argument} is not an array: pass numbers, in rows of equal lengths"
        ) from None


def checked_values(
    values: ArrayLike, shape: tuple[int | str, ...], argument: str, *, because: str
) -> np.ndarray:
    """Return an array of finite real numbers as contiguous float64.

    Args:
        values: The array.
        shape: Its shape; a string stands for any length.
        argument: Name of the argument.
        because: Reason of the shape, for the message.
    """
    array = checked_array(values, argument)
    if array.dtype.kind not in _REAL_KINDS:
        raise ArgumentError(f"{argument} has dtype {array.dtype}: pass real numbers")
    _check_shape(array, shape, argument, because)
    array = np.ascontiguousarray(array, np.float64)
    require_finite(array, argument)
    return array


def require_finite(array: np.ndarray, argument: str) -> None:
    """Check that there is neither NaN nor infinity in an array."""
    # No np.vdot: its threads of BLAS spin while the engine computes.
    if not np.isfinite(array).all():
        at = tuple(map(int, np.argwhere(~np.isfinite(array))[0]))
        raise ArgumentError(f"{argument} is {array[at]} at index {at}: pass finite numbers")


def checked_complex(
    values: ArrayLike, shape: tuple[int, ...], argument: str, *, because: str
) -> np.ndarray:
    """Return an array of complex numbers.

    Args:
        values: The array, of real or complex numbers.
        shape: Its shape.
        argument: Name of the argument.
        because: Reason of the shape, for the message.
    """
    array = checked_array(values, argument)
    if array.dtype.kind not in _REAL_KINDS + "c":
        raise ArgumentError(f"{argument} has dtype {array.dtype}: pass complex numbers")
    _check_shape(array, shape, argument, because)
    return array


def _check_shape(
    array: np.ndarray, shape: tuple[int | str, ...], argument: str, because: str
) -> None:
    sizes = array.shape
    if len(sizes) != len(shape) or any(
        wanted != size and not isinstance(wanted, str)
        for wanted, size in zip(shape, sizes, strict=True)
    ):
        wanted = ", ".join(map(str, shape))
        raise ArgumentError(
            f"{argument} has shape {list(sizes)}: pass an array [{wanted}], because {because}"
        )
