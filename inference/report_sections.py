"""Plots, tables and diagrams of the report, which its template asks for."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from common.commands import command
from common.data.origin import ID
from common.metrics import number, title
from common.settings import Settings
from common.settings.circuit_file import short_model
from common.settings.programs import used_by
from common.settings.schema import format_value
from common.text import plural
from inference import circuit_svg, report_plots, task_plots
from inference.results import InferenceResults
from inference.scoring import ClassScores, MemberScores, NumberScores, Scores

if TYPE_CHECKING:
    from qfleet.tensorflow.layers import Expectation

CHEMICAL_ACCURACY = 1.6e-3
"""In hartree: 1 kcal/mol."""

MAX_SHOWN = 200
"""Longest value of a setting in the command that repeats a training."""

NONE = "none"
"""Recorded value of NOISE and SHOTS that means their default."""

Table = tuple[list[str], list[list[str]]]
"""Headings and rows."""


def loss(results: InferenceResults) -> dict[str, object]:
    """Return the loss curve and what it shows; empty where no losses are recorded."""
    recorded, settings = results.source.metrics, results.source.settings
    # The loss is the first number of an epoch.
    name = next((name for row in recorded[:1] for name in row if name != "epoch"), "")
    rows = [row for row in recorded if name and _has_losses(row, name)]
    if not rows:
        return {}
    count = settings.get("initializations") or 1
    epochs = settings.get("initialization_epochs") or 0
    plot = report_plots.loss_curve(rows, name, count, epochs)
    return {"title": title(name), "count": count, "epochs": epochs, "plot": plot}


def repetition(results: InferenceResults) -> str:
    """Return the command that trains the model again; empty for weights without a run.

    Settings with their defaults are left out, and texts of more than MAX_SHOWN characters, such as
    the calibration of a device.
    """
    source = results.source
    if source.run is None:
        return ""
    other = source.record.get("other", {})
    sizes = {
        name: other[name] for name in ("epochs", "workers") if isinstance(other.get(name), int)
    }
    settings = Settings.from_record(source.settings).replace(**sizes)
    used = used_by("train", "local", settings)
    words = [
        f"{field.variable}={shlex.quote(text)}"
        for name, field in Settings.fields().items()
        if name in used and (text := format_value(settings.get(name)))
        if text not in (format_value(field.default), NONE) and len(text) <= MAX_SHOWN
    ]
    return " ".join([command("train"), *words])


def _has_losses(row: Mapping[str, object], name: str) -> bool:
    numbers = [row.get(key) for key in ("epoch", name, f"val_{name}")]
    return all(isinstance(number, int | float) for number in numbers)


def prediction_plot(results: InferenceResults) -> str:
    """Return the plot of the predictions; empty where a task has none."""
    scores, target = results.scores, results.inputs.target
    if isinstance(scores, ClassScores) and target.kind == "signs":
        return report_plots.predictions(scores, target.classes)
    if isinstance(scores, NumberScores) and scores.labelled:
        return task_plots.residuals(*map(np.array, scores.pairs))
    has_curve = target.kind == "energy" and target.has_reference and len(target.fields) == 1
    if isinstance(scores, MemberScores) and has_curve and scores.total > 1:
        fields = results.inputs.head(scores.total).angles[:, 0]
        limit = CHEMICAL_ACCURACY if target.electrons else None
        curve = (fields, scores.values, scores.references)
        return task_plots.energies(*curve, target.fields[0], limit)
    return ""


def members(results: InferenceResults) -> Table:
    """Return the table of Hamiltonians, states or perturbed devices."""
    scores, target = results.scores, results.inputs.target
    assert isinstance(scores, MemberScores)
    fields = results.inputs.head(scores.total).angles[:, : len(target.fields)]
    columns = [(name, [f"{x:.6g}" for x in fields[:, i]]) for i, name in enumerate(target.fields)]
    name = "energy" if target.kind == "energy" else "fidelity"
    columns.append((name, [f"{x:.6f}" for x in scores.values]))
    if isinstance(scores.unmitigated, MemberScores):
        columns.append(("without ZNE", [f"{x:.6f}" for x in scores.unmitigated.values]))
    if target.kind == "energy" and target.has_reference:
        distances = scores.values - scores.references
        columns.append(("reference", [f"{x:.6f}" for x in scores.references]))
        columns.append(("error", [number("energy_error", x) for x in distances]))
    headings, cells = zip(*columns, strict=True)
    return list(headings), list(map(list, zip(*cells, strict=True)))


def errors(results: InferenceResults) -> Table:
    """Return the table of the largest errors."""
    inputs = results.inputs
    ids = ["id"] * (ID in inputs.origin_columns)
    size, form = ("distance", lambda x: number("mae", x))
    if inputs.target.classes:
        size, form = ("probability", "{:.3f}".format)
    return ["row", *ids, "label", "predicted", size], [
        [str(e.row), *(e.id or "" for _ in ids), e.label, e.predicted, form(e.size)]
        for e in results.scores.errors.found
    ]


def mitigated_metrics(scores: Scores) -> Table:
    """Return the table of metrics without and with zero-noise extrapolation."""
    plain = scores.unmitigated.metrics if scores.unmitigated else {}
    return ["", "without ZNE", "with ZNE"], [
        [title(name), number(name, plain[name]), number(name, value)]
        for name, value in scores.metrics.items()
    ]


def return_probabilities(results: InferenceResults) -> Table:
    """Return the table of fidelity, return probabilities and errors of the circuits."""
    heads = ["circuit", "fidelity", "return, mean", "return, least", "error without ZNE",
             "error with ZNE"]  # fmt: skip
    return heads, [
        [
            one.circuit,
            *(f"{part:.4f}" for part in (one.fidelity, one.returned, one.least)),
            *(f"{part:.2e}" for part in (one.noisy_error, one.mitigated_error)),
        ]
        for one in results.return_probabilities
    ]


def baselines(results: InferenceResults) -> Table:
    """Return the table of the model and the baselines."""
    data, scores, own = results.inputs.data, results.scores, results.column_baselines
    train_rows = data.rows("train") if data else 0
    name = short_model(str(results.source.settings.get("model")))
    models = [(name, scores.metrics, train_rows, scores.total)]
    models += [(b.name, b.metrics, b.train_rows, b.test_rows) for b in results.baselines]
    models += [
        (f"{b.name}, own columns", b.metrics, b.train_rows, b.test_rows)
        for b in (own.found if own else [])
    ]
    names = list(scores.metrics)
    return ["model", *map(title, names), "trained on", "tested on"], [
        [
            str(model),
            *(number(name, metrics[name]) if name in metrics else "–" for name in names),
            *(f"{count:,}" for count in counts),
        ]
        for model, metrics, *counts in models
    ]


def diagram(layer: "Expectation", name: str) -> tuple[str, str]:
    """Return caption and SVG of a circuit; without SVG if it has too many gates.

    Args:
        layer: The layer of the circuit.
        name: The id of the SVG.
    """
    trained: Mapping[str, float] = dict(
        zip(layer.parameters, map(float, layer.angles.numpy()), strict=True)
    )
    drawn = circuit_svg.excerpt(layer.circuit)
    svg = circuit_svg.circuit_to_svg(drawn, layer.inputs, trained, layer.observables, name)
    gates = sum(1 for _ in layer.circuit.all_operations())
    if not svg:
        return f"the circuit has too many gates for a diagram ({gates:,}).", ""
    width, shown = len(layer.circuit.all_qubits()), len(drawn.all_qubits())
    caption = (
        f"{plural(width, 'qubit')}, {plural(gates, 'gate')},"
        f" {plural(len(layer.parameters), 'trained angle')}"
    )
    if readouts := ", ".join(str(one).removeprefix("1.000*") for one in layer.observables):
        caption += f"; readouts: {readouts[:200]}{'...' * (len(readouts) > 200)}"
    if layer.initial_states:
        caption += "; it starts at the state of an example"
    if layer.contraction:
        caption += f"; simulated by {layer.contraction}"
    if shown < width:
        caption += f". Excerpt: the first {shown} of {width:,} qubits, with the gates among them"
    return caption, svg


def pulse_facts(results: InferenceResults) -> Table:
    """Return the table of the fidelities of a pulse on the device itself."""
    assert results.pulse is not None
    found = results.pulse
    rows = [
        ("fidelity", f"{found.nominal.fidelity[0]:.6f}"),
        ("leakage", f"{found.nominal.leakage[0]:.2e}"),
        ("duration", f"{found.nominal.duration:g} ns"),
        ("step error", f"{found.step_error:.1e}"),
    ]
    if found.decayed is not None:
        rows[1:1] = [("fidelity with T1 and T2", f"{found.decayed:.6f}")]
        rows[2:2] = [("limit of T1 and T2", f"{found.limit:.6f}")]
    return ["on the device itself", ""], [list(row) for row in rows]


def kernel_widths(results: InferenceResults) -> str:
    """Return the plot of the concentration of a kernel by width; empty for a single width."""
    widths = results.kernel.widths if results.kernel else ()
    if len(widths) < 2:
        return ""
    columns = ([getattr(one, name) for one in widths] for name in ("qubits", "mean", "deviation"))
    return task_plots.kernel_widths(*map(np.array, columns))
