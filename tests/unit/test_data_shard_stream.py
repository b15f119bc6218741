"""A split that is read by parts gives what memory would give, in memory that was counted."""

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from common.data import (
    Dataset,
    InMemorySource,
    WorkerSampler,
    dataset_dir,
    epoch_order,
    load,
    prepare,
)
from common.data.memory_plan import plan_memory
from common.data.shard_stream import ShardStream
from common.errors import DataError, SettingsError
from common.settings import Settings
from tests.support.patience import wait_until

ROWS = 6007
MEMORY = 60_000  # bytes; the split has 216,252


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A data set whose training split is cut into 4 groups of 32 segments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset_dir, "SHARD_ROWS", 1000)
        asked = Settings.from_values(train_examples=ROWS, validation_examples=20, test_examples=30)
        return prepare(asked, tmp_path_factory.mktemp("datasets"))


def share(data: Dataset, rank: int, world: int, batch: int = 97) -> WorkerSampler:
    return WorkerSampler(
        data.partition_sizes("train"),
        rank=rank,
        world_size=world,
        batch=batch,
        seed=5,
        layout=data.layout("train"),
    )


def test_large_split_has_groups_and_segments(data: Dataset) -> None:
    assert data.layout("train") == (cut := dataset_dir.ShardLayout(4, 32))
    assert data.layout("test") == dataset_dir.ShardLayout(1, 1)
    shards = data.shards("train")
    assert len(shards) == cut.groups * cut.segments
    numbers = [data.read(shard)[1] for shard in shards]
    assert sorted(np.concatenate(numbers).tolist()) == list(range(ROWS))
    whole = data.split("train")
    for shard in shards[::37]:
        examples, rows = data.read(shard)
        np.testing.assert_array_equal(examples.angles, whole.angles[rows])
        np.testing.assert_array_equal(examples.labels, whole.labels[rows])


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(65_536, (1, 1)), (1_000_000, (4, 32)), (10**8, (32, 32)), (10**9, (64, 68))],
)
def test_shards_grow_with_the_data_to_several_megabytes(rows: int, expected: tuple) -> None:
    cut = dataset_dir.layout_for(rows, 8, 64)
    assert (cut.groups, cut.segments) == expected
    # One shard of each group fits well into the default memory.
    assert rows * 36 / cut.segments <= 512 * 2**20


