"""Decisions of pruning: what is dropped, what returns, and what a checkpoint restores."""

import numpy as np
import pytest

from training.step.pruning_schedule import FIRST_FRACTION, FIRST_STRENGTH, PruningSchedule

ANGLES, EPOCHS, FIRST = 10, 96, 6
NEAR = np.array([0.0, 0.01, 0.02, 0.03, 0.04, 1.0, 1.1, 1.2, 1.3, np.inf])


def schedule(prune: float = 0.8) -> PruningSchedule:
    return PruningSchedule(prune, FIRST, EPOCHS, np.zeros(ANGLES, np.int64))


def run(one: PruningSchedule, end: int, losses=lambda epoch: -float(epoch), first: int = 0) -> None:
    """Run epochs `first` to `end` - 1, with all angles at the distances NEAR."""
    for epoch in range(first, end):
        if one.is_due(epoch):
            one.decide(epoch, NEAR)
        one.add_loss(epoch, losses(epoch))


def test_nothing_shrinks_before_the_first_decision():
    one = schedule()
    run(one, FIRST + int(FIRST_FRACTION * EPOCHS))
    assert one.strength == 0
    assert not one.dropped.any()
    run(one, FIRST + int(FIRST_FRACTION * EPOCHS) + 4, first=FIRST + int(FIRST_FRACTION * EPOCHS))
    assert one.strength >= FIRST_STRENGTH


@pytest.mark.parametrize(("prune", "count"), [(0.8, 5), (0.3, 3), (0.05, 0)])
def test_angles_near_the_identity_are_dropped_up_to_prune(prune, count):
    one = schedule(prune)
    run(one, FIRST + EPOCHS)
    assert one.dropped.tolist() == [index < count for index in range(ANGLES)]
    assert one.strength == 0


def test_angles_return_if_the_loss_gets_worse():
    begin = FIRST + EPOCHS // 2
    one = schedule()
    run(one, begin)
    assert one.dropped.sum() == 5
    strength = one.strength
    run(one, begin + 3, lambda epoch: 0.0, first=begin)
    assert not one.dropped.any()
    assert one.strength < strength


def test_restored_state_decides_equally():
    whole, first, resumed = schedule(), schedule(), schedule()
    end, middle = FIRST + EPOCHS, FIRST + EPOCHS // 2 + 1
    run(whole, end)
    run(first, middle)
    resumed.restore(first.arrays)
    run(resumed, end, first=middle)
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(array, resumed.arrays[name])


def test_state_of_another_model_raises():
    other = PruningSchedule(0.5, 0, 10, np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="angles"):
        schedule().restore(other.arrays)
    with pytest.raises(KeyError):
        schedule().restore({})
    for numbers in (np.zeros(3), np.float64(0), np.zeros((7, 2))):
        with pytest.raises(ValueError, match="pruning"):
            schedule().restore({**schedule().arrays, "pruning/numbers": numbers})
