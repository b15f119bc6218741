"""One of several workers: `python -m tests.support.sharding_worker RANK WORKERS PORT FILE`.

The first two are a group, then the first four, and so on. Each writes the values and its own slopes
of every case that it has a part in to FILE, and of the first one of each size also what three steps
in one call into TensorFlow give.
"""

import json
import os
import sys
from typing import Any

import numpy as np

rank, count, port = (int(text) for text in sys.argv[1:4])
workers = [f"127.0.0.1:{port + index}" for index in range(count)]
os.environ["TF_CONFIG"] = json.dumps(
    {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
)

from common.errors import run_main  # noqa: E402
from qfleet.distributed import state_group
from qfleet.tensorflow.backends import build_simulator  # noqa: E402
from qfleet.tensorflow.runtime import configure, tf  # noqa: E402
from tests.support.sharding_cases import CASES  # noqa: E402


def main() -> None:
    configure(threads=1, seed=1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    found: dict[str, np.ndarray] = {}
    for size, cases in sorted(CASES.items()):  # the last one keeps all here until the end
        if rank >= size:
            continue
        group = state_group.StateGroup(size=size, rank=rank, key=2000 + size)
        for at, (name, make) in enumerate(cases.items()):
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
                steps = strategy.run(three, (simulator, upstream, *arguments))
                found[f"{name}: three"] = steps.numpy()
    np.savez(sys.argv[4], **found)


@tf.function
def step(simulator: Any, upstream: tf.Tensor, angles: tf.Tensor, parameters: tf.Tensor) -> Any:
    """Values and slopes."""
    with tf.GradientTape() as tape:
        tape.watch([angles, parameters])
        values = simulator.expectation(angles, parameters)
        loss = tf.reduce_sum(values * upstream)
    return values, *tape.gradient(loss, [angles, parameters])


@tf.function
def three(simulator: Any, upstream: tf.Tensor, angles: tf.Tensor, parameters: tf.Tensor) -> Any:
    """The slopes by parameters of three steps, each at other ones, added up."""
    total = tf.zeros_like(parameters)
    for at in tf.range(3):
        moved = parameters + tf.cast(at, tf.float32)
        total += step(simulator, upstream, angles, moved)[2]
    return total


if __name__ == "__main__":
    sys.exit(run_main(main))