@pytest.mark.parametrize("world", [1, 2, 3, 4, 5, 64])
def test_stream_returns_the_rows_of_an_in_memory_source(data: Dataset, world: int) -> None:
    """From the middle of an epoch on, as after a restart with other workers, into the next one."""
    batch, few = 97, 4 if world > 5 else 20
    seen: dict[tuple[int, int], list[int]] = {}
    memory = max(25_000, MEMORY // world)
    for rank in range(world):
        mine = share(data, rank, world)
        stream = ShardStream(data, "train", mine, memory)
        held = InMemorySource(data.split("train"), mine)
        ranges = (3, mine.steps - few, mine.steps), (4, 0, few)
        for epoch, first, last in ranges:
            for begin in range(first, last, stream.steps):
                end = min(begin + stream.steps, last)
                read, kept = stream.block(epoch, begin, end), held.block(epoch, begin, end)
                real = kept.weights == 1
                np.testing.assert_array_equal(read.weights, kept.weights)
                np.testing.assert_array_equal(read.counts, kept.counts)
                np.testing.assert_array_equal(read.angles[real], kept.angles[real])
                np.testing.assert_array_equal(read.labels[real], kept.labels[real])
                part = mine.positions(epoch, begin, end)
                for step in range(begin, end):
                    rows = part.rows[step - begin][part.weights[step - begin] == 1]
                    seen.setdefault((epoch, step), []).extend(rows.tolist())
        stream.release()
    for epoch, first, last in ranges:
        order = epoch_order(data.partition_sizes("train"), 5, epoch, data.layout("train"))
        assert sorted(order.tolist()) == list(range(ROWS))
        for step in range(first, last):
            expected = order[step * batch : (step + 1) * batch]
            assert sorted(seen[epoch, step]) == sorted(expected.tolist())


@pytest.mark.parametrize("world", [1, 3, 7])
def test_stream_pads_micro_batches_like_an_in_memory_source(data: Dataset, world: int) -> None:
    for rank in range(world):
        mine = WorkerSampler(
            data.partition_sizes("train"), rank=rank, world_size=world, batch=97, seed=5,
            layout=data.layout("train"), micro_batches=5,
        )  # fmt: skip
        held = InMemorySource(data.split("train"), mine)
        stream = ShardStream(data, "train", mine, MEMORY) if len(mine.partitions) else held
        first = mine.steps - 3
        for kept, read in zip(
            held.block(2, first, mine.steps), stream.block(2, first, mine.steps), strict=True
        ):
            np.testing.assert_array_equal(read, kept)
        assert kept.shape == (3,)
        if stream is not held:
            stream.release()


@pytest.mark.parametrize("world", [1, 2, 4])
def test_workers_that_divide_the_groups_share_no_shard(
    data: Dataset, world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    fetch = Dataset.fetch
    monkeypatch.setattr(
        Dataset, "fetch", lambda self, shard: (read.append(shard.file), fetch(self, shard))[1]
    )
    epochs = 3
    for rank in range(world):
        mine = share(data, rank, world)
        stream = ShardStream(data, "train", mine, MEMORY // world + 6000)
        for epoch in range(epochs):
            for step in range(0, mine.steps, stream.steps):
                stream.block(epoch, step, min(step + stream.steps, mine.steps))
        stream.release()
    # Each once an epoch, and what was fetched ahead at the end.
    counts = [read.count(shard.file) for shard in data.shards("train")]
    assert min(counts) == epochs
    # At the end each worker has three shards of each group, and four on their way, at most.
    assert sum(counts) <= epochs * len(counts) + 3 * 4 + 4 * world


def test_stream_stays_within_its_memory(
    tmp_path: Path,
) -> None:
    data = prepare(Settings.from_values(train_examples=100_000, qubits=8), tmp_path)
    mine = share(data, 0, 1, batch=256)
    memory = 700_000  # of 3.6 MB
    stream = ShardStream(data, "train", mine, memory)
    stream.block(0, 0, stream.steps)
    stream.release()  # what is imported and made once is not counted
    tracemalloc.start()
    try:
        for step in range(0, mine.steps // 2, stream.steps):
            stream.block(0, step, step + stream.steps)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        stream.release()
    assert 400_000 < most <= memory


def test_plan_memory_too_small_is_refused(data: Dataset) -> None:
    little = load(data.path, memory=1)
    little.memory = 20_000
    with pytest.raises(SettingsError, match=r"DATA_MEMORY=0 is too small .* 1 or more"):
        plan_memory(little, "train", share(little, 0, 1), little.memory)


def test_one_stream_at_a_time_has_the_memory(
    data: Dataset,
) -> None:
    assert load(data.path).splits_in_memory() == {"train", "validation", "test"}
    tight = load(data.path)
    tight.memory = MEMORY + 3000
    assert tight.splits_in_memory() == {"validation", "test"}
    mine = share(tight, 0, 1)
    one, other = tight.batch_source("train", mine), tight.batch_source("train", mine)
    assert isinstance(one, ShardStream)
    first = one.block(0, 0, 1)
    np.testing.assert_array_equal(other.block(0, 0, 1).angles, first.angles)
    assert not hasattr(one, "_ring")
    whole = InMemorySource(tight.split("train"), mine)
    np.testing.assert_array_equal(one.block(0, 1, 2).angles, whole.block(0, 1, 2).angles)
    one.release()
    few = tight.sample("train", 100)
    assert few.angles.shape == (100, 8)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes instead of"),
        (lambda path: path.write_bytes(b"x" + path.read_bytes()[1:]), "was altered"),
    ],
)
@pytest.mark.parametrize("read_before", [False, True])
def test_stream_damaged_shard_raises_and_stops_threads(
    data: Dataset, damage: Callable[[Path], None], words: str, read_before: bool, tmp_path: Path
) -> None:
    for file in data.path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    copy = load(tmp_path)
    shard = copy.shards("train")[100]
    if read_before:
        copy.fetch(shard)
    damage(tmp_path / shard.file)
    mine = share(copy, 0, 1)
    stream = ShardStream(copy, "train", mine, MEMORY)

    def epoch() -> None:
        for step in range(0, mine.steps, stream.steps):
            stream.block(0, step, min(step + stream.steps, mine.steps))

    with pytest.raises(DataError, match=f"{shard.file} .*{words}"):
        epoch()
    assert isinstance(stream.failure, DataError)
    # No thread that reads outlives the failure.
    wait_until(lambda: not any(one.name.startswith("shard") for one in threading.enumerate()))


def test_released_stream_starts_again(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    tight = load(data.path)
    reading = tight.exclusive_memory

    @contextmanager
    def taken_after(stream: ShardStream) -> Iterator[None]:
        with reading(stream):
            yield
        stream.release()  # as the next one's turn does, as soon as this one is over

    monkeypatch.setattr(tight, "exclusive_memory", taken_after)
    mine = share(tight, 0, 1)
    stream, held = (
        ShardStream(tight, "train", mine, MEMORY),
        InMemorySource(tight.split("train"), mine),
    )
    for step in range(3):
        found, expected = stream.block(0, step, step + 1), held.block(0, step, step + 1)
        np.testing.assert_array_equal(found.angles, expected.angles)


def test_shuffle_of_shards_is_close_to_a_full_shuffle(data: Dataset) -> None:
    """Against a full shuffle: where a row comes, and which rows meet in a batch again."""
    cut, batch = data.layout("train"), 64
    sizes = data.partition_sizes("train")
    orders = [epoch_order(sizes, 7, epoch, cut) for epoch in range(6)]
    place = np.empty((len(orders), ROWS))
    for epoch, order in enumerate(orders):
        place[epoch, order] = np.arange(ROWS)
    # Spearman's correlation of two full shuffles scatters by 1 / sqrt(rows - 1); rows of a shard
    # stay near each other here, which leaves as many independent places as there are shards.
    bound = 5 / np.sqrt(cut.groups * cut.segments - 1)
    number = np.arange(ROWS) % sizes[0]  # the turn, in which rows were made
    for epoch in range(6):
        assert abs(np.corrcoef(place[epoch], number)[0, 1]) < bound
        for other in range(epoch):
            assert abs(np.corrcoef(place[epoch], place[other])[0, 1]) < bound
    # Two rows of a batch meet in the next epoch's batch: by chance once in ROWS / batch. Rows of
    # one group (1 in G) are of one shard, which is one in S of all places.
    met = []
    for before, after in pairwise(place):
        pairs = (before // batch) * (ROWS // batch + 1) + after // batch
        _, counts = np.unique(pairs, return_counts=True)
        met.append((counts * (counts - 1)).sum() / 2)
    chance = ROWS * (batch - 1) / 2 * batch / ROWS
    expected = (cut.segments + cut.groups - 1) / cut.groups
    assert np.mean(met) / chance < 1.2 * expected
