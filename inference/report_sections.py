"""The report's sections: a title, a note and a plot or table for each result."""

from collections.abc import Mapping, Sequence
from typing import Any

from common.data.description import describe_encoding
from common.metrics import number, title
from common.text import plural
from inference import circuit_svg, report_plots, task_sections
from inference.gradient_variance import NEAR_PLATEAU, SMALL_VARIANCE
from inference.html_text import escape, note, section
from inference.results import InferenceResults
from inference.scoring import MAX_READOUTS, ClassScores

MAX_CIRCUITS = 8


def loss(results: InferenceResults) -> str:
    """Return the section with the loss curve."""
    name = _loss_name(results.source.metrics)
    rows = [row for row in results.source.metrics if name and _has_losses(row, name)]
    if not rows:
        return section("Loss", note("There is no metrics.jsonl for these weights."))
    settings = results.source.settings
    count = settings.get("initializations") or 1
    epochs = settings.get("initialization_epochs") or 0
    text = f"The {escape(title(name))} at the end of each epoch; lower is better."
    if count > 1:
        text += (
            f" Training starts with {count} random initializations of {plural(epochs, 'epoch')}"
            " each. It continues with the best one, with a learning rate that decays to zero."
        )
    return section("Loss", note(text), report_plots.loss_curve(rows, name, count, epochs))


