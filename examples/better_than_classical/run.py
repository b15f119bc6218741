"""Quantum and classical classifiers on generated tasks, each tuned over four configurations.

Run:   .venv/bin/python -m examples.better_than_classical.run
Takes: 39 minutes of processor time; the same command continues after an interruption.
Shows: the test accuracy of each model, and what is lost or gained without entangling gates.

The studies of a task: one tunes LEARNING_RATE on a table of its own, the others train each model
with five seeds. Baselines are tuned and trained on the same examples as the models.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from benchmarks import markdown
from common import runs, storage
from common.data import Examples, load
from examples.better_than_classical.data import TASKS, write_tables
from inference.baseline import fit_baselines
from studies.tables import mean_interval

OWN = "examples.better_than_classical.models:"
MODELS = {
    "hybrid": "qfleet's hybrid QCNN",
    "qcnn": "qfleet's QCNN",
    f"{OWN}circuit_centric": "circuit-centric",
    f"{OWN}iqp": "IQP variational",
    f"{OWN}reuploading": "data re-uploading",
    f"{OWN}dressed": "dressed circuit",
    f"{OWN}dressed_separable": "dressed circuit, separable",
}
"""Titles by MODEL."""

ENTANGLED, SEPARABLE = "dressed circuit", "dressed circuit, separable"
"""Titles of a model with and without entangling gates."""

RATES = (0.01, 0.03, 0.1, 0.3)
FEATURES = 8
SEEDS = range(5)
SPLITS = {"TRAIN_EXAMPLES": 240, "VALIDATION_EXAMPLES": 60, "TEST_EXAMPLES": 300}
EPOCHS = 100
WEIGHTS = 100
"""Trained numbers of the multilayer perceptron; those of models.py have 74 to 105."""


def study(folder: Path, name: str, values: Mapping[str, object]) -> pd.DataFrame:
    """Run a study, or continue it.

    Args:
        folder: STORAGE.
        name: NAME of the study.
        values: Its settings.

    Returns:
        The table of its trials.
    """
    settings = {"NAME": name, "STORAGE": folder, "METRIC": "accuracy", **values}
    command = [sys.executable, "-m", "studies", *(f"{n}={v}" for n, v in settings.items())]
    if code := subprocess.run(command, check=False).returncode:
        raise SystemExit(code)
    trials = pd.read_csv(folder / "studies" / name / "trials.csv")
    if "model" not in trials:  # one value is not a varied setting
        trials["model"] = values["MODEL"]
    if "learning_rate" not in trials:
        trials["learning_rate"] = float(str(values["LEARNING_RATE"]))
    if len(failed := trials[trials["state"] != "finished"]):
        raise SystemExit(
            f"{name}: trials failed, run the same command again:\n{failed.to_string()}"
        )
    return trials


def tuned_rates(trials: pd.DataFrame) -> dict[str, float]:
    """Return the learning rate of each model: the best by validation accuracy, then by error."""
    best = trials.sort_values(["validation accuracy", "validation mse"], ascending=[False, True])
    return dict(best.groupby("model")["learning_rate"].first())


def compare(folder: Path, task: str, models: Sequence[str], options: argparse.Namespace) -> list:
    """Return rows (task, model, seed, accuracy) of all models and baselines."""
    tables = folder / "better-than-classical" / f"{task}-{options.features}"
    if not (tables / "table.csv").exists():
        write_tables(task, tables, sum(SPLITS.values()), options.features)
    common = {
        "QUBITS": options.features, "EPOCHS": options.epochs, "BATCH": 32,
        "INITIALIZATIONS": 1, **SPLITS,
    }  # fmt: skip
    rates = ",".join(map(str, options.rates))
    varied = {"MODEL": ",".join(models), "LEARNING_RATE": rates, "DATA": tables / "tuning.csv"}
    chosen = tuned_rates(study(folder, f"{task}-tuning", {**common, **varied}))
    rows, names = [], {}
    for rate in sorted(set(chosen.values())):
        varied = {
            "MODEL": ",".join(model for model in models if chosen[model] == rate),
            "LEARNING_RATE": rate,
            "SEEDS": ",".join(map(str, options.seeds)),
            "DATA": tables / "table.csv",
        }
        trials = study(folder, f"{task}-rate-{rate:g}".replace(".", "-"), {**common, **varied})
        for trial in trials.to_dict("records"):
            rows.append((task, MODELS[trial["model"]], trial["seed"], trial["test accuracy"]))
            names[trial["seed"]] = trial["run"]
    for seed, name in names.items():
        rows += [(task, *found) for found in baselines(folder, name, seed)]
    return rows


def baselines(folder: Path, run: str, seed: int) -> Iterable[tuple[str, int, float]]:
    """Yield name, seed and accuracy of each baseline on the examples of a run."""
    record = json.loads((folder / run / "run.json").read_text())
    data = load(storage.path(str(folder)) / runs.DATASETS / record["other"]["dataset"])
    train, test = (Examples(*data.split(split)) for split in ("train", "test"))
    for one in fit_baselines(data.target, train, test, WEIGHTS, seed):
        yield one.name, seed, one.metrics["accuracy"]


def accuracies(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a table of models by tasks: means over the seeds with 95 % intervals."""
    cells = rows.groupby(["model", "task"])["accuracy"].apply(lambda found: _cell(found, "{:.3f}"))
    means = rows.groupby("model")["accuracy"].mean().sort_values(ascending=False)
    table = cells.unstack("task")[list(dict.fromkeys(rows["task"]))].loc[means.index]
    return table.assign(mean=means.map("{:.3f}".format))


