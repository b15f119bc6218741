"""The learning quality with default settings: `make quality`.

The benchmark trains each model on `excitations` with five seeds that were not used to choose the
settings. It computes the error on 16,384 generated test examples and compares it with the limit:
the smallest possible error of such a model. A readout in [-1, 1] can't be a step in the angle.
"""

import argparse
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pandas as pd

SEEDS = "9001..9005"
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


def train(storage: str, goal: QualityGoal, seeds: str) -> pd.DataFrame:
    """Train a model with several seeds, as a study; return the table of its trials."""
    name = f"quality-{GOALS.index(goal)}"
    settings = [f"SEEDS={seeds}", f"TEST_EXAMPLES={TEST_EXAMPLES}", f"STORAGE={storage}"]
    command = [sys.executable, "-m", "studies", f"NAME={name}", *goal.settings, *settings]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} ended with code {done.returncode}: {done.stdout}{done.stderr}")
    trials = pd.read_csv(Path(storage, "studies", name, "trials.csv"))
    if (failed := trials[trials["state"] != "finished"]).size:
        raise SystemExit(f"{name} has failed trials: {failed.to_string()}")
    return trials


def main() -> int:
    """Print the table; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default=SEEDS, help="as in a study, such as 1,2 or 1..5")
    args = parser.parse_args()
    print("| model | limit | median test MSE | worst | sign accuracy, median (lowest) | seconds |")
    print("|---|---|---|---|---|---|")
    missed = False
    with tempfile.TemporaryDirectory() as storage:
        for goal in GOALS:
            trials = train(storage, goal, args.seeds)
            median, worst = trials["test mse"].median(), trials["test mse"].max()
            signs = trials["test accuracy"]
            missed |= median > goal.median or worst > goal.worst or signs.median() < MIN_ACCURACY
            print(
                f"| {goal.name} | {f'{goal.limit:.4f}' if goal.limit else ''}"
                f" | {median:.4f} (<= {goal.median}) | {worst:.4f} (<= {goal.worst})"
                f" | {signs.median():.3f} ({signs.min():.3f})"
                f" | {trials['seconds'].median():.0f} |",
                flush=True,
            )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
