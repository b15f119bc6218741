"""The report's sections: what is drawn and said about each finding."""

from collections.abc import Mapping
from html import escape
from typing import Any

from inference import circuit_svg, report_plots
from inference.gradient_variance import NEAR_PLATEAU, SMALL_GRADIENT
from inference.results import InferenceResults
from inference.scoring import MAX_READOUTS

MAX_CIRCUITS = 8


def section(title: str, *parts: str) -> str:
    """A titled part of the page; empty parts are left out."""
    return f"<section>\n<h2>{title}</h2>\n" + "\n".join(filter(None, parts)) + "\n</section>"


def note(text: str) -> str:
    """A line of explanation, in HTML."""
    return f'<p class="note">{text}</p>'


def loss(found: InferenceResults) -> str:
    """The loss curve."""
    rows = [row for row in found.source.metrics if _is_whole(row)]
    if not rows:
        return section("Loss", note("No metrics.jsonl is known for these weights."))
    said = found.source.settings
    starts, each = said.get("initializations", 1), said.get("initialization_epochs", 0)
    text = "Mean squared error at the end of each epoch; lower is better."
    if starts > 1:
        text += (
            f" Training begins with {starts} random starts of {each} epochs each, the best of"
            " which is trained on with a learning rate that falls to zero."
        )
    return section("Loss", note(text), report_plots.loss_curve(rows, starts, each))


def _is_whole(row: Mapping[str, Any]) -> bool:
    numbers = [row.get(key) for key in ("epoch", "mse", "val_mse")]
    return all(isinstance(number, int | float) for number in numbers)


def answers(found: InferenceResults) -> str:
    """Answers and readouts by label."""
    parts = [
        note("The model answers with a number, whose sign is the class."),
        report_plots.answers(found.scores, found.question.classes),
    ]
    if count := found.scores.readouts_each:
        shown = f" The first {MAX_READOUTS} of {count} are shown."
        parts += [
            "<h3>Readouts</h3>",
            note(
                "What the circuit itself says before any classical layer: expectation values, from"
                " -1 to 1." + (shown if count > MAX_READOUTS else "")
            ),
            report_plots.readouts(found.scores, found.question.classes),
        ]
    return section("Answers", *parts)


def confusion(found: InferenceResults) -> str:
    """The confusion matrix; nothing where labels are not known."""
    counts = found.scores.confusion
    if counts is None:
        return ""
    classes = [escape(name) for name in found.question.classes]
    rows = []
    for i, label in enumerate(classes):
        cells = []
        for j in range(2):
            part = counts[i, j] / max(counts[i].sum(), 1)
            cells.append(
                f'<td class="{"hit" if i == j else "miss"}" style="--part: {part:.3f}">'
                f'{counts[i, j]:,}<span class="share">{part:.1%}</span></td>'
            )
        rows.append(f"<tr><th>label {label}</th>{''.join(cells)}</tr>")
    return section(
        "Confusion matrix",
        '<table class="confusion"><thead><tr><th></th>'
        + "".join(f"<th>answered {name}</th>" for name in classes)
        + f"</tr></thead><tbody>{''.join(rows)}</tbody></table>",
    )


def baselines(found: InferenceResults) -> str:
    """Accuracy and error beside classical models; nothing where labels are not known."""
    if not found.scores.labelled:
        return ""
    if not found.baselines:
        reason = found.question.missing or "the training split holds one class alone"
        return section("Beside scikit-learn", note(f"Nothing to compare: {escape(reason)}."))
    data = found.question.data
    trained = data.rows("train") if data else 0
    rows = [
        _row(found.source.settings.get("model"), found.scores.accuracy, found.scores.mse, trained,
             found.scores.total, ours=True)
    ]  # fmt: skip
    rows += [_row(b.name, b.accuracy, b.mse, b.trained, b.tested) for b in found.baselines]
    return section(
        "Beside scikit-learn",
        note(
            "Classical models on the same angles, trained on the same training split. The error of"
            " one that gives a probability p is that of the answer 2p - 1."
        ),
        '<div class="wide"><table><thead><tr><th>model</th><th>accuracy</th><th>mean squared error'
        "</th><th>trained on</th><th>tested on</th></tr></thead><tbody>"
        + "".join(rows)
        + "</tbody></table></div>",
    )


