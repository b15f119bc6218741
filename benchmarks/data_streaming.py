"""Streaming of shards during training, compared with memory: `python -m benchmarks.data_streaming`.

The data sets have a million examples of 8 qubits (200,000 with QUICK=1) and batch 256. They are
behind a proxy with 20 ms latency and 50 MB/s; DATA_MEMORY is a tenth of the data. The first is
`excitations`, which has the shortest steps; the second is a table that rotates every qubit. Output:

    rate        examples per second of the real training step, streamed and from memory, in turns;
                first with separate CPUs for worker and storage, since a bucket uses none of the
                worker's; then with all CPUs for both
    one by one  examples per second with one request per example
    bytes       bytes read by 1, 2 and 4 workers, over the bytes used
    shuffle     statistics of the order, compared with a full shuffle, with their bounds

The exit code is 1 if a bound is missed.
"""

import http.client
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from common import events, storage
from common.data import Dataset, WorkerSampler, epoch_order, load, prepare
from common.errors import run_main
from common.processes import ManagedProcess, cpu_count, usable_cpus
from common.settings import Settings
from common.settings.options import PlanOptions

LATENCY_MS, MEGABYTES_PER_SECOND = 20, 50
QUBITS, BATCH, SEED = 8, 256, 3
WORLD_SIZES = (1, 2, 4)
ROUNDS = 7
STEPS_PER_CALL = 50
MIN_RATE_RATIO = 0.95  # streamed over memory
MAX_BYTES_RATIO = 1.1  # read over used
BYTES_PER_EXAMPLE = 36


