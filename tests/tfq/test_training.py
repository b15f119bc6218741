"""Training and inference with SIMULATOR=tfq."""

import pytest

from common import runs
from tests.support.training_processes import SMALL, training_processes

start = pytest.fixture(training_processes)


def test_tensorflow_quantum_trains_equally(start, tmp_path):
    found = {}
    for simulator, workers in (("qfleet", 1), ("tfq", 2)):
        settings = (*SMALL[:-1], "EPOCHS=2", f"SIMULATOR={simulator}", f"WORKERS={workers}")
        process = start(tmp_path / simulator, *settings)
        assert process.wait() == 0, process.output
        found[simulator] = runs.Run.at(tmp_path / simulator, "hybrid").metrics()[-1]["mse"]
    assert found["tfq"] == pytest.approx(found["qfleet"], abs=1e-3)
    inference = start(tmp_path / "tfq", module="inference")
    assert inference.wait() == 0, inference.output
