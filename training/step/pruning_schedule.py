"""Schedule of pruning: the strength that shrinks angles, what is dropped, and what returns.

While angles are pruned, each step moves every angle towards its nearest identity by the product of
strength and learning rate. Angles that the loss does not hold away from it arrive there and are
dropped. This is soft-thresholding, with Adam's normalised gradient as the utility of an angle: one
with a gradient below the strength shrinks.

All workers compute the same decisions from the same weights and losses. Imports no TensorFlow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

FIRST_FRACTION = 0.2
"""Part of the epochs of the main phase before angles shrink."""
LAST_FRACTION = 0.75
"""Part of them after which nothing more is dropped: the rest trains the angles that are left."""
DECISIONS = 36
"""Decisions, if the main phase were pruned from its beginning to its end."""

FIRST_STRENGTH = 0.3
MAX_STRENGTH = 2.0
STRONGER, WEAKER = 1.2, 0.7
"""Factors of the strength after an interval whose loss is in the tolerance, and after another."""

TOLERANCE = 0.015
"""Loss that an interval may lose, as a part of what training has gained since its first interval.
"""

REVIVAL = 2.0
"""Tolerances of loss beyond which the angles that were dropped last return."""

DROP_DISTANCE = 0.05
"""Distance from the identity below which an angle is dropped, in radians or other units."""

DROP_FRACTION = 0.02
"""Part of all angles that is dropped at least, since new graphs take time; the last drop has none.
"""

_NUMBERS = ("strength", "next", "sum", "count", "first", "best", "intervals")


@dataclass
class PruningSchedule:
    """The state of pruning; all of it is part of a checkpoint.

    Attributes:
        prune: Largest fraction of angles that is dropped.
        first_epoch: First epoch of the main phase.
        epochs: Epochs of the main phase.
        dropped_at: int64 [angles]: number of the interval at whose end an angle was dropped,
            counted from 1; 0 for an angle that is trained.
        numbers: The strength now, that of the next pruned interval, sum and count of the losses of
            this interval, the loss of the first and of the best interval, and the number of
            intervals so far.
    """

    prune: float
    first_epoch: int
    epochs: int
    dropped_at: np.ndarray
    numbers: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_NUMBERS, 0.0))

    @property
    def strength(self) -> float:
        """Distance by which a step moves each angle, as a part of the learning rate."""
        return self.numbers["strength"]

    @property
    def dropped(self) -> np.ndarray:
        """bool [angles]: the angles that are dropped now."""
        return self.dropped_at > 0

    @property
    def interval(self) -> int:
        """Epochs between two decisions."""
        return max(1, self.epochs // DECISIONS)

    def add_loss(self, epoch: int, loss: float) -> None:
        """Count the loss of an epoch that has ended; epochs of other initializations don't count.

        Args:
            epoch: The epoch, counted from 0.
            loss: Its loss, which is equal on all workers.
        """
        if epoch >= self.first_epoch:
            self.numbers["sum"] += loss
            self.numbers["count"] += 1

    def is_due(self, epoch: int) -> bool:
        """Return True if there is a decision before an epoch, counted from 0."""
        done = epoch - self.first_epoch
        return done > 0 and done % self.interval == 0 and self.numbers["count"] > 0

    def decide(self, epoch: int, distances: np.ndarray) -> bool:
        """Decide before an epoch what is dropped and what returns, and the strength from now on.

        Args:
            epoch: The epoch, for which a decision is due.
            distances: [angles] distance of each angle from the identity.

        Returns:
            True if other angles than before are dropped.
        """
        before, numbers = self.dropped, self.numbers
        done = (epoch - self.first_epoch) / self.epochs
        lost = self._end_interval()
        if lost > 1 and self.strength:
            numbers["next"] *= WEAKER
            if lost > REVIVAL:
                self._revive()
        elif self.strength:
            self._drop(distances, 1 if done >= LAST_FRACTION else DROP_FRACTION * len(distances))
            numbers["next"] = min(MAX_STRENGTH, STRONGER * numbers["next"])
        has_begun = FIRST_FRACTION <= done < LAST_FRACTION
        numbers["next"] = numbers["next"] or FIRST_STRENGTH
        numbers["strength"] = numbers["next"] if has_begun and self._room() > 0 else 0.0
        return bool((before != self.dropped).any())

    def _end_interval(self) -> float:
        """Begin the next interval, and return the loss that the last one lost, in tolerances."""
        numbers = self.numbers
        loss = numbers["sum"] / numbers["count"]
        numbers |= {"sum": 0.0, "count": 0.0, "intervals": numbers["intervals"] + 1}
        if numbers["intervals"] == 1:
            numbers |= {"first": loss, "best": loss}
        numbers["best"] = min(numbers["best"], loss)
        gain = numbers["first"] - numbers["best"]
        return (loss - numbers["best"]) / (TOLERANCE * gain) if gain > 0 else 0.0

    def _room(self) -> int:
        return int(self.prune * len(self.dropped_at)) - int(self.dropped.sum())

    def _drop(self, distances: np.ndarray, least: float) -> None:
        """Drop the angles next to the identity, the nearest first; none if there are too few.

        Args:
            distances: As for `decide`.
            least: Fewest angles to drop, unless fewer may be dropped.
        """
        is_near = ~self.dropped & (distances <= DROP_DISTANCE)
        room = self._room()
        count = min(room, int(is_near.sum()))
        if count >= min(room, least):
            order = np.argsort(np.where(is_near, distances, np.inf), kind="stable")
            self.dropped_at[order[:count]] = int(self.numbers["intervals"])

    def _revive(self) -> None:
        """Let the angles that were dropped last be trained again."""
        if self.dropped.any():
            self.dropped_at[self.dropped_at == self.dropped_at.max()] = 0

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The part of a checkpoint that holds the state."""
        numbers = np.array([self.numbers[name] for name in _NUMBERS])
        return {"pruning/dropped_at": self.dropped_at.copy(), "pruning/numbers": numbers}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the state of a checkpoint.

        Raises:
            KeyError, ValueError: It belongs to a training without pruning, or another model.
        """
        dropped_at, numbers = arrays["pruning/dropped_at"], arrays["pruning/numbers"]
        if dropped_at.shape != self.dropped_at.shape or numbers.shape != (len(_NUMBERS),):
            raise ValueError("it has another number of angles, or another state of pruning")
        self.dropped_at = dropped_at.astype(np.int64)
        self.numbers = dict(zip(_NUMBERS, map(float, numbers), strict=True))
