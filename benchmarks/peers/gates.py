"""The gates of a benchmark circuit as plain data, which every peer translates to its own."""

from dataclasses import dataclass

import cirq
import sympy

from benchmarks.circuit_models import BenchmarkModel

_ROTATIONS = {
    cirq.XPowGate: "rx",
    cirq.YPowGate: "ry",
    cirq.ZPowGate: "rz",
    cirq.XXPowGate: "rxx",
    cirq.YYPowGate: "ryy",
    cirq.ZZPowGate: "rzz",
}
_FIXED = {cirq.H: "h", cirq.CZ: "cz", cirq.CNOT: "cnot"}


@dataclass(frozen=True)
class Gate:
    """A fixed gate, or a rotation exp(-i angle/2 P) by coefficient * value.

    Attributes:
        name: `h`, `cz`, `cnot`, or a rotation `rx`, `ry`, `rz`, `rxx`, `ryy`, `rzz`.
        wires: Its qubits, from 0.
        values: `inputs`, `parameters`, or None for a fixed gate.
        index: Column of the value.
        coefficient: Factor of the value.
    """

    name: str
    wires: tuple[int, ...]
    values: str | None = None
    index: int = 0
    coefficient: float = 1.0


@dataclass(frozen=True)
class GateList:
    """A circuit.

    Attributes:
        qubits: Number of qubits, at least 1.
        gates: The gates in order.
        readouts: Qubits whose Z is measured, in the order of the readouts.
    """

    qubits: int
    gates: tuple[Gate, ...]
    readouts: tuple[int, ...]


def gate_list(model: BenchmarkModel) -> GateList:
    """Return the gates of a model's circuit.

    Raises:
        ValueError: A readout is not the Z of one qubit.
    """
    wires = {qubit: wire for wire, qubit in enumerate(sorted(model.circuit.all_qubits()))}
    readouts = []
    for readout in model.observables:
        (qubit,) = readout.qubits
        if readout != cirq.PauliSum.wrap(cirq.Z(qubit)):
            raise ValueError(f"the readout {readout} is not the Z of one qubit")
        readouts.append(wires[qubit])
    gates = tuple(_gate(operation, model, wires) for operation in model.circuit.all_operations())
    return GateList(len(wires), gates, tuple(readouts))


def _gate(operation: cirq.Operation, model: BenchmarkModel, wires: dict[cirq.Qid, int]) -> Gate:
    """Translate an operation.

    A power t of a Pauli product is a rotation by pi t, up to a global phase, which has no effect.
    """
    gate, targets = operation.gate, tuple(wires[qubit] for qubit in operation.qubits)
    if gate in _FIXED:
        return Gate(_FIXED[gate], targets)
    name = next(name for kind, name in _ROTATIONS.items() if isinstance(gate, kind))
    angle = sympy.sympify(gate.exponent) * sympy.pi
    (symbol,) = angle.free_symbols
    coefficient = float(angle.coeff(symbol))
    if symbol.name in model.inputs:
        return Gate(name, targets, "inputs", model.inputs.index(symbol.name), coefficient)
    index = model.parameters.index(symbol.name)
    return Gate(name, targets, "parameters", index, coefficient)
