"""Routing of circuits to a line of a device's qubits, by Cirq's router."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import cirq
import networkx as nx

from qfleet.devices.calibration import Calibration
from qfleet.devices.lines import best_line


@dataclass(frozen=True)
class RoutedCircuit:
    """A circuit on a line of qubits.

    Attributes:
        circuit: Operations on neighbours of the line.
        line: The qubits of the line, in order.
        final: Qubit of the circuit -> qubit of the line that has its state in the end.
    """

    circuit: cirq.Circuit
    line: tuple[cirq.Qid, ...]
    final: Mapping[cirq.Qid, cirq.Qid]


def device_qubit(name: str) -> cirq.Qid:
    """Return the qubit of a calibration: a line qubit for a number, a grid qubit for row_column."""
    numbers = [int(one) for one in name.split("_")]
    return cirq.LineQubit(*numbers) if len(numbers) == 1 else cirq.GridQubit(*numbers)


def qubit_name(qubit: cirq.Qid) -> str:
    """Return the name of a qubit in a calibration; that of a qubit of no device names none."""
    if isinstance(qubit, cirq.GridQubit):
        return f"{qubit.row}_{qubit.col}"
    return str(qubit.x) if isinstance(qubit, cirq.LineQubit) else str(qubit)


def route(
    circuit: cirq.AbstractCircuit, calibration: Calibration, qubits: Sequence[cirq.Qid]
) -> RoutedCircuit:
    """Route a circuit to the best line of a device.

    Qubits are placed in their order, or in that of a folded ring, whichever needs fewer swaps.

    Args:
        circuit: Operations on one or two qubits.
        calibration: The device.
        qubits: All qubits of the circuit, in order.

    Raises:
        NoiseError: The device has no line of that length.
    """
    line = [device_qubit(name) for name in best_line(calibration, len(qubits))]
    if len(line) == 1:
        placed = circuit.transform_qubits({qubits[0]: line[0]}).unfreeze()
        return RoutedCircuit(placed, tuple(line), {qubits[0]: line[0]})
    router = cirq.RouteCQC(nx.path_graph(line))
    fewest = sum(1 for _ in circuit.all_operations())
    found: list[tuple[int, RoutedCircuit]] = []
    for order in _orders(qubits):
        routed = _routed(router, circuit, dict(zip(order, line, strict=True)), line)
        found.append((sum(1 for _ in routed.circuit.all_operations()), routed))
        if found[-1][0] == fewest:  # without swaps
            break
    return min(found, key=lambda one: one[0])[1]


def _routed(
    router: cirq.RouteCQC,
    circuit: cirq.AbstractCircuit,
    placement: dict[cirq.Qid, cirq.Qid],
    line: Sequence[cirq.Qid],
) -> RoutedCircuit:
    mapper = cirq.HardCodedInitialMapper(placement)
    routed, _, moved = router.route_circuit(circuit, initial_mapper=mapper)
    final = {qubit: moved[start] for qubit, start in placement.items()}
    return RoutedCircuit(routed.unfreeze(), tuple(line), final)


def _orders(qubits: Sequence[cirq.Qid]) -> Iterator[list[cirq.Qid]]:
    """Yield orders on a line: as given, and folded, so that both ends of the circuit meet."""
    yield list(qubits)
    folded = [one for pair in zip(qubits, reversed(qubits), strict=True) for one in pair]
    yield folded[: len(qubits)]
