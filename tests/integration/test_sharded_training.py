"""Gangs whose workers hold circuits together: what one worker would have found, and no other."""

import pytest

from tests.support.training_processes import (
    SMALL,
    checkpoints,
    distance,
    training_processes,
    metrics,
    step_losses,
)

start = pytest.fixture(training_processes)

# A dense head behind the circuit and one start alone are in SMALL's model, hybrid.
WIDE = ("QUBITS=6", *SMALL[1:-1], "EPOCHS=8", "VALIDATION_EXAMPLES=20", "TEST_EXAMPLES=20")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same training by one worker that holds its circuits alone."""
    storage = tmp_path_factory.mktemp("whole")
    bodies = training_processes()
    gang = next(bodies)(storage, *WIDE, "WORKERS=1")
    assert gang.wait() == 0, gang.output
    next(bodies, None)
    return storage / "hybrid"


def test_a_split_gang_has_the_losses_of_one_worker_through_a_lost_member(start, tmp_path, whole):
    gang = start(tmp_path, *WIDE, "WORKERS=2", "STATE_SHARDS=2")
    gang.wait_until(lambda: len(checkpoints(tmp_path / "hybrid")) >= 2)
    gang.worker(1).kill()
    assert gang.wait() == 0, gang.output
    assert "the gang starts again (1)" in gang.output
    alone, together = step_losses(whole), step_losses(tmp_path / "hybrid")
    assert together.keys() == alone.keys()
    for step in range(1, 31):
        assert together[step] == pytest.approx(alone[step], abs=1e-4)
    assert distance(tmp_path / "hybrid", whole) < 1e-2  # Adam has made more of the rounding
    assert {line["examples"] for line in metrics(tmp_path / "hybrid")} == {100}


def test_groups_share_the_rows_and_their_members_the_circuits(start, tmp_path, whole):
    gang = start(tmp_path, *WIDE, "WORKERS=4", "STATE_SHARDS=2", "THREADS=1")
    assert gang.wait() == 0, gang.output
    alone, together = step_losses(whole), step_losses(tmp_path / "hybrid")
    for step in range(1, 31):
        assert together[step] == pytest.approx(alone[step], abs=1e-4)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["SIMULATOR=tensorflow"], "STATE_SHARDS=2 needs the simulator qfleet"),
        (["QUBITS=2", "MODEL=qcnn"], "a state of 2 qubits can't be split over 2 workers"),
        (
            ["WORKERS=3"],
            "WORKERS=3 can't be cut into groups of STATE_SHARDS=2: set WORKERS to a multiple",
        ),
        (
            ["STATE_SHARDS=3"],
            "STATE_SHARDS=3 is not a power of two, by which alone a state can be split: set",
        ),
    ],
)
def test_what_cannot_be_split_is_refused_in_a_sentence(start, tmp_path, args, sentence):
    said = {word.partition("=")[0]: word for word in [*WIDE, "WORKERS=2", "STATE_SHARDS=2", *args]}
    gang = start(tmp_path, *said.values())
    assert gang.wait(60) == 2, gang.output
    assert sentence in gang.output
    assert "Traceback" not in gang.output
