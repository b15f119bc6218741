"""The tables of docs/wide-study.md, from the results."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import markdown

FILE, COMMAND = "docs/wide-study.md", "python -m benchmarks.wide_study"

Rows = Sequence[Mapping[str, Any]]


def updated(page: str, rows: Rows) -> str:
    """Return a page with the tables of some results."""
    return markdown.replace_block(page, "study", COMMAND, study(rows), FILE)


def study(rows: Rows) -> str:
    """Return all tables."""
    parts = []
    for data in dict.fromkeys(row["data"] for row in rows if "data" in row):
        parts += [f"### Accuracy, `{data}`", accuracies([r for r in rows if r.get("data") == data])]
    for layers in dict.fromkeys(row["layers"] for row in rows if "weight" in row):
        chosen = [row for row in rows if "weight" in row and row["layers"] == layers]
        parts += [f"### Truncation, LAYERS={layers}", truncations(chosen)]
    return "\n\n".join(parts)


def accuracies(rows: Rows) -> str:
    """Return the median accuracy of each model, with the range over the seeds."""
    widths = sorted({row["qubits"] for row in rows})
    kinds = dict.fromkeys(
        (row["examples"], row["model"], row["layers"])
        for row in sorted(rows, key=lambda row: (row["examples"], row["layers"]))
    )
    lines = []
    for examples, model, layers in kinds:
        cells = []
        for qubits in widths:
            found = [
                row["accuracy"]
                for row in rows
                if (row["qubits"], row["examples"], row["model"], row["layers"])
                == (qubits, examples, model, layers)
            ]
            cells.append(_spread(found))
        lines.append((str(examples), model, str(layers or ""), *cells))
    titles = ("examples", "model", "layers", *(f"{n:,} qubits" for n in widths))
    return markdown.table(titles, lines)


def truncations(rows: Rows) -> str:
    """Return the errors and the accuracy of truncated readouts, medians over the seeds."""
    lines = []
    for weight in sorted({row["weight"] for row in rows}):
        at = [row for row in rows if row["weight"] == weight]
        trained = [row for row in at if row["angles"] == "trained"]
        errors = [
            statistics.median(row["rms"] / row["scale"] for row in at if row["angles"] == kind)
            for kind in ("random", "trained")
        ]
        lines.append(
            (
                str(weight),
                *(f"{error:.2g}" for error in errors),
                _spread([row["accuracy"] for row in trained]),
                _spread([row["exact accuracy"] for row in trained]),
            )
        )
    titles = (
        "largest weight",
        "relative error, random angles",
        "relative error, trained angles",
        "accuracy",
        "exact accuracy",
    )
    return markdown.table(titles, lines)


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    middle = f"{statistics.median(values):.2f}"
    return f"{middle} ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else middle
