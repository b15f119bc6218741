"""report.html: one file about the training of a model and the quality of its predictions.

The file is self-contained: plots and circuits are inline SVG. It loads nothing and runs no scripts;
its content security policy enforces this.
"""

from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from common.text import plural
from inference import report_sections
from inference.html_text import escape
from inference.report_sections import note, section
from inference.results import InferenceResults

ENCODINGS = {
    "none": "angles, unchanged",
    "angle": "one standardized angle per feature",
    "pca": "principal components",
    "reupload": "standardized, re-uploaded",
}
PLACEMENTS = {
    "cluster": "rx on the cluster state",
    "angle": "ry on |0...0>",
    "reupload": "before each layer",
}
TEMPLATE = Path(__file__).with_name("report.html")


def render(results: InferenceResults) -> str:
    """Return the page."""
    run = results.source.run
    settings = results.source.settings
    title = f"Run {run.name}" if run else f"Weights {results.source.weights.name}"
    warnings = [*results.notes, *(g.warning for g in results.gradients if g.warning)]
    parts = [
        _facts(results),
        report_sections.loss(results),
        report_sections.predictions(results),
        report_sections.confusion(results),
        report_sections.baselines(results),
        report_sections.gradients(results),
        report_sections.circuits(results),
    ]
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(title),
        lead=escape(
            f"{settings.get('model')} on {plural(int(settings.get('qubits', 0)), 'qubit')}:"
            f" predictions for {plural(results.scores.total, 'example')} ({results.inputs.title})"
        ),
        warnings="\n".join(f'<p class="warning">{escape(text)}</p>' for text in warnings),
        cards="\n".join(_card(*card) for card in _headline(results)),
        sections="\n".join(filter(None, parts)),
        footer=escape(
            f"Created {results.created} by qfleet inference from {results.source.weights}"
        ),
    )


def _card(title: str, value: str, detail: str) -> str:
    return (
        f'<div class="card"><div class="title">{escape(title)}</div>'
        f'<div class="value">{escape(value)}</div><div class="detail">{escape(detail)}</div></div>'
    )


def _headline(results: InferenceResults) -> list[tuple[str, str, str]]:
    scores = results.scores
    total = scores.total
    rate = (
        "predicted examples",
        f"{total:,}",
        f"in {scores.seconds:.2g} s: {scores.rate}",
    )
    if scores.accuracy is None or scores.mse is None:
        negative, positive = scores.predicted_counts
        negative_class, positive_class = results.inputs.classes
        return [
            rate,
            (f"predicted {negative_class}", f"{negative:,}", f"{negative / total:.1%}"),
            (f"predicted {positive_class}", f"{positive:,}", f"{positive / total:.1%}"),
        ]
    wrong = total - int(np.trace(scores.counts))
    cards = [
        ("accuracy", f"{scores.accuracy:.2%}", f"{wrong:,} of {total:,} wrong"),
        ("mean squared error", f"{scores.mse:.4f}", "of predictions against labels -1 and +1"),
        rate,
    ]
    if results.baselines:
        best = max(results.baselines, key=lambda b: b.accuracy)
        cards.append(("accuracy of the best baseline", f"{best.accuracy:.2%}", best.name))
    return cards


def _facts(results: InferenceResults) -> str:
    source, inputs = results.source, results.inputs
    settings, result, data = source.settings, source.result, inputs.data
    encoding = source.described["encoding"]
    model = [
        ("model", settings.get("model")),
        ("qubits", settings.get("qubits")),
        ("circuits", len(results.circuits)),
        ("readouts", sum(len(layer.observables) for layer in results.circuits)),
        ("activation", settings.get("activation") if settings.get("model") != "qcnn" else None),
        ("trained parameters", f"{results.weight_count:,}"),
        ("simulator", settings.get("simulator")),
    ]
    data_facts = [
        ("data", settings.get("data")),
        ("classes", " and ".join(inputs.classes)),
        ("features", ENCODINGS.get(encoding.get("kind"))),
        ("angles applied as", PLACEMENTS.get(encoding.get("placement"))),
    ]
    if data is not None:
        data_facts += [(f"{split} examples", f"{data.rows(split):,}") for split in data.splits]
        data_facts += [("fingerprint", data.fingerprint[:16])]
    seconds = result.get("seconds")
    training = [
        ("seed", settings.get("seed")),
        ("epochs", result.get("epochs")),
        ("batch", settings.get("batch")),
        ("learning rate", settings.get("learning_rate")),
        ("workers", source.record.get("other", {}).get("workers")),
        ("duration", f"{seconds:,.0f} s" if isinstance(seconds, int | float) else None),
        ("finished", result.get("finished")),
        ("SHA-256 of the weights", str(result.get("weights", {}).get("sha256", ""))[:16] or None),
    ]
    versions = ", ".join(f"{name} {v}" for name, v in source.record.get("versions", {}).items())
    return section(
        "Run",
        '<div class="facts">',
        _definitions("Model", model),
        _definitions("Data", data_facts),
        _definitions("Training", training),
        "</div>",
        note(f"Trained with {escape(versions)}.") if versions else "",
    )


def _definitions(title: str, facts: Sequence[tuple[str, Any]]) -> str:
    rows = [
        f"<div><dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in facts
        if value is not None
    ]
    return f"<div><h3>{title}</h3><dl>{''.join(rows)}</dl></div>"
