"""Training of many candidates: groups of equal programs, batches, restarts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, final

import cirq
import numpy as np

from qfleet.circuits.circuit_json import from_json
from qfleet.engine.batch_compiler import compile_batch
from qfleet.engine.circuit_batch import CircuitGroup
from qfleet.search.optimizers import Function, Minima
from qfleet.search.records import Candidate
from qfleet.search.space import Space
from qfleet.search.super_circuit import SuperCircuit, places, supersequence

_MOST_ROWS = 1024  # of a batch
_EXTRA = 400  # operations that a super-circuit may have besides those of a candidate
_KEPT = 16  # super-circuits that are kept for the next generations


class Optimizer(Protocol):
    """An optimizer of `qfleet.search.optimizers`."""

    def __call__(
        self, function: Function, start: np.ndarray, *, evaluations: int, tolerance: float
    ) -> Minima:
        """Minimise."""


@dataclass(frozen=True)
class Training:
    """Options of training.

    Attributes:
        name: Name of the optimizer.
        optimizer: `lbfgs` or `adam`.
        evaluations: Most evaluations of energy and gradient per start.
        tolerance: A start ends where its energy improves by less, in the unit of the energy.
        starts: Starts per candidate: the first at its own angles, the others near them.
        spread: Standard deviation of the angles of the other starts, in the unit of the angles.
    """

    name: str
    optimizer: Optimizer
    evaluations: int
    tolerance: float
    starts: int
    spread: float


class Trained(NamedTuple):
    """Angles, energy, and evaluations of all starts; of data, also the error and the head."""

    angles: tuple[float, ...]
    energy: float
    evaluations: int
    error: float | None = None
    head: tuple[float, ...] = ()


class _Group(NamedTuple):
    """Candidates of one program: their numbers, and where their gates are in it."""

    whole: list[int]
    members: list[int]


@final
class CandidateTrainer:
    """Trains candidates, and keeps the super-circuits that it compiled.

    Args:
        space: The space of the candidates.
        observable: The energy.
        training: How they are trained.
    """

    def __init__(self, space: Space, observable: cirq.PauliSum, training: Training) -> None:
        self._space = space
        self._observable = observable
        self._training = training
        self._known: dict[tuple[int, ...], SuperCircuit | None] = {}  # the latest is the last

    def train(self, candidates: Sequence[Candidate], random: np.random.Generator) -> list[Trained]:
        """Train candidates, all that fit into one program at once.

        Args:
            candidates: The candidates.
            random: Source of the angles of further starts.
        """
        found: dict[int, Trained] = {}
        for sequence, members in self._batches(candidates):
            found |= self._train_masks(sequence, members, candidates, random)
        outer = [at for at, one in enumerate(candidates) if one.circuit]
        for first in range(0, len(outer), self._rows):
            found |= self._train_circuits(outer[first : first + self._rows], candidates, random)
        return [found[at] for at in range(len(candidates))]

    def skip(self, candidates: Sequence[Candidate]) -> None:
        """Note candidates that an earlier start trained: the next ones then get equal programs.

        Other programs would round differently.

        Args:
            candidates: All candidates of a generation.
        """
        self._batches(candidates)

    def _batches(
        self, candidates: Sequence[Candidate]
    ) -> list[tuple[tuple[int, ...], Sequence[int]]]:
        """Return the gates of programs, and the numbers of the candidates of one batch."""
        found: list[tuple[tuple[int, ...], Sequence[int]]] = []
        inner = [at for at, one in enumerate(candidates) if not one.circuit]
        for group in self._groups(candidates, inner):
            sequence = self._sequence(tuple(group.whole))
            for first in range(0, len(group.members), self._rows):
                found.append((sequence, group.members[first : first + self._rows]))
        return found

    @property
    def _rows(self) -> int:
        return max(1, _MOST_ROWS // self._training.starts)

    def _groups(self, candidates: Sequence[Candidate], numbers: Sequence[int]) -> list[_Group]:
        if self._space.ordered and numbers:
            union = sorted({gate for at in numbers for gate in candidates[at].gates})
            return [_Group(union, list(numbers))]
        groups: list[_Group] = []
        for at in numbers:
            own = candidates[at].gates
            limit = max(2 * self._operations(own), self._operations(own) + _EXTRA)
            for group in groups:
                if places(own, group.whole) is None:
                    merged = supersequence(group.whole, own)
                    if self._operations(merged) > limit:
                        continue
                    group.whole[:] = merged
                group.members.append(at)
                break
            else:
                groups.append(_Group(list(own), [at]))
        return groups

    def _operations(self, gates: Sequence[int]) -> int:
        return sum(len(self._space.gates[gate].operations) for gate in gates)

    def _sequence(self, whole: tuple[int, ...]) -> tuple[int, ...]:
        """Return the gates of a program that has some gates: these, or known ones with few more."""
        limit = 1.5 * self._operations(whole) + 8
        for known in self._known:
            if places(whole, known) is not None and self._operations(known) <= limit:
                self._known[known] = self._known.pop(known)
                return known
        self._known[whole] = None
        if len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]
        return whole

    def _program(self, sequence: tuple[int, ...]) -> SuperCircuit:
        program = self._known.get(sequence)
        if program is None:
            gates = [self._space.gates[gate] for gate in sequence]
            program = SuperCircuit(gates, self._observable, self._space.qubits, self._space.start)
            if sequence in self._known:
                self._known[sequence] = program
        return program

    def _train_masks(
        self,
        sequence: tuple[int, ...],
        members: Sequence[int],
        candidates: Sequence[Candidate],
        random: np.random.Generator,
    ) -> dict[int, Trained]:
        program = self._program(sequence)
        masks = np.zeros((len(members), len(sequence)), bool)
        columns = []
        start = np.zeros((len(members), program.angles))
        for row, at in enumerate(members):
            slots = places(candidates[at].gates, sequence)
            assert slots is not None
            masks[row, slots] = True
            columns.append(program.columns(slots))
            start[row, columns[row]] = candidates[at].angles
        count = self._training.starts
        repeated = np.repeat(masks, count, axis=0)

        def function(rows: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return program.value_and_gradient(repeated[rows], points)

        return self._minimise(function, start, columns, members, random)

    def _train_circuits(
        self,
        members: Sequence[int],
        candidates: Sequence[Candidate],
        random: np.random.Generator,
    ) -> dict[int, Trained]:
        size = max(len(candidates[at].angles) for at in members)
        names = [f"a{at}" for at in range(size)]
        circuits = [from_json(candidates[at].circuit) for at in members]
        batch = compile_batch(circuits, names, (), [self._observable], method="state_vector")
        count = self._training.starts
        start = np.zeros((len(members), size))
        columns = [np.arange(len(candidates[at].angles)) for at in members]
        for row, at in enumerate(members):
            start[row, columns[row]] = candidates[at].angles
        evaluate = [_of_group(group, size) for group in batch.groups]
        group_of = np.zeros(len(members), np.int64)
        place_of = np.zeros(len(members), np.int64)
        for number, group in enumerate(batch.groups):
            group_of[group.rows] = number
            place_of[group.rows] = np.arange(len(group.rows))

        def function(rows: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            values, gradients = np.empty(len(rows)), np.empty_like(points)
            for number, one in enumerate(evaluate):
                own = np.flatnonzero(group_of[rows // count] == number)
                if len(own):
                    at = place_of[rows[own] // count]
                    values[own], gradients[own] = one(at, points[own])
            return values, gradients

        return self._minimise(function, start, columns, members, random)

    def _minimise(
        self,
        function: Function,
        start: np.ndarray,
        columns: Sequence[np.ndarray],
        members: Sequence[int],
        random: np.random.Generator,
    ) -> dict[int, Trained]:
        training, count = self._training, self._training.starts
        points = np.repeat(start, count, axis=0)
        for row, own in enumerate(columns):
            for other in range(1, count):
                points[row * count + other, own] += random.normal(0, training.spread, len(own))
        minima = training.optimizer(
            function, points, evaluations=training.evaluations, tolerance=training.tolerance
        )
        found = {}
        for row, at in enumerate(members):
            rows = slice(row * count, (row + 1) * count)
            best = row * count + int(np.argmin(minima.values[rows]))
            angles = tuple(map(float, minima.points[best, columns[row]]))
            total = int(minima.evaluations[rows].sum())
            found[at] = Trained(angles, float(minima.values[best]), total)
        return found


def _of_group(
    group: CircuitGroup, size: int
) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    def evaluate(at: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inputs = np.concatenate([points, group.numbers[at]], axis=1)
        values, gradients = group.compiled.value_and_gradient(inputs)
        if gradients.inputs is None or not inputs.shape[1]:
            return values[:, 0], np.zeros_like(points)
        return values[:, 0], gradients.inputs[:, :size]

    return evaluate
