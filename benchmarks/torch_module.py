"""Training steps of the PyTorch module and of the Keras layer, in turns.

python -m benchmarks.torch_module [--rounds N] [--threads N] [--qubits N] [--batch N]

A step is the loss of a batch, its gradient and Adam: eager PyTorch, and tf.function. Each system is
a process in an environment of its own; in a round, each runs a block of steps, of which the median
counts. Prints the fastest block of each and the median ratio of the rounds. The losses must agree.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import SupportsFloat, TypeVar

from benchmarks.circuit_models import RandomInputs, model, random_inputs
from benchmarks.subprocess_protocol import Channel, Message, SubprocessSystem, versions
from benchmarks.systems import ROOT

ENVIRONMENTS = {"torch": ".venv-peers", "keras": ".venv"}
PACKAGES = {"torch": ["torch", "numpy"], "keras": ["tensorflow", "tf_keras", "numpy"]}
BLOCK_SECONDS = 0.05
WARM_UP_STEPS = 100
LayerT = TypeVar("LayerT")
MAX_LOSS_DIFFERENCE = 1e-4
LEARNING_RATE = 0.01

Step = Callable[[], SupportsFloat]
"""A step, which returns the loss."""


def training_problem(case: Message) -> tuple[Callable[..., LayerT], RandomInputs]:
    """Return a function that makes the circuit layer of a class and options, and the data.

    Args:
        case: "qubits" and "batch".
    """
    definition = model("qcnn", case["qubits"])

    def make_layer(layer_class: Callable[..., LayerT], **options: object) -> LayerT:
        circuit, inputs = definition.circuit, definition.inputs
        return layer_class(
            circuit, inputs, definition.observables, parameters=definition.parameters, **options
        )

    return make_layer, random_inputs(definition, case["batch"])


def torch_step(case: Message) -> Step:
    """Return a training step of the PyTorch module, which returns the loss.

    Args:
        case: "qubits", "batch" and "threads".
    """
    import torch

    import qfleet
    from qfleet.torch import Expectation

    torch.set_num_threads(case["threads"])
    qfleet.set_num_threads(case["threads"])
    make_layer, data = training_problem(case)
    module = make_layer(
        Expectation, initializer=lambda angles: angles.copy_(torch.from_numpy(data.parameters))
    )
    inputs, labels = torch.from_numpy(data.angles), torch.from_numpy(data.labels)
    optimizer = torch.optim.Adam(module.parameters(), lr=LEARNING_RATE, eps=1e-7, fused=True)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(module(inputs), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def keras_step(case: Message) -> Step:
    """Return a training step of the Keras layer; see `torch_step`.

    Args:
        case: As for `torch_step`.
    """
    from qfleet.tensorflow.layers import Expectation
    from qfleet.tensorflow.runtime import keras, tf

    tf.config.threading.set_intra_op_parallelism_threads(case["threads"])
    make_layer, data = training_problem(case)
    layer = make_layer(Expectation)
    inputs, labels = tf.constant(data.angles), tf.constant(data.labels)
    layer(inputs)
    layer.set_weights([data.parameters])
    optimizer = keras.optimizers.Adam(LEARNING_RATE)

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((layer(inputs) - labels) ** 2)
        weights = layer.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return step


def serve(system: str) -> None:
    """Prepare a step at the first request, and time a block of steps at each further one."""
    channel = Channel()
    steps: list[Step] = []

    def handle(request: Message) -> None:
        if not steps:
            steps.append((torch_step if system == "torch" else keras_step)(request["case"]))
            losses = [float(steps[0]()) for _ in range(WARM_UP_STEPS)]
            channel.send({"losses": losses})
            return
        ended = [time.perf_counter()]
        while ended[-1] - ended[0] < BLOCK_SECONDS:
            steps[0]()
            ended.append(time.perf_counter())
        seconds = statistics.median(after - before for before, after in pairwise(ended))
        channel.send({"us": seconds * 1e6})

    channel.serve({"versions": versions(PACKAGES[system])}, handle)


def compare(case: Message, rounds: int) -> None:
    """Time both systems in turns and print the result.

    Args:
        case: As for `torch_step`.
        rounds: Blocks per system.
    """
    systems = {
        name: SubprocessSystem(
            name,
            [
                str(ROOT / folder / "bin" / "python"),
                "-m",
                "benchmarks.torch_module",
                "--serve",
                name,
            ],
        )
        for name, folder in ENVIRONMENTS.items()
    }
    try:
        losses = {name: one.request({"case": case})["losses"] for name, one in systems.items()}
        difference = max(map(abs, (a - b for a, b in zip(*losses.values(), strict=True))))
        if difference > MAX_LOSS_DIFFERENCE:
            sys.exit(f"the losses of {WARM_UP_STEPS} steps differ by {difference:.1e}")
        times: dict[str, list[float]] = {name: [] for name in systems}
        for _ in range(rounds):
            for name, one in systems.items():
                times[name].append(one.request({})["us"])
    finally:
        for one in systems.values():
            one.close()
    ratios = [a / b for a, b in zip(times["torch"], times["keras"], strict=True)]
    best = {name: min(blocks) for name, blocks in times.items()}
    for name, one in systems.items():
        packages = ", ".join(f"{package} {version}" for package, version in one.versions.items())
        print(f"{name}: {best[name]:.0f} us per step ({packages})")
    print(
        f"torch / keras: {best['torch'] / best['keras']:.2f} (fastest blocks),"
        f" {statistics.median(ratios):.2f} (median of {rounds} rounds)"
    )


def main() -> None:
    """Compare the systems, or serve one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", choices=ENVIRONMENTS, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--qubits", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
    else:
        case = {name: getattr(arguments, name) for name in ("threads", "qubits", "batch")}
        compare(case, arguments.rounds)


if __name__ == "__main__":
    main()
