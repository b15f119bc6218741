"""Digests of replicas, and the first step with a fault."""

from types import SimpleNamespace

import numpy as np
import pytest

from common.errors import ReplicasDiffer, TrainingDiverged
from qfleet import native
from qfleet.tensorflow.runtime import tf
from training.callbacks.health import HealthCallback
from training.step import replica_state, step_vector
from training.step.replica_state import Fault, StepStatus

ARRAYS = [
    np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4),
    np.array(7, "i8"),
    np.zeros(5, "f4"),
    np.linspace(0, 9, 3),
]


def in_graph(arrays: list[np.ndarray]) -> tuple[list[int], int]:
    digest, nonfinite = replica_state.digest([tf.constant(array) for array in arrays])
    return digest.numpy().tolist(), int(nonfinite)


@pytest.mark.parametrize("has_kernel", [True, False])
def test_digest_in_a_graph_equals_that_on_the_host(
    monkeypatch: pytest.MonkeyPatch, has_kernel: bool
) -> None:
    if not has_kernel:
        monkeypatch.setattr(native, "unavailable_reason", lambda: "none")
    assert in_graph(ARRAYS) == (replica_state.host_digest(ARRAYS).tolist(), 0)
    damaged = [array.copy() for array in ARRAYS]
    damaged[0][1, 1], damaged[3][2] = np.nan, -np.inf
    assert in_graph(damaged)[1] == 2


def test_digest_changes_with_every_bit() -> None:
    before = replica_state.host_digest(ARRAYS)
    for number, array in enumerate(ARRAYS):
        for bit in range(8 * array.nbytes):
            damaged = [one.copy() for one in ARRAYS]
            damaged[number].reshape(-1).view("u1")[bit // 8] ^= 1 << bit % 8
            after = replica_state.host_digest(damaged)
            assert (before != after).all()


def status_after(**changes: object) -> StepStatus:
    arguments = {
        "status": np.zeros(replica_state.status_length(3), np.int64),
        "step": np.int64(8),
        "digests": np.full((3, 2), 5, np.int64),
        "nonfinite": np.int64(0),
        "loss": np.float32(0.5),
        "gradients": np.zeros(4, "f4"),
    }
    constants = {name: tf.constant(value) for name, value in (arguments | changes).items()}
    return StepStatus.of(replica_state.next_status(**constants).numpy())


NAN = np.float32(np.nan)
DIFFERENT = np.array([[5, 5], [5, 6], [5, 5]])


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, Fault.NONE),
        ({"gradients": np.array([0, np.inf], "f4")}, Fault.GRADIENT),
        ({"loss": NAN, "gradients": np.array([NAN])}, Fault.LOSS),
        ({"nonfinite": np.int64(1), "loss": NAN}, Fault.WEIGHTS),
        ({"digests": DIFFERENT, "nonfinite": np.int64(1)}, Fault.REPLICAS_DIFFER),
    ],
)
def test_status_names_the_first_cause(changes: dict, fault: Fault) -> None:
    status = status_after(**changes)
    assert status.fault == fault
    assert status.step == (8 if fault else 0)


def test_status_keeps_the_first_fault() -> None:
    first = np.concatenate([[Fault.LOSS, 3], np.full(6, 5)])
    status = status_after(status=first, digests=DIFFERENT)
    assert (status.fault, status.step) == (Fault.LOSS, 3)


@pytest.mark.parametrize(
    ("digests", "ranks"),
    [([1, 2], [0, 1]), ([1, 1, 2], [2]), ([3, 1, 3, 3, 2], [1, 4]), ([1, 2, 3], [0, 1, 2])],
)
def test_minority_is_named_or_all(digests: list[int], ranks: list[int]) -> None:
    pairs = np.array([[one, 0] for one in digests])
    assert StepStatus(Fault.REPLICAS_DIFFER, 0, pairs).differing_ranks == ranks


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64])
def test_digests_survive_the_sum_over_workers(dtype: tf.DType) -> None:
    digests = np.array([[0xFFFFFFFF, 0], [0x80000001, 0x12345678], [1, 0xFFFF0000]])
    rows = []
    for digest in digests:
        numbers = tf.zeros([2], dtype)
        rows.append(step_vector.pack(numbers, tf.constant(digest), tf.constant(0.25, tf.float64)))
    # In one process every vector has rank 0, so put each at its own rank.
    own = [row[2:] for row in rows]
    total = tf.concat([tf.zeros([2], dtype), *own], 0)
    _, found, seconds = step_vector.unpack(total, 2)
    np.testing.assert_array_equal(found, digests)
    np.testing.assert_allclose(seconds, 0.25)


def health(status: StepStatus, saved: list[bool]) -> HealthCallback:
    multi_start = SimpleNamespace(is_dropped=False, drop=lambda epoch, reason: False)
    callback = HealthCallback(multi_start, 4, "mse", lambda: saved.append(True))
    callback.set_model(SimpleNamespace(replicas=SimpleNamespace(status=status)))
    return callback


def test_health_names_rank_and_place_and_saves_the_last_state() -> None:
    digests = np.array([[1, 1], [1, 1], [2, 1]])
    saved: list[bool] = []
    with pytest.raises(ReplicasDiffer, match=r"worker 2 has .* epoch 3, step 2"):
        health(StepStatus(Fault.REPLICAS_DIFFER, 9, digests), saved).on_train_batch_end(0)
    assert saved == [True]


@pytest.mark.parametrize(
    ("fault", "place"),
    [
        (Fault.LOSS, "the loss is not finite at epoch 2, step 1"),
        (Fault.WEIGHTS, "a weight .* is not finite at epoch 1, step 4"),
    ],
)
def test_health_ends_a_run_whose_numbers_are_not_finite(fault: Fault, place: str) -> None:
    saved: list[bool] = []
    callback = health(StepStatus(fault, 4, np.zeros((1, 2), int)), saved)
    with pytest.raises(TrainingDiverged, match=place):
        callback.on_train_batch_end(0)
    assert saved == []


def test_health_checks_the_validation_loss() -> None:
    callback = health(StepStatus(Fault.NONE, 0, np.zeros((1, 2), int)), [])
    callback.on_epoch_end(0, {"mse": 1.0, "val_mse": 2.0})
    with pytest.raises(TrainingDiverged, match="validation loss"):
        callback.on_epoch_end(6, {"mse": 1.0, "val_mse": float("inf")})
