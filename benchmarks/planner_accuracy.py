"""Plans against trainings: `python -m benchmarks.planner_accuracy`; QUICK=1 takes three of them.

Each training of CASES is planned as by `make plan`, and then run as by `make training`, with one
and with two workers. Its step is the median epoch's time over its steps, as the run records it. A
case with `rows` has a table of random numbers; the others have generated data sets.

It writes benchmarks/planner.json, which every plan reports, and exits with 1 if a bound is
exceeded. `--only=3,5` plans and runs these cases only, and prints them.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np

from benchmarks import machine
from common.errors import QfleetError, run_main
from common.settings import Settings
from common.settings.options import PlanOptions
from planning.accuracy import FILE
from planning.costs import CostForecast
from planning.planner import make_plan


class TrainingCase(TypedDict):
    """Settings of a training; `rows` of a table in place of a generated data set."""

    model: str
    qubits: int
    batch: int
    train_examples: NotRequired[int]
    data: NotRequired[str]
    rows: NotRequired[int]


class Row(TypedDict):
    """A training of planner.json: its prediction and its measurement."""

    case: str
    workers: int
    recommended: bool
    predicted_ms: float
    measured_ms: float
    error: float


CASES: tuple[TrainingCase, ...] = (
    {"model": "qcnn", "qubits": 8, "batch": 64, "train_examples": 400},
    {"model": "qcnn", "qubits": 9, "batch": 30, "data": "digits"},
    {"model": "qcnn", "qubits": 10, "batch": 200, "rows": 3000},
    {"model": "qcnn", "qubits": 11, "batch": 48, "train_examples": 2400},
    {"model": "qcnn", "qubits": 12, "batch": 96, "train_examples": 1920},
    {"model": "qcnn", "qubits": 14, "batch": 40, "rows": 900},
    {"model": "qcnn", "qubits": 16, "batch": 32, "train_examples": 256},
    {"model": "hybrid", "qubits": 8, "batch": 64, "train_examples": 400},
    {"model": "hybrid", "qubits": 9, "batch": 40, "rows": 569},
    {"model": "hybrid", "qubits": 10, "batch": 50, "data": "digits"},
    {"model": "hybrid", "qubits": 12, "batch": 33, "train_examples": 660},
    {"model": "hybrid", "qubits": 13, "batch": 128, "train_examples": 2560},
    {"model": "hybrid", "qubits": 15, "batch": 64, "train_examples": 640},
    {"model": "hybrid", "qubits": 16, "batch": 16, "rows": 300},
    {"model": "multi-filter", "qubits": 8, "batch": 100, "train_examples": 2000},
    {"model": "multi-filter", "qubits": 10, "batch": 24, "data": "digits"},
    {"model": "multi-filter", "qubits": 12, "batch": 72, "rows": 1200},
)
QUICK_CASES = (3, 8, 11)
WORKERS = (1, 2)
MAX_MEDIAN_ERROR, MAX_ERROR = 0.10, 0.30

MAX_LOSS = 0.10
"""Time that the recommended number of workers may take more than the best one."""

TRAINING_SECONDS, EPOCHS = 3.0, (8, 60)
"""About how long a training takes, and its fewest and most epochs."""


def main() -> int:
    """Plan and train, compare, and write the errors."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", type=_numbers)
    options, settings = parser.parse_known_args()
    every = range(len(CASES))
    quick = Settings.with_options(settings, "plan", PlanOptions)[1].quick
    numbers = options.only or (QUICK_CASES if quick else every)
    facts = machine.facts()
    rows: list[Row] = []
    print(f"{'':40} {'workers':>7} {'predicted':>12} {'measured':>12} {'off':>6}", flush=True)
    for number in numbers:
        rows += _measure(CASES[number])
    return _report(rows, facts, write=list(numbers) == list(every))


def _numbers(text: str) -> list[int]:
    """Read numbers of cases, such as 3,5."""
    return [int(number) for number in text.split(",")]