def _row(
    name: Any,
    accuracy: float | None,
    mse: float | None,
    trained: int,
    tested: int,
    ours: bool = False,
) -> str:
    cells = [
        f"{accuracy:.2%}" if accuracy is not None else "–",
        f"{mse:.4f}" if mse is not None else "–",
        f"{trained:,}",
        f"{tested:,}",
    ]
    kind = ' class="ours"' if ours else ""
    return f"<tr{kind}><th>{escape(str(name))}</th>{''.join(f'<td>{c}</td>' for c in cells)}</tr>"


def gradients(found: InferenceResults) -> str:
    """The gradient's variance by layer of each distinct circuit."""
    if not found.slopes:
        return ""
    parts = [
        note(
            "How much slope training finds where it starts: the variance of the readouts' gradient"
            " when all angles are drawn at random, mean over each layer's angles. A random circuit"
            " of that width (a unitary 2-design) has what the marks show, which falls as"
            " 2<sup>-N</sup> with N qubits: a barren plateau (McClean et al., arXiv:1803.11173). A"
            f" layer is taken to show one where its variance is at most {NEAR_PLATEAU:g} times"
            f" that, and at most {SMALL_GRADIENT:g}."
        )
    ]
    for number, measured in enumerate(found.slopes):
        name = escape(measured.circuit)
        if len(found.slopes) > 1:
            parts.append(f"<h3>{name}</h3>")
        if measured.skipped:
            parts.append(note(f"Not measured for {name}: {escape(measured.skipped)}."))
            continue
        parts.append(report_plots.gradient_variance(measured, f"gradient{number}"))
        parts.append(note(f"{measured.draws} random draws of all angles, each with one example."))
    others = len(found.circuits) - len(found.slopes)
    if others > 0:
        parts.append(note(f"The other {others} circuits are of the same shape."))
    return section("Gradient variance by layer", *parts)


def circuits(found: InferenceResults) -> str:
    """The circuits, drawn."""
    if not found.circuits:
        return section("Circuit", note("The model holds no circuit."))
    key = (
        'Gates that the data turns are outlined in <span class="key" style="color:'
        ' var(--positive)"></span>, trained ones in <span class="key" style="color:'
        " var(--negative)\"></span>; the small number is their symbol's. Point at a gate for its"
        " symbol and its trained angle. Scroll sideways for the rest."
    )
    first, *others = found.circuits[:MAX_CIRCUITS]
    parts = [note(key), _drawn(first)]
    parts += [
        f"<details><summary>{escape(layer.name)}</summary>{_drawn(layer)}</details>"
        for layer in others
    ]
    if len(found.circuits) > MAX_CIRCUITS:
        parts.append(note(f"{len(found.circuits) - MAX_CIRCUITS} more circuits are not drawn."))
    return section("Circuit", *parts)


def _drawn(layer: Any) -> str:
    trained: Mapping[str, float] = dict(
        zip(layer.parameters, map(float, layer.angles.numpy()), strict=True)
    )
    drawn = circuit_svg.circuit_to_svg(layer.circuit, layer.inputs, trained, layer.observables)
    gates = sum(1 for _ in layer.circuit.all_operations())
    width = len(layer.circuit.all_qubits())
    if not drawn:
        return note(f"{escape(layer.name)}: {gates:,} gates are too many to draw.")
    reads = ", ".join(str(observable).removeprefix("1.000*") for observable in layer.observables)
    told = note(
        f"{escape(layer.name)}: {width} qubits, {gates:,} gates, {len(layer.parameters)} trained"
        f" angles; reads {escape(reads if len(reads) <= 200 else reads[:200] + '...')}"
    )
    return f'{told}<div class="scroll">{drawn}</div>'
