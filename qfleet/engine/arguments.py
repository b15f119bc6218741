"""Checks of the arguments of compiled circuits. Every error names the argument."""

import cmath
from collections.abc import Iterable, Sequence
from numbers import Complex
from typing import TypeAlias, cast

import cirq
import numpy as np
import sympy
from numpy.typing import ArrayLike, DTypeLike

from qfleet import circuit_checks
from qfleet.argument_checks import choice, instance, items, shown
from qfleet.compiler.choose_method import Method, method_names
from qfleet.engine.exponent_program import REAL_DTYPES
from qfleet.errors import ArgumentError, CircuitError

_NAMES = items(instance(str | sympy.Symbol, "names of symbols"), "a sequence such as ['x']")
_OBSERVABLES = items(
    instance(cirq.PauliSum | cirq.PauliString | Complex, "a cirq.PauliSum or cirq.PauliString"),
    "a sequence of cirq.PauliSum",
)
_Observable: TypeAlias = cirq.PauliSum | cirq.PauliString | complex
Observables: TypeAlias = _Observable | Iterable[_Observable]
"""One observable or several, as users pass them."""

_FEW_NUMBERS = 1024  # that no BLAS divides among threads
_REAL_KINDS = "fiub"  # NumPy's kinds: floats, integers, unsigned integers, booleans


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
    # A sum of squares takes half the time. BLAS has threads for many numbers, and these would spin
    # while the engine computes.
    if array.size <= _FEW_NUMBERS and cmath.isfinite(np.vdot(array, array)):
        return
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
    if len(sizes) == len(shape):
        for wanted, size in zip(shape, sizes, strict=True):
            if wanted != size and not isinstance(wanted, str):
                break
        else:
            return
    expected = ", ".join(map(str, shape))
    raise ArgumentError(
        f"{argument} has shape {list(sizes)}: pass an array [{expected}], because {because}"
    )
