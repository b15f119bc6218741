"""Devices, propagators and pulses as values of JSON, and back."""

from collections.abc import Mapping
from dataclasses import fields
from numbers import Real
from typing import Any

from qfleet.errors import ArgumentError
from qfleet.pulses.atoms import Atoms
from qfleet.pulses.channels import ControlChannel
from qfleet.pulses.envelopes import Drag, FlatTop, Gaussian
from qfleet.pulses.grid import Grid
from qfleet.pulses.propagator import Propagator
from qfleet.pulses.pulse import GaussianFilter, Pulse
from qfleet.pulses.series import BSplineSeries, CosineSeries, PiecewiseConstant
from qfleet.pulses.transmons import Coupling, Transmon, Transmons

_CLASSES: Mapping[str, type[Any]] = {
    one.__name__: one
    for one in (
        *(Atoms, Transmon, Coupling, Transmons, ControlChannel, Grid, Propagator),
        *(Gaussian, Drag, FlatTop, PiecewiseConstant, CosineSeries, BSplineSeries),
        *(GaussianFilter, Pulse),
    )
}


def encoded(value: object) -> Any:
    """Return an object of this package as values of JSON, with the name of its class.

    Args:
        value: A propagator, a pulse or a part of one.

    Raises:
        ValueError: It has an object of another class.
    """
    kind = type(value)
    if _CLASSES.get(kind.__name__) is kind:
        content = {one.name: encoded(getattr(value, one.name)) for one in fields(kind) if one.init}
        return {"type": kind.__name__, **content}
    if isinstance(value, tuple | list):
        return [encoded(one) for one in value]
    if value is None or isinstance(value, str | Real):
        return value
    raise ValueError(f"JSON does not carry a {kind.__name__}")


def decoded(content: object) -> Any:
    """Return the object that `encoded` wrote, also from another user's file.

    Args:
        content: Values of JSON.

    Raises:
        ArgumentError: A class is unknown, or an argument of it is wrong.
        TypeError: An argument is unknown or missing.
    """
    if isinstance(content, list):
        return tuple(decoded(one) for one in content)
    if not isinstance(content, Mapping):
        return content
    name, rest = content.get("type"), {key: one for key, one in content.items() if key != "type"}
    if not isinstance(name, str) or name not in _CLASSES:
        raise ArgumentError(f"type is {str(name)[:40]!r}: use {', '.join(_CLASSES)}")
    return _CLASSES[name](**{key: decoded(one) for key, one in rest.items()})
