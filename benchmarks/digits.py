"""Ten digits on eight qubits over five seeds, and tuned baselines on the same eight angles.

    .venv/bin/python -m benchmarks.digits

Prints a Markdown table of test metrics: mean, lowest and highest.
"""

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks import markdown
from common import runs, storage
from common.data import Examples, load
from inference.baseline import fit_baselines

SEEDS = range(5)
MODELS = (("hybrid",), ("multi-filter", "FILTERS=8"))
SETTINGS = (
    "DATA=digits", "CLASSES=all", "QUBITS=8", "EPOCHS=60", "LEARNING_RATE=0.03",
    "INITIALIZATIONS=1", "WORKERS=1",
)  # fmt: skip


def main() -> None:
    """Train all models with all seeds, and print the table."""
    accuracies: defaultdict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for seed in SEEDS:
            for model, *others in MODELS:
                name = f"{model}-{seed}"
                arguments = [f"STORAGE={folder}", f"RUN={name}", f"MODEL={model}", f"SEED={seed}"]
                subprocess.run(
                    [sys.executable, "-m", "training", *SETTINGS, *others, *arguments],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                run = Path(folder, name)
                result = json.loads((run / "result.json").read_text())
                accuracies[" ".join([model, *others])].append(result["metrics"]["test"]["accuracy"])
            record = json.loads((run / "run.json").read_text())
            data = load(storage.path(folder) / runs.DATASETS / record["other"]["dataset"])
            weights = json.loads(
                (run / result["weights"]["path"]).with_name("model.json").read_text()
            )
            count = sum(_product(shape) for shape in weights["weights"])
            splits = [Examples(*data.split(split)) for split in ("train", "test")]
            for baseline in fit_baselines(data.target, *splits, count, seed):
                accuracies[baseline.name].append(baseline.metrics["accuracy"])
    rows = [
        [name, f"{sum(found) / len(found):.3f}", f"{min(found):.3f} to {max(found):.3f}"]
        for name, found in sorted(accuracies.items(), key=lambda one: -sum(one[1]))
    ]
    print(markdown.table(["model", "accuracy, mean", "five seeds"], rows))


def _product(shape: list[int]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


if __name__ == "__main__":
    main()
