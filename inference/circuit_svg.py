"""A Cirq circuit as SVG: compact, readable in light and dark, and without anything to load.

Cirq's own drawing is three to four times as wide (each gate spells its symbol out) and white on
every page. Here a gate shows its name and its symbol's number; the rest is in its tooltip. Colours
come from the page's style sheet by class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import cirq
import sympy

from inference.layers import layers_of, number_of

ROW, COLUMN, GAP, TOP, MARGIN = 38, 30, 6, 34, 10
MAX_GATES = 4000


@dataclass(frozen=True)
class DrawnGate:
    """One operation, ready to draw.

    Attributes:
        rows: The wires that it is on, from the top counted from 0.
        labels: What stands on each of them.
        number: The number of its symbol, a minus before it in an inverse; empty without one.
        kind: `data`, `trained` or `fixed`.
        title: All about it, for the tooltip.
        layers: The layers that its symbols belong to.
    """

    rows: tuple[int, ...]
    labels: tuple[str, ...]
    number: str
    kind: str
    title: str
    layers: tuple[str, ...]


def columns_of(
    circuit: cirq.AbstractCircuit, inputs: Sequence[str], trained: Mapping[str, float]
) -> list[list[DrawnGate]]:
    """The gates in columns; gates of one moment that cross each other get columns of their own."""
    wires = {qubit: row for row, qubit in enumerate(sorted(circuit.all_qubits()))}
    layer_of = {
        list(trained)[place]: name
        for name, places in layers_of(list(trained)).items()
        for place in places
    }
    columns: list[list[DrawnGate]] = []
    for moment in circuit:
        taken: list[set[int]] = []
        first = len(columns)
        for operation in sorted(moment, key=lambda op: min(wires[q] for q in op.qubits)):
            gate = _gate(operation, wires, inputs, trained, layer_of)
            span = set(range(min(gate.rows), max(gate.rows) + 1))
            place = next((i for i, rows in enumerate(taken) if not rows & span), len(taken))
            if place == len(taken):
                taken.append(set())
                columns.append([])
            taken[place] |= span
            columns[first + place].append(gate)
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
        # "Rx(theta)" and "X(theta)" are named by what stands before the bracket.
        labels = [symbol.partition("(")[0] or symbol for symbol in info.wire_symbols]
        if isinstance(info.exponent, int | float) and info.exponent != 1:
            labels[-1] += f"^{info.exponent:.3g}"
    symbols = sorted(cirq.parameter_names(operation))
    kind = "fixed"
    if symbols:
        kind = "data" if set(symbols) & set(inputs) else "trained"
    told = [f"{name} = {trained[name]:.4f} rad" for name in symbols if name in trained]
    return DrawnGate(
        rows=tuple(wires[qubit] for qubit in operation.qubits),
        labels=tuple(labels),
        number=_sign(info) + "+".join(map(number_of, symbols)),
        kind=kind,
        title="; ".join([str(operation), *told]),
        layers=tuple(sorted({layer_of[name] for name in symbols if name in layer_of})),
    )


def _sign(info: cirq.CircuitDiagramInfo | None) -> str:
    """A minus where a gate turns against its angle, as an inverse does."""
    exponent = info.exponent if info else 1
    return "−" if isinstance(exponent, sympy.Expr) and exponent.could_extract_minus_sign() else ""


def circuit_to_svg(
    circuit: cirq.AbstractCircuit,
    inputs: Sequence[str],
    trained: Mapping[str, float],
    observables: Sequence[Any] = (),
) -> str:
    """The circuit as one <svg> element.

    Args:
        circuit: Any circuit.
        inputs: Data symbols, whose gates are marked.
        trained: Trained symbol -> its angle in radians, which tooltips tell.
        observables: Readouts (PauliSum): those of one qubit are marked at its end.

    Returns:
        Nothing where there are more than MOST_GATES gates.
    """
    if sum(1 for _ in circuit.all_operations()) > MAX_GATES:
        return ""
    qubits = sorted(circuit.all_qubits())
    columns = columns_of(circuit, inputs, trained)
    names = [str(qubit) for qubit in qubits]
    left = 2 * MARGIN + 7 * max(map(len, names))
    widths = [max(COLUMN, *(8 * len(x) + 10 for g in c for x in g.labels)) for c in columns]
    starts, x = [], left
    for width in widths:
        starts.append(x)
        x += width + GAP
    reads = _reads(observables, qubits)
    right = x + MARGIN + 8 * max((len(text) for text in reads.values()), default=0) + 16
    height = TOP + ROW * len(qubits)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="circuit" width="{right}"'
        f' height="{height}" viewBox="0 0 {right} {height}" role="img"'
        f' aria-label="Circuit of {len(qubits)} qubits">'
    ]
    parts += _bands(columns, starts, widths, height)
    for row, name in enumerate(names):
        y = _y(row)
        parts.append(f'<line class="wire" x1="{left - 4}" x2="{x}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="qubit" x="{left - 10}" y="{y + 4}">{escape(name)}</text>')
    for column, start, width in zip(columns, starts, widths, strict=True):
        parts += [_draw(gate, start, width) for gate in column]
    for row, text in reads.items():
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
    """A band behind each layer, where layers stand one behind the other."""
    ends: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        for name in (name for gate in column for name in gate.layers):
            ends.setdefault(name, [place, place])[1] = place
    parts = []
    for number, (name, (first, last)) in enumerate(ends.items()):
        begin, end = starts[first] - GAP / 2, starts[last] + widths[last] + GAP / 2
        parts.append(
            f'<rect class="band band{number % 2}" x="{begin}" y="0" width="{end - begin}"'
            f' height="{height}"/><text class="layer" x="{begin + 8}" y="18">{escape(name)}</text>'
        )
    return parts


def _reads(observables: Sequence[Any], qubits: Sequence[cirq.Qid]) -> dict[int, str]:
    """What is read at the end of each wire."""
    reads: dict[int, str] = {}
    for observable in observables:
        terms = [term for term in observable if term.qubits]
        if len(terms) == 1 and len(terms[0].qubits) == 1:
            ((qubit, pauli),) = terms[0].items()
            if qubit in qubits:
                row = list(qubits).index(qubit)
                read = f"⟨{pauli}⟩"
                reads[row] = f"{reads[row]} {read}" if row in reads else read
    return reads
