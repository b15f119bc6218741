"""One of several processes: `python -m tests.support.sharding_worker RANK PORTS FILE SIZES`.

The first processes are a group of each of the SIZES, such as 2,4. Each writes the values and its
partial gradients of every case of its groups to FILE. For the first case of each size it also
writes the result of three steps in one TensorFlow call.
"""

import json
import os
import sys
from typing import Any

import numpy as np

rank = int(sys.argv[1])
workers = [f"127.0.0.1:{port}" for port in sys.argv[2].split(",")]
os.environ["TF_CONFIG"] = json.dumps(
    {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
)

from common.errors import run_main  # noqa: E402
from qfleet.distributed import state_group  # noqa: E402
from qfleet.tensorflow.backends import build_simulator  # noqa: E402
from qfleet.tensorflow.runtime import configure, tf  # noqa: E402
from tests.support.sharding_cases import CASES  # noqa: E402


def main() -> None:
    configure(threads=1, seed=1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    found: dict[str, np.ndarray] = {}
    for size in map(int, sys.argv[4].split(",")):  # the last one keeps all processes
        if rank >= size:
            continue
        group = state_group.StateGroup(size=size, rank=rank, key=2000 + size)
        for at, (name, make) in enumerate(CASES[size].items()):
            case = make()
            with state_group.use_group(group):
                simulator = build_simulator(
                    case.circuit, case.inputs, case.parameters, case.observables
                )
            arguments = [tf.constant(one) for one in case.arguments(name)]
            upstream = tf.constant(case.upstream(name, rank))
            for part, one in zip(
                ("values", "by angles", "by parameters"),
                step(simulator, upstream, *arguments),
                strict=True,
            ):
                found[f"{name}: {part}"] = one.numpy()
            if at == 0:
                steps = strategy.run(three_steps, (simulator, upstream, *arguments))
                found[f"{name}: three"] = steps.numpy()
    np.savez(sys.argv[3], **found)


@tf.function
def step(simulator: Any, upstream: tf.Tensor, angles: tf.Tensor, parameters: tf.Tensor) -> Any:
    """Return values and gradients."""
    with tf.GradientTape() as tape:
        tape.watch([angles, parameters])
        values = simulator.expectation(angles, parameters)
        loss = tf.reduce_sum(values * upstream)
    return values, *tape.gradient(loss, [angles, parameters])


@tf.function
def three_steps(
    simulator: Any, upstream: tf.Tensor, angles: tf.Tensor, parameters: tf.Tensor
) -> Any:
    """Return the sum of the gradients by parameters of three steps at different parameters."""
    total = tf.zeros_like(parameters)
    for at in tf.range(3):
        shifted = parameters + tf.cast(at, tf.float32)
        total += step(simulator, upstream, angles, shifted)[2]
    return total


if __name__ == "__main__":
    sys.exit(run_main(main))
