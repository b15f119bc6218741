"""Batches of a training step."""

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np

from qfleet.tensorflow.runtime import tf
from tests.support import patience
from training.step.input_pipeline import batches

STEPS = 3


class Source:
    """Blocks of one step, whose reads are counted."""

    def __init__(self) -> None:
        self.features, self.steps, self.reads = 1, 1, threading.Semaphore(0)

    def block(self, epoch: int, begin: int, end: int) -> tuple[np.ndarray, ...]:
        """Return rows that hold the number of their step."""
        rows = np.full([end - begin, 2], epoch * STEPS + begin, np.float32)
        self.reads.release()
        return rows[..., None], rows, rows, np.full(end - begin, 2, np.float32)


def test_next_block_is_read_while_a_step_runs() -> None:
    source: Any = Source()
    sampler: Any = SimpleNamespace(steps=STEPS, padded=2, is_divided=False)
    options = tf.data.Options()
    options.autotune.enabled = False  # it would insert a prefetch of its own
    elements = iter(batches(source, sampler).with_options(options))
    for number in range(2 * STEPS):
        assert next(elements)[1].numpy().tolist() == [number, number]
        # The block of this step, and that of the next one before anybody asks for it.
        for _ in range(2 if number == 0 else 1):
            assert source.reads.acquire(timeout=patience.seconds(10))


def test_split_of_one_block_is_read_once_for_measurements() -> None:
    source: Any = Source()
    source.steps = STEPS
    sampler: Any = SimpleNamespace(steps=STEPS, padded=2, is_divided=False)
    elements = iter(batches(source, sampler, keep=True))
    numbers = [int(next(elements)[1].numpy()[0]) for _ in range(3 * STEPS)]
    assert numbers == [0] * (3 * STEPS)  # a block of this source has the number of its first step
    assert source.reads.acquire(blocking=False)
    assert not source.reads.acquire(blocking=False)