def _loss_name(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of the loss, the first number of an epoch; nothing without rows."""
    return next((name for row in rows[:1] for name in row if name != "epoch"), "")


def _has_losses(row: Mapping[str, Any], name: str) -> bool:
    numbers = [row.get(key) for key in ("epoch", name, f"val_{name}")]
    return all(isinstance(number, int | float) for number in numbers)


def predictions(results: InferenceResults) -> str:
    """Return the section with predictions of the task, and readouts."""
    scores, target = results.scores, results.inputs.target
    parts = task_sections.predictions(results)
    if isinstance(scores, ClassScores) and target.kind == "signs":
        parts = [
            note("A prediction is a number; its sign is the class."),
            report_plots.predictions(scores, target.classes),
        ]
    if target.task in ("energy", "state"):
        return section("Results", *parts)
    if count := scores.readouts_per_example:
        shown = f" The first {MAX_READOUTS} of {count} are shown."
        parts += [
            "<h3>Readouts</h3>",
            note(
                "The outputs of the circuit, before any classical layer: expectation values from"
                " -1 to 1." + (shown if count > MAX_READOUTS else "")
            ),
            report_plots.readouts(scores, target.classes),
        ]
    return section("Predictions", *parts)


def baselines(results: InferenceResults) -> str:
    """Return the section that compares classical models; empty where there are none to compare."""
    scores = results.scores
    if not scores.metrics or results.inputs.target.task not in ("classification", "regression"):
        return ""
    if not results.baselines:
        reason = results.missing_baselines_reason
        return section("Baselines", note(f"No baselines: {escape(reason)}."))
    data = results.inputs.data
    names = list(scores.metrics)
    train_rows = data.rows("train") if data else 0
    own = (results.source.settings.get("model"), scores.metrics, train_rows, scores.total)
    rows = [_row(names, *own, highlight=True)]
    rows += [_row(names, b.name, b.metrics, b.train_rows, b.test_rows) for b in results.baselines]
    columns = results.column_baselines
    rows += [
        _row(names, f"{b.name}, own columns", b.metrics, b.train_rows, b.test_rows)
        for b in (columns.found if columns else [])
    ]
    headings = ("model", *map(title, names), "trained on", "tested on")
    return section(
        "Baselines",
        note(
            "Classical models of scikit-learn on the same angles and the same training split, each"
            " tuned by cross-validation over as many configurations as the others. The perceptron"
            " (MLP) has about as many weights as the model."
        ),
        _encoding_note(results),
        '<div class="wide"><table><thead><tr>'
        + "".join(f"<th>{escape(heading)}</th>" for heading in headings)
        + f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div>",
    )


def _encoding_note(results: InferenceResults) -> str:
    """Return what the encoding loses, where that may limit the model."""
    columns, data = results.column_baselines, results.inputs.data
    if columns is None or data is None:
        return ""
    text = f"The features are {describe_encoding(data.encoding)}."
    if columns.found:
        text += (
            " The last rows are the same models on the table's own columns. If they are much better"
            " than those on the angles, the encoding is the limit: raise QUBITS or provide fewer"
            " columns. Otherwise the model is."
        )
    return note(escape(f"{text} {columns.hint}{'.' * bool(columns.hint)}"))


def _row(
    names: Sequence[str],
    model: Any,
    metrics: Mapping[str, float],
    train_rows: int,
    test_rows: int,
    *,
    highlight: bool = False,
) -> str:
    cells = [number(name, metrics[name]) if name in metrics else "–" for name in names]
    cells += [f"{train_rows:,}", f"{test_rows:,}"]
    kind = ' class="highlight"' if highlight else ""
    return f"<tr{kind}><th>{escape(str(model))}</th>{''.join(f'<td>{c}</td>' for c in cells)}</tr>"


def gradients(results: InferenceResults) -> str:
    """Return the section with the gradient variance by layer of each distinct circuit."""
    if not results.gradients:
        return ""
    parts = [
        note(
            "The variance of the readout gradients with random angles, mean over the angles of each"
            " layer. It measures the size of the gradients at the beginning of training. The marks"
            " are the values of a random circuit of the same width (a unitary 2-design), which"
            " decrease as 2<sup>-N</sup> with N qubits: a barren plateau (McClean et al.,"
            " arXiv:1803.11173). A layer counts as a barren plateau if its variance is at most"
            f" {NEAR_PLATEAU:g} times that value and at most {SMALL_VARIANCE:g}."
        )
    ]
    for index, measured in enumerate(results.gradients):
        name = escape(measured.circuit)
        if len(results.gradients) > 1:
            parts.append(f"<h3>{name}</h3>")
        if measured.skipped:
            parts.append(note(f"Not measured for {name}: {escape(measured.skipped)}."))
            continue
        parts.append(report_plots.gradient_variance(measured, f"gradient{index}"))
        parts.append(
            note(f"{measured.samples} random samples of all angles, each with one example.")
        )
    others = len(results.circuits) - len(results.gradients)
    if others > 0:
        parts.append(note(f"{plural(others, 'more circuit')} of the same structure."))
    return section("Gradient variance by layer", *parts)


def circuits(results: InferenceResults) -> str:
    """Return the section with the circuit diagrams."""
    if not results.circuits:
        return section("Circuit", note("The model has no circuit."))
    legend = (
        'Gates with data angles have the outline <span class="key" style="color:'
        ' var(--positive)"></span>, gates with trained angles <span class="key" style="color:'
        ' var(--negative)"></span>. The small number is that of the symbol. The tooltip of a gate'
        " contains its symbol and its trained angle. Scroll sideways to see the rest."
    )
    first, *others = results.circuits[:MAX_CIRCUITS]
    parts = [note(legend), _diagram(first)]
    parts += [
        f"<details><summary>{escape(layer.name)}</summary>{_diagram(layer)}</details>"
        for layer in others
    ]
    if (omitted := len(results.circuits) - MAX_CIRCUITS) > 0:
        parts.append(note(f"{plural(omitted, 'more circuit')} omitted."))
    return section("Circuit", *parts)


def _network_note(simulator: Any) -> str:
    networks = getattr(simulator, "networks", None)
    if networks is None:
        return ""
    return (
        f"; simulated by tensor networks of width {networks.width}, with"
        f" {networks.operations:,} complex multiplications per example"
    )


def _excerpt_note(drawn: Any, width: int) -> str:
    shown = len(drawn.all_qubits())
    if shown == width:
        return ""
    return f". Excerpt: the first {shown} of {width:,} qubits, with the gates among them"


def _diagram(layer: Any) -> str:
    trained: Mapping[str, float] = dict(
        zip(layer.parameters, map(float, layer.angles.numpy()), strict=True)
    )
    drawn = circuit_svg.excerpt(layer.circuit)
    svg = circuit_svg.circuit_to_svg(drawn, layer.inputs, trained, layer.observables)
    gates = sum(1 for _ in layer.circuit.all_operations())
    width = len(layer.circuit.all_qubits())
    if not svg:
        return note(
            f"{escape(layer.name)}: the circuit has too many gates for a diagram ({gates:,})."
        )
    readouts = ", ".join(str(observable).removeprefix("1.000*") for observable in layer.observables)
    if len(readouts) > 200:
        readouts = readouts[:200] + "..."
    caption = note(
        f"{escape(layer.name)}: {plural(width, 'qubit')}, {plural(gates, 'gate')},"
        f" {plural(len(layer.parameters), 'trained angle')}"
        f"{'; readouts: ' * bool(readouts)}{escape(readouts)}"
        f"{_network_note(layer.simulator)}{_excerpt_note(drawn, width)}"
    )
    return f'{caption}<div class="scroll">{svg}</div>'
