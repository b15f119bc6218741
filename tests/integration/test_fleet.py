"""A real gang whose chief is killed, beside the simulation of it."""

import pytest

from planning.fleet.validation import ValidationTask, run_with_kills


def test_a_real_gang_whose_chief_is_killed_does_what_the_simulation_says(tmp_path):
    task = ValidationTask.of(epochs=40, every=12, examples=1024)
    run = run_with_kills(tmp_path / "runs", task, [(18, 0)])
    outcome = run.simulated(task)
    assert outcome.finished[0]
    assert outcome.losses[0] == len(run.kills) == len(run.noticed) == 1
    # It had come to epoch 18 or so, and its newest checkpoint was of epoch 12.
    assert run.resumed == [12 * task.steps] == [outcome.resumed[0]]
    assert outcome.repeated[0] >= 5 * task.steps
    assert outcome.seconds[0] == pytest.approx(run.seconds, rel=0.15)
