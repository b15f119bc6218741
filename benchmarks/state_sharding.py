"""A state split over two processes beside the same in one: `python -m benchmarks.state_sharding [QUICK=1]`.

The QCNN's training step at 22 qubits (12 with QUICK=1), on examples that turn every qubit, batch 1
and 16. One process has two threads; the gang's two processes have one, pinned to a core each. They
take turns, and the gang also times the bare all-to-all of the bytes that one exchange of states
forward and one of both states back would move, in TensorFlow's own collective. Printed are the
best times, the peak memory of a step above the same process idle, and the bounds: the split step
takes at most the unsplit one plus 1.3 times the bare exchange, and 0.60 of the memory.
"""

import concurrent.futures
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.subprocess_protocol import Channel, SubprocessSystem, SystemFailed
from common.errors import run_main
from common.settings import Settings

BATCHES = (1, 16)
SLOWER, SMALLER = 1.3, 0.60  # the bounds
MEMBERS = 2


def main() -> int:
    """Measure, print, and say whether the bounds hold."""
    quick = Settings.from_args(sys.argv[1:]).quick
    qubits, rounds = (12, 3) if quick else (22, 7)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < MEMBERS:
        print(f"qfleet: there are {len(cores)} cores here, and {MEMBERS} processes need one each")
        return 2
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        ports = [holder.getsockname()[1] for holder in (one, two)]
    command = [sys.executable, "-m", "benchmarks.state_sharding"]
    alone = SubprocessSystem("unsplit", [*command, json.dumps({"cores": cores[:MEMBERS]})])
    gang = [
        SubprocessSystem(
            f"member {rank}",
            [*command, json.dumps({"cores": [cores[rank]], "rank": rank, "ports": ports})],
        )
        for rank in range(MEMBERS)
    ]
    try:
        return 0 if _measured(alone, gang, qubits, rounds) else 1
    except SystemFailed as error:
        print(f"qfleet: {error}", file=sys.stderr)
        return 1
    finally:
        for system in (alone, *gang):
            system.close()


def _measured(
    alone: SubprocessSystem, gang: list[SubprocessSystem], qubits: int, rounds: int
) -> bool:
    good = True
    with concurrent.futures.ThreadPoolExecutor(MEMBERS) as pool:

        def ask(systems: list[SubprocessSystem], **message: Any) -> list[dict[str, Any]]:
            return list(pool.map(lambda system: system.ask(message), systems))

        for batch in BATCHES:
            ready = {"do": "ready", "qubits": qubits, "batch": batch}
            idle = [ask([alone], **ready)[0], *ask(gang, **ready)]
            print(
                f"\nQCNN, {qubits} qubits, batch {batch}: {idle[1]['sent']:,} bytes are exchanged"
            )
            whole, split, bare = [], [], []
            for _ in range(rounds):
                whole.append(ask([alone], do="step")[0]["seconds"])
                split.append(max(one["seconds"] for one in ask(gang, do="step")))
                bare.append(max(one["seconds"] for one in ask(gang, do="bare")))
            peaks = [ask([alone], do="peak")[0], *ask(gang, do="peak")]
            above = [
                peak["bytes"] - before["bytes"] for peak, before in zip(peaks, idle, strict=True)
            ]
            bound = min(whole) + SLOWER * min(bare)
            ratio = max(above[1:]) / above[0]
            mib = above[0] / 2**20, max(above[1:]) / 2**20
            print(
                f"  unsplit {min(whole) * 1e3:8.1f} ms   {mib[0]:7.1f} MiB above idle\n"
                f"  split   {min(split) * 1e3:8.1f} ms   {mib[1]:7.1f} MiB above idle\n"
                f"  bare    {min(bare) * 1e3:8.1f} ms   half a state forward, half of two back\n"
                f"  split <= unsplit + {SLOWER} bare ({bound * 1e3:.1f} ms):"
                f" {_word(min(split) <= bound)}; split / unsplit = {min(split) / min(whole):.3f}\n"
                f"  memory at most {SMALLER} of the unsplit's: {_word(ratio <= SMALLER)}"
                f" ({ratio:.3f})"
            )
            good &= min(split) <= bound and ratio <= SMALLER
    print("\nboth bounds hold" if good else "\na bound does not hold")
    return good


