"""The time of an all-reduce: `python -m benchmarks.allreduce [WORKERS] [FLOATS]`.

Worker processes on this machine, each with one thread and pinned to one core, sum a vector up to 50
times per TensorFlow call. Each method of TensorFlow and qfleet is measured in turn in one run.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable

from common.processes import ProcessGroup, clean_environment, free_ports, usable_cpus
from common.settings import Settings
from training.cluster.spec import TF_CONFIG, ClusterSpec
from training.group.secret import ENVIRONMENT_VARIABLE, GivenSecret, new_secret

MAX_SUMS_PER_CALL, CALLS = 50, 20


def main(workers: int, floats: int) -> int:
    """Run the workers; return the largest exit code."""
    cpus, secret = usable_cpus(), new_secret()
    with free_ports(workers) as ports, ProcessGroup() as group:
        addresses = [f"127.0.0.1:{port}" for port in ports]
        for rank in range(workers):
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
            environment = {TF_CONFIG: json.dumps(task), ENVIRONMENT_VARIABLE: secret}
            group.start(
                [sys.executable, "-m", "benchmarks.allreduce", str(workers), str(floats)],
                name=f"worker {rank}",
                env=clean_environment(**environment),
                cpus=[cpus[rank % len(cpus)]],
                emits=False,
            )
        return max(process.wait() for process in group.processes)


def worker(workers: int, floats: int) -> None:
    """Run one worker. The chief prints the results."""
    from qfleet.tensorflow.runtime import tf
    from training.step import distributed
    from training.step.allreduce import (
        all_reduce_scalar,
        all_reduce_sum,
        all_reduce_via_all_to_all,
    )

    sums_per_call = max(2, min(MAX_SUMS_PER_CALL, 2**20 // floats))
    cluster = ClusterSpec.from_environment(workers)
    settings = Settings.from_values(workers=workers, threads=1)
    secret = GivenSecret.from_environment().read()
    strategy = distributed.create_strategy(settings, cluster, secret=secret)

    def ring(own: tf.Tensor) -> tf.Tensor:
        """Sum in 2 (W - 1) hops, like the strategy of TensorFlow."""
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, own)

    def repeat(all_reduce: Callable[[tf.Tensor], tf.Tensor]) -> Callable[[tf.Tensor], tf.Tensor]:
        @tf.function
        def sums(own: tf.Tensor) -> tf.Tensor:
            for _ in tf.range(sums_per_call):
                own = strategy.run(lambda own: all_reduce(tf.identity(own)) / workers, args=(own,))
                own = tf.ensure_shape(own, [floats])
            return own

        return sums

    methods = {
        "training.step.allreduce": repeat(all_reduce_sum),
        "all-to-all": repeat(lambda own: all_reduce_via_all_to_all(own, workers)),
        "ring": repeat(ring),
    }
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    vector = tf.ones([floats])
    for _ in range(CALLS + 1):  # the first call builds the graph
        for name, method in methods.items():
            all_reduce_scalar(strategy, 0.0)
            start = time.perf_counter()
            method(vector).numpy()
            seconds[name].append((time.perf_counter() - start) / sums_per_call)
    if cluster.is_chief:
        print(f"{workers} workers, {floats} floats: ms per all-reduce, median (best)")
        for name, taken in seconds.items():
            median, best = statistics.median(taken[1:]), min(taken[1:])
            print(f"{name:18} {1e3 * median:.3f} ({1e3 * best:.3f})")
    all_reduce_scalar(strategy, 0.0)
    sys.stdout.flush()
    os._exit(0)  # the shutdown of TensorFlow logs errors about ended peers


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    numbers = (arguments + [2, 63][len(arguments) :])[:2]
    if TF_CONFIG in os.environ:
        worker(*numbers)
    else:
        sys.exit(main(*numbers))
