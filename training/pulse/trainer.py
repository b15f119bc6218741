"""The trainer of TASK=gate: starts by all workers, of which the best is the pulse."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from common.models import build_model, describe_model
from common.models.pulse_model import set_pulse
from common.pulse_objectives import pulse_objective
from qfleet.engine import library
from qfleet.pulses import GateResult
from qfleet.tensorflow.runtime import tf
from training.parts.trainer import PartsTrainer, open_strategy
from training.pulse.starts import Starts
from training.trainer_protocol import TrainingContext

log = logging.getLogger("qfleet")


@contextmanager
def open_pulse_trainer(context: TrainingContext) -> Iterator["PulseTrainer"]:
    """Build the trainer of this worker.

    Raises:
        PeerLost, Preempted: TensorFlow reported a lost peer, here or in the body of the context.
    """
    with open_strategy(context) as strategy:
        yield PulseTrainer(context, strategy)


class PulseTrainer(PartsTrainer):
    """Finds a pulse of one gate, on one worker.

    Args:
        context: Settings, data and folders of the run.
        strategy: The workers' strategy.
    """

    parts = "starts"
    device = ""
    """No circuit is simulated."""

    def __init__(self, context: TrainingContext, strategy: tf.distribute.Strategy) -> None:
        super().__init__(context, strategy)
        self._found: GateResult | None = None
        self._summary = ""

    @property
    def step_summary(self) -> str:
        """One line on the starts and the pulse."""
        return self._summary

    def fit(self) -> None:
        """Optimize from this worker's starts, wait for the others, and take the best."""
        watchdog, cluster = self._context.watchdog, self._context.cluster
        limit = self._settings.fault_tolerance.stall_timeout_max
        watchdog.enter("the starts of the pulse", limit)
        began = time.monotonic()
        library.set_num_threads(1)  # the number of threads changes the last bits
        objective = pulse_objective(self._settings.model, self._data.target, self._rows("train"))
        starts = Starts.of(self._run, self._settings, self._data, objective)
        for number in range(starts.count)[cluster.rank :: cluster.size]:
            found = starts.run(number, self.before_part)
            if cluster.is_chief:
                log.info(f"Start {number}: {found}")
        watchdog.enter("the starts of the other workers", limit)
        self.barrier()
        watchdog.enter("the best of all starts", limit)
        number, self._found = starts.best(self.before_part)
        self._summary = (
            f"Pulse: {self._found}; start {number} of {starts.count}, in"
            f" {time.monotonic() - began:.1f} s"
        )

    def measure(self, split: str) -> dict[str, float]:
        """Return infidelity, fidelity and leakage of a split; equal on all workers."""
        objective = pulse_objective(self._settings.model, self._data.target, self._rows(split))
        result = objective.result(self._best.values)
        fidelity, leakage = float(result.fidelity.mean()), float(result.leakage.mean())
        return {"infidelity": 1 - fidelity, "fidelity": fidelity, "leakage": leakage}

    def save_model(self, weights: Path) -> dict[str, object]:
        """Write the weights and return the content of model.json."""
        data, settings = self._data, self._settings
        model = build_model(data.features, settings, data.placement, data.target)
        set_pulse(model, self._best.values)
        model.save_weights(weights)
        return describe_model(model, data.features, settings, data.manifest.encoding)

    @property
    def _best(self) -> GateResult:
        assert self._found is not None, "fit comes first"
        return self._found

    def _rows(self, split: str) -> np.ndarray:
        return self._data.split(split).angles
