"""Names of the qubits of a device, and their order. Imports no package."""

import re

QUBIT = re.compile(r"[0-9]{1,5}(_[0-9]{1,5})?")
"""Pattern of a name: a number, or row_column."""

Pair = tuple[str, str]
"""Two qubits, sorted by `qubit_order`."""


def qubit_order(name: str) -> tuple[int, ...]:
    """Return the key by which qubits are sorted; other names come first."""
    return tuple(int(one) for one in name.split("_")) if QUBIT.fullmatch(name) else ()


def ordered(first: str, second: str) -> Pair:
    """Return two qubits in order."""
    return (first, second) if qubit_order(first) <= qubit_order(second) else (second, first)