def split_cpus() -> tuple[list[int], list[int]]:
    """Return the CPUs of the worker and of the storage; the same if there is only one."""
    cpus = usable_cpus()
    half = max(1, len(cpus) // 2)
    return cpus[:half], cpus[half:] or cpus


@contextmanager
def distant_storage() -> Iterator[tuple[str, str, psutil.Process]]:
    """Run an emulator and a proxy; yield both addresses and the process of the proxy."""
    from tests.support.storage_emulator import Emulator

    emulator = Emulator().start()
    arguments = map(str, (emulator.port, LATENCY_MS, MEGABYTES_PER_SECOND))
    command = [sys.executable, "-m", "benchmarks.latency_proxy", *arguments]
    try:
        with ManagedProcess(command, stdout="capture", emits=False) as proxy:
            port = proxy.next_event()
            assert port is not None
            address = f"http://127.0.0.1:{port.message}"
            yield emulator.address, address, psutil.Process(proxy.pid)
    finally:
        emulator.stop()


def write_table(folder: Path, rows: int) -> Path:
    """Write a user table whose encoding rotates every qubit; return its path."""
    generator = np.random.default_rng(SEED)
    features = generator.uniform(-1, 1, (rows, QUBITS)).astype("f4")
    np.savez(folder / "features.npz", x=features, label=(features.sum(axis=1) > 0).astype("i4"))
    return folder / "features.npz"


def proxy_counts(proxy: str) -> dict[str, int]:
    """Return the number of requests and bytes of the proxy."""
    peer = http.client.HTTPConnection(proxy.removeprefix("http://"))
    peer.request("GET", "/counted")
    counts: dict[str, int] = json.loads(peer.getresponse().read())
    return counts


def worker_sampler(data: Dataset, rank: int = 0, world: int = 1) -> WorkerSampler:
    """Return the sampler of a worker for the training split."""
    return WorkerSampler(
        data.partition_sizes("train"), rank=rank, world_size=world, batch=BATCH, seed=SEED,
        layout=data.layout("train"),
    )  # fmt: skip


def bytes_read(path: str, memory: int, world: int, proxy: str) -> float:
    """Return the bytes that all workers read in three epochs, over the bytes of their rows."""
    before, epochs = proxy_counts(proxy)["bytes"], 3
    for rank in range(world):
        data = load(storage.path(path), memory)
        sampler = worker_sampler(data, rank, world)
        feed = data.batch_source("train", sampler)
        for epoch in range(epochs):
            for step in range(0, sampler.steps, feed.steps):
                feed.block(epoch, step, min(step + feed.steps, sampler.steps))
        feed.release()  # type: ignore[attr-defined]
    used = epochs * sum(shard.bytes for shard in data.shards("train"))
    return (proxy_counts(proxy)["bytes"] - before) / used


def one_by_one(path: str, reads: int) -> float:
    """Return the examples per second with one request per example, with parallel requests."""
    from concurrent.futures import ThreadPoolExecutor

    from common.data.memory_plan import PREFETCH_THREADS

    data = load(storage.path(path), 1)
    shards = data.shards("train")
    generator = np.random.default_rng(SEED)

    def read(_: int) -> None:
        shard = shards[generator.integers(len(shards))]
        path: Any = data.path / shard.file
        blob = path.client.client.bucket(path.bucket).blob(path.blob)
        first = int(generator.integers(shard.bytes - BYTES_PER_EXAMPLE))
        last = first + BYTES_PER_EXAMPLE - 1
        blob.download_as_bytes(start=first, end=last, checksum=None)

    with ThreadPoolExecutor(PREFETCH_THREADS) as pool:
        start = time.monotonic()
        list(pool.map(read, range(reads)))
        return reads / (time.monotonic() - start)


def rates(path: str, memory: int, steps: int) -> tuple[list[float], list[float], dict[str, object]]:
    """Return the examples per second of training steps, streamed and from memory, by round.

    Runs in its own process, which `main` starts, with one thread per CPU.
    """
    from common.data.shard_stream import ShardStream
    from training.cluster.spec import ClusterSpec
    from training.step import distributed, learner_factory
    from training.step.input_pipeline import batches

    settings = Settings.from_values(
        batch=BATCH, workers=1, qubits=QUBITS, initializations=1, seed=SEED, data=path,
        threads=cpu_count(),
    )  # fmt: skip
    cluster = ClusterSpec(("127.0.0.1:1",), 0)
    strategy = distributed.create_strategy(settings, cluster)
    data_sets = [load(storage.path(path), mib) for mib in (memory, 1024)]
    learner = learner_factory.build_learner(strategy, cluster, data_sets[0], settings)
    learner.steps_per_call = STEPS_PER_CALL
    feeds = [data.batch_source("train", worker_sampler(data)) for data in data_sets]
    assert isinstance(feeds[0], ShardStream)
    assert not isinstance(feeds[1], ShardStream)
    iterators = [iter(batches(feed, feed.sampler)) for feed in feeds]
    measured: tuple[list[float], list[float]] = ([], [])
    process, used = psutil.Process(), [0.0, 0.0]
    for number in range(ROUNDS + 1):
        for source in (0, 1) if number % 2 else (1, 0):
            start, cpu = time.monotonic(), sum(process.cpu_times()[:2])
            for _ in range(steps // STEPS_PER_CALL if number else 4):
                learner.train_function(iterators[source])
            learner.sums  # noqa: B018 (waits for the last step)
            if number:
                measured[source].append(steps * BATCH / (time.monotonic() - start))
                used[source] += sum(process.cpu_times()[:2]) - cpu
    return *measured, {"cpu_seconds": used, "room": feeds[0]._plan._asdict()}


def shuffle(data: Dataset, epochs: int = 4) -> list[tuple[str, float, float]]:
    """Return name, value and bound of each statistic; a full shuffle has 1, 0 and 1."""
    rows, cut = data.rows("train"), data.layout("train")
    orders = [epoch_order(data.partition_sizes("train"), SEED, e, cut) for e in range(epochs)]
    positions = np.empty((epochs, rows), np.int64)
    for epoch, order in enumerate(orders):
        positions[epoch, order] = np.arange(rows)
    batches = -(-rows // BATCH)
    pairs = []
    for before, after in pairwise(positions):
        _, counts = np.unique(before // BATCH * batches + after // BATCH, return_counts=True)
        pairs.append((counts * (counts - 1)).sum() / 2)
    expected = rows * (BATCH - 1) / 2 * BATCH / rows
    # A batch uses one shard of G, and the rows of a shard are within 1 / S of the epoch.
    bound = (cut.segments + cut.groups - 1) / cut.groups
    row_order = np.arange(rows) % data.partition_sizes("train")[0]
    correlations = [abs(np.corrcoef(one, row_order)[0, 1]) for one in positions]
    correlations += [abs(np.corrcoef(a, b)[0, 1]) for a, b in pairwise(positions)]
    labels = data.split("train").labels[orders[0]][: rows // BATCH * BATCH].reshape(-1, BATCH)
    p = (1 + labels.mean()) / 2
    exact = BATCH * p * (1 - p) * (rows - BATCH) / (rows - 1)
    variance = ((labels > 0).sum(axis=1)).var() / exact
    return [
        ("pairs of rows in the same batch in two epochs, over expectation",
         float(np.mean(pairs) / expected), 1.1 * bound),
        ("largest correlation of positions: with the row order, and of two epochs",
         float(max(correlations)), 4 / (cut.groups * (cut.segments - 1)) ** 0.5),
        ("variance of the labels of a batch, over that of a full shuffle", float(variance),
         1 + 4 * (2 / len(labels)) ** 0.5),
    ]  # fmt: skip


class Bounds:
    """Prints figures with their bounds, and collects missed ones."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def check(self, name: str, value: float, bound: float, *, minimum: bool = False) -> None:
        """Print a figure; it is missed if it is on the wrong side of its bound."""
        print(f"  {name}: {value:.3f} ({'at least' if minimum else 'at most'} {bound:.3f})")
        if value < bound if minimum else value > bound:
            self.missed.append(f"{name} is {value:.3f}, the bound is {bound:.3f}")


def measure_rates(
    path: str, memory: int, steps: int, proxy: psutil.Process, bounds: Bounds
) -> float:
    """Print the rates with separate and with shared CPUs; return the last streamed rate."""
    worker_cpus, storage_cpus = split_cpus()
    all_cpus = sorted({*worker_cpus, *storage_cpus})
    streamed: list[float] = []
    for name, own, others in (
        ("separate CPUs", worker_cpus, storage_cpus),
        ("shared CPUs", all_cpus, all_cpus),
    ):
        proxy.cpu_affinity(others)
        arguments = ["rates", path, str(memory), str(steps)]
        command = [sys.executable, "-m", "benchmarks.data_streaming", *arguments]
        with ManagedProcess(command, cpus=own) as process:
            received = list(process.events())
        if process.exit_code:
            raise SystemExit(f"rates: {process.describe_exit()}")
        (event,) = [event for event in received if event.kind == "measurement"]
        result: Any = event.mapping("result")
        streamed, ratios = result["streamed"], np.array(result["streamed"]) / result["memory"]
        print(
            f"  {name}: streamed {np.median(streamed):,.0f} examples/s, from memory"
            f" {np.median(result['memory']):,.0f}, ratio {np.median(ratios):.3f}"
            f" ({ratios.min():.2f} to {ratios.max():.2f}); CPU seconds"
            f" {result['cpu_seconds'][0]:.1f} and {result['cpu_seconds'][1]:.1f}; {result['room']}"
        )
        if own is worker_cpus:
            ratio = float(np.median(ratios))
            bounds.check("streamed over memory, median", ratio, MIN_RATE_RATIO, minimum=True)
    return float(np.median(streamed))


def main() -> int:
    """Measure and print; return 1 if a bound is missed."""
    quick = Settings.with_options(sys.argv[1:], "plan", PlanOptions)[1].quick
    rows = 200_000 if quick else 1_000_000
    bounds = Bounds()
    with tempfile.TemporaryDirectory() as scratch, distant_storage() as (emulator, proxy, process):
        memory = max(1, int(rows * BYTES_PER_EXAMPLE / 10) >> 20)
        sizes = {"train_examples": rows, "validation_examples": 200, "test_examples": 4000}
        for name, data in (
            ("excitations", "excitations"),
            ("every qubit rotated", str(write_table(Path(scratch), rows + 4200))),
        ):
            os.environ["STORAGE_EMULATOR_HOST"] = emulator
            settings = Settings.from_values(data=data, **sizes)
            prepared = prepare(settings, storage.path("gs://qfleet-test/datasets"))
            os.environ["STORAGE_EMULATOR_HOST"] = proxy
            path, cut = str(prepared.path), prepared.layout("train")
            size = sum(shard.bytes for shard in prepared.shards("train"))
            print(
                f"{name}: {rows:,} examples, {rows * BYTES_PER_EXAMPLE / 1e6:.0f} MB in memory,"
                f" {size / 1e6:.1f} MB in {cut.groups} x {cut.segments} shards;"
                f" DATA_MEMORY={memory}"
            )
            streamed = measure_rates(path, memory, 500 if quick else 1500, process, bounds)
            rate = one_by_one(path, 100)
            print(f"  one by one {rate:,.0f} examples/s: {streamed / rate:,.0f} times slower")
            for world in WORLD_SIZES:
                ratio = bytes_read(path, memory, world, proxy)
                bounds.check(f"bytes read over used, workers={world}", ratio, MAX_BYTES_RATIO)
        for statistic in shuffle(load(storage.path(path))):
            bounds.check(*statistic)
    for sentence in bounds.missed:
        print(f"missed: {sentence}", file=sys.stderr)
    return 1 if bounds.missed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["rates"]:
        streamed, in_memory, details = rates(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        result = {"streamed": streamed, "memory": in_memory, **details}
        events.emit("measurement", result=result)
    else:
        sys.exit(run_main(main))
