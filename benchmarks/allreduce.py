"""What an exchange between workers costs: `python -m benchmarks.allreduce [WORKERS] [FLOATS]`.

Real workers on this machine, each pinned to a core in turn and with one thread, sum a vector 50
times in one call into TensorFlow, in the ways that TensorFlow has; the ways take turns in one run.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from common.processes import free_ports
from common.settings import Settings
from training.cluster import TF_CONFIG, ClusterSpec

TURNS, CALLS = 50, 20


def main(workers: int, floats: int) -> int:
    """Start the workers; 0 if all ended well."""
    with free_ports(workers) as ports:
        addresses = [f"127.0.0.1:{port}" for port in ports]
    cores = sorted(os.sched_getaffinity(0))
    started = []
    for rank in range(workers):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        command = ["taskset", "-c", str(cores[rank % len(cores)]), sys.executable]
        command += ["-m", "benchmarks.allreduce", str(workers), str(floats)]
        environment = {**os.environ, TF_CONFIG: json.dumps(task)}
        started.append(subprocess.Popen(command, env=environment))
    return max(worker.wait() for worker in started)


def worker(workers: int, floats: int) -> None:
    """Take part, and let the first worker print."""
    from qfleet.tensorflow.runtime import tf
    from training import distributed
    from training.allreduce import all_reduce_sum, all_reduce_via_all_to_all

    cluster = ClusterSpec.from_environment(workers)
    strategy = distributed.create_strategy(Settings(workers=workers, threads=1), cluster)

    def ring(own: tf.Tensor) -> tf.Tensor:
        """In 2 (W - 1) hops, as TensorFlow's strategy does."""
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, own)

    def loop(exchange: Callable[[tf.Tensor], tf.Tensor]) -> Callable[[tf.Tensor], tf.Tensor]:
        @tf.function
        def turns(own: tf.Tensor) -> tf.Tensor:
            for _ in tf.range(TURNS):
                own = strategy.run(lambda own: exchange(tf.identity(own)) / workers, args=(own,))
                own = tf.ensure_shape(own, [floats])
            return own

        return turns

    ways = {
        "training.allreduce": loop(all_reduce_sum),
        "all-to-all": loop(lambda own: all_reduce_via_all_to_all(own, workers)),
        "ring": loop(ring),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    vector = tf.ones([floats])
    for _ in range(CALLS + 1):  # the first makes the graph
        for name, way in ways.items():
            distributed.all_reduce_scalar(strategy, 0.0)
            began = time.perf_counter()
            way(vector).numpy()
            seconds[name].append((time.perf_counter() - began) / TURNS)
    if cluster.is_chief:
        print(f"{workers} workers, {floats} floats: ms an exchange, median (best)")
        for name, taken in seconds.items():
            median, best = statistics.median(taken[1:]), min(taken[1:])
            print(f"{name:18} {1e3 * median:.3f} ({1e3 * best:.3f})")
    distributed.all_reduce_scalar(strategy, 0.0)
    sys.stdout.flush()
    os._exit(0)  # TensorFlow's own farewell complains of peers that are gone


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    numbers = (given + [2, 63][len(given) :])[:2]
    if TF_CONFIG in os.environ:
        worker(*numbers)
    else:
        sys.exit(main(*numbers))
