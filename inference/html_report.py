"""report.html: one file about the training of a model and the quality of its predictions.

The file is self-contained: plots and circuits are inline SVG. It loads nothing and runs no scripts;
its content security policy enforces this.
"""

from pathlib import Path

import numpy as np

from common.data import Encoding
from common.data.description import describe_encoding, describe_labels
from common.metrics import number, title
from common.settings.circuit_file import short_model
from common.settings.groups.experiment import DENSE_MODELS, GATE, KERNEL
from common.text import plural
from inference import (
    gradient_variance,
    pulse_plots,
    report_plots,
    report_sections,
    task_plots,
)
from inference.html_text import page
from inference.results import InferenceResults
from inference.scoring import ClassScores
from qfleet.devices.calibration import short_name

TEMPLATE = Path(__file__).with_name("run_report.html")
PLACEMENTS = {
    "cluster": "rx on the cluster state",
    "angle": "ry on |0...0>",
    "reupload": "before each layer",
}
MAX_CARDS = 4
"""Most classes with a card of their own."""

_DETAILS = {
    "mse": "lower is better",
    "mae": "in the units of the labels",
    "r2": "1 is perfect, 0 is the mean of all labels",
    "log_loss": "of the predicted probabilities",
    "energy": "mean over all Hamiltonians",
    "energy_error": "mean distance to the exact energies",
    "largest_error": "largest distance to an exact energy",
    "infidelity": "1 minus the fidelity",
    "fidelity": "with the target, mean",
}


def render(results: InferenceResults) -> str:
    """Return the page."""
    source, scores, inputs = results.source, results.scores, results.inputs
    settings, versions = source.settings, source.record.get("versions", {})
    model, width = short_model(str(settings.get("model"))), int(settings.get("qubits", 0))
    return page(
        TEMPLATE,
        heading=f"Run {source.run.name}" if source.run else f"Weights {source.weights.name}",
        lead=(
            f"{model} on {plural(width, 'qubit')}:"
            f" predictions for {plural(scores.total, 'example')} ({inputs.title})"
        ),
        warnings=[*results.notes, *(g.warning for g in results.gradients if g.warning)],
        cards=_headline(results),
        footer=f"Created {results.created} by qfleet inference from {source.weights}",
        facts=_facts(results),
        versions=", ".join(f"{name} {version}" for name, version in versions.items()),
        results=results,
        settings=settings,
        scores=scores,
        inputs=inputs,
        target=inputs.target,
        sections=report_sections,
        report_plots=report_plots,
        task_plots=task_plots,
        pulse_plots=pulse_plots,
        limits=gradient_variance,
        describe_encoding=describe_encoding,
    )


def _headline(results: InferenceResults) -> list[tuple[str, str, str]]:
    scores = results.scores
    total = scores.total
    rate = (
        "predicted examples",
        f"{total:,}",
        f"in {scores.seconds:.2g} s: {scores.rate}",
    )
    if not scores.metrics:
        if not isinstance(scores, ClassScores):
            return [rate]
        pairs = zip(results.inputs.target.classes, scores.predicted_counts, strict=True)
        largest = sorted(pairs, key=lambda one: -one[1])[:MAX_CARDS]
        return [
            rate,
            *((f"predicted {name}", f"{n:,}", f"{n / total:.1%}") for name, n in largest),
        ]
    cards = [
        (title(n), number(n, value), _DETAILS.get(n, "")) for n, value in scores.metrics.items()
    ]
    if isinstance(scores, ClassScores):
        wrong = total - int(np.trace(scores.counts))
        accuracy = scores.metrics["accuracy"]
        cards = [one for one in cards if one[0] != "accuracy"]
        cards.insert(0, ("accuracy", f"{accuracy:.2%}", f"{wrong:,} of {total:,} wrong"))
    cards += _fidelity(results)
    cards.append(rate)
    score = "accuracy" if isinstance(scores, ClassScores) else "r2"
    if results.baselines:
        best = max(results.baselines, key=lambda b: b.metrics[score])
        shown = best.metrics[score]
        value = f"{shown:.2%}" if score == "accuracy" else number(score, shown)
        cards.append((f"{title(score)} of the best baseline", value, best.name))
    return cards


def _fidelity(results: InferenceResults) -> list[tuple[str, str, str]]:
    if not results.return_probabilities:
        return []
    worst = min(results.return_probabilities, key=lambda one: one.returned)
    return [("fidelity of the circuit", f"{worst.fidelity:.3f}", "by its return after the reverse")]


def _facts(results: InferenceResults) -> list[tuple[str, list[tuple[str, object]]]]:
    """Return titled lists of facts; a fact whose value is None is left out."""
    source, inputs = results.source, results.inputs
    settings, result, data = source.settings, source.result, inputs.data
    has_epochs, is_gate = settings.get("model") != KERNEL, inputs.target.task == GATE
    has_steps = has_epochs and not is_gate
    pruned = result.get("pruned")
    encoding = source.described["encoding"]
    has_examples = inputs.target.task in ("classification", "regression")
    is_kernel = settings.get("model") == "kernel"
    has_head = has_examples and settings.get("model") in DENSE_MODELS
    model = [
        ("model", short_model(str(settings.get("model")))),
        ("qubits", settings.get("qubits")),
        ("circuits", len(results.circuits)),
        (
            "readouts",
            None if is_kernel else sum(len(layer.observables) for layer in results.circuits),
        ),
        ("bandwidth", source.described.get("bandwidth")),
        ("activation", settings.get("activation") if has_head else None),
        (
            "coefficients" if is_kernel else "trained parameters",
            f"{results.weight_count:,}",
        ),
        ("pruned angles", f"{pruned['dropped']:,} of {pruned['angles']:,}" if pruned else None),
        ("simulator", settings.get("simulator")),
        (
            "device of the pulse" if is_gate else "noise",
            short_name(settings.get("noise") or "none"),
        ),
        ("zero-noise extrapolation", settings.get("zne")),
    ]
    labels = describe_labels(data) if data else ", ".join(inputs.target.classes)
    data_facts = [
        ("data", settings.get("data")),
        ("task", inputs.target.task),
        ("labels", labels or None),
        ("Pauli words", f"{len(inputs.target.terms):,}" if inputs.target.terms else None),
    ]
    if has_examples:
        data_facts += [
            ("features", describe_encoding(Encoding.from_json(encoding))),
            ("angles applied as", PLACEMENTS.get(encoding.get("placement"))),
        ]
    if data is not None:
        data_facts += [(f"{split} examples", f"{data.rows(split):,}") for split in data.splits]
        data_facts += [("fingerprint", data.fingerprint[:16])]
    seconds = result.get("seconds")
    training = [
        ("seed", settings.get("seed")),
        ("epochs", result.get("epochs") if has_epochs else None),
        ("batch", settings.get("batch") if has_steps else None),
        ("learning rate", settings.get("learning_rate") if has_steps else None),
        ("workers", source.record.get("other", {}).get("workers")),
        ("device", result.get("device")),
        ("study", source.record.get("other", {}).get("study")),
        ("code", source.record.get("other", {}).get("code")),
        ("duration", f"{seconds:,.0f} s" if isinstance(seconds, int | float) else None),
        ("finished", result.get("finished")),
        ("SHA-256 of the weights", str(result.get("weights", {}).get("sha256", ""))[:16] or None),
    ]
    return [("Model", model), ("Data", data_facts), ("Training", training)]
