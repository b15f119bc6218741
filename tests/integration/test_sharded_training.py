"""Workers that share the states of circuits train like a single worker."""

import pytest

from common.errors import SettingsError
from common.settings import Settings
from tests.support.training_processes import (
    SMALL,
    checkpoints,
    distance,
    metrics,
    step_losses,
    training_processes,
)

start = pytest.fixture(training_processes)

WIDE = ("QUBITS=6", *SMALL[1:-1], "EPOCHS=8", "VALIDATION_EXAMPLES=20", "TEST_EXAMPLES=20")


@pytest.fixture(scope="module")
def unsharded(tmp_path_factory):
    """The same training with one worker."""
    storage = tmp_path_factory.mktemp("unsharded")
    bodies = training_processes()
    process = next(bodies)(storage, *WIDE, "WORKERS=1")
    assert process.wait() == 0, process.output
    next(bodies, None)
    return storage / "hybrid"


@pytest.mark.nightly  # shards train in Slurm, and test_sharded_state.py has their gradients
def test_sharded_training_survives_a_killed_worker(start, tmp_path, unsharded):
    run = tmp_path / "hybrid"
    process = start(tmp_path, *WIDE, "WORKERS=2", "STATE_SHARDS=2")
    process.wait_until(lambda: len(checkpoints(run)) >= 2)
    process.worker(1).kill()
    assert process.wait() == 0, process.output
    assert "restart 1 of" in process.output
    expected, losses = step_losses(unsharded), step_losses(run)
    assert losses.keys() == expected.keys()
    for step in range(1, 31):
        assert losses[step] == pytest.approx(expected[step], abs=1e-4)
    assert distance(run, unsharded) < 1e-2  # Adam amplifies the rounding
    assert {line["examples"] for line in metrics(run)} == {100}


@pytest.mark.nightly
def test_groups_of_shards_split_the_rows(start, tmp_path, unsharded):
    process = start(tmp_path, *WIDE, "WORKERS=4", "STATE_SHARDS=2", "THREADS=1")
    assert process.wait() == 0, process.output
    expected, losses = step_losses(unsharded), step_losses(tmp_path / "hybrid")
    for step in range(1, 31):
        assert losses[step] == pytest.approx(expected[step], abs=1e-4)


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["WORKERS=3", "STATE_SHARDS=2"], "WORKERS=3"),
        (["WORKERS=3", "STATE_SHARDS=3"], "STATE_SHARDS=3"),
        (["WORKERS=8", "STATE_SHARDS=8"], "QUBITS=6"),
        (["WORKERS=2", "STATE_SHARDS=2", "SIMULATOR=tensorflow"], "SIMULATOR=tensorflow"),
    ],
)
def test_invalid_state_shards_are_refused(args, name):
    with pytest.raises(SettingsError, match=name):
        Settings.from_args([*WIDE, *args])
