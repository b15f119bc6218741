"""Circuits as Cirq JSON, including functions of symbols that Cirq cannot serialize.

`from_json` reads what `to_json` wrote, also from other people's files. `cirq.read_json` must not be
given such text: some of its types pass their arguments to `sympy.sympify`, which evaluates texts as
Python.
"""

import json
import keyword
import re
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import cirq
import sympy
from cirq.protocols.json_serialization import CirqEncoder, factory_from_json

from qfleet.compiler.circuit import expressions
from qfleet.compiler.circuit.expressions import FUNCTIONS
from qfleet.compiler.circuit.location import describe_location
from qfleet.compiler.circuit.lowering import gate_key, lower
from qfleet.compiler.circuit.parity import known_gates
from qfleet.errors import CircuitError

MAX_DEPTH = 200
"""Deepest nesting of the JSON of a circuit."""

MAX_OPERATIONS = 10_000_000
"""Most JSON objects of a circuit, with the repetitions of its parts."""

MAX_INTEGER = 2**63
MAX_POWER = 1000
"""Largest number in an exponent, since sympy evaluates powers of numbers at once."""

MAX_BITS = 2**16
"""Most bits of a power of numbers."""

MAX_BOOLEAN_NAMES, MAX_BOOLEAN_LENGTH = 16, 1000
"""Most names in a Boolean Hamiltonian, and characters of an expression."""

_KNOWN = {*FUNCTIONS, "Min", "Max"}
_OPERATORS = {
    "Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "pi", "E", "EulerGamma",
}  # fmt: skip
_CONSTANTS = {"GoldenRatio", "Catalan", "TribonacciConstant", "I"}
_SYMPY = {f"sympy.{name}" for name in _KNOWN | _OPERATORS | _CONSTANTS}
_PULSE_GATE = "qfleet.PulseGate"
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
    cirq.Duration,
    cirq.VirtualTag,
    cirq.RoutingSwapTag,
    complex,
)
_TEXT_FIELDS = {
    "cirq_type", "name", "key", "tags", "parent_path", "repetition_ids", "measurement_key_map",
    "parameter_names", "boolean_strs", "kind", "type",
}  # fmt: skip


class _References:
    """References to circuits that a file has already.

    Cirq would refer to equal ones, whose unitaries may differ.
    """

    def __init__(self) -> None:
        self._known: dict[
            int, tuple[object, dict[str, object]]
        ] = {}  # with the object, which keeps its id

    def __len__(self) -> int:
        return len(self._known)

    def get(self, value: object) -> dict[str, object] | None:
        """Return the reference to an object."""
        return self._known[id(value)][1] if id(value) in self._known else None

    def __setitem__(self, value: object, reference: dict[str, object]) -> None:
        self._known[id(value)] = value, reference


class _Encoder(CirqEncoder):
    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._memo = _References()

    def default(self, o: Any) -> object:
        if isinstance(o, sympy.Expr):
            o = _carried(o)
            name = "I" if o == sympy.I else type(o).__name__
            if name in _KNOWN:
                return {"cirq_type": f"sympy.{name}", "args": o.args}
            if name in _CONSTANTS:
                return {"cirq_type": f"sympy.{name}"}
        elif isinstance(o, cirq.ParamResolver):  # a key that is a text may not be read again
            o = cirq.ParamResolver({_symbol(key): value for key, value in o.param_dict.items()})
        try:
            content = super().default(o)
        except TypeError:
            raise ValueError(f"JSON does not carry a {type(o).__name__}") from None
        if isinstance(o, cirq.PauliInteractionGate):  # Cirq leaves its exponent out
            content = {**content, "exponent": o.exponent}
        return content


def _carried(expression: sympy.Expr) -> sympy.Expr:
    """Return an expression, or the number of 64 bits of a constant that JSON does not carry."""
    name = type(expression).__name__
    is_wide = (
        isinstance(expression, sympy.Rational)
        and max(abs(expression.p), expression.q) > MAX_INTEGER
    )
    is_known = expression.is_Add or expression.is_Mul or expression.is_Pow or name in _KNOWN
    is_known = is_known or (expression.is_Atom and not is_wide)
    if is_known or expression.free_symbols:
        return expression
    value = expressions.number(expression)
    return sympy.Float(value.real) + sympy.I * value.imag if value.imag else sympy.Float(value.real)


