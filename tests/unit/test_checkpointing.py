"""Checkpoints are written beside training: one at a time, in order, and none is lost unsaid."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from common.errors import Preempted, StorageUnavailable
from training import checkpointing
from training.checkpointing import CheckpointCallback, TrainingState
from training.preemption import Preemption


class Storage:
    """Takes snapshots when it is let; fails where it is told to."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.open = threading.Event()
        self.asked = threading.Event()
        self.away = False
        self.busy = 0
        self.most = 0

    def commit(self, snapshot: TrainingState) -> None:
        self.busy += 1
        self.most = max(self.most, self.busy)
        self.asked.set()
        assert self.open.wait(20)
        self.busy -= 1
        if self.away:
            raise StorageUnavailable("storage is away")
        self.written.append(snapshot.steps)


@pytest.fixture
def storage() -> Storage:
    return Storage()


@pytest.fixture
def kept(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> CheckpointCallback:
    """A keeper of epochs of 4 steps, whose state is their number alone."""

    def taken(learner: object, starts: object, epoch: int, step: int) -> TrainingState:
        return TrainingState(epoch, step, 4 * epoch + step, {})

    monkeypatch.setattr(checkpointing, "capture_state", taken)
    made = CheckpointCallback(
        storage.commit,
        SimpleNamespace(),  # type: ignore[arg-type]
        every=1,
        steps_per_epoch=4,
        preemption=Preemption(is_chief=True),
        deadline=None,
    )
    model: Any = SimpleNamespace(offset=0)
    made.set_model(model)
    made.start(None)
    return made


def test_training_goes_on_while_a_checkpoint_is_written(
    kept: CheckpointCallback, storage: Storage
) -> None:
    kept.on_epoch_end(0)
    kept.on_epoch_begin(1)
    kept.on_train_batch_end(1)  # a boundary that does not wait
    assert storage.asked.wait(20)
    assert storage.written == []
    storage.open.set()
    kept.on_epoch_end(1)
    kept.on_train_end()
    assert storage.written == [4, 8]
    assert storage.most == 1


def test_a_checkpoint_that_could_not_be_written_is_told_at_the_next_boundary(
    kept: CheckpointCallback, storage: Storage
) -> None:
    storage.away = True
    storage.open.set()
    kept.on_epoch_end(0)
    with pytest.raises(StorageUnavailable):
        kept.on_epoch_end(1)


def test_the_last_checkpoint_that_could_not_be_written_is_told_at_the_end(
    kept: CheckpointCallback, storage: Storage
) -> None:
    storage.away = True
    storage.open.set()
    kept.on_epoch_end(0)
    with pytest.raises(StorageUnavailable):
        kept.on_train_end()


def test_sigterm_waits_for_what_is_being_written_and_then_writes_the_newest(
    kept: CheckpointCallback, storage: Storage
) -> None:
    kept.on_epoch_end(0)
    assert storage.asked.wait(20)
    kept._preemption.requested.set()
    threading.Timer(0.2, storage.open.set).start()
    kept.on_epoch_begin(1)
    with pytest.raises(Preempted, match="step 2 of epoch 2"):
        kept.on_train_batch_end(1)
    assert storage.written == [4, 6]
    assert storage.most == 1
