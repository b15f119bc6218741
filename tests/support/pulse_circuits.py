"""Circuits of three gates and one pulse, with symbols."""

from dataclasses import replace

import cirq
import numpy as np
import sympy

from qfleet.pulses import (
    BSplineSeries,
    ControlChannel,
    Coupling,
    Drag,
    Grid,
    Propagator,
    Pulse,
    PulseGate,
    Transmon,
    Transmons,
    drive,
)

TRANSMON = Transmon(frequency=5.0, anharmonicity=-0.3, levels=3)
PAIR = Transmons((TRANSMON, replace(TRANSMON, frequency=5.1)), (Coupling(0, 1, exchange=0.01),))
QUBITS = cirq.LineQubit.range(2)
OBSERVABLES = [cirq.Z(QUBITS[0]), cirq.X(QUBITS[1]) + 0.5 * cirq.Y(QUBITS[0]) * cirq.Z(QUBITS[1])]
NAMES = ("a", "s", "b", "v")
POINT = np.array([0.3, 3.0, 0.8, 0.4])
"""Values of NAMES."""
ROWS = np.array([[0.4, -0.9], [1.3, 0.2], [-0.5, 2.0]])
"""Inputs of three examples."""


def one_qubit_gate() -> PulseGate:
    """Return a DRAG pulse with the symbols a, s, b and the virtual rotation v."""
    grid = Grid(10, 0.5)
    pulse = Pulse([(Drag(grid), drive(0, bound=1.0))])
    propagator = Propagator(Transmons((TRANSMON,)), pulse.channels, grid)
    numbers = [2 * sympy.Symbol("a"), "s", sympy.tanh(sympy.Symbol("b"))]
    return PulseGate(propagator, pulse, numbers, ["v"])


def two_qubit_gate() -> PulseGate:
    """Return splines on I of both qubits and on a coupler, with the symbols a, s, b and v."""
    grid = Grid(10, 1)
    channels = *(drive(at, bound=1.0)[0] for at in range(2)), ControlChannel("coupler", (0, 1))
    pulse = Pulse([(BSplineSeries(grid, 2), one) for one in channels])
    propagator = Propagator(PAIR, pulse.channels, grid, order=4, steps_per_sample=4)
    a, s, b = sympy.symbols("a s b")
    return PulseGate(propagator, pulse, [a, 0.1 * b, 0.05 * s, 0.2, 0.1 * a, b / 20], ["v", 0.3])


def circuit_of(gate: PulseGate) -> cirq.Circuit:
    """Return gates with the inputs x and y, an entangling gate and the pulse."""
    first = [cirq.rx(sympy.Symbol("x")).on(QUBITS[0]), cirq.ry(sympy.Symbol("y")).on(QUBITS[1])]
    used = QUBITS[: cirq.num_qubits(gate)]
    return cirq.Circuit(first, cirq.CZ(*QUBITS), gate.on(*used))
