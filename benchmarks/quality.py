"""The learning quality with default settings: `make quality`.

The benchmark trains each model on `excitations` with five seeds that were not used to choose the
settings. It computes the error on 16,384 generated test examples and compares it with the limit:
the smallest possible error of such a model. A readout in [-1, 1] can't be a step in the angle.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

SEEDS = (9001, 9002, 9003, 9004, 9005)
TEST_EXAMPLES = 16_384


class QualityGoal(NamedTuple):
    """The required test MSE of a model over the five seeds.

    Attributes:
        name: Name of the model.
        settings: Settings as NAME=value.
        limit: Smallest possible MSE; None if unknown.
        median: Maximum median.
        worst: Maximum of the worst seed.
    """

    name: str
    settings: tuple[str, ...]
    limit: float | None
    median: float
    worst: float


GOALS = (
    QualityGoal("qcnn", ("MODEL=qcnn",), 1 - 4 / math.pi + 1 / 2, 0.24, 0.30),
    QualityGoal("hybrid, linear head", ("ACTIVATION=linear",), 1 - 8 / math.pi**2, 0.205, 0.27),
    QualityGoal("hybrid (the default)", (), None, 0.12, 0.20),
)
MIN_ACCURACY = 0.97


def train(storage: str, goal: QualityGoal, seed: int) -> dict[str, float]:
    """Train a model with one seed on one thread; return its metrics of the test split."""
    run = f"{goal.name.split(',')[0].split(' ')[0]}-{GOALS.index(goal)}-{seed}"
    settings = [
        *goal.settings,
        f"SEED={seed}",
        f"TEST_EXAMPLES={TEST_EXAMPLES}",
        f"RUN={run}",
        f"STORAGE={storage}",
    ]
    command = [sys.executable, "-m", "training", "WORKERS=1", "THREADS=1", "PROFILER_PORT=0"]
    done = subprocess.run([*command, *settings], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(
            f"{run} failed with exit code {done.returncode}: {done.stdout}{done.stderr}"
        )
    result = json.loads((Path(storage) / run / "result.json").read_text())
    return {**result["metrics"]["test"], "seconds": result["seconds"]}


def main() -> int:
    """Print the table; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--parallel", type=int, default=2, help="parallel runs")
    args = parser.parse_args()
    print("| model | limit | median test MSE | worst | sign accuracy, median (lowest) | seconds |")
    print("|---|---|---|---|---|---|")
    missed = False
    with tempfile.TemporaryDirectory() as storage, ThreadPoolExecutor(args.parallel) as pool:
        for goal in GOALS:
            metrics = list(pool.map(lambda seed, g=goal: train(storage, g, seed), args.seeds))
            errors = [numbers["mse"] for numbers in metrics]
            signs = [numbers["accuracy"] for numbers in metrics]
            median, worst = statistics.median(errors), max(errors)
            missed |= median > goal.median or worst > goal.worst
            missed |= statistics.median(signs) < MIN_ACCURACY
            print(
                f"| {goal.name} | {f'{goal.limit:.4f}' if goal.limit else ''}"
                f" | {median:.4f} (<= {goal.median}) | {worst:.4f} (<= {goal.worst})"
                f" | {statistics.median(signs):.3f} ({min(signs):.3f})"
                f" | {statistics.median(n['seconds'] for n in metrics):.0f} |",
                flush=True,
            )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
