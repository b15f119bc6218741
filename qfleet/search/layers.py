"""Spaces of layers: rotations of qubits, and entanglers of pairs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import cirq
import sympy

from qfleet.argument_checks import checked, instance, integer, items, shown
from qfleet.devices.calibration import Calibration
from qfleet.devices.qubit_names import qubit_order
from qfleet.errors import ArgumentError
from qfleet.search.space import Space, SpaceGate, require_gates

Connectivity = Literal["line", "ring", "all"] | Calibration | Iterable[tuple[int, int]]
"""Pairs of qubits: by name, those of a device, or the numbers of the qubits of each pair."""

_ROTATIONS = {"x": cirq.rx, "y": cirq.ry, "z": cirq.rz}
_ENTANGLERS = {"cnot": cirq.CNOT, "cz": cirq.CZ}
_POWERS = {"xx": cirq.XXPowGate, "yy": cirq.YYPowGate, "zz": cirq.ZZPowGate}
_ANGLE = sympy.Symbol("a")


def pairs_of(qubits: int, connectivity: Connectivity) -> list[tuple[int, int]]:
    """Return the pairs of qubits that may interact, by number.

    Args:
        qubits: Number of qubits.
        connectivity: "line", "ring", "all", pairs of numbers, or a device: the first qubits of it
            that are connected, breadth first.

    Raises:
        ArgumentError: It is something else, or the device has too few connected qubits.
    """
    line = [(at, at + 1) for at in range(qubits - 1)]
    if isinstance(connectivity, Calibration):
        return _device_pairs(qubits, connectivity)
    if isinstance(connectivity, str):
        if connectivity == "line":
            return line
        if connectivity == "ring":
            return [*line, (qubits - 1, 0)] if qubits > 2 else line
        if connectivity == "all":
            return [(a, b) for a in range(qubits) for b in range(a + 1, qubits)]
        raise ArgumentError(
            f"connectivity is {shown(connectivity)}: choose line, ring or all, or pass a"
            " Calibration or pairs of numbers"
        )
    each = items(integer(0, qubits - 1), "a pair of numbers")
    pairs = items(each, "line, ring, all, a Calibration, or pairs")(connectivity, "connectivity")
    for pair in pairs:
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ArgumentError(f"connectivity has {shown(pair)}: pass pairs of different qubits")
    return list(pairs)


@checked(
    qubits=integer(1),
    layers=integer(1),
    inputs=items(instance(str, "a name"), "names of data symbols"),
)
def layers(
    qubits: int,
    layers: int,
    *,
    connectivity: Connectivity = "line",
    rotations: str = "y",
    entangler: Literal["cnot", "cz", "xx", "yy", "zz"] = "cnot",
    start: Sequence[cirq.Operation] = (),
    inputs: Sequence[str] = (),
) -> Space:
    """Return the ordered space of layers: a super-circuit, whose masks are the candidates.

    A layer has an encoder of each input, an entangler of each pair, and then rotations of each
    qubit; rotations of all qubits come first. A CNOT is there in both directions.

    Args:
        qubits: Number of qubits, cirq.LineQubit.range.
        layers: Number of layers.
        connectivity: Pairs of qubits, as for `pairs_of`.
        rotations: Axes of the rotations, such as "yz".
        entangler: A fixed gate, or a rotation by two Pauli matrices.
        start: Operations before the first layer.
        inputs: Names of data symbols. Layer l has input j as a rotation of qubit (j + l) mod
            `qubits`, about Y and Z alternately where inputs share a qubit; its angle is the input
            times a trained number.

    Raises:
        ArgumentError: An argument is unknown, or the space is too large.
    """
    line = cirq.LineQubit.range(qubits)
    pairs = pairs_of(qubits, connectivity)
    if unknown := set(rotations) - set(_ROTATIONS):
        raise ArgumentError(f"rotations has {min(unknown)!r}: use the letters x, y and z")
    if entangler not in (*_ENTANGLERS, *_POWERS):
        known = ", ".join((*_ENTANGLERS, *_POWERS))
        raise ArgumentError(f"entangler is {shown(entangler)}: choose {known}")
    count = layers * (2 * len(pairs) + qubits * len(rotations) + len(inputs))
    require_gates(count)
    turns = [_ROTATIONS[axis](_ANGLE).on(qubit) for qubit in line for axis in rotations]
    if entangler in _POWERS:
        power = _POWERS[entangler](exponent=_ANGLE / sympy.pi)
        wires = [power.on(line[a], line[b]) for a, b in pairs]
    elif entangler == "cz":
        wires = [cirq.CZ(line[a], line[b]) for a, b in pairs]
    else:
        wires = [cirq.CNOT(line[a], line[b]) for pair in pairs for a, b in (pair, pair[::-1])]
    one = [SpaceGate.of(operation) for operation in (*wires, *turns)]
    gates = [SpaceGate.of(operation) for operation in turns]
    for layer in range(layers):
        gates += [_encoder(line, name, at, layer) for at, name in enumerate(inputs)] + one
    return Space(tuple(gates), tuple(line), tuple(start), ordered=True)


def _encoder(line: Sequence[cirq.Qid], name: str, at: int, layer: int) -> SpaceGate:
    """Return the gate that encodes input `at` in a layer."""
    rotation = (cirq.ry, cirq.rz)[at // len(line) % 2]
    gate = SpaceGate.of(rotation(_ANGLE).on(line[(at + layer) % len(line)]), f"{name}")
    return replace(gate, feature=name)


@checked(qubits=integer(2))
def blocks(
    qubits: int,
    *,
    connectivity: Connectivity = "line",
    rotations: str = "y",
    start: Sequence[cirq.Operation] = (),
) -> Space:
    """Return the space of blocks: a CNOT and rotations of both its qubits, in any order.

    Args:
        qubits: As for `layers`.
        connectivity: As for `layers`.
        rotations: As for `layers`.
        start: As for `layers`.
    """
    line = cirq.LineQubit.range(qubits)
    gates = []
    for pair in pairs_of(qubits, connectivity):
        for a, b in (pair, pair[::-1]):
            turns = [
                _ROTATIONS[axis](sympy.Symbol(f"{axis}{at}")).on(line[at])
                for at in (a, b)
                for axis in rotations
            ]
            gates.append(SpaceGate.of([cirq.CNOT(line[a], line[b]), *turns], f"block({a}, {b})"))
    return Space(tuple(gates), tuple(line), tuple(start))


def _device_pairs(qubits: int, calibration: Calibration) -> list[tuple[int, int]]:
    neighbours: dict[str, list[str]] = {name: [] for name in calibration.qubits}
    for a, b in calibration.pairs:
        neighbours[a].append(b)
        neighbours[b].append(a)
    found: list[str] = []
    waiting = sorted(neighbours, key=qubit_order)[:1]
    while waiting and len(found) < qubits:
        name = waiting.pop(0)
        if name not in found:
            found.append(name)
            waiting += sorted(neighbours[name], key=qubit_order)
    if len(found) < qubits:
        raise ArgumentError(
            f"connectivity is {calibration.name}, where too few qubits are connected: the space"
            f" has {qubits}, so choose a larger device"
        )
    number = {name: at for at, name in enumerate(sorted(found, key=qubit_order))}
    return [(number[a], number[b]) for a, b in calibration.pairs if {a, b} <= number.keys()]
