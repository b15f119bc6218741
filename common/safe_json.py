"""JSON that another user may have written: bounded in size and depth, and checked before use.

The limits are far above what qfleet writes. `json.loads` alone accepts NaN, numbers that no float
holds, and nesting that only the interpreter's recursion limit ends.
"""

import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError

MAX_BYTES = 64 * 2**20
"""Most bytes of a JSON file."""

MAX_DEPTH = 64
"""Deepest nesting of lists and objects."""

MAX_INTEGER = 2**63 - 1

CheckedT = TypeVar("CheckedT")

Container = dict[str, object] | list[object]


def parse(content: bytes | str) -> Any:
    """Return the value of a JSON text.

    Args:
        content: Text, or UTF-8.

    Raises:
        ValueError: It is not JSON, too large or nested too deep, or contains NaN, an infinite
            number, an integer of more than 64 bits, or text that is not Unicode. The message is the
            end of a sentence that starts with the name of the file: "it is not JSON".
    """
    if len(content) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES // 2**20} MiB")
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        value = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_float, parse_int=_integer
        )
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except _Refused as error:
        raise ValueError(str(error)) from None
    except ValueError:
        raise ValueError("it is not JSON") from None
    _check_depth(value)
    if "\\ud" in text.lower():  # an escape can name half of a character
        _check_unicode(value)
    return value


def check(value: object, kind: TypeAdapter[CheckedT]) -> CheckedT:
    """Check the types of all fields of a parsed value, and return its fields of that type.

    Args:
        value: Result of `parse`.
        kind: The expected type; fields that it does not name are not checked.

    Raises:
        ValueError: A field is missing or has another type. The message names the first one.
    """
    try:
        return kind.validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part)[:40] for part in first["loc"])
        if first["type"] == "missing":
            raise ValueError(f"it lacks {place}") from None
        reason = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
        if not place:
            raise ValueError(f"it is not {reason}") from None
        raise ValueError(f"{place} is not {reason}") from None


_TOO_DEEP = f"it is nested more than {MAX_DEPTH} levels deep"


class _Refused(ValueError):
    """A value that is JSON, or nearly, but is not accepted."""


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"it contains {name}, which is not JSON")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Refused(f"it contains {text[:20]}, which is too large for a number")
    return number


def _integer(text: str) -> int:
    number = int(text) if len(text) <= 20 else None
    if number is None or abs(number) > MAX_INTEGER:
        raise _Refused(f"it contains {text[:20]}..., an integer of more than 64 bits")
    return number


def _containers(value: object) -> Iterator[tuple[Container, int]]:
    """Yield all lists and objects with their depth, without recursion."""
    waiting = [(value, 1)]
    while waiting:
        container, depth = waiting.pop()
        if isinstance(container, dict | list):
            yield container, depth
            inner = container.values() if isinstance(container, dict) else container
            waiting += [(one, depth + 1) for one in inner if isinstance(one, dict | list)]


def _check_depth(value: object) -> None:
    for _, depth in _containers(value):
        if depth > MAX_DEPTH:
            raise ValueError(_TOO_DEEP)


def _check_unicode(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("it contains text that is not Unicode") from None
