"""Sections of the report that depend on the task."""

import numpy as np

from common.data.origin import ID
from common.metrics import number
from inference import task_plots
from inference.html_text import escape, note, section, table
from inference.results import InferenceResults
from inference.scoring import ClassScores, MemberScores, NumberScores

MAX_MEMBERS = 200
"""Most Hamiltonians or states in the report's table."""

FEW_CLASSES = 4
"""Most classes whose confusion matrix has wide cells."""

CHEMICAL_ACCURACY = 1.6e-3
"""In hartree: 1 kcal/mol."""


def predictions(results: InferenceResults) -> list[str]:
    """Return the parts of the section with the predictions of a task."""
    scores = results.scores
    if isinstance(scores, NumberScores):
        return _numbers(scores)
    if isinstance(scores, MemberScores):
        return _members(results, scores)
    return [note("A prediction has one probability per class; the highest is the class.")]


def _numbers(scores: NumberScores) -> list[str]:
    if not scores.labelled:
        return [note("The labels are unknown, so that there is nothing to compare with.")]
    shown = len(scores.pairs[0])
    text = "Predictions and residuals (prediction minus label) by label."
    if shown < scores.total:
        text += f" The first {shown:,} of {scores.total:,} examples are shown."
    return [note(text), task_plots.residuals(*map(np.array, scores.pairs))]


def _members(results: InferenceResults, scores: MemberScores) -> list[str]:
    target = results.inputs.target
    fields = results.inputs.head(scores.total).angles[:, : len(target.fields)]
    parts = []
    if target.kind == "energy" and target.has_reference:
        limit = CHEMICAL_ACCURACY if target.electrons else None
        text = "The reference is the exact energy of the ground state."
        if limit:
            text += " The dashed line is chemical accuracy, 1.6 millihartree."
        parts.append(note(text))
        if len(target.fields) == 1 and scores.total > 1:
            curve = (fields[:, 0], scores.values, scores.references)
            parts.append(task_plots.energies(*curve, target.fields[0], limit))
    columns = [*target.fields, "energy" if target.kind == "energy" else "fidelity"]
    plain = scores.unmitigated
    if plain is not None:
        columns.append("without ZNE")
    is_compared = target.kind == "energy" and target.has_reference
    if is_compared:
        columns += ["reference", "error"]
    rows = []
    for member in range(min(scores.total, MAX_MEMBERS)):
        value = scores.values[member]
        cells = [f"{field:.6g}" for field in fields[member]] + [f"{value:.6f}"]
        if isinstance(plain, MemberScores):
            cells.append(f"{plain.values[member]:.6f}")
        if is_compared:
            reference = scores.references[member]
            cells += [f"{reference:.6f}", number("energy_error", value - reference)]
        rows.append(cells)
    parts.append(table(columns, rows))
    if scores.total > MAX_MEMBERS:
        parts.append(note(f"{scores.total - MAX_MEMBERS:,} more are in the table of predictions."))
    return parts


def errors(results: InferenceResults) -> str:
    """Return the section with the largest errors; empty without labels, or if all are right."""
    found, inputs = results.scores.errors.found, results.inputs
    if not found:
        return ""
    has_classes = bool(inputs.target.classes)
    has_ids = ID in inputs.origin_columns
    headings = ["row", *["id"] * has_ids, "label", "predicted"]
    headings.append("probability" if has_classes else "distance")
    rows = [
        [
            str(one.row),
            *[one.id or ""] * has_ids,
            one.label,
            one.predicted,
            f"{one.size:.3f}" if has_classes else number("mae", one.size),
        ]
        for one in found
    ]
    kind = "wrong predictions with the highest probabilities"
    text = f"The {kind if has_classes else 'predictions with the largest distances to the labels'}."
    if inputs.origin_columns:
        text += " Row 1 is the first row of the table, below the header of a CSV file."
    else:
        text += " Rows are numbers of the split, from 1."
    return section(
        "Most confident errors" if has_classes else "Largest errors",
        note(text),
        table(headings, rows),
    )


def confusion(results: InferenceResults) -> str:
    """Return the section with confusion matrix, precision, recall and calibration.

    It is empty without labels or classes.
    """
    scores = results.scores
    if not isinstance(scores, ClassScores) or not scores.labelled:
        return ""
    classes = [escape(name) for name in results.inputs.target.classes]
    counts, rates = scores.counts, scores.precision_and_recall
    rows = []
    for i, label in enumerate(classes):
        cells = [_cell(counts[i, j], counts[i].sum(), is_hit=i == j) for j in range(len(classes))]
        cells += [f"<td>{'–' if rate is None else f'{rate:.1%}'}</td>" for rate in rates[i]]
        rows.append(f"<tr><th>label {label}</th>{''.join(cells)}</tr>")
    heads = [f"predicted {name}" if len(classes) == 2 else name for name in classes]
    heading = "".join(f"<th>{head}</th>" for head in (*heads, "precision", "recall"))
    many = " many" if len(classes) > FEW_CLASSES else ""
    matrix = (
        f'<div class="wide"><table class="confusion{many}"><thead><tr><th></th>{heading}'
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
    explanation = (
        "Rows are labels, columns predicted classes. Precision is the fraction of the predictions"
        " of a class that are right, recall the fraction of its examples that are found."
    )
    return section("Confusion matrix", note(explanation), matrix) + section(
        "Calibration",
        note(
            "How often the predicted class is right, by its probability. For two classes, the"
            " probability is (1 + prediction) / 2. The expected calibration error is"
            f" {scores.calibration.error:.3f}."
        ),
        task_plots.calibration(scores.calibration),
    )


def _cell(count: int, total: int, *, is_hit: bool) -> str:
    fraction = count / max(total, 1)
    return (
        f'<td class="{"hit" if is_hit else "miss"}" style="--fraction: {fraction:.3f}">'
        f'{count:,}<span class="fraction">{fraction:.1%}</span></td>'
    )
