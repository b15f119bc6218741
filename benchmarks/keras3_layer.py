"""Training steps of the layer of Keras 3 on each backend, and of legacy Keras, in turns.

python -m benchmarks.keras3_layer [--rounds N] [--threads N] [--qubits N] [--batch N]

A step is one of `fit` with a model of the circuit alone: loss of a batch, its gradient and Adam.
Each system is a process in an environment of its own; in a round, each trains for an epoch. Prints
the fastest epoch of each and the median ratio to legacy Keras. The losses must agree.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.subprocess_protocol import Channel, Message, SubprocessSystem, versions
from benchmarks.systems import ROOT
from benchmarks.torch_module import LEARNING_RATE, MAX_LOSS_DIFFERENCE, training_problem

LEGACY, COMPILED = "legacy", "torch-compiled"
EPOCH_STEPS, WARM_UP_EPOCHS = 100, 3
Epoch = Callable[[], float]
"""An epoch of training, which returns the mean loss."""

ENVIRONMENTS = {
    LEGACY: ".venv",
    "tensorflow": ".venv",
    "jax": ".venv-peers",
    "torch": ".venv-peers",
    COMPILED: ".venv-peers",
}
"""Backends of Keras 3, PyTorch also with jit_compile=True, or legacy Keras; their environments."""


def packages_of(system: str) -> list[str]:
    """Return the packages whose versions are printed."""
    return ["tensorflow", "tf_keras"] if system == LEGACY else [_backend(system), "keras"]


def _backend(system: str) -> str:
    """Return the backend of Keras 3 of a system."""
    return "torch" if system == COMPILED else system


def training_epoch(system: str, case: Message) -> Epoch:
    """Return a function that trains for an epoch of EPOCH_STEPS equal batches.

    Args:
        system: One of ENVIRONMENTS.
        case: "qubits", "batch" and "threads".
    """
    keras, layer_class = _keras_of(system, case["threads"])
    make_layer, data = training_problem(case)
    layer = make_layer(layer_class)
    model = keras.Sequential([keras.Input((data.angles.shape[1],)), layer])
    layer.set_weights([data.parameters])
    compiled = {"jit_compile": True} if system == COMPILED else {}
    model.compile(keras.optimizers.Adam(LEARNING_RATE), "mse", **compiled)
    rows, labels = (np.tile(one, (EPOCH_STEPS, 1)) for one in (data.angles, data.labels))

    def epoch() -> float:
        options = {"batch_size": case["batch"], "shuffle": False, "verbose": 0}
        return float(model.fit(rows, labels, **options).history["loss"][0])

    return epoch


def _keras_of(system: str, threads: int) -> tuple[Any, Any]:
    """Return Keras and its layer Expectation, limited to a number of threads."""
    if system == LEGACY:
        from qfleet.tensorflow.layers import Expectation
        from qfleet.tensorflow.runtime import keras, tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        return keras, Expectation
    os.environ["KERAS_BACKEND"] = backend = _backend(system)
    import keras

    import qfleet
    from qfleet.keras import Expectation

    qfleet.set_num_threads(threads)
    if backend == "tensorflow":
        import tensorflow

        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
    if backend == "torch":
        import torch

        torch.set_num_threads(threads)
    return keras, Expectation


def serve(system: str) -> None:
    """Prepare an epoch at the first request, and time one at each further one."""
    channel = Channel()
    epochs: list[Epoch] = []

    def handle(request: Message) -> None:
        if not epochs:
            epochs.append(training_epoch(system, request["case"]))
            channel.send({"losses": [epochs[0]() for _ in range(WARM_UP_EPOCHS)]})
            return
        began = time.perf_counter()
        epochs[0]()
        channel.send({"us": (time.perf_counter() - began) / EPOCH_STEPS * 1e6})

    channel.serve({"versions": versions(packages_of(system))}, handle)


def compare(case: Message, rounds: int) -> None:
    """Time all systems in turns and print the result.

    Args:
        case: As for `training_epoch`.
        rounds: Epochs per system.
    """
    command = ["-m", "benchmarks.keras3_layer", "--serve"]
    systems = {
        name: SubprocessSystem(name, [str(ROOT / folder / "bin" / "python"), *command, name])
        for name, folder in ENVIRONMENTS.items()
    }
    try:
        losses = {name: one.request({"case": case})["losses"] for name, one in systems.items()}
        for name, found in losses.items():
            difference = max(abs(a - b) for a, b in zip(found, losses[LEGACY], strict=True))
            if difference > MAX_LOSS_DIFFERENCE:
                sys.exit(f"the losses of {name} and legacy Keras differ by {difference:.1e}")
        times: dict[str, list[float]] = {name: [] for name in systems}
        for _ in range(rounds):
            for name, one in systems.items():
                times[name].append(one.request({})["us"])
    finally:
        for one in systems.values():
            one.close()
    for name, one in systems.items():
        ratio = statistics.median(a / b for a, b in zip(times[name], times[LEGACY], strict=True))
        packages = ", ".join(f"{package} {version}" for package, version in one.versions.items())
        print(f"{name}: {min(times[name]):.0f} us per step, {ratio:.2f} of legacy ({packages})")


def main() -> None:
    """Compare the systems, or serve one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--qubits", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--serve", choices=ENVIRONMENTS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    case = {"qubits": options.qubits, "batch": options.batch, "threads": options.threads}
    compare(case, options.rounds)


if __name__ == "__main__":
    main()
