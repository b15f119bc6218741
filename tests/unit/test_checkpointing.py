"""Background checkpoints: one at a time, in order, and no error is lost."""

import threading
import time

import pytest

from common.errors import DeadlineReached, Preempted, StorageUnavailable
from tests.support.patience import seconds
from training.checkpointing import CheckpointWriter, TrainingState
from training.process.preemption import Preemption
from training.process.watchdog import Watchdog


class BlockingStorage:
    """Takes states once `open` is set; fails while `is_unavailable`."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.open = threading.Event()
        self.requested = threading.Event()
        self.is_unavailable = False
        self.concurrent = 0
        self.max_concurrent = 0

    def commit(self, state: TrainingState) -> None:
        self.concurrent += 1
        self.max_concurrent = max(self.max_concurrent, self.concurrent)
        self.requested.set()
        assert self.open.wait(seconds(20))
        self.concurrent -= 1
        if self.is_unavailable:
            raise StorageUnavailable("storage is unavailable")
        self.written.append(state.steps)


def state(epoch: int, step: int = 0) -> TrainingState:
    """Return a state in epochs of 4 steps."""
    return TrainingState(epoch, step, 4 * epoch + step, {})


@pytest.fixture
def storage() -> BlockingStorage:
    return BlockingStorage()


@pytest.fixture
def preemption() -> Preemption:
    return Preemption(Watchdog(), is_chief=True)


@pytest.fixture
def writer(storage: BlockingStorage, preemption: Preemption) -> CheckpointWriter:
    writer = CheckpointWriter(storage.commit, preemption, deadline=None)
    writer.start(None)
    return writer


def test_training_continues_during_a_save(
    writer: CheckpointWriter, storage: BlockingStorage
) -> None:
    writer.on_step_boundary(state(1), due=True)
    writer.on_step_boundary(state(1, 2))  # does not wait
    assert storage.requested.wait(seconds(20))
    assert storage.written == []
    storage.open.set()
    writer.on_step_boundary(state(2), due=True)
    writer.wait_for_pending_save()
    assert storage.written == [4, 8]
    assert storage.max_concurrent == 1


def test_failed_save_is_raised_at_the_next_boundary(
    writer: CheckpointWriter, storage: BlockingStorage
) -> None:
    storage.is_unavailable = True
    storage.open.set()
    writer.on_step_boundary(state(1), due=True)
    with pytest.raises(StorageUnavailable):
        writer.on_step_boundary(state(2), due=True)


def test_failed_last_save_is_raised_at_the_end(
    writer: CheckpointWriter, storage: BlockingStorage
) -> None:
    storage.is_unavailable = True
    storage.open.set()
    writer.on_step_boundary(state(1), due=True)
    with pytest.raises(StorageUnavailable):
        writer.wait_for_pending_save()


def test_sigterm_waits_for_the_save_and_saves_the_newest(
    writer: CheckpointWriter, storage: BlockingStorage, preemption: Preemption
) -> None:
    writer.on_step_boundary(state(1), due=True)
    assert storage.requested.wait(seconds(20))
    preemption.requested.set()
    threading.Timer(0.2, storage.open.set).start()
    with pytest.raises(Preempted, match="epoch 2, step 2"):
        writer.on_step_boundary(state(1, 2))
    assert storage.written == [4, 6]
    assert storage.max_concurrent == 1


def test_deadline_saves_and_stops(storage: BlockingStorage, preemption: Preemption) -> None:
    storage.open.set()
    writer = CheckpointWriter(storage.commit, preemption, deadline=time.monotonic())
    writer.start(state(0, 3))
    with pytest.raises(DeadlineReached):
        writer.on_step_boundary(state(1, 1))
    assert storage.written == [5]


@pytest.mark.parametrize("deadline", [None, 0.0])
def test_stop_before_the_first_state_reports_no_checkpoint(
    storage: BlockingStorage, preemption: Preemption, deadline: float | None
) -> None:
    writer = CheckpointWriter(storage.commit, preemption, deadline)
    writer.start(None)
    if deadline is None:
        preemption.requested.set()
    with pytest.raises((Preempted, DeadlineReached), match="no checkpoint"):
        writer.on_step_boundary(None)


def test_resumed_state_is_not_saved_again(
    writer: CheckpointWriter, storage: BlockingStorage
) -> None:
    storage.open.set()
    writer.start(state(3))
    writer.commit_newest()
    assert storage.written == []
