"""Layers of pulses on qubits, for data in the drives and for any state."""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, get_args

import cirq
import sympy

from qfleet.argument_checks import NAMES, checked, choice, integer, optional
from qfleet.circuits.ansatz import Angles, model_circuit, neighbours
from qfleet.circuits.model_circuit import ModelCircuit
from qfleet.circuits.pulse_ansatz import MIXER, REACH, SPLINES, mixer_pulse
from qfleet.errors import CircuitError
from qfleet.pulses.channels import ControlChannel
from qfleet.pulses.grid import Grid
from qfleet.pulses.propagator import Propagator
from qfleet.pulses.pulse import Pulse
from qfleet.pulses.pulse_gate import PulseGate
from qfleet.pulses.series import BSplineSeries
from qfleet.pulses.transmons import Transmons

DURATION, DT, BOUND = 20.0, 1.0, 0.1
"""A coupler's pulse: ns, ns, and the bound of its exchange in rad/ns. Its numbers are SPLINES. It
exchanges two qubits by up to 1 rad, and at most 0.6 % leak for any numbers."""

Encoder = Literal["angle", "reupload"]
Entangler = Literal["cz", "pulse"]


@checked(
    qubits=integer(1),
    layers=integer(1),
    inputs=NAMES,
    encoder=optional(choice(get_args(Encoder))),
    entangler=choice(get_args(Entangler)),
)
def pulse_layers(
    qubits: int,
    layers: int,
    *,
    inputs: Sequence[str] = (),
    encoder: Encoder | None = None,
    entangler: Entangler = "cz",
) -> ModelCircuit:
    """Return pulses on all qubits, between layers that join neighbours on a line.

    A pulse has six trained numbers of its I and Q, and a virtual rotation about Z, as those of
    `hybrid_pulse`. With an encoder, each of them is an offset plus a factor per input of its qubit,
    all of them trained: the data scale the drive of each example, as they scale angles in data
    re-uploading by gates (Perez-Salinas et al., arXiv:1907.02085).

    Args:
        qubits: Number of qubits.
        layers: Layers that join qubits; each is followed by pulses, and pulses come first.
        inputs: Names of inputs.
        encoder: Where inputs are: "angle" in the first pulse of a qubit each, "reupload" again in
            all pulses but the last ones, input j on qubit j mod n; None in all trained numbers, for
            the fields of a Hamiltonian.
        entangler: "cz" for gates, or "pulse" for a trained pulse of a tunable coupler.

    Returns:
        A circuit that starts in |0...0>. With an encoder, it reads Z of all qubits, and training
        begins with turns by the inputs; otherwise it has no observables, and begins anywhere.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.
        CircuitError: There are more inputs than qubits for "angle".
    """
    if encoder == "angle" and len(inputs) > qubits:
        raise CircuitError(
            f"{len(inputs)} inputs do not fit on {qubits} qubits with one each: use more qubits,"
            " fewer inputs, or the encoder reupload"
        )
    line = cirq.LineQubit.range(qubits)
    angles = Angles(() if encoder else inputs)
    operations: list[cirq.Operation] = []
    by_layer = []
    for layer in range(layers + 1):
        if layer:
            operations += _joined(line, angles, entangler)
        has_data = encoder and (not layer or (encoder == "reupload" and layer < layers))
        for at, qubit in enumerate(line):
            own = inputs[at::qubits] if has_data else ()
            operations.append(mixer_pulse(list(_driven(angles, own))).on(qubit))
        by_layer.append(len(angles.names))
    found = model_circuit(operations, line, inputs, angles, by_layer)
    if not encoder:
        return replace(found, initial=())
    return replace(found, observables=tuple(cirq.PauliSum.wrap(cirq.Z(one)) for one in line))


def _driven(angles: Angles, inputs: Sequence[str]) -> Iterator[sympy.Expr]:
    """Yield the angles of a pulse, whose I, Q, I, ... begin with turns by the inputs."""
    for number in range(2 * SPLINES + 1):
        quadrature = number // SPLINES
        factors = {name: (at % 2 == quadrature) / REACH for at, name in enumerate(inputs)}
        yield angles.new(factors=factors or None)


def _joined(
    line: Sequence[cirq.Qid], angles: Angles, entangler: Entangler
) -> Iterator[cirq.Operation]:
    """Yield gates of all neighbours."""
    begin = math.asin(math.pi / 4 / _COUPLER_REACH)  # the square root of iSWAP
    for a, b in neighbours(line):
        if entangler == "cz":
            yield cirq.CZ(a, b)
        else:
            yield coupler_pulse([angles.new(begin) for _ in range(SPLINES)]).on(a, b)


def coupler_pulse(angles: Sequence[sympy.Expr]) -> PulseGate:
    """Return the pulse of a tunable coupler between two qubits of one frequency.

    Args:
        angles: SPLINES of them; their sines are the numbers in units of BOUND.
    """
    propagator, pulse = _coupler()
    return PulseGate(propagator, pulse, [BOUND * sympy.sin(one) for one in angles])


_COUPLER_REACH = SPLINES * BOUND * DURATION / (SPLINES + 3)  # rad


@functools.cache
def _coupler() -> tuple[Propagator, Pulse]:
    grid = Grid(DURATION, DT)
    channel = ControlChannel("coupler", (0, 1), BOUND)
    pulse = Pulse([(BSplineSeries(grid, SPLINES), channel)])
    return Propagator(Transmons((MIXER, MIXER)), pulse.channels, grid), pulse
