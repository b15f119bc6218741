"""Checks of the arguments of public functions, by name. Imports no package."""

import functools
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from qfleet.errors import ArgumentError

Check = Callable[[Any, str], Any]
"""Takes a value and the name of its argument; returns the value, or raises ArgumentError."""

_P = ParamSpec("_P")
_R = TypeVar("_R")

_MAX_SHOWN = 60  # characters of a value in a message


def checked(**checks: Check) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator that checks arguments before a function is called.

    Args:
        checks: The check of each argument; default values are not checked.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: _P.args, **named: _P.kwargs) -> _R:
            given = signature.bind(*args, **named)
            for name, value in given.arguments.items():  # in the order of the signature
                if name in checks:
                    given.arguments[name] = checks[name](value, name)
            return function(*given.args, **given.kwargs)

        return call

    return decorate


def shown(value: object) -> str:
    """Return a value for a message: its representation, or its type if that is long."""
    try:
        text = repr(value)
    except Exception:  # of a class of the user
        text = ""
    is_short = text and len(text) <= _MAX_SHOWN and "\n" not in text
    return text if is_short else f"a {type(value).__name__}"


def instance(kinds: Any, wanted: str) -> Check:
    """Return the check of a type.

    Args:
        kinds: The allowed types, as for `isinstance`.
        wanted: What to pass, for the message.
    """

    def check(value: Any, name: str) -> Any:
        if not isinstance(value, kinds):
            raise ArgumentError(f"{name} is {shown(value)}: pass {wanted}")
        return value

    return check


def items(each: Check, wanted: str) -> Check:
    """Return the check of a sequence, which is returned as a tuple.

    Args:
        each: The check of its items.
        wanted: What to pass, for the message.
    """

    def check(values: Any, name: str) -> tuple[Any, ...]:
        try:
            found = None if isinstance(values, str | bytes) else tuple(values)
        except TypeError:
            found = None
        if found is None:
            raise ArgumentError(f"{name} is {shown(values)}: pass {wanted}")
        return tuple(each(value, f"{name}[{at}]") for at, value in enumerate(found))

    return check


def integer(least: int, most: int | None = None) -> Check:
    """Return the check of an integer within bounds, both included."""
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"

    def check(value: Any, name: str) -> int:
        # `__index__` is that of integers, also of NumPy's, and of no float.
        if isinstance(value, bool) or not hasattr(type(value), "__index__"):
            raise ArgumentError(f"{name} is {shown(value)}: pass an integer")
        try:
            number = operator.index(value)
        except TypeError:  # of an array
            raise ArgumentError(f"{name} is {shown(value)}: pass an integer") from None
        if number < least or (most is not None and number > most):
            raise ArgumentError(f"{name} is {number}: pass an integer {bounds}")
        return number

    return check


def number(value: Any, name: str) -> float:
    """Check a finite real number, also of NumPy."""
    try:
        found = math.nan if isinstance(value, str | bytes | bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise ArgumentError(f"{name} is {shown(value)}: pass a finite number")
    return found


def optional(check: Check) -> Check:
    """Return a check that lets None pass."""
    return lambda value, name: None if value is None else check(value, name)


def choice(values: Sequence[str]) -> Check:
    """Return the check of one of some names."""

    def check(value: object, name: str) -> str:
        if not isinstance(value, str) or value not in values:
            raise ArgumentError(f"{name} is {shown(value)}: choose {', '.join(values)}")
        return value

    return check


def flag(value: object, name: str) -> bool:
    """Check True or False, also of NumPy."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise ArgumentError(f"{name} is {shown(value)}: pass True or False")
    return bool(value)


def function(count: int, wanted: str) -> Check:
    """Return the check of a function that is called with arguments by position.

    Args:
        count: The number of arguments; that of a built-in function may be unknown.
        wanted: The arguments, for the message.
    """

    def check(value: Any, name: str) -> Any:
        error = ArgumentError(f"{name} is {shown(value)}: pass a function of {wanted}")
        # A gate of Cirq can be called, too: with qubits.
        if not callable(value) or hasattr(value, "num_qubits"):
            raise error
        try:
            inspect.signature(value).bind(*range(count))
        except TypeError:
            raise error from None
        except ValueError:
            pass  # a built-in function without a signature
        return value

    return check


TEXT = instance(str, "a text")
NAMES = items(TEXT, "a sequence of names")
