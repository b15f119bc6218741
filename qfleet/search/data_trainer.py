"""Training of many candidates for data: all rows of all candidates in one compiled program."""

from collections.abc import Sequence
from typing import final

import cirq
import numpy as np

from qfleet.errors import ArgumentError
from qfleet.search.data_task import DataTask
from qfleet.search.records import Candidate
from qfleet.search.space import Space
from qfleet.search.super_circuit import Readouts, SuperCircuit
from qfleet.search.training import Part, Trained, Training

MOST_ROWS = 1 << 12
"""Most rows of data of all candidates in one call, unless one candidate has more."""


@final
class DataTrainer:
    """Trains candidates of an ordered space for data, each with a linear head.

    The loss of the training rows is minimised by angles and head together; the head begins at
    ridge regression.

    Args:
        space: The space, whose encoders have features of the task.
        task: The data.
        training: How they are trained. One start is used.

    Raises:
        ArgumentError: The space is not ordered, or encodes other features.
    """

    def __init__(self, space: Space, task: DataTask, training: Training) -> None:
        if not space.ordered:
            raise ArgumentError("space is not ordered: for data, pass one of layers(inputs=...)")
        if other := {gate.feature for gate in space.gates} - {"", *task.inputs}:
            raise ArgumentError(
                f"space encodes {min(other)}, which is not a feature: pass inputs of the task"
            )
        self._space, self._task, self._training = space, task, training
        readouts = [cirq.PauliSum.wrap(cirq.Z(qubit)) for qubit in space.qubits]
        self._program = SuperCircuit(space.gates, readouts, space.qubits, space.start)
        names = [gate.feature for gate in space.gates for _ in gate.angles]
        self._encoders = np.flatnonzero(names)
        self._features = [task.inputs.index(names[column]) for column in self._encoders]

    def parts(self, candidates: Sequence[Candidate], random: np.random.Generator) -> list[Part]:
        """Return candidates in batches; see `PartTrainer`.

        Args:
            candidates: The candidates.
            random: Not used: training begins at the angles of the candidates.

        Raises:
            ArgumentError: A candidate is not one of the space.
        """
        if any(one.circuit for one in candidates):
            raise ArgumentError("method proposes circuits, and data need gates of the space")
        count = max(1, MOST_ROWS // len(self._task.labels))
        every = range(len(candidates))
        members = [list(every[at : at + count]) for at in range(0, len(candidates), count)]
        return [Part(own, [candidates[at] for at in own]) for own in members]

    def skip(self, candidates: Sequence[Candidate]) -> None:
        """Do nothing: all candidates have one program."""

    def train_part(self, part: Part) -> list[Trained]:
        """Train the candidates of a part; see `PartTrainer`."""
        candidates = part.candidates
        task, program, training = self._task, self._program, self._training
        masks = program.masks([one.gates for one in candidates])
        angles = np.zeros((len(candidates), program.angles))
        columns = [program.columns(one.gates) for one in candidates]
        for row, one in enumerate(candidates):
            angles[row, columns[row]] = one.angles
        first, _ = self._readouts(masks, angles, task.train)
        start = np.concatenate([angles, task.first_head(first)], axis=1)

        def function(rows: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            own, heads = points[:, : program.angles], points[:, program.angles :]
            readouts, gradient = self._readouts(masks[rows], own, task.train)
            loss = task.loss(task.predictions(readouts, heads), task.labels)
            kernel, _ = task.kernels(heads)
            by_angles = gradient(loss.gradient @ kernel.transpose(0, 2, 1))
            by_kernel = np.einsum("cik,cio->cko", readouts, loss.gradient)
            by_bias = loss.gradient.sum(axis=1)
            by_head = [by_kernel.reshape(len(rows), -1), by_bias]
            return loss.values, np.concatenate([by_angles, *by_head], axis=1)

        minima = training.optimizer(
            function,
            start,
            evaluations=training.evaluations,
            tolerance=training.tolerance,
            halving=training.halving(self._space, candidates, 1),
        )
        found, heads = minima.points[:, : program.angles], minima.points[:, program.angles :]
        readouts, _ = self._readouts(masks, found, task.validation)
        loss = task.loss(task.predictions(readouts, heads), task.validation_labels)
        return [
            Trained(
                tuple(map(float, found[row, columns[row]])),
                float(loss.values[row]),
                int(minima.evaluations[row]),
                float(loss.errors[row]),
                tuple(map(float, heads[row])),
            )
            for row in range(len(candidates))
        ]

    def _readouts(self, masks: np.ndarray, angles: np.ndarray, rows: np.ndarray) -> Readouts:
        """Return readouts [C, n, K], and a function of upstream gradients [C, n, K].

        The function returns gradients by the angles, [C, A].

        Args:
            masks: [C, G].
            angles: [C, A]; of encoders, the number w of the rotation by (1 + w) * x.
            rows: [n, features].
        """
        owned = self._program.owned(masks)
        factors = np.ones((len(rows), self._program.angles))
        factors[:, self._encoders] = rows[:, self._features]
        offsets = np.zeros(self._program.angles)
        offsets[self._encoders] = 1.0
        shape = (len(masks), len(rows), -1)
        own = np.where(owned, angles + offsets, 0.0)[:, np.newaxis] * factors
        every = np.repeat(masks, len(rows), axis=0)
        values, gradient = self._program.readouts(every, own.reshape(len(every), -1))

        def by_angles(upstream: np.ndarray) -> np.ndarray:
            found = gradient(upstream.reshape(len(every), -1)).reshape(shape)
            return np.where(owned, np.einsum("cia,ia->ca", found, factors), 0.0)

        return values.reshape(shape), by_angles
