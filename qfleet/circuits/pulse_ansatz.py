"""An ansatz of gates and pulses."""

import functools
import math
from collections.abc import Mapping, Sequence

import cirq
import numpy as np
import sympy

from qfleet.argument_checks import NAMES, checked, integer
from qfleet.circuits.ansatz import (
    ANNEALING_STEP,
    Angles,
    group_rotations,
    groups_of,
    model_circuit,
    pauli_terms,
    start_state,
)
from qfleet.circuits.model_circuit import ModelCircuit
from qfleet.pulses.channels import drive
from qfleet.pulses.grid import Grid
from qfleet.pulses.propagator import Propagator
from qfleet.pulses.pulse import Pulse
from qfleet.pulses.pulse_gate import PulseGate
from qfleet.pulses.series import BSplineSeries
from qfleet.pulses.transmons import Transmon, Transmons

MIXER = Transmon(frequency=5.0, anharmonicity=-0.3, levels=3)
"""The qubit of a mixer's pulse. In its own frame, the frequency has no effect."""

DURATION, DT, SPLINES, BOUND = 12.0, 0.5, 3, 0.5
"""A mixer's pulse: ns, ns, splines of I and of Q, and their bound in rad/ns. It turns a qubit by up
to 3 rad, and at most 2.5 % leak for any numbers."""

REACH = SPLINES * BOUND * DURATION / (SPLINES + 3)
"""Turn by a mixer's pulse whose I, or Q, is BOUND, in radians."""


@checked(terms=pauli_terms, layers=integer(0), inputs=NAMES)
def hybrid_pulse(
    terms: Mapping[str, float], layers: int, *, inputs: Sequence[str] = ()
) -> ModelCircuit:
    """Return rotations by the Pauli words of a Hamiltonian, and a pulse on each qubit.

    A layer has gates for the problem, as `hamiltonian_variational`, and pulses in place of the
    mixer of QAOA (Liang et al. 2022, arXiv:2212.00661). A pulse has six trained numbers of its I
    and Q, and a virtual rotation about Z; it takes DURATION.

    Words that are a single X or Y are left to the pulses. The start state is |+...+> if all other
    words consist of Z, and otherwise that of `hamiltonian_variational`. Training begins with an
    annealing.

    Args:
        terms: Coefficients by Pauli word, of one letter per qubit, without the identity.
        layers: Number of layers.
        inputs: Names of inputs.

    Returns:
        A circuit without observables.
    """
    groups = groups_of(terms)
    problem = {key: words for key, words in groups.items() if key[0] not in ("X", "Y")}
    line = cirq.LineQubit.range(len(next(iter(terms))))
    is_ising = all(set(key[0]) == {"Z"} for key in problem)
    operations, solved = start_state(line, {*groups, ("X", 0)} if is_ising else groups)
    field = float(np.sign(sum(terms[word] for word in groups.get(("X", 0), ())) or -1))
    turn = 2 * ANNEALING_STEP * field if is_ising else 0.0
    angles, by_layer = Angles(inputs), []
    for layer in range(layers):
        done = (layer + 0.5) / layers
        operations += group_rotations(terms, problem, line, angles, solved, done)
        for qubit in line:
            numbers = [angles.new(one) for one in mixer_start(turn)]
            operations.append(mixer_pulse(numbers).on(qubit))
        by_layer.append(len(angles.names))
    return model_circuit(operations, line, inputs, angles, by_layer)


def mixer_pulse(angles: Sequence[sympy.Expr]) -> PulseGate:
    """Return the pulse of a mixer.

    Args:
        angles: As many as `mixer_start` returns. The sines of the first ones are the numbers of I
            and Q in units of BOUND; the last one is the virtual rotation about Z.
    """
    propagator, pulse = _shape()
    return PulseGate(
        propagator, pulse, [BOUND * sympy.sin(one) for one in angles[:-1]], angles[-1:]
    )


def mixer_start(turn: float) -> list[float]:
    """Return the angles of `mixer_pulse` for a turn about X by `turn` radians, at most 3."""
    return [*[math.asin(turn / REACH)] * SPLINES, *[0.0] * SPLINES, 0.0]


@functools.cache
def _shape() -> tuple[Propagator, Pulse]:
    grid = Grid(DURATION, DT)
    pulse = Pulse([(BSplineSeries(grid, SPLINES), one) for one in drive(0, bound=BOUND)])
    return Propagator(Transmons((MIXER,)), pulse.channels, grid), pulse
