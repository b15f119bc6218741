"""Processes that train parts of a generation: equal results, and what happens when one ends."""

import os
import pickle
import signal

import numpy as np
import pytest

from qfleet.errors import LibraryError
from qfleet.problems import named
from qfleet.search import Candidate, DataTask, blocks, layers
from qfleet.search.crew import Crew
from qfleet.search.data_trainer import DataTrainer
from qfleet.search.methods import random_candidate
from qfleet.search.optimizers import lbfgs
from qfleet.search.trainer import energy_trainer
from qfleet.search.training import Training

TRAINING = Training("lbfgs", lbfgs, 12, 1e-6, 2, 0.3)


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_trainer_that_was_sent_to_a_process_has_equal_results() -> None:
    problem = next(named("tfim:4:1.0").members()).pauli_sum()
    args = (blocks(4), tuple(problem), TRAINING)
    candidates = [random_candidate(args[0], rng(), 4) for _ in range(3)]
    crew = Crew(energy_trainer, args, 1)
    whole = crew.train(candidates, rng())
    sent = energy_trainer(*pickle.loads(pickle.dumps(args)))
    (part,) = pickle.loads(pickle.dumps(sent.parts(candidates, rng())))
    assert sent.train_part(part) == whole


@pytest.mark.exhaustive
def test_crew_has_equal_results_whatever_happens_to_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = rng().uniform(-1.5, 1.5, (1500, 2))  # two candidates are a part
    labels = np.sign(rows[:, 0])
    task = DataTask(rows, labels, rows[:50], labels[:50], "signs")
    space = layers(2, 1, inputs=task.inputs)
    random = rng()
    candidates: list[Candidate] = [random_candidate(space, random, 6) for _ in range(5)]
    args = (space, task, TRAINING)
    with Crew(DataTrainer, args, 2) as crew:
        assert len(crew.trainer.parts(candidates, rng())) == 3
        found = crew.train(candidates, rng())
        assert found == Crew(DataTrainer, args, 1).train(candidates, rng())
        stopped, kept = crew._processes.values()
        monkeypatch.setattr("qfleet.search.crew.STOPPED_SECONDS", 0.5)
        os.kill(stopped.pid or 0, signal.SIGSTOP)
        assert crew.train(candidates, rng()) == found
        after = [*crew._processes.values()]
        assert kept in after
        assert stopped not in after
        monkeypatch.setattr("qfleet.search.crew.MAX_LOST", 0)
        kept.kill()
        with pytest.raises(LibraryError, match="workers"):
            crew.train(candidates, rng())
    assert not any(one.is_alive() for one in after)
