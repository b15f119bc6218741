"""A Cirq circuit as SVG: compact, for light and dark pages, without external resources.

Cirq's SVG is three to four times as wide, because each gate contains its full symbol, and is always
white. Here, a gate has its name and the number of its symbol; its tooltip has the rest. The page's
style sheet sets the colours by class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cirq
import sympy

from inference.html_text import escape
from inference.layers import group_by_layer, symbol_number

ROW, COLUMN, GAP, TOP, MARGIN = 38, 30, 6, 34, 10
MAX_GATES = 4000

MAX_QUBITS = 64
"""A wider circuit is drawn as an excerpt of EXCERPT_QUBITS qubits."""
EXCERPT_QUBITS = 12


@dataclass(frozen=True)
class DrawnGate:
    """One operation with its texts.

    Attributes:
        rows: Its wires, counted from 0 at the top.
        labels: The text on each wire.
        number: The number of its symbol, with a minus in an inverse; empty without a symbol.
        kind: `data`, `trained` or `fixed`.
        title: The text of the tooltip.
        layers: The layers of its symbols.
    """

    rows: tuple[int, ...]
    labels: tuple[str, ...]
    number: str
    kind: str
    title: str
    layers: tuple[str, ...]


def arrange_columns(
    circuit: cirq.AbstractCircuit, inputs: Sequence[str], trained: Mapping[str, float]
) -> list[list[DrawnGate]]:
    """Arrange the gates in columns. Gates of a moment that overlap get separate columns."""
    wires = {qubit: row for row, qubit in enumerate(sorted(circuit.all_qubits()))}
    layer_of = {
        list(trained)[index]: name
        for name, indices in group_by_layer(list(trained)).items()
        for index in indices
    }
    columns: list[list[DrawnGate]] = []
    for moment in circuit:
        occupied: list[set[int]] = []
        first = len(columns)
        for operation in sorted(moment, key=lambda op: min(wires[q] for q in op.qubits)):
            gate = _gate(operation, wires, inputs, trained, layer_of)
            span = set(range(min(gate.rows), max(gate.rows) + 1))
            free = (i for i, rows in enumerate(occupied) if not rows & span)
            index = next(free, len(occupied))
            if index == len(occupied):
                occupied.append(set())
                columns.append([])
            occupied[index] |= span
            columns[first + index].append(gate)
    return columns


def _gate(
    operation: cirq.Operation,
    wires: Mapping[cirq.Qid, int],
    inputs: Sequence[str],
    trained: Mapping[str, float],
    layer_of: Mapping[str, str],
) -> DrawnGate:
    info = cirq.circuit_diagram_info(operation, default=None)
    if info is None or len(info.wire_symbols) != len(operation.qubits):
        name = type(operation.gate or operation).__name__.removesuffix("Gate")
        labels = [name] * len(operation.qubits)
    else:
        # The name is the part before the bracket of "Rx(theta)".
        labels = [symbol.partition("(")[0] or symbol for symbol in info.wire_symbols]
        if isinstance(info.exponent, int | float) and info.exponent != 1:
            labels[-1] += f"^{info.exponent:.3g}"
    symbols = sorted(cirq.parameter_names(operation))
    kind = "fixed"
    if symbols:
        kind = "data" if set(symbols) & set(inputs) else "trained"
    angles = [f"{name} = {trained[name]:.4f} rad" for name in symbols if name in trained]
    return DrawnGate(
        rows=tuple(wires[qubit] for qubit in operation.qubits),
        labels=tuple(labels),
        number=_sign(info) + "+".join(map(symbol_number, symbols)),
        kind=kind,
        title="; ".join([str(operation), *angles]),
        layers=tuple(sorted({layer_of[name] for name in symbols if name in layer_of})),
    )


def _sign(info: cirq.CircuitDiagramInfo | None) -> str:
    """Return a minus if the exponent of a gate is negative, as in an inverse."""
    exponent = info.exponent if info else 1
    return "−" if isinstance(exponent, sympy.Expr) and exponent.could_extract_minus_sign() else ""


def excerpt(circuit: cirq.AbstractCircuit) -> cirq.AbstractCircuit:
    """Return the gates among the first EXCERPT_QUBITS qubits, or a narrow circuit itself."""
    qubits = sorted(circuit.all_qubits())
    if len(qubits) <= MAX_QUBITS:
        return circuit
    first = set(qubits[:EXCERPT_QUBITS])
    return cirq.Circuit(op for op in circuit.all_operations() if first.issuperset(op.qubits))


def circuit_to_svg(
    circuit: cirq.AbstractCircuit,
    inputs: Sequence[str],
    trained: Mapping[str, float],
    observables: Sequence[cirq.PauliSum] = (),
    name: str = "circuit",
) -> str:
    """Return the circuit as one <svg> element.

    Args:
        circuit: Any circuit.
        inputs: Data symbols, whose gates are highlighted.
        trained: Trained symbol -> angle in radians, for the tooltips.
        observables: Readouts (PauliSum). Those of a single qubit are shown at its wire's end.
        name: Its id, and the name of its file.

    Returns:
        The element; an empty string if there are more than MAX_GATES gates.
    """
    if sum(1 for _ in circuit.all_operations()) > MAX_GATES:
        return ""
    qubits = sorted(circuit.all_qubits())
    columns = arrange_columns(circuit, inputs, trained)
    names = [str(qubit) for qubit in qubits]
    left = 2 * MARGIN + 7 * max(map(len, names))
    widths = [max(COLUMN, *(8 * len(x) + 10 for g in c for x in g.labels)) for c in columns]
    starts, x = [], left
    for width in widths:
        starts.append(x)
        x += width + GAP
    readouts = _readout_labels(observables, qubits)
    right = x + MARGIN + 8 * max((len(text) for text in readouts.values()), default=0) + 16
    height = TOP + ROW * len(qubits)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" id="{name}" class="circuit"'
        f' width="{right}" height="{height}" viewBox="0 0 {right} {height}" role="img"'
        f' aria-label="Circuit of {len(qubits)} qubits">'
    ]
    parts += _bands(columns, starts, widths, height)
    for row, wire in enumerate(names):
        y = _y(row)
        parts.append(f'<line class="wire" x1="{left - 4}" x2="{x}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="qubit" x="{left - 10}" y="{y + 4}">{escape(wire)}</text>')
    for column, start, width in zip(columns, starts, widths, strict=True):
        parts += [_draw(gate, start, width) for gate in column]
    for row, text in readouts.items():
        parts.append(f'<text class="read" x="{x + 4}" y="{_y(row) + 4}">{escape(text)}</text>')
    return "\n".join([*parts, "</svg>"])


def _y(row: int) -> int:
    return TOP + ROW * row + ROW // 2


def _draw(gate: DrawnGate, start: int, width: int) -> str:
    middle = start + width / 2
    parts = [f'<g class="gate {gate.kind}"><title>{escape(gate.title)}</title>']
    if len(gate.rows) > 1:
        top, low = _y(min(gate.rows)), _y(max(gate.rows))
        parts.append(f'<line class="link" x1="{middle}" x2="{middle}" y1="{top}" y2="{low}"/>')
    for row, label in zip(gate.rows, gate.labels, strict=True):
        y = _y(row)
        if label == "@":
            parts.append(f'<circle class="dot" cx="{middle}" cy="{y}" r="4"/>')
        elif label == "X" and len(gate.rows) > 1 and "@" in gate.labels:
            parts.append(
                f'<circle class="target" cx="{middle}" cy="{y}" r="9"/>'
                f'<path class="cross" d="M{middle - 9} {y}h18M{middle} {y - 9}v18"/>'
            )
        else:
            number = gate.number if row == min(gate.rows) else ""
            box = f'<rect x="{start}" y="{y - 14}" width="{width}" height="28" rx="3"/>'
            name = f'<text class="name" x="{middle}" y="{y if number else y + 4}">'
            parts.append(f"{box}{name}{escape(label)}</text>")
            if number:
                parts.append(
                    f'<text class="number" x="{middle}" y="{y + 10}">{escape(number)}</text>'
                )
    return "".join([*parts, "</g>"])


def _bands(
    columns: Sequence[Sequence[DrawnGate]],
    starts: Sequence[int],
    widths: Sequence[int],
    height: int,
) -> list[str]:
    """Return a background band with a title for each layer."""
    ends: dict[str, list[int]] = {}
    for index, column in enumerate(columns):
        for name in (name for gate in column for name in gate.layers):
            ends.setdefault(name, [index, index])[1] = index
    parts = []
    for number, (name, (first, last)) in enumerate(ends.items()):
        start, end = starts[first] - GAP / 2, starts[last] + widths[last] + GAP / 2
        parts.append(
            f'<rect class="band band{number % 2}" x="{start}" y="0" width="{end - start}"'
            f' height="{height}"/><text class="layer" x="{start + 8}" y="18">{escape(name)}</text>'
        )
    return parts


def _readout_labels(
    observables: Sequence[cirq.PauliSum], qubits: Sequence[cirq.Qid]
) -> dict[int, str]:
    """Return the readouts at the end of each wire, by row."""
    labels: dict[int, str] = {}
    for observable in observables:
        terms = [term for term in observable if term.qubits]
        if len(terms) == 1 and len(terms[0].qubits) == 1:
            ((qubit, pauli),) = terms[0].items()
            if qubit in qubits:
                row = list(qubits).index(qubit)
                label = f"⟨{pauli}⟩"
                labels[row] = f"{labels[row]} {label}" if row in labels else label
    return labels