def differences(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the paired difference of accuracies: without entangling gates minus with them."""
    by_model = rows.set_index(["task", "seed", "model"])["accuracy"].unstack("model")
    if not {ENTANGLED, SEPARABLE} <= set(by_model):
        return pd.DataFrame()
    change = (by_model[SEPARABLE] - by_model[ENTANGLED]).groupby("task", sort=False)
    cells = change.apply(lambda values: _cell(values, "{:+.3f}"))
    return cells.to_frame(SEPARABLE).T[list(dict.fromkeys(rows["task"]))]


def _cell(values: Iterable[float], form: str) -> str:
    found = mean_interval(list(values))
    if math.isnan(found.low):  # equal values, or one
        return form.format(found.mean)
    return f"{form} ({form} to {form})".format(found.mean, found.low, found.high)


def main() -> None:
    """Run all studies, and print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--storage", type=Path, default=Path("runs"), help="as STORAGE")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    short = [name.removeprefix(OWN) for name in MODELS]
    parser.add_argument("--models", nargs="+", choices=short, default=short)
    parser.add_argument("--rates", nargs="+", type=float, default=RATES, help="learning rates")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--features", type=int, default=FEATURES, help="and qubits")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    models = [name for name in MODELS if name.removeprefix(OWN) in options.models]
    found = [
        row for task in options.tasks for row in compare(options.storage, task, models, options)
    ]
    rows = pd.DataFrame(found, columns=["task", "model", "seed", "accuracy"])
    folder = options.storage / "better-than-classical"
    rows.to_csv(folder / "accuracy.csv", index=False)
    text = f"Test accuracy:\n\n{_markdown(accuracies(rows))}"
    if len(changes := differences(rows)):
        text += f"\n\nWithout entangling gates minus with them:\n\n{_markdown(changes)}"
    (folder / "tables.md").write_text(text + "\n")
    print(f"\n{text}\n\nTables: {folder}")


def _markdown(table: pd.DataFrame) -> str:
    rows = [[str(name), *map(str, row)] for name, *row in table.itertuples()]
    return markdown.table(["model", *table.columns], rows)


if __name__ == "__main__":
    main()
