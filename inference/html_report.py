"""report.html: one file that tells how a model was made and how well it answers.

It stands alone: plots and circuits are inline SVG, nothing is loaded and nothing runs; its own
content security policy holds it to that.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from inference import report_sections
from inference.report_sections import note, section
from inference.results import InferenceResults

ENCODINGS = {
    "none": "angles as they are",
    "angle": "an angle each, standardised",
    "pca": "principal components",
    "reupload": "standardised, re-uploaded",
}
PLACEMENTS = {
    "cluster": "by rx on the cluster state",
    "angle": "by ry on |0...0>",
    "reupload": "before each layer",
}
TEMPLATE = Path(__file__).with_name("report.html")


def render(found: InferenceResults) -> str:
    """The page."""
    run = found.source.run
    title = f"Run {run.name}" if run else f"Weights {found.source.weights.name}"
    warnings = [*found.notes, *(s.warning for s in found.slopes if s.warning)]
    parts = [
        _facts(found),
        report_sections.loss(found),
        report_sections.answers(found),
        report_sections.confusion(found),
        report_sections.baselines(found),
        report_sections.gradients(found),
        report_sections.circuits(found),
    ]
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(title),
        lead=escape(
            f"{found.source.settings.get('model')} on {found.source.settings.get('qubits')} qubits,"
            f" answering {found.scores.total:,} examples: {found.question.title}"
        ),
        warnings="\n".join(f'<p class="warning">{escape(text)}</p>' for text in warnings),
        cards="\n".join(_card(*card) for card in _headline(found)),
        sections="\n".join(filter(None, parts)),
        footer=escape(f"Written {found.written} by qfleet's inference from {found.source.weights}"),
    )


def _card(what: str, value: str, more: str) -> str:
    return (
        f'<div class="card"><div class="what">{escape(what)}</div>'
        f'<div class="value">{escape(value)}</div><div class="more">{escape(more)}</div></div>'
    )


def _headline(found: InferenceResults) -> list[tuple[str, str, str]]:
    scores = found.scores
    total = scores.total
    rate = (
        "examples answered",
        f"{total:,}",
        f"in {scores.seconds:.2g} s: {scores.rate}",
    )
    if scores.accuracy is None or scores.mse is None:
        negative, positive = scores.predicted
        negative_class, positive_class = found.question.classes
        return [
            rate,
            (f"answered {negative_class}", f"{negative:,}", f"{negative / total:.1%}"),
            (f"answered {positive_class}", f"{positive:,}", f"{positive / total:.1%}"),
        ]
    wrong = total - int(np.trace(scores.counts))
    cards = [
        ("accuracy", f"{scores.accuracy:.2%}", f"{wrong:,} of {total:,} wrong"),
        ("mean squared error", f"{scores.mse:.4f}", "of answers against labels -1 and +1"),
        rate,
    ]
    if found.baselines:
        best = max(found.baselines, key=lambda b: b.accuracy)
        cards.append(("best baseline's accuracy", f"{best.accuracy:.2%}", best.name))
    return cards


def _facts(found: InferenceResults) -> str:
    source, question = found.source, found.question
    said, result, data = source.settings, source.result, question.data
    encoding = source.described["encoding"]
    model = [
        ("model", said.get("model")),
        ("qubits", said.get("qubits")),
        ("circuits", len(found.circuits)),
        ("readouts", sum(len(layer.observables) for layer in found.circuits)),
        ("activation", said.get("activation") if said.get("model") != "qcnn" else None),
        ("trained numbers", f"{found.weights:,}"),
        ("simulator", said.get("simulator")),
    ]
    about_data = [
        ("data", said.get("data")),
        ("classes", " and ".join(question.classes)),
        ("features", ENCODINGS.get(encoding.get("kind"))),
        ("angles enter", PLACEMENTS.get(encoding.get("placement"))),
    ]
    if data is not None:
        about_data += [(f"{split} examples", f"{data.rows(split):,}") for split in data.splits]
        about_data += [("fingerprint", data.fingerprint[:16])]
    seconds = result.get("seconds")
    training = [
        ("seed", said.get("seed")),
        ("epochs", result.get("epochs")),
        ("batch", said.get("batch")),
        ("learning rate", said.get("learning_rate")),
        ("workers", source.record.get("other", {}).get("workers")),
        ("took", f"{seconds:,.0f} s" if isinstance(seconds, int | float) else None),
        ("finished", result.get("finished")),
        ("weights' sha256", str(result.get("weights", {}).get("sha256", ""))[:16] or None),
    ]
    versions = ", ".join(f"{name} {v}" for name, v in source.record.get("versions", {}).items())
    return section(
        "The run",
        '<div class="facts">',
        _definitions("Model", model),
        _definitions("Data", about_data),
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