def _symbol(key: str | sympy.Expr) -> sympy.Expr:
    return sympy.Symbol(key) if isinstance(key, str) else key


def _resolver(cirq_type: str) -> Callable[..., Any] | None:
    if cirq_type == _PULSE_GATE:
        from qfleet.pulses import PulseGate  # few circuits have pulses

        return PulseGate
    namespace, _, name = cirq_type.partition(".")
    if namespace != "sympy":
        return None
    if name == "Pow":
        return lambda args: _power(*_expressions(args))
    if name in _CONSTANTS:
        return lambda: getattr(sympy, name)
    if name in _KNOWN:
        return lambda args: _finite(getattr(sympy, name)(*_expressions(args)))
    return None


def _expressions(args: list[object]) -> list[sympy.Expr]:
    # Without `strict`, a text argument would be evaluated as Python.
    return [sympy.sympify(arg, strict=True) for arg in args]


def _power(base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
    """Return a power, unless sympy could compute it to millions of digits."""
    largest = max((abs(float(one)) for one in exponent.atoms(sympy.Number)), default=0.0)
    if not exponent.free_symbols:
        largest = max(largest, abs(expressions.number(exponent)))
    if not largest <= MAX_POWER:
        raise ValueError(f"the circuit has a number above {MAX_POWER} in an exponent")
    bits = sum(one.p.bit_length() + one.q.bit_length() for one in base.atoms(sympy.Rational))
    if bits * largest > MAX_BITS:
        raise ValueError(f"the circuit has a power of numbers of more than {MAX_BITS:,} bits")
    return _finite(sympy.Pow(base, exponent))


def _finite(expression: sympy.Expr) -> sympy.Expr:
    """Return an expression, unless it is a constant that a function would evaluate for long."""
    # A constant such as floor(exp(10**18)) has more digits than the memory has bytes.
    if expression.free_symbols or abs(expressions.number(expression)) < float("inf"):
        return expression
    raise ValueError("the circuit has a constant that is not finite")


cirq.DEFAULT_RESOLVERS.append(_resolver)
_RESOLVERS = [_resolver, *cirq.DEFAULT_RESOLVERS]


def to_json(value: object) -> str:
    """Serialize a circuit, or any other value that Cirq serializes, as JSON.

    Args:
        value: The value. Gates of a circuit that JSON does not carry, such as a user's own, are
            written as rotations and matrices of equal unitaries, and without their tags.

    Returns:
        Text for `from_json`.

    Raises:
        CircuitError: A gate that JSON does not carry cannot be compiled.
        ValueError: JSON does not carry the value.
    """
    try:
        return str(cirq.to_json(value, cls=_Encoder))
    except ValueError:
        if not isinstance(value, cirq.AbstractCircuit):
            raise
    return str(cirq.to_json(_in_known_gates(value), cls=_Encoder))


def _in_known_gates(circuit: cirq.AbstractCircuit) -> cirq.Circuit:
    """Return an equal circuit of gates that JSON carries."""
    result = cirq.Circuit()
    for moment in circuit:
        kept: list[cirq.Operation] = []
        others: list[cirq.Operation] = []
        for operation in moment:
            try:
                cirq.to_json(operation, cls=_Encoder)
                kept.append(operation)
            except ValueError:
                others += known_gates(lower(cirq.Circuit(operation)))
        result += cirq.Circuit([cirq.Moment(kept)] if kept else [], others)
    # A part that is repeated 0 times has qubits, but no gates.
    left = circuit.all_qubits() - result.all_qubits()
    return result + cirq.Moment(cirq.I.on_each(*sorted(left))) if left else result


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


def value_from_json(text: str) -> object:
    """Return the circuit, or the list of observables, that `to_json` wrote; as `from_json`."""
    try:
        content = json.loads(text)
        _check(content)
        return cirq.read_json(json_text=text, resolvers=_RESOLVERS)
    except RecursionError:
        raise ValueError("the circuit is nested too deep") from None
    except ValueError:
        raise
    except Exception as error:  # constructors of gates raise anything for malformed arguments
        raise ValueError(f"the circuit can't be read: {str(error)[:200]}") from None


def _check(content: object) -> None:
    """Raise if a circuit has an object that is not expected."""
    if _depth(content) > MAX_DEPTH:
        raise ValueError("the circuit is nested too deep")
    size = _Size()
    if size.of(content) > MAX_OPERATIONS:
        raise ValueError(f"the circuit has more than {MAX_OPERATIONS:,} operations")


def _depth(content: object) -> int:
    deepest, waiting = 0, [(content, 1)]
    while waiting:
        value, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting += [(one, depth + 1) for one in _inner(value)]
    return deepest


def _inner(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


class _Size:
    """Checks the types of all objects, and counts them with their repetitions."""

    def __init__(self) -> None:
        self._shared: dict[int, int] = {}

    def of(self, value: object, field: str = "") -> int:
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

    def _of_object(self, value: dict[str, object]) -> int:
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


def _key(value: dict[str, object]) -> int:
    key = value.get("key")
    if not isinstance(key, int):
        raise ValueError("the circuit refers to a part without a number")
    return key


def _check_type(kind: object, value: dict[str, object]) -> None:
    if not isinstance(kind, str):
        raise ValueError("the circuit has an object without a type")
    if kind.startswith("sympy."):
        if kind not in _SYMPY:
            raise ValueError(f"the circuit has an expression of type {kind[:40]}")
        if kind != "sympy.Symbol" and any(isinstance(one, str) for one in _all(value, "cirq_type")):
            raise ValueError(f"the circuit has a text in an expression of type {kind[:40]}")
        return
    if kind == "BooleanHamiltonianGate":
        _check_booleans(value)
    found: object = factory_from_json(kind)
    if not (isinstance(found, type) and issubclass(found, _CLASSES)):
        raise ValueError(f"the circuit has an object of type {kind[:40]}")


def _all(value: dict[str, object], *ignored: str) -> Iterator[object]:
    """Yield the fields of an object, and the items of those that are lists."""
    for field, one in value.items():
        if field not in ignored:
            yield from one if isinstance(one, list) else [one]


def _check_booleans(value: dict[str, object]) -> None:
    """Raise for expressions that are no operators on names: Cirq 1.5 evaluates them as Python."""
    names, texts = value.get("parameter_names"), value.get("boolean_strs")
    if not (isinstance(names, list) and isinstance(texts, list)):
        raise ValueError("the circuit has a Boolean Hamiltonian without expressions")
    if len(names) > MAX_BOOLEAN_NAMES:
        raise ValueError(f"a Boolean Hamiltonian has more than {MAX_BOOLEAN_NAMES} names")
    if not all(
        isinstance(name, str) and name.isidentifier() and name.isascii()
        and not keyword.iskeyword(name) and not name.startswith("__") for name in names
    ):  # fmt: skip
        raise ValueError("a Boolean Hamiltonian has a name that is not an identifier")
    for text in texts:
        known = isinstance(text, str) and set(re.findall(r"\w+", text)) <= set(names)
        if not known or re.search(r"[^\w\s&|^~()]|\w\s*\(", text):
            raise ValueError("a Boolean Hamiltonian has other parts than names, & | ^ ~ and ( )")
        if len(text) > MAX_BOOLEAN_LENGTH:
            raise ValueError(f"a Boolean Hamiltonian has more than {MAX_BOOLEAN_LENGTH} characters")


def require_json(circuit: cirq.AbstractCircuit) -> None:
    """Check that `from_json` returns a circuit, so that what is trained can be saved and loaded.

    Raises:
        CircuitError: The message names the gate, the moment and the qubits.
    """
    checked: set[Hashable] = set()
    for index, moment in enumerate(circuit):
        for operation in moment:
            kind = _kind(operation)
            if kind is not None and kind in checked:
                continue
            try:
                value_from_json(to_json(cirq.Circuit(operation)))
            except ValueError as error:
                raise CircuitError(
                    f"{describe_location(operation, index)} cannot be saved: {error}"
                ) from None
            checked.add(kind)


def _kind(operation: cirq.Operation) -> Hashable:
    """Return what decides whether JSON carries a frequent operation; None for others.

    The name of a symbol and the value of a float do not.
    """
    gate = operation.gate
    if type(operation) is not cirq.GateOperation or gate_key(gate) is None:
        return None
    assert isinstance(gate, cirq.EigenGate)
    exponent = gate.exponent
    shape: Hashable = exponent
    if isinstance(exponent, sympy.Symbol | float):
        shape = type(exponent).__name__
    elif isinstance(exponent, sympy.Mul):
        shape = tuple("symbol" if part.is_Symbol else part for part in exponent.args)
    return type(gate), gate.global_shift, shape, *map(type, operation.qubits)
