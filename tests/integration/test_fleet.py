"""A real group of workers whose chief is killed, compared with its simulation."""

import pytest

from benchmarks.fleet_validation import ValidationTask, run_with_kills

pytestmark = pytest.mark.nightly


def test_killed_chief_resumes_as_simulated(tmp_path):
    task = ValidationTask.of(epochs=40, checkpoint_interval=12, examples=1024)
    run = run_with_kills(tmp_path / "runs", task, [(18, 0)])
    outcome = run.simulate(task)
    assert outcome.finished[0]
    assert outcome.losses[0] == len(run.kills) == len(run.restarts) == 1
    # It had reached about epoch 18, and its last checkpoint was of epoch 12.
    assert run.resumed == [12 * task.steps] == [outcome.resumed[0]]
    assert outcome.repeated[0] >= 5 * task.steps
    assert outcome.seconds[0] == pytest.approx(run.seconds, rel=0.15)
