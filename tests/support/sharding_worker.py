"""One of several processes: `python -m tests.support.sharding_worker RANK PORTS FILE SIZES`.

The first processes are a group of each of the SIZES, such as 2,4. Each writes the values and its
partial gradients of every case of its groups to FILE. For the first case of each size it also
writes the result of three steps in one TensorFlow call, and its results by the connections of the
mesh must have the bits of those by TensorFlow's collectives.
"""

import dataclasses
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
from common.settings import Settings  # noqa: E402
from qfleet.distributed import state_group  # noqa: E402
from qfleet.tensorflow.backends import build_simulator  # noqa: E402
from qfleet.tensorflow.runtime import tf  # noqa: E402
from tests.support.sharding_cases import CASES, ShardingCase  # noqa: E402
from training.cluster.spec import ClusterSpec  # noqa: E402
from training.step import allreduce, distributed  # noqa: E402

PARTS = ("values", "by angles", "by parameters", "by states")


def main() -> None:
    cluster = ClusterSpec.from_environment(len(workers))
    settings = Settings.from_values(workers=len(workers), threads=1, seed=1)
    strategy = distributed.create_strategy(settings, cluster, secret=b"a secret of a test")
    assert allreduce.connections(0, 2)
    found: dict[str, np.ndarray] = {}
    for size in map(int, sys.argv[4].split(",")):  # the last one keeps all processes
        if rank >= size:
            continue
        fallback = state_group.StateGroup(size=size, rank=rank, key=2000 + size)
        group = dataclasses.replace(fallback, sockets=allreduce.connections(0, size))
        for at, (name, make) in enumerate(CASES[size].items()):
            case = make()
            arguments = [tf.constant(one) for one in case.arguments(name)]
            upstream = tf.constant(case.upstream(name, rank))
            simulator = sharded(case, group)
            results = step(simulator, upstream, *arguments)
            for part, one in zip(PARTS, results, strict=False):
                found[f"{name}: {part}"] = one.numpy()
            if at == 0:
                same = step(sharded(case, fallback), upstream, *arguments)
                assert [one.numpy().tobytes() for one in results] == [
                    one.numpy().tobytes() for one in same
                ], name
                steps = strategy.run(three_steps, (simulator, upstream, *arguments))
                found[f"{name}: three"] = steps.numpy()
    np.savez(sys.argv[3], **found)


def sharded(case: ShardingCase, group: state_group.StateGroup) -> Any:
    """Return the simulator of a case in a group."""
    with state_group.use_group(group):
        return build_simulator(
            *(case.circuit, case.inputs, case.parameters, case.observables),
            initial_states=case.takes_states,
        )


@tf.function
def step(simulator: Any, upstream: tf.Tensor, *arguments: tf.Tensor) -> Any:
    """Return values and gradients."""
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        values = simulator.expectation(*arguments)
        loss = tf.reduce_sum(values * upstream)
    return values, *tape.gradient(loss, arguments)


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
