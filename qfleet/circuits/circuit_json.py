"""Circuits as Cirq JSON, including functions of symbols that Cirq cannot serialize.

`from_json` reads what `to_json` wrote, also from other people's files. `cirq.read_json` must not be
given such text: some of its types pass their arguments to `sympy.sympify`, which evaluates texts as
Python.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import cirq
import sympy
from cirq.protocols.json_serialization import CirqEncoder, factory_from_json

from qfleet.compiler.expressions import FUNCTIONS

MAX_DEPTH = 200
"""Deepest nesting of the JSON of a circuit."""

MAX_OPERATIONS = 10_000_000
"""Most JSON objects of a circuit, with the repetitions of its parts."""

MAX_INTEGER = 2**63
MAX_POWER = 64
"""Largest constant exponent, since sympy evaluates powers of numbers at once."""

_KNOWN = {*FUNCTIONS, "Min", "Max"}
_OPERATORS = {
    "Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "pi", "E", "EulerGamma",
}  # fmt: skip
_SYMPY = {f"sympy.{name}" for name in _KNOWN | _OPERATORS}
_CLASSES = (
    cirq.Gate,
    cirq.Operation,
    cirq.Qid,
    cirq.Moment,
    cirq.AbstractCircuit,
    cirq.ParamResolver,
    cirq.PauliSum,
    cirq.ProductOfSums,
    cirq.SumOfProducts,
    complex,
)
_TEXT_FIELDS = {
    "cirq_type", "name", "key", "tags", "parent_path", "repetition_ids", "measurement_key_map",
}  # fmt: skip


class _Encoder(CirqEncoder):
    def default(self, o: Any) -> Any:
        name = type(o).__name__
        if isinstance(o, sympy.Function | sympy.Min | sympy.Max) and name in _KNOWN:
            return {"cirq_type": f"sympy.{name}", "args": o.args}
        return super().default(o)


def _resolver(cirq_type: str) -> Callable[..., sympy.Expr] | None:
    namespace, _, name = cirq_type.partition(".")
    if namespace != "sympy" or name not in _KNOWN:
        return None
    # Without `sympify`, a text argument would be evaluated as Python.
    return lambda args: getattr(sympy, name)(*(sympy.sympify(arg, strict=True) for arg in args))


cirq.DEFAULT_RESOLVERS.append(_resolver)


def to_json(value: Any) -> str:
    """Serialize a circuit, or any other value that Cirq serializes, as JSON.

    Args:
        value: The value.

    Returns:
        Text for `from_json`.
    """
    return cirq.to_json(value, cls=_Encoder)


def from_json(text: str) -> cirq.Circuit:
    """Return the circuit that `to_json` wrote. The text may be another user's.

    Args:
        text: JSON of a circuit of gates on qubits.

    Raises:
        ValueError: It is not such a circuit, or it has other types, texts in the place of numbers,
            or more than MAX_OPERATIONS objects.
    """
    circuit = value_from_json(text)
    if not isinstance(circuit, cirq.Circuit):
        raise ValueError("it is not a circuit")
    return circuit


def value_from_json(text: str) -> Any:
    """Return the circuit, or the list of observables, that `to_json` wrote; as `from_json`."""
    try:
        content = json.loads(text)
        _check(content)
        return cirq.read_json(json_text=text)
    except RecursionError:
        raise ValueError("the circuit is nested too deep") from None
    except ValueError:
        raise
    except Exception as error:  # constructors of gates raise anything for malformed arguments
        raise ValueError(f"the circuit can't be read: {str(error)[:200]}") from None


def _check(content: Any) -> None:
    """Raise if a circuit has an object that is not expected."""
    if _depth(content) > MAX_DEPTH:
        raise ValueError("the circuit is nested too deep")
    size = _Size()
    if size.of(content) > MAX_OPERATIONS:
        raise ValueError(f"the circuit has more than {MAX_OPERATIONS:,} operations")


def _depth(content: Any) -> int:
    deepest, waiting = 0, [(content, 1)]
    while waiting:
        value, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting += [(one, depth + 1) for one in _inner(value)]
    return deepest


def _inner(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


class _Size:
    """Checks the types of all objects, and counts them with their repetitions."""

    def __init__(self) -> None:
        self._shared: dict[int, int] = {}

    def of(self, value: Any, field: str = "") -> int:
        """Return the number of objects in a value.

        Args:
            value: A part of the JSON.
            field: The key of the value in its object.

        Raises:
            ValueError: A type, a text or a number is not expected.
        """
        if isinstance(value, list):
            if field.endswith("exponent"):
                raise ValueError(f"the circuit has a list in the field {field[:40]!r}")
            return 1 + sum(self.of(one, field) for one in value)
        if isinstance(value, str) and field not in _TEXT_FIELDS:
            raise ValueError(f"the circuit has a text in the field {field[:40]!r}")
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise ValueError("the circuit has an integer of more than 64 bits")
        if not isinstance(value, dict):
            return 1
        return self._of_object(value)

    def _of_object(self, value: dict[str, Any]) -> int:
        kind = value.get("cirq_type")
        if kind == "REF":
            return self._shared.get(_key(value), 1)
        if kind is not None and kind != "VAL":
            _check_type(kind, value)
        size = 1 + sum(self.of(one, field) for field, one in value.items())
        if kind == "VAL":
            self._shared[_key(value)] = size
        elif kind == "CircuitOperation":
            repetitions = value.get("repetitions", 1)
            size *= abs(repetitions) if isinstance(repetitions, int) else 1
        return size


def _key(value: dict[str, Any]) -> int:
    key = value.get("key")
    if not isinstance(key, int):
        raise ValueError("the circuit refers to a part without a number")
    return key


def _check_type(kind: object, value: dict[str, Any]) -> None:
    if not isinstance(kind, str):
        raise ValueError("the circuit has an object without a type")
    if kind.startswith("sympy."):
        if kind not in _SYMPY:
            raise ValueError(f"the circuit has an expression of type {kind[:40]}")
        if kind != "sympy.Symbol" and any(isinstance(one, str) for one in _all(value, "cirq_type")):
            raise ValueError(f"the circuit has a text in an expression of type {kind[:40]}")
        if kind == "sympy.Pow":
            _check_power(value)
        return
    found: object = factory_from_json(kind)
    if not (isinstance(found, type) and issubclass(found, _CLASSES)):
        raise ValueError(f"the circuit has an object of type {kind[:40]}")


def _all(value: dict[str, Any], *ignored: str) -> Iterator[Any]:
    """Yield the fields of an object, and the items of those that are lists."""
    for field, one in value.items():
        if field not in ignored:
            yield from one if isinstance(one, list) else [one]


def _check_power(value: dict[str, Any]) -> None:
    """Raise for a power of constants that sympy would compute to millions of digits."""
    for exponent in list(_all(value, "cirq_type"))[1:]:
        if isinstance(exponent, dict) and exponent.get("cirq_type") == "sympy.Integer":
            exponent = exponent.get("i")
        symbolic = isinstance(exponent, dict) and _has_symbol(exponent)
        if not symbolic and not (isinstance(exponent, int | float) and abs(exponent) <= MAX_POWER):
            raise ValueError(f"the circuit has a constant exponent above {MAX_POWER}")
    base = next(_all(value, "cirq_type"), None)
    if isinstance(base, dict) and not _has_symbol(base) and base.get("cirq_type") in (
        "sympy.Pow", "sympy.Mul",
    ):  # fmt: skip
        raise ValueError("the circuit has a power of a constant power")


def _has_symbol(value: Any) -> bool:
    if isinstance(value, dict) and value.get("cirq_type") == "sympy.Symbol":
        return True
    return any(_has_symbol(one) for one in _inner(value))
