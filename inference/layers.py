"""The layers of a circuit, derived from the names of its trained symbols.

Symbols whose names differ only in the last number belong to one layer, such as theta_00_07 and
theta_00_08. The circuits of qfleet use such names, and user circuits usually do.
"""

import re
from collections.abc import Sequence

MAX_LAYERS = 24

_LAST_NUMBER = re.compile(r"[_\[(.-]*(\d+)[\])]?$")
_QFLEET_SYMBOL = re.compile(r"(?:f\d+_)?theta_(\d+)")


def group_by_layer(parameters: Sequence[str]) -> dict[str, list[int]]:
    """Group trained symbols by layer.

    Args:
        parameters: Names of the symbols.

    Returns:
        Name of the layer -> indices into `parameters`. A single layer if there would be more
        than MAX_LAYERS.
    """
    layers: dict[str, list[int]] = {}
    for index, name in enumerate(parameters):
        stem = _LAST_NUMBER.sub("", name) or name
        match = _QFLEET_SYMBOL.fullmatch(stem)
        layers.setdefault(f"layer {int(match[1]) + 1}" if match else stem, []).append(index)
    return layers if len(layers) <= MAX_LAYERS else {"all angles": list(range(len(parameters)))}


def symbol_number(symbol: str) -> str:
    """Return the number of a symbol within its layer; its name if it has no number."""
    match = _LAST_NUMBER.search(symbol)
    return match[1] if match else symbol
