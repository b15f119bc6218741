"""Pruning: angles that shrink within each step, and circuits without those that were dropped."""

from collections.abc import Mapping, Sequence

import numpy as np

from common.models.pruning import PrunableCircuit
from common.settings import TrainingSettings
from common.text import plural
from qfleet.tensorflow.runtime import tf
from training.process.logging_setup import log_shared
from training.step.local_part import local_part, local_variable
from training.step.pruning_schedule import PruningSchedule


class Pruning:
    """Drops angles of a model while it is trained; see `PruningSchedule` for when.

    Args:
        circuits: The circuits of the model.
        settings: PRUNE, and the epochs of the main phase.
    """

    def __init__(self, circuits: Sequence[PrunableCircuit], settings: TrainingSettings) -> None:
        self._circuits = circuits
        self.schedule = PruningSchedule(
            settings.prune,
            settings.initialization_phase_epochs,
            settings.main_phase_epochs,
            np.zeros(sum(len(one.periods) for one in circuits), np.int64),
        )
        self._applied = self.schedule.dropped
        self._angles = [local_part(one.layer.angles) for one in circuits]
        self._strength = local_variable(tf.zeros([]), "pruning_strength")

    @property
    def counts(self) -> tuple[int, int]:
        """Number of angles that are dropped now, and of all angles."""
        return int(self._applied.sum()), len(self._applied)

    def shrink(self, learning_rate: tf.Tensor) -> None:
        """Move angles towards the identity, as a part of a training step, and keep dropped ones."""
        step = tf.convert_to_tensor(learning_rate) * self._strength.read_value()
        parts = zip(self._circuits, self._angles, self._by_circuit(self._applied), strict=True)
        for circuit, angles, dropped in parts:
            value = angles.read_value()
            turns = tf.math.divide_no_nan(value, tf.constant(circuit.periods))
            distance = value - tf.round(turns) * circuit.periods
            shrunk = value - tf.sign(distance) * tf.minimum(tf.abs(distance), step)
            trained = tf.where(circuit.removable, shrunk, value)
            angles.assign(tf.where(dropped, 0.0, trained))

    def begin_epoch(self, epoch: int) -> bool:
        """Decide before an epoch; angles that are dropped become 0.

        Args:
            epoch: The epoch, counted from 0.

        Returns:
            True if circuits have changed, whose graphs have to be traced again.
        """
        if not self.schedule.is_due(epoch):
            return False
        values = [angles.numpy() for angles in self._angles]
        distances = [
            one.distances(value) for one, value in zip(self._circuits, values, strict=True)
        ]
        is_changed = self.schedule.decide(epoch, np.concatenate(distances))
        self._strength.assign(self.schedule.strength)
        if is_changed:
            before, gates = self._applied, self._gates()
            dropped = self._by_circuit(self.schedule.dropped)
            for angles, value, which in zip(self._angles, values, dropped, strict=True):
                angles.assign(np.where(which, np.float32(0), value))
            self._compile()
            log_shared(self._describe_change(before, gates))
        return is_changed

    def _describe_change(self, before: np.ndarray, gates: int) -> str:
        """Return what a decision has dropped or restored, and its gates, as a sentence."""
        restored = int((before & ~self._applied).sum())
        change = int((self._applied & ~before).sum())
        text = f"Pruning drops {plural(change, 'angle')}"
        if restored:
            text = f"Pruning restores {plural(restored, 'angle')}, as the loss has risen"
        count, total = self.counts
        return (
            f"{text}: {gates} -> {plural(self._gates(), 'gate')} in the"
            f" {'circuit' if len(self._circuits) == 1 else 'circuits'},"
            f" {count} of {plural(total, 'angle')} dropped"
        )

    def _gates(self) -> int:
        return sum(len(list(one.layer.circuit.all_operations())) for one in self._circuits)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The part of a checkpoint that holds the state."""
        return self.schedule.arrays

    def restore(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Set the state of a checkpoint, whose weights are set already.

        Returns:
            As for `begin_epoch`.

        Raises:
            KeyError, ValueError: As for `PruningSchedule.restore`.
        """
        self.schedule.restore(arrays)
        self._strength.assign(self.schedule.strength)
        is_changed = bool((self._applied != self.schedule.dropped).any())
        if is_changed:
            self._compile()
        return is_changed

    def _compile(self) -> None:
        before, after = map(self._by_circuit, (self._applied, self.schedule.dropped))
        for one, earlier, dropped in zip(self._circuits, before, after, strict=True):
            if (earlier != dropped).any():
                one.drop(dropped)
        self._applied = self.schedule.dropped

    def _by_circuit(self, flags: np.ndarray) -> list[np.ndarray]:
        ends = np.cumsum([len(one.periods) for one in self._circuits])[:-1]
        return np.split(flags, ends)
