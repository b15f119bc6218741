"""Which trained angles of a circuit belong together, told by their names.

Symbols whose names differ in the last number alone are one layer, as theta_00_07 and theta_00_08
are; so they are named in the circuits that ship with qfleet, and usually in a person's own.
"""

import re
from collections.abc import Sequence

MAX_LAYERS = 24

_LAST_NUMBER = re.compile(r"[_\[(.-]*(\d+)[\])]?$")
_SHIPPED = re.compile(r"(?:f\d+_)?theta_(\d+)")


def layers_of(parameters: Sequence[str]) -> dict[str, list[int]]:
    """Trained symbols by layer.

    Args:
        parameters: Their names.

    Returns:
        Layer -> places in `parameters`. One layer of all where there would be more than
        MOST_LAYERS.
    """
    layers: dict[str, list[int]] = {}
    for place, name in enumerate(parameters):
        stem = _LAST_NUMBER.sub("", name) or name
        shipped = _SHIPPED.fullmatch(stem)
        layers.setdefault(f"layer {int(shipped[1]) + 1}" if shipped else stem, []).append(place)
    return layers if len(layers) <= MAX_LAYERS else {"all angles": list(range(len(parameters)))}


def number_of(symbol: str) -> str:
    """The number that tells a symbol from others of its layer; its whole name without one."""
    found = _LAST_NUMBER.search(symbol)
    return found[1] if found else symbol
