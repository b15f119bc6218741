"""Law of pulses: a wrong argument of a constructor is refused by an error that names it."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from qfleet.errors import ArgumentError
from qfleet.pulses import (
    Atoms,
    BSplineSeries,
    ControlChannel,
    CosineSeries,
    Coupling,
    Drag,
    FlatTop,
    GateObjective,
    Gaussian,
    GaussianFilter,
    Grid,
    PiecewiseConstant,
    Propagator,
    Pulse,
    PulseGate,
    SplitEvolution,
    Transmon,
    Transmons,
    amplitude_table,
    drive,
    optimize,
    populations,
)

QUBIT = Transmon(5.0, -0.3, 3)
DEVICE, GRID, CHANNELS = Transmons((QUBIT,)), Grid(8, 0.5), drive(0)
PULSE = Pulse([(Drag(GRID), CHANNELS)])
PROPAGATOR = Propagator(DEVICE, CHANNELS, GRID)

# Each constructor with arguments that are valid, by name.
VALID: dict[Callable[..., Any], dict[str, Any]] = {
    Transmon: {"frequency": 5.0, "anharmonicity": -0.3, "levels": 3, "drive_frequency": 5.1}
    | {"drive_strength": 1.0, "t1": 1e5, "t2": 1e5},
    Coupling: {"first": 0, "second": 1, "exchange": 0.01, "zz": 0.001},
    Transmons: {"qubits": (QUBIT,) * 2, "couplings": (Coupling(0, 1),), "rotating_wave": True},
    Atoms: {"positions": ((0, 0), (5, 0)), "c6": 800.0},
    ControlChannel: {"kind": "in_phase", "qubits": (0,), "bound": 1.0},
    Grid: {"duration": 8, "dt": 0.5},
    PiecewiseConstant: {"grid": GRID},
    Gaussian: {"grid": GRID},
    Drag: {"grid": GRID, "anharmonicity": -0.3},
    FlatTop: {"grid": GRID},
    CosineSeries: {"grid": GRID, "terms": 3},
    BSplineSeries: {"grid": GRID, "terms": 3},
    GaussianFilter: {"bandwidth": 0.3},
    Pulse: {"parts": PULSE.parts, "filter": GaussianFilter(0.3)},
    Propagator: {"devices": DEVICE, "channels": CHANNELS, "grid": GRID, "order": 2}
    | {"steps_per_sample": 1, "decay": False},
    SplitEvolution: {"device": DEVICE, "channels": CHANNELS, "grid": GRID}
    | {"steps_per_sample": 1, "block": 9},
    GateObjective: {"propagator": PROPAGATOR, "pulse": PULSE, "target": np.eye(2)}
    | {"virtual_z": True},
    PulseGate: {"propagator": PROPAGATOR, "pulse": PULSE, "values": [0.1, 3.0, 0.0]}
    | {"virtual_z": [0.0]},
}
CASES = [(make, name) for make, valid in VALID.items() for name in valid]

NOT_NUMBERS = (math.nan, math.inf, -math.inf, 1e300, 1j, "3", "", b"3")
OTHER_TYPES = (object(), lambda: None, np.full(3, math.nan), [math.nan], [[1, 2], [3]], -77.5)
SIGNED = {"exchange", "zz", "anharmonicity"}  # numbers that may be negative, in GHz


@pytest.mark.parametrize(("make", "name"), CASES, ids=lambda one: getattr(one, "__name__", one))
def test_wrong_argument_is_refused_by_name(make: Callable[..., Any], name: str) -> None:
    make(**VALID[make])
    for value in (*NOT_NUMBERS, *OTHER_TYPES):
        with pytest.raises(ArgumentError) as found:
            make(**{**VALID[make], name: value})
        message = str(found.value)
        assert name in message, (value, message)
        assert "\n" not in message


AMPLITUDES = np.zeros((16, 2))
SPLIT = SplitEvolution(DEVICE, CHANNELS, GRID)
METHODS: list[tuple[str, Callable[[Any], object]]] = [
    ("tolerance", lambda value: PROPAGATOR.within(value, AMPLITUDES)),
    ("tolerance", lambda value: SPLIT.within(value, AMPLITUDES)),
    ("amplitudes", PROPAGATOR),
    ("amplitudes", SPLIT),
    ("state", lambda value: SPLIT(AMPLITUDES, value)),
    ("upstream", PROPAGATOR.with_pullback(AMPLITUDES)[1]),
    ("upstream", SPLIT.with_pullback(AMPLITUDES)[1]),
    ("grid", GaussianFilter(0.3).matrix),
    ("parameters", PULSE.sample),
    ("objective", lambda value: optimize(value, np.zeros(4))),
    ("propagator", lambda value: populations(value, AMPLITUDES)),
    ("gate", amplitude_table),
]


@pytest.mark.parametrize(("name", "call"), METHODS)
def test_wrong_argument_of_a_call_is_refused(name: str, call: Callable[[Any], object]) -> None:
    for value in (math.nan, "3", b"3", object(), np.full(5, math.nan), [[1, 2], [3]]):
        with pytest.raises(ArgumentError, match=name):
            call(value)


def test_state_without_norm_has_no_trajectories() -> None:
    with pytest.raises(ArgumentError, match="state is 0"):
        SPLIT.trajectories(AMPLITUDES, 2, state=np.zeros(3))


@pytest.mark.parametrize(
    ("make", "name"),
    [(make, name) for make, name in CASES if type(VALID[make][name]) in (int, float)],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_negative_number_is_refused_by_name(make: Callable[..., Any], name: str) -> None:
    value = -VALID[make][name] if name not in SIGNED else -VALID[make][name] * 1e9
    with pytest.raises(ArgumentError, match=name):
        make(**{**VALID[make], name: value - 1})
