"""Noise-aware training of digits with 2, 4 and 10 classes, by the service's models.

    python -m benchmarks.noise_aware [--calibrations NAME ...]

Each model is trained without noise and with the noise of each device, with and without
NORMALIZE_READOUTS, and tested on the device. The baselines of the report get the same angles, the
same examples, and as many weights. `make calibration DEVICE=NAME` writes the calibrations.
"""

import argparse
import statistics
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.markdown import table
from common import models
from common.data.splits import GENERATORS, Examples, PreparedSplits
from common.models.normalization import collect_readouts, readout_normalization
from common.settings import Settings
from inference.baseline import fit_baselines
from qfleet.tensorflow.runtime import configure, keras, tf
from training.step.losses import measures_of

DEVICES = ("ibm_santiago", "ibm_belem", "ibm_yorktown")
PROBLEMS = {
    "2": ("CLASSES=3,6", "MODEL=hybrid", "TRAIN_EXAMPLES=200"),
    "4": ("CLASSES=0,1,2,3", "MODEL=hybrid", "TRAIN_EXAMPLES=200"),
    "10": ("CLASSES=all", "MODEL=hybrid", "TRAIN_EXAMPLES=200"),
}
SETTINGS = ("DATA=digits", "QUBITS=4", "ENCODER=pca")
SEEDS = range(5)
EPOCHS, BATCH, RATE = 12, 32, 0.05
PAPER = {"2": "0.94", "4": "0.80", "10": "0.34"}
"""Accuracy of MNIST on devices, arXiv:2110.11331."""


class Trainable:
    """A model with one traced training step, for several seeds.

    Args:
        arguments: Settings.
        prepared: Any seed's data set, for its shape.
    """

    def __init__(self, arguments: Sequence[str], prepared: PreparedSplits) -> None:
        self._arguments, self._encoding = arguments, prepared.encoding
        self.model = self._build(0)
        self._normalization = readout_normalization(self.model)
        self._optimizer = keras.optimizers.Adam(RATE)
        self._optimizer.build(self.model.trainable_variables)
        self._rows = measures_of(prepared.encoding.target).rows[0]
        self._step = tf.function(self._train_step, reduce_retracing=True)

    def _build(self, seed: int) -> keras.Model:
        settings = Settings.from_args([*self._arguments, f"SEED={seed}"])
        encoding = self._encoding
        return models.build_model(encoding.symbols, settings, encoding.placement, encoding.target)

    def initial_weights(self, seed: int) -> list[np.ndarray]:
        """Return the initial weights of a seed."""
        return self._build(seed).get_weights()

    def start(self, weights: Iterable[np.ndarray]) -> None:
        """Set initial weights."""
        self.model.set_weights(list(weights))
        for variable in self._optimizer.variables:
            if variable is not self._optimizer.learning_rate:
                variable.assign(tf.zeros_like(variable))

    def train(self, examples: Examples, seed: int) -> None:
        """Train for EPOCHS epochs in random order, with cosine decay."""
        random = np.random.default_rng(seed)
        steps = EPOCHS * (len(examples.labels) // BATCH)
        done = 0
        for _ in range(EPOCHS):
            order = random.permutation(len(examples.labels))
            for first in range(0, len(order) - BATCH + 1, BATCH):
                rows = order[first : first + BATCH]
                rate = RATE * (1 + np.cos(np.pi * done / steps)) / 2
                self._optimizer.learning_rate.assign(rate)
                self._step(*map(tf.constant, (examples.angles[rows], examples.labels[rows])))
                done += 1

    def _train_step(self, angles: tf.Tensor, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape, collect_readouts() as readouts:
            loss = tf.reduce_mean(self._rows(self.model(angles, training=True), labels))
        variables = self.model.trainable_variables
        gradients = tape.gradient(loss, variables)
        self._optimizer.apply_gradients(zip(gradients, variables, strict=True))
        if self._normalization:
            (found,) = readouts
            sums = tf.reduce_sum(tf.concat([found, tf.square(found)], 1), axis=0)
            self._normalization.update(sums, tf.cast(tf.shape(found)[0], tf.float32))

    def accuracy(self, tested: Examples, adapted: Examples | None = None) -> float:
        """Return the accuracy.

        Args:
            tested: The examples.
            adapted: Training examples for the statistics of the readouts under another noise.
        """
        if self._normalization and adapted is not None:
            readouts = models.readout_model(self.model)
            assert readouts is not None
            self._normalization.adapt(readouts(tf.constant(adapted.angles)).numpy())
        target = self._encoding.target
        found = target.predicted_classes(self.model(tf.constant(tested.angles)).numpy())
        return float(np.mean(found == target.class_indices(tested.labels)))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calibrations", nargs="+", default=DEVICES)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    args = parser.parse_args()
    configure(threads=1, seed=0)
    for problem in args.problems:
        start = time.monotonic()
        print(f"\n{problem} classes\n", flush=True)
        print(_study(problem, args.calibrations), flush=True)
        print(f"\n{time.monotonic() - start:.0f} s", flush=True)


def _study(problem: str, devices: Sequence[str]) -> str:
    arguments = [*SETTINGS, *PROBLEMS[problem]]
    data = {seed: _prepared([*arguments, f"SEED={seed}"]) for seed in SEEDS}
    found: dict[tuple[str, str], list[float]] = {}

    def add(row: str, column: str, accuracy: float) -> None:
        found.setdefault((row, column), []).append(accuracy)

    for normalized in (False, True):
        options = [*arguments, f"NORMALIZE_READOUTS={str(normalized).lower()}"]
        suffix = ", normalised" if normalized else ""
        plain, *noisy = (
            Trainable([*options, f"NOISE={noise}"], data[0]) for noise in ("none", *devices)
        )
        for seed, prepared in data.items():
            train, tested = _split(prepared, "train"), _split(prepared, "test")
            initial = plain.initial_weights(seed)
            plain.start(initial)
            plain.train(train, seed)
            add(f"without noise{suffix}", "no noise", plain.accuracy(tested))
            trained = plain.model.get_weights()
            for name, one in zip(devices, noisy, strict=True):
                one.start(trained)
                add(f"without noise{suffix}", name, one.accuracy(tested, train))
                if normalized:
                    one.start(initial)
                    one.train(train, seed)
                    add("with noise, normalised", name, one.accuracy(tested))
            if normalized:
                continue
            weights = int(plain.model.count_params())
            for baseline in fit_baselines(prepared.encoding.target, train, tested, weights, seed):
                name = "MLP" if baseline.name.startswith("MLP") else baseline.name
                add(name, "no noise", baseline.metrics["accuracy"])
    columns = ("no noise", *devices)
    rows = [
        [
            row,
            *(_cell(found.get((row, column))) for column in columns),
            PAPER[problem] if row.startswith("with noise") else "",
        ]
        for row in dict.fromkeys(row for row, _ in found)
    ]
    return table(["training", *(name.rpartition("/")[2] for name in columns), "paper"], rows)


def _prepared(arguments: list[str]) -> PreparedSplits:
    settings = Settings.from_args(arguments)
    return GENERATORS["digits"](settings.data, settings.model.qubits)


def _split(prepared: PreparedSplits, name: str) -> Examples:
    source: Any = prepared.splits[name]
    return Examples(*source.read(0, source.rows))


def _cell(values: list[float] | None) -> str:
    if not values:
        return ""
    return f"{statistics.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


if __name__ == "__main__":
    main()
