"""Every example once an epoch, in batches that do not depend on the number of workers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.data import WorkerSampler, epoch_order, partition_sizes
from common.errors import SettingsError

plans = st.fixed_dictionaries(
    {
        "rows": st.integers(0, 500),
        "partitions": st.integers(1, 70),
        "batch": st.integers(1, 150),
        "seed": st.integers(0, 2**31 - 1),
        "epoch": st.integers(0, 10_000),
    }
)


def batches(plan: dict, world: int) -> list[list[int]]:
    """Rows of each global batch, put together from the shares of all workers."""
    sizes = partition_sizes(plan["rows"], plan["partitions"])
    shares = [
        WorkerSampler(sizes, rank=rank, world_size=world, batch=plan["batch"], seed=plan["seed"])
        for rank in range(world)
    ]
    assert len({share.padded for share in shares}) == 1
    assert len({share.steps for share in shares}) == 1
    epochs = [share.positions(plan["epoch"], 0, share.steps) for share in shares]
    for share, epoch in zip(shares, epochs, strict=True):
        assert epoch.rows.shape == epoch.weights.shape == (share.steps, share.padded)
        assert epoch.weights.dtype == np.float32
        np.testing.assert_array_equal(epoch.counts, sum(e.weights.sum(axis=1) for e in epochs))
    return [
        sorted(row for e in epochs for row in e.rows[step][e.weights[step] == 1].tolist())
        for step in range(shares[0].steps)
    ]


@given(plan=plans, data=st.data())
@settings(max_examples=60, deadline=None)
def test_batches_are_the_same_for_any_number_of_workers(plan: dict, data: st.DataObject) -> None:
    order = epoch_order(
        partition_sizes(plan["rows"], plan["partitions"]), plan["seed"], plan["epoch"]
    )
    assert sorted(order.tolist()) == list(range(plan["rows"]))
    size = plan["batch"]
    expected = [sorted(order[i : i + size].tolist()) for i in range(0, plan["rows"], size)]
    world = data.draw(st.integers(1, min(plan["partitions"], 9)))
    assert batches(plan, world) == expected


@given(plan=plans, data=st.data())
@settings(max_examples=60, deadline=None)
def test_worker_takes_rows_of_its_own_partitions_only(plan: dict, data: st.DataObject) -> None:
    world = data.draw(st.integers(1, min(plan["partitions"], 9)))
    rank = data.draw(st.integers(0, world - 1))
    sizes = partition_sizes(plan["rows"], plan["partitions"])
    share = WorkerSampler(
        sizes, rank=rank, world_size=world, batch=plan["batch"], seed=plan["seed"]
    )
    lane_of = np.repeat(np.arange(len(sizes)), sizes)
    own = np.flatnonzero(lane_of % world == rank)
    # Padding, too, is one of its own rows, where it has any.
    if len(own):
        rows = share.positions(plan["epoch"], 0, share.steps).rows
        assert set(rows.ravel().tolist()) <= set(own.tolist())


@given(plan=plans, data=st.data())
@settings(max_examples=60, deadline=None)
def test_micro_batches_do_not_depend_on_the_workers(plan: dict, data: st.DataObject) -> None:
    sizes = partition_sizes(plan["rows"], plan["partitions"])
    count = data.draw(st.integers(1, plan["partitions"]))

    def micro_batches(world: int) -> dict[int, tuple[bytes, bytes]]:
        found = {}
        for rank in range(world):
            share = WorkerSampler(
                sizes, rank=rank, world_size=world, batch=plan["batch"], seed=plan["seed"],
                micro_batches=count,
            )  # fmt: skip
            rows, weights, _ = share.positions(plan["epoch"], 0, share.steps)
            shape = share.steps, max(len(share.micro_batches), 1), share.micro_batch
            for place, number in enumerate(share.micro_batches.tolist()):
                own, real = (part.reshape(shape)[:, place] for part in (rows, weights))
                # Padding counts too, unless all of it is padding.
                own = np.where(real.any(axis=1, keepdims=True), own, -1)
                found[number] = own.tobytes(), real.tobytes()
        return found

    alone = micro_batches(1)
    assert sorted(alone) == list(range(count))
    world = data.draw(st.integers(2, max(2, min(plan["partitions"], 9))))
    if world <= plan["partitions"]:
        assert micro_batches(world) == alone


def test_order_is_round_robin_and_skips_exhausted_partitions() -> None:
    order = epoch_order([3, 2, 2], seed=4, epoch=0)
    lane_of = np.array([0, 0, 0, 1, 1, 2, 2])
    assert lane_of[order].tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_padded_size_is_the_largest_part_of_a_worker() -> None:
    # Batch 0 holds lanes 0..63, 0..63, 0, 1: worker 0 has 22 + 22 + 1 of its 130 rows, worker 1
    # has 21 + 21 + 1, and so on; ceil(130 / 3) is 44.
    shares = [
        WorkerSampler(partition_sizes(10_000, 64), rank=rank, world_size=3, batch=130, seed=0)
        for rank in range(3)
    ]
    assert [share.padded for share in shares] == [45, 45, 45]


def test_last_batch_has_its_own_count() -> None:
    share = WorkerSampler(partition_sizes(100, 8), rank=1, world_size=2, batch=64, seed=0)
    epoch = share.positions(0, 0, share.steps)
    assert epoch.counts.tolist() == [64, 36]
    assert epoch.weights.sum(axis=1).tolist() == [32, 18]


def test_order_depends_on_seed_and_epoch_only() -> None:
    sizes = partition_sizes(1000, 64)
    first = epoch_order(sizes, 1, 2)
    np.testing.assert_array_equal(first, epoch_order(sizes, 1, 2))
    assert not np.array_equal(first, epoch_order(sizes, 1, 3))
    assert not np.array_equal(first, epoch_order(sizes, 2, 2))
    # Not even by chance in some other epoch of a neighbouring seed.
    assert not np.array_equal(epoch_order(sizes, 2, 1), first)


def test_shuffle_is_uniform_within_a_partition() -> None:
    sizes = partition_sizes(80, 8)
    epochs = 2000
    turns = np.zeros((80, 10))
    for epoch in range(epochs):
        order = epoch_order(sizes, 0, epoch)
        turns[order, np.arange(80) // 8] += 1
    # Binomial of 2000 at 1/10: a deviation of 5 sigma (67) in one of 800 is 1 in 2000.
    assert np.abs(turns - epochs / 10).max() < 67


def test_more_workers_than_partitions_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"WORKERS=5 .* 4 partitions"):
        WorkerSampler(partition_sizes(100, 4), rank=0, world_size=5, batch=10, seed=0)


@pytest.mark.parametrize(("rank", "world", "batch"), [(2, 2, 8), (-1, 2, 8), (0, 2, 0)])
def test_sampler_invalid_rank_raises_value_error(rank: int, world: int, batch: int) -> None:
    with pytest.raises(ValueError, match="is not possible"):
        WorkerSampler([4, 4], rank=rank, world_size=world, batch=batch, seed=0)
