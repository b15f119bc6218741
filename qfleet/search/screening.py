"""Choice among candidates for data before any training: capacity, and resilience to noise."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import final

import cirq
import numpy as np
import sympy

from qfleet.devices.calibration import Calibration
from qfleet.search.data_task import DataTask
from qfleet.search.filters import (
    MAX_READ_QUBITS,
    bit_words,
    clifford_turns,
    resilience_to_noise,
    similarity_to_labels,
)
from qfleet.search.records import Candidate
from qfleet.search.space import Space
from qfleet.search.super_circuit import SuperCircuit

MOST_ROWS = 1 << 16
"""Most rows of data of all candidates in one call."""

_ROWS = 32  # of all labels
_DRAWS = 8  # of all angles
_REPLICAS = 32
_NOISE_IMPORTANCE = 0.25  # exponent of the resilience: that of Elivagar
_MEASURED = 2  # candidates whose resilience is computed, per candidate that is kept


@final
class Screening:
    """Scores of untrained candidates for data, after Elivagar (arXiv:2401.09393).

    Args:
        space: The ordered space of the candidates.
        task: The data, of whose training rows some are used.
        calibration: A device; None for none.
        seed: Seed of rows and angles.
    """

    def __init__(
        self, space: Space, task: DataTask, calibration: Calibration | None, seed: int
    ) -> None:
        self._space, self._task = space, task
        self._calibration, self._seed = calibration, seed

    def best(self, candidates: Sequence[Candidate], count: int) -> list[Candidate]:
        """Return the candidates with the highest scores, the highest first.

        The score is the capacity. With a device, it is the capacity times the resilience to the
        power of 0.25, for twice as many candidates with the highest capacities.

        Args:
            candidates: The candidates; their angles are not used.
            count: Number of candidates that are returned.
        """
        if len(candidates) <= count:
            return list(candidates)
        scores = self.capacities(candidates)
        order = np.argsort(-scores, kind="stable")
        if self._calibration is not None:
            order = order[: _MEASURED * count]
            kept = self.resiliences([candidates[at] for at in order])
            scores[order] *= np.maximum(kept, 0.0) ** _NOISE_IMPORTANCE
            order = order[np.argsort(-scores[order], kind="stable")]
        return [candidates[at] for at in order[:count]]

    def capacities(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Compute the representational capacities, in one call for up to 256 candidates.

        The states are those of all qubits one by one. Features are not scaled.

        Args:
            candidates: C candidates.

        Returns:
            [C], as `representational_capacity`.
        """
        each = _DRAWS * len(self._rows[1])
        return np.concatenate([self._capacities(part) for part in _parts(candidates, each)])

    def resiliences(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Compute the resiliences to the noise of the device, of up to 4 qubits that are read.

        The values without noise are one call for up to 2,048 candidates. With noise, candidates
        differ in routes, gates and waiting times, and all replicas of one are a call.

        Args:
            candidates: C candidates.

        Returns:
            [C], as `clifford_noise_resilience` of their `replica`.
        """
        parts = _parts(candidates, _REPLICAS)
        return np.concatenate([self._resiliences(part) for part in parts])

    def _resiliences(self, candidates: Sequence[Candidate]) -> np.ndarray:
        assert self._calibration is not None
        program, words = self._bits_program, bit_words(self._read)
        circuits = [self.replica(one) for one in candidates]
        turns = [clifford_turns(one, _REPLICAS, self._seed) for one in circuits]
        angles = np.zeros((len(candidates), program.angles, _REPLICAS))
        for row, one in enumerate(candidates):
            columns = program.columns(one.gates)
            for at, column in enumerate(columns):
                angles[row, column] = turns[row][_name(at)]
        masks = program.masks([one.gates for one in candidates])
        values, _ = program.readouts(
            np.repeat(masks, _REPLICAS, axis=0),
            angles.transpose(0, 2, 1).reshape(-1, program.angles),
        )
        ideal = values.reshape(len(candidates), _REPLICAS, -1)
        return np.array(
            [
                resilience_to_noise(circuit, self._calibration, words, own, without)
                for circuit, own, without in zip(circuits, turns, ideal, strict=True)
            ]
        )

    def _capacities(self, candidates: Sequence[Candidate]) -> np.ndarray:
        program, (features, kinds) = self._program, self._rows
        columns = [gate.feature for gate in self._space.gates for _ in gate.angles]
        encoded = np.array([bool(name) for name in columns])
        drawn = self._random.uniform(-np.pi, np.pi, (_DRAWS, program.angles))
        angles = np.repeat(drawn[:, np.newaxis], len(features), axis=1)
        angles[..., encoded] = features[:, [self._task.inputs.index(one) for one in columns if one]]
        masks = program.masks([one.gates for one in candidates])
        own = np.where(program.owned(masks)[:, np.newaxis, np.newaxis], angles, 0.0)
        each = _DRAWS * len(features)
        values, _ = program.readouts(
            np.repeat(masks, each, axis=0), own.reshape(-1, program.angles)
        )
        states = values.reshape(len(candidates), _DRAWS, len(features), -1)
        constant = np.full((*states.shape[:3], 1), len(self._space.qubits) ** 0.5)
        whole = np.concatenate([constant, states], axis=3)
        return np.array([similarity_to_labels(one, kinds) for one in whole])

    def replica(self, candidate: Candidate) -> cirq.Circuit:
        """Return the circuit with a symbol for each angle of a gate.

        An encoder has one, too, in place of (1 + w) * x: the product of multiples of pi / 2 is not
        such a multiple.
        """
        count = self._space.angle_count(candidate.gates)
        symbols = [sympy.Symbol(_name(at)) for at in range(count)]
        return self._without_features.circuit(candidate.gates, symbols)

    @cached_property
    def _without_features(self) -> Space:
        space = self._space
        gates = tuple(replace(gate, feature="") for gate in space.gates)
        return Space(gates, space.qubits, space.start, ordered=space.ordered)

    @property
    def _read(self) -> tuple[cirq.Qid, ...]:
        return self._space.qubits[:MAX_READ_QUBITS]

    @property
    def _random(self) -> np.random.Generator:
        return np.random.default_rng([self._seed, 2])

    @cached_property
    def _program(self) -> SuperCircuit:
        space = self._space
        words = [
            cirq.PauliSum.wrap(pauli(qubit))
            for qubit in space.qubits
            for pauli in (cirq.X, cirq.Y, cirq.Z)
        ]
        return SuperCircuit(space.gates, words, space.qubits, space.start)

    @cached_property
    def _bits_program(self) -> SuperCircuit:
        space = self._space
        words = [cirq.PauliSum.wrap(word) for word in bit_words(self._read)]
        return SuperCircuit(space.gates, words, space.qubits, space.start)

    @cached_property
    def _rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Features and kinds of some training rows, as many of each kind as possible.

        Numbers have two kinds: below their median, and others.
        """
        task = self._task
        kinds = task.labels >= np.median(task.labels) if task.kind == "number" else task.labels
        order = self._random.permutation(len(kinds))
        known = np.unique(kinds)
        chosen = [order[kinds[order] == one][: max(_ROWS // len(known), 2)] for one in known]
        rows = np.concatenate(chosen)
        return task.train[rows], kinds[rows]


def _name(angle: int) -> str:
    return f"angle_{angle}"


def _parts(candidates: Sequence[Candidate], rows: int) -> list[Sequence[Candidate]]:
    """Return candidates in parts of at most MOST_ROWS rows, of `rows` for each."""
    count = MOST_ROWS // rows
    return [candidates[at : at + count] for at in range(0, len(candidates), count)]
