"""The recorded prediction error of the step model, as `benchmarks/planner.json` holds it."""

import json
from pathlib import Path

FILE = Path(__file__).parents[1] / "benchmarks" / "planner.json"


def error_sentence(file: Path = FILE) -> str:
    """Describe the prediction error that `python -m benchmarks.planner_accuracy` recorded."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        median, worst, count = record["median"], record["worst"], len(record["rows"])
        cpu = record["machine"]["CPU"]
    except (OSError, ValueError, KeyError, TypeError):
        return (
            "Prediction error: not recorded; `python -m benchmarks.planner_accuracy` measures it."
        )
    return (
        f"Prediction error: median {100 * median:.0f} %, worst {100 * worst:.0f} % over {count}"
        f" trainings on {cpu} (benchmarks/planner.json)."
    )
