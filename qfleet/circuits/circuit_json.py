"""Circuits as Cirq JSON, including functions of symbols that Cirq cannot serialize.

`cirq.read_json` reads the result once this module is imported.
"""

from collections.abc import Callable
from typing import Any

import cirq
import sympy
from cirq.protocols.json_serialization import CirqEncoder

from qfleet.compiler.expressions import FUNCTIONS

_KNOWN = {*FUNCTIONS, "Min", "Max"}


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
    return lambda args: getattr(sympy, name)(*args)


cirq.DEFAULT_RESOLVERS.append(_resolver)


def to_json(value: Any) -> str:
    """Serialize a circuit, or any other value that Cirq serializes, as JSON.

    Args:
        value: The value.

    Returns:
        Text for `cirq.read_json(json_text=...)`.
    """
    return cirq.to_json(value, cls=_Encoder)