def _word(holds: bool) -> str:
    return "holds" if holds else "DOES NOT HOLD"


class _Member:
    """One process's end: the unsplit one, or a member of the gang."""

    def __init__(self, told: dict[str, Any]) -> None:
        os.sched_setaffinity(0, told["cores"])
        self.rank = told.get("rank")
        if self.rank is not None:
            workers = [f"127.0.0.1:{port}" for port in told["ports"]]
            os.environ["TF_CONFIG"] = json.dumps(
                {"cluster": {"worker": workers}, "task": {"type": "worker", "index": self.rank}}
            )
        from qfleet.tensorflow.runtime import configure, tf

        configure(threads=len(told["cores"]), seed=1)
        self.tf = tf
        if self.rank is not None:
            self.strategy = tf.distribute.MultiWorkerMirroredStrategy()
        self._made(8, 1)  # what TensorFlow itself takes for its first step is not the state's
        self.step()

    def _made(self, qubits: int, batch: int) -> None:
        from qfleet.circuits.qcnn import qcnn
        from qfleet.distributed import state_group
        from qfleet.tensorflow.backends import build_simulator

        tf = self.tf
        model = qcnn(qubits, encoder="angle", features=qubits)
        size = 1 if self.rank is None else MEMBERS
        with state_group.use_group(
            state_group.StateGroup(size=size, rank=self.rank or 0, key=2000)
        ):
            simulator = build_simulator(
                model.circuit, model.inputs, model.parameters, model.observables
            )
        random = tf.random.Generator.from_seed(1)
        self.angles = random.uniform([batch, qubits], -3.0, 3.0)
        self.weights = random.uniform([len(model.parameters)], -3.0, 3.0)

        @tf.function
        def step(angles: Any, weights: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(weights)
                values = simulator.expectation(angles, weights)
                loss = tf.reduce_mean(tf.square(values - 1.0)) / size
            return tape.gradient(loss, weights)

        self._step = step.get_concrete_function(self.angles, self.weights)
        self.sent = simulator.bytes_sent(batch)[1] if size > 1 else 0
        # Half of a member's part, as (re, im) in float32: once forward, and of both states back.
        self._half = 2 ** (qubits - 2) * 2
        self._batch = batch

        @tf.function
        def bare(pieces: Any) -> Any:
            got = pieces
            for _ in tf.range(3 * batch):
                got = tf.raw_ops.CollectiveAllToAllV2(
                    input=got,
                    group_size=MEMBERS,
                    group_key=2001,
                    instance_key=batch * 100 + qubits,
                    ordering_token=[],
                )
            return got[0, 0]

        self._bare = bare

    def step(self) -> float:
        start = time.perf_counter()
        self._step(self.angles, self.weights).numpy()
        return time.perf_counter() - start

    def bare(self) -> float:
        pieces = self.tf.ones([MEMBERS, self._half])
        start = time.perf_counter()
        self._bare(pieces).numpy()
        return time.perf_counter() - start

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What one message asks for."""
        match request["do"]:
            case "ready":
                self._made(request["qubits"], request["batch"])
                idle = _memory("VmRSS")
                Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
                self.step()
                self._peak = _memory("VmHWM")
                return {"bytes": idle, "sent": self.sent}
            case "step":
                return {"seconds": self.step()}
            case "bare":
                return {"seconds": self.bare()}
            case "peak":
                return {"bytes": self._peak}
        raise ValueError(request)


def _memory(name: str) -> int:
    """Bytes, of this process, by a name of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def serve(told: dict[str, Any]) -> None:
    """Answer until there is nobody to ask."""
    talk = Channel()
    member = _Member(told)
    talk.serve({"versions": {}}, lambda request: talk.say(member.answer(request)))


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("{"):
        serve(json.loads(sys.argv[1]))
    else:
        sys.exit(run_main(main))
