"""Reading shards from storage while training, beside memory: `python -m benchmarks.data_streaming`.

A million examples of 8 qubits (200,000 with QUICK=1), batch 256, behind a proxy of 20 ms and
50 MB/s, with a tenth of the data as memory. Two data sets: excitations, whose steps cost least, and
a table that turns every qubit. It prints

    rate        examples a second of the real training step, by parts and from memory, in turns: by
                a worker on half of the cores, with the storage on the others, since a bucket
                takes nothing of a worker's; then with the whole machine for both
    one by one  the rate of reading each example with a request of its own
    bytes       what a gang of 1, 2, 4 workers reads, over what it uses
    shuffle     statistics of the order beside those of a full shuffle, with their bounds

and ends with 1 where a bound is missed.
"""

import http.client
import json
import os
import subprocess
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

from common import storage
from common.data import Dataset, WorkerSampler, epoch_order, load, prepare
from common.errors import run_main
from common.settings import Settings

DELAY_MS, MEGABYTES = 20, 50
QUBITS, BATCH, SEED = 8, 256, 3
GANGS = (1, 2, 4)
ROUNDS = 7
STEPS_PER_CALL = 50
# At least, and at most.
RATE, BYTES = 0.95, 1.1


def halves() -> tuple[list[int], list[int]]:
    """Cores of the worker, and of the storage; the same where there is one."""
    cores = sorted(os.sched_getaffinity(0))
    half = max(1, len(cores) // 2)
    return cores[:half], cores[half:] or cores


@contextmanager
def distant_storage() -> Iterator[tuple[str, str, psutil.Process]]:
    """Addresses of an emulator and of the proxy before it, and the proxy's process."""
    from tests.support.storage_emulator import Emulator

    emulator = Emulator().start()
    proxy = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.latency_proxy", str(emulator.port), str(DELAY_MS),
         str(MEGABYTES)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert proxy.stdout is not None
        address = f"http://127.0.0.1:{proxy.stdout.readline().strip()}"
        yield emulator.address, address, psutil.Process(proxy.pid)
    finally:
        proxy.kill()
        proxy.wait()
        emulator.stop()


def table(folder: Path, rows: int) -> Path:
    """Examples that turn every qubit, as a person's own table."""
    generator = np.random.default_rng(SEED)
    features = generator.uniform(-1, 1, (rows, QUBITS)).astype("f4")
    np.savez(folder / "turned.npz", x=features, label=(features.sum(axis=1) > 0).astype("i4"))
    return folder / "turned.npz"


def counted(proxy: str) -> dict[str, int]:
    """What has gone through the proxy."""
    peer = http.client.HTTPConnection(proxy.removeprefix("http://"))
    peer.request("GET", "/counted")
    return json.loads(peer.getresponse().read())


def share(data: Dataset, rank: int = 0, world: int = 1) -> WorkerSampler:
    """A worker's share of the training split."""
    return WorkerSampler(
        data.partition_sizes("train"), rank=rank, world_size=world, batch=BATCH, seed=SEED,
        layout=data.layout("train"),
    )  # fmt: skip


def bytes_read(path: str, memory: int, world: int, proxy: str) -> float:
    """Bytes that a gang reads in three epochs, over those of the rows that it uses."""
    before, epochs = counted(proxy)["bytes"], 3
    for rank in range(world):
        data = load(storage.path(path), memory)
        mine = share(data, rank, world)
        feed = data.batch_source("train", mine)
        for epoch in range(epochs):
            for step in range(0, mine.steps, feed.steps):
                feed.block(epoch, step, min(step + feed.steps, mine.steps))
        feed.release()  # type: ignore[attr-defined]
    used = epochs * sum(shard.bytes for shard in data.shards("train"))
    return (counted(proxy)["bytes"] - before) / used


def one_by_one(path: str, reads: int) -> float:
    """Examples a second where each is a request, as many at a time as there are shards."""
    from concurrent.futures import ThreadPoolExecutor

    from common.data.shard_stream import PREFETCH_THREADS

    data = load(storage.path(path), 1)
    shards = data.shards("train")
    generator = np.random.default_rng(SEED)

    def read(_: int) -> None:
        shard = shards[generator.integers(len(shards))]
        place: Any = data.path / shard.file
        blob = place.client.client.bucket(place.bucket).blob(place.blob)
        first = int(generator.integers(shard.bytes - 36))
        blob.download_as_bytes(start=first, end=first + 35, checksum=None)

    with ThreadPoolExecutor(PREFETCH_THREADS) as hands:
        began = time.monotonic()
        list(hands.map(read, range(reads)))
        return reads / (time.monotonic() - began)


def rates(path: str, memory: int, steps: int) -> tuple[list[float], list[float], dict[str, Any]]:
    """Examples a second of training steps, by parts and from memory, round by round.

    Runs in a process of its own (`main` starts it), with a thread for each of its cores.
    """
    from common.data.shard_stream import ShardStream
    from training import distributed, learner_factory
    from training.cluster import ClusterSpec
    from training.input_pipeline import batches

    settings = Settings(
        batch=BATCH, workers=1, qubits=QUBITS, starts=1, seed=SEED, data=path,
        threads=len(os.sched_getaffinity(0)),
    )  # fmt: skip
    cluster = ClusterSpec(("127.0.0.1:1",), 0)
    strategy = distributed.create_strategy(settings, cluster)
    sets = [load(storage.path(path), m) for m in (memory, 1024)]
    learner = learner_factory.build_learner(strategy, cluster, sets[0], settings)
    learner.steps_per_call = STEPS_PER_CALL
    feeds = [data.batch_source("train", share(data)) for data in sets]
    assert isinstance(feeds[0], ShardStream)
    assert not isinstance(feeds[1], ShardStream)
    ways = [iter(batches(feed, feed.sampler)) for feed in feeds]
    found: tuple[list[float], list[float]] = ([], [])
    process, used = psutil.Process(), [0.0, 0.0]
    for turn in range(ROUNDS + 1):
        for way in (0, 1) if turn % 2 else (1, 0):
            began, cpu = time.monotonic(), sum(process.cpu_times()[:2])
            for _ in range(steps // STEPS_PER_CALL if turn else 4):
                learner.train_function(ways[way])
            learner.sums  # noqa: B018 (waits for the last step)
            if turn:
                found[way].append(steps * BATCH / (time.monotonic() - began))
                used[way] += sum(process.cpu_times()[:2]) - cpu
    return *found, {"cpu_seconds": used, "room": feeds[0]._plan._asdict()}


def shuffle(data: Dataset, epochs: int = 4) -> list[tuple[str, float, float]]:
    """Name, value and bound of each statistic of the order; a full shuffle has 1, 0 and 1."""
    rows, cut = data.rows("train"), data.layout("train")
    orders = [epoch_order(data.partition_sizes("train"), SEED, e, cut) for e in range(epochs)]
    places = np.empty((epochs, rows), np.int64)
    for epoch, order in enumerate(orders):
        places[epoch, order] = np.arange(rows)
    per = -(-rows // BATCH)
    met = []
    for before, after in pairwise(places):
        _, counts = np.unique(before // BATCH * per + after // BATCH, return_counts=True)
        met.append((counts * (counts - 1)).sum() / 2)
    chance = rows * (BATCH - 1) / 2 * BATCH / rows
    # Rows of a batch lie in one shard of G; those of a shard come again within 1 / S of the epoch.
    again = (cut.segments + cut.groups - 1) / cut.groups
    turn = np.arange(rows) % data.partition_sizes("train")[0]
    far = [abs(np.corrcoef(place, turn)[0, 1]) for place in places]
    far += [abs(np.corrcoef(a, b)[0, 1]) for a, b in pairwise(places)]
    labels = data.split("train").labels[orders[0]][: rows // BATCH * BATCH].reshape(-1, BATCH)
    p = (1 + labels.mean()) / 2
    exact = BATCH * p * (1 - p) * (rows - BATCH) / (rows - 1)
    variance = ((labels > 0).sum(axis=1)).var() / exact
    return [
        ("how often two rows of a batch meet again, over chance", float(np.mean(met) / chance),
         1.1 * again),
        ("largest correlation of places: with the rows' order, and of two epochs",
         float(max(far)), 4 / (cut.groups * (cut.segments - 1)) ** 0.5),
        ("variance of a batch's labels, over a full shuffle's", float(variance),
         1 + 4 * (2 / len(labels)) ** 0.5),
    ]  # fmt: skip


def main() -> int:
    """Measure, print, compare with the bounds."""
    quick = Settings.from_args(sys.argv[1:]).quick
    rows = 200_000 if quick else 1_000_000
    missed: list[str] = []

    def hold(name: str, value: float, bound: float, *, least: bool = False) -> None:
        print(f"  {name}: {value:.3f} ({'at least' if least else 'at most'} {bound:.3f})")
        if value < bound if least else value > bound:
            missed.append(f"{name} is {value:.3f}, not {bound:.3f}")

    with tempfile.TemporaryDirectory() as scratch, distant_storage() as (emulator, proxy, process):
        memory = max(1, int(rows * 36 / 10) >> 20)
        sizes = {"train_examples": rows, "validation_examples": 200, "test_examples": 4000}
        for name, data in (
            ("excitations", "excitations"),
            ("every qubit turned", str(table(Path(scratch), rows + 4200))),
        ):
            os.environ["STORAGE_EMULATOR_HOST"] = emulator
            made = prepare(
                Settings.from_values(data=data, **sizes), storage.path("gs://qfleet-test/datasets")
            )
            os.environ["STORAGE_EMULATOR_HOST"] = proxy
            path, cut = str(made.path), made.layout("train")
            size = sum(shard.bytes for shard in made.shards("train"))
            print(
                f"{name}: {rows:,} examples, {rows * 36 / 1e6:.0f} MB in memory, {size / 1e6:.1f}"
                f" MB in {cut.groups} x {cut.segments} shards; DATA_MEMORY={memory}"
            )
            steps = 500 if quick else 1500
            own, others = halves()
            both = sorted({*own, *others})
            for where, mine, storages in (
                ("cores of its own", own, others),
                ("the storage on its cores", both, both),
            ):
                process.cpu_affinity(storages)
                done = subprocess.run(
                    ["taskset", "-c", ",".join(map(str, mine)), sys.executable, "-m",
                     "benchmarks.data_streaming", "rates", path, str(memory), str(steps)],
                    stdout=subprocess.PIPE, text=True, check=True,
                )  # fmt: skip
                parts, whole, more = json.loads(done.stdout.splitlines()[-1])
                ratios = np.array(parts) / np.array(whole)
                print(
                    f"  {where}: by parts {np.median(parts):,.0f} examples/s, from memory"
                    f" {np.median(whole):,.0f}, ratio {np.median(ratios):.3f} ({ratios.min():.2f}"
                    f" to {ratios.max():.2f}); processor seconds {more['cpu_seconds'][0]:.1f} and"
                    f" {more['cpu_seconds'][1]:.1f}; {more['room']}"
                )
                if mine is own:
                    hold("by parts over from memory, median of rounds", float(np.median(ratios)),
                         RATE, least=True)  # fmt: skip
            one = one_by_one(path, 100)
            print(f"  one by one {one:,.0f} examples/s: {np.median(parts) / one:,.0f} times slower")
            for world in GANGS:
                hold(f"bytes read over used, {world} workers",
                     bytes_read(path, memory, world, proxy), BYTES)  # fmt: skip
        for statistic in shuffle(load(storage.path(path))):
            hold(*statistic)
    for sentence in missed:
        print(f"missed: {sentence}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["rates"]:
        print(json.dumps(rates(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        sys.exit(run_main(main))
