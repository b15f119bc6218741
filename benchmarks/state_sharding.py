"""A training step with a sharded state: `python -m benchmarks.state_sharding [QUICK=1]`.

The benchmark times the QCNN's training step at 22 qubits (12 with QUICK=1), with data rotations on
every qubit, at batch 1 and 16. It compares one process of two threads with two processes of one
thread each, pinned to one CPU each. Both are measured in turns. The two processes also time an
all-to-all over their connections, with the bytes of one exchange of states forward and of two
backward.

It prints the best times and the peak memory of a step above that of the idle process. The bounds:
the sharded step takes at most 1.7 times the unsharded one, and 0.60 of the memory.
"""

import concurrent.futures
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.subprocess_protocol import Channel, Message, SubprocessSystem, SystemFailed
from common.errors import SettingsError, run_main
from common.processes import free_ports, usable_cpus
from common.settings import Settings
from common.settings.options import PlanOptions
from common.text import plural

if TYPE_CHECKING:
    from qfleet.distributed.state_group import StateGroup

BATCHES = (1, 16)
SHARDS = 2
MAX_TIME_RATIO = 1.7
"""Maximum time of the sharded step, as a multiple of the unsharded one. A state vector without
shards is evolved by fewer passes."""

MAX_MEMORY_RATIO = 0.60
"""Maximum memory of a process, as a fraction of that of the unsharded step."""

ROLE = "--role="


def main() -> int:
    """Measure and print; return 1 if a bound is missed."""
    quick = Settings.with_options(sys.argv[1:], "plan", PlanOptions)[1].quick
    qubits, rounds = (12, 3) if quick else (22, 7)
    cpus = usable_cpus()
    if len(cpus) < SHARDS:
        raise SettingsError(f"{plural(len(cpus), 'CPU')} usable: the benchmark needs {SHARDS}")
    with free_ports(SHARDS) as ports:
        pass  # free again for the processes
    command = [sys.executable, "-m", "benchmarks.state_sharding"]
    unsharded = SubprocessSystem("unsharded", [*command, _role(cpus=cpus[:SHARDS])])
    sharded = [
        SubprocessSystem(
            f"shard {rank}", [*command, _role(cpus=[cpus[rank]], rank=rank, ports=ports)]
        )
        for rank in range(SHARDS)
    ]
    try:
        return 0 if _measure(unsharded, sharded, qubits, rounds) else 1
    except SystemFailed as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        for system in (unsharded, *sharded):
            system.close()


def _role(**fields: object) -> str:
    return ROLE + json.dumps(fields)


def _measure(
    unsharded: SubprocessSystem, sharded: list[SubprocessSystem], qubits: int, rounds: int
) -> bool:
    """Measure and print all batches; return True if all bounds are kept."""
    kept = True
    with concurrent.futures.ThreadPoolExecutor(SHARDS) as pool:

        def request(systems: list[SubprocessSystem], **message: object) -> list[Message]:
            return list(pool.map(lambda system: system.request(message), systems))

        for batch in BATCHES:
            ready = {"action": "prepare", "qubits": qubits, "batch": batch}
            idle = [request([unsharded], **ready)[0], *request(sharded, **ready)]
            print(f"\nQCNN, {qubits} qubits, batch {batch}: {idle[1]['sent']:,} bytes exchanged")
            one_process, shards, all_to_all = [], [], []
            for _ in range(rounds):
                one_process.append(request([unsharded], action="step")[0]["seconds"])
                shards.append(_slowest(request(sharded, action="step")))
                all_to_all.append(_slowest(request(sharded, action="all_to_all")))
            peaks = [request([unsharded], action="peak")[0], *request(sharded, action="peak")]
            above = [
                peak["bytes"] - before["bytes"] for peak, before in zip(peaks, idle, strict=True)
            ]
            kept &= _report(min(one_process), min(shards), min(all_to_all), above)
    print("\nAll bounds are kept." if kept else "\nA bound is missed.")
    return kept


def _slowest(responses: list[Message]) -> float:
    return max(float(response["seconds"]) for response in responses)


def _report(unsharded: float, sharded: float, all_to_all: float, memory: list[int]) -> bool:
    """Print the results of a batch; return True if both bounds are kept.

    Args:
        unsharded: Best time of the unsharded step, in seconds.
        sharded: Best time of the sharded step, in seconds.
        all_to_all: Best time of the all-to-all, in seconds.
        memory: Bytes above the idle process: of the unsharded process, then of each shard.
    """
    times = sharded / unsharded
    ratio = max(memory[1:]) / memory[0]
    mib = memory[0] / 2**20, max(memory[1:]) / 2**20
    print(
        f"  unsharded  {unsharded * 1e3:8.1f} ms   {mib[0]:7.1f} MiB above idle\n"
        f"  sharded    {sharded * 1e3:8.1f} ms   {mib[1]:7.1f} MiB above idle\n"
        f"  all-to-all {all_to_all * 1e3:8.1f} ms   half a state forward, half of two backward\n"
        f"  sharded at most {MAX_TIME_RATIO} times the unsharded step:"
        f" {_verdict(times <= MAX_TIME_RATIO)} ({times:.3f})\n"
        f"  memory at most {MAX_MEMORY_RATIO} of the unsharded process:"
        f" {_verdict(ratio <= MAX_MEMORY_RATIO)} ({ratio:.3f})"
    )
    return times <= MAX_TIME_RATIO and ratio <= MAX_MEMORY_RATIO