def _measure(case: TrainingCase) -> list[Row]:
    """Plan and train one case, and print and return a row per number of workers."""
    fields = {name: value for name, value in case.items() if name != "rows"}
    name = ", ".join(str(value) for value in case.values())
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        if "rows" in case:
            fields["data"] = str(_write_table(Path(folder), case["rows"], case["qubits"]))
        arguments = [f"{field}={value}" for field, value in fields.items()]
        # A number of WORKERS would not let the plan choose.
        plan = make_plan(Settings.from_args([*arguments, "workers=auto"]), fresh=True)
        recommended = plan.recommendation.best.option.workers
        for workers in WORKERS:
            (forecast,) = [
                one
                for one in plan.recommendation.considered
                if one.option.workers == workers and one.option.batch == case["batch"]
            ]
            measured = _train(arguments, forecast, Path(folder) / f"runs-{workers}")
            predicted = forecast.step.seconds
            error = abs(predicted / measured - 1)
            print(
                f"{name:40} {workers:4}{' *' if workers == recommended else '  '} "
                f"{1e3 * predicted:9.3f} ms {1e3 * measured:9.3f} ms {error:6.1%}",
                flush=True,
            )
            rows.append(
                {
                    "case": name,
                    "workers": workers,
                    "recommended": workers == recommended,
                    "predicted_ms": round(1e3 * predicted, 4),
                    "measured_ms": round(1e3 * measured, 4),
                    "error": round(error, 4),
                }
            )
    return rows


def _write_table(folder: Path, rows: int, features: int) -> Path:
    """Write a table with random features and labels."""
    numbers = np.random.Generator(np.random.PCG64(rows))
    features_by_row = numbers.uniform(-1, 1, (rows, features))
    lines = [",".join([*(f"f{i}" for i in range(features)), "label"])]
    for row in features_by_row:
        lines.append(",".join([*(f"{value:.5f}" for value in row), str(int(row.sum() > 0))]))
    file = folder / "table.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def _train(arguments: list[str], forecast: CostForecast, storage: Path) -> float:
    """Train, and return the seconds per step of the median epoch.

    Raises:
        QfleetError: The training failed.
    """
    fewest, most = EPOCHS
    epochs = min(most, max(fewest, int(TRAINING_SECONDS / forecast.epoch_seconds)))
    option = forecast.option
    command = [
        sys.executable, "-m", "training", *arguments, f"storage={storage}", "run=measured",
        f"workers={option.workers}", f"threads={option.threads}", f"epochs={epochs}",
        "initializations=1",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise QfleetError(f"a training failed: {done.stderr.strip() or done.stdout.strip()}")
    lines = (storage / "measured" / "metrics.jsonl").read_text().splitlines()
    epochs_done = [json.loads(line) for line in lines]
    # The first epoch also traces the graph, and the second settles the steps per call.
    seconds = statistics.median(one["seconds"] for one in epochs_done[2:])
    return seconds / -(-int(epochs_done[0]["examples"]) // option.batch)


def _report(rows: list[Row], facts: dict[str, str], *, write: bool) -> int:
    errors = [row["error"] for row in rows]
    losses = [_loss(rows, case) for case in dict.fromkeys(row["case"] for row in rows)]
    summary = {"median": statistics.median(errors), "worst": max(errors), "loss": max(losses)}
    print(
        f"error: median {summary['median']:.1%}, worst {summary['worst']:.1%}; the recommended"
        f" number of workers takes at most {summary['loss']:.1%} longer than the best"
    )
    if write:
        FILE.write_text(json.dumps({**summary, "machine": facts, "rows": rows}, indent=1) + "\n")
        print(f"Written to {FILE}")
    bounds = {"median": MAX_MEDIAN_ERROR, "worst": MAX_ERROR, "loss": MAX_LOSS}
    exceeded = [name for name, bound in bounds.items() if summary[name] > bound]
    for name in exceeded:
        print(f"bound exceeded: {name} above {bounds[name]:.0%}", file=sys.stderr)
    return 1 if exceeded else 0


def _loss(rows: list[Row], case: str) -> float:
    """Return how much longer the recommended number of workers takes than the best one."""
    times = {row["workers"]: row["measured_ms"] for row in rows if row["case"] == case}
    recommended = [row["workers"] for row in rows if row["case"] == case and row["recommended"]]
    # More workers than were measured are never faster on this machine.
    own = times[recommended[0]] if recommended else max(times.values())
    return float(own / min(times.values()) - 1)


if __name__ == "__main__":
    sys.exit(run_main(main))