def _verdict(kept: bool) -> str:
    return "kept" if kept else "MISSED"


class _Process:
    """A measured process: the unsharded one, or one of the shards.

    Args:
        role: Its CPUs, and for a shard its rank and the ports of all shards.
    """

    def __init__(self, role: Message) -> None:
        os.sched_setaffinity(0, role["cpus"])
        self._rank = role.get("rank")
        if self._rank is not None:
            workers = [f"127.0.0.1:{port}" for port in role["ports"]]
            os.environ["TF_CONFIG"] = json.dumps(
                {"cluster": {"worker": workers}, "task": {"type": "worker", "index": self._rank}}
            )
        from qfleet.tensorflow.runtime import configure, tf

        self._tf = tf
        if self._rank is None:
            configure(threads=len(role["cpus"]), seed=1)
        else:
            self._strategy = self._connect(len(role["cpus"]))
        self._build(8, 1)  # the first step allocates memory of TensorFlow itself
        self._run_step()

    def _connect(self, threads: int) -> object:
        from training.cluster.spec import ClusterSpec
        from training.step.distributed import create_strategy

        cluster = ClusterSpec.from_environment(SHARDS)
        settings = Settings.from_values(workers=SHARDS, threads=threads, seed=1)
        return create_strategy(settings, cluster, secret=b"a secret of a benchmark")

    def _build(self, qubits: int, batch: int) -> None:
        from qfleet.circuits.qcnn import qcnn
        from qfleet.distributed import state_group
        from qfleet.tensorflow.backends import build_simulator
        from qfleet.tensorflow.sharded_simulator import ShardedSimulator
        from training.step.allreduce import connections

        tf = self._tf
        model = qcnn(qubits, encoder="angle", features=qubits)
        size = 1 if self._rank is None else SHARDS
        group = state_group.StateGroup(size, self._rank or 0, 2000, connections(0, size))
        with state_group.use_group(group):
            simulator = build_simulator(
                model.circuit, model.inputs, model.parameters, model.observables
            )
        random = tf.random.Generator.from_seed(1)
        self._angles = random.uniform([batch, qubits], -3.0, 3.0)
        self._weights = random.uniform([len(model.parameters)], -3.0, 3.0)

        @tf.function
        def step(angles: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                tape.watch(weights)
                values = simulator.expectation(angles, weights)
                loss = tf.reduce_mean(tf.square(values - 1.0)) / size
            return tape.gradient(loss, weights)

        self._step = step.get_concrete_function(self._angles, self._weights)
        self._sent = 0
        if isinstance(simulator, ShardedSimulator):
            self._sent = simulator.bytes_sent(batch)[1]
        self._build_all_to_all(qubits, batch, group)

    def _build_all_to_all(self, qubits: int, batch: int, group: "StateGroup") -> None:
        from qfleet.tensorflow.shard_exchange import ShardExchange

        tf = self._tf
        exchange = ShardExchange(group)
        # Half of a shard, as (re, im) in float32: once forward, twice backward.
        self._half = 2 ** (qubits - 2) * 2

        @tf.function
        def all_to_all(values: tf.Tensor) -> tf.Tensor:
            for _ in tf.range(3 * batch):
                values = exchange.all_to_all(values)
            return values[0, 0]

        self._all_to_all = all_to_all

    def _run_step(self) -> float:
        start = time.perf_counter()
        self._step(self._angles, self._weights).numpy()
        return time.perf_counter() - start

    def _run_all_to_all(self) -> float:
        values = self._tf.ones([SHARDS, self._half])
        start = time.perf_counter()
        self._all_to_all(values).numpy()
        return time.perf_counter() - start

    def handle(self, request: Message) -> Message:
        """Return the response to a request."""
        match request["action"]:
            case "prepare":
                self._build(request["qubits"], request["batch"])
                idle = _memory("VmRSS")
                Path("/proc/self/clear_refs").write_text("5")  # resets the peak
                self._run_step()
                self._peak = _memory("VmHWM")
                return {"bytes": idle, "sent": self._sent}
            case "step":
                return {"seconds": self._run_step()}
            case "all_to_all":
                return {"seconds": self._run_all_to_all()}
            case "peak":
                return {"bytes": self._peak}
        raise ValueError(request)


def _memory(name: str) -> int:
    """Return a field of /proc/self/status of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def serve(role: Message) -> None:
    """Handle requests until there are no more."""
    channel = Channel()
    process = _Process(role)
    channel.serve({"versions": {}}, lambda request: channel.send(process.handle(request)))


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith(ROLE):
        serve(json.loads(sys.argv[1].removeprefix(ROLE)))
    else:
        sys.exit(run_main(main))
