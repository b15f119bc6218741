"""Training of many candidates for a Hamiltonian: groups of equal programs, batches, restarts."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import cirq
import numpy as np

from qfleet.circuits.circuit_json import from_json
from qfleet.engine.batch_compiler import compile_batch
from qfleet.engine.circuit_batch import CircuitGroup
from qfleet.search.optimizers import Function
from qfleet.search.records import Candidate
from qfleet.search.space import Space
from qfleet.search.super_circuit import SuperCircuit, places, side_by_side, supersequence
from qfleet.search.training import Part, Trained, Training

MOST_ROWS = 1024
"""Most rows of a batch."""

EXTRA_OPERATIONS = 400
"""Operations that a super-circuit may have besides those of a candidate."""

_KEPT = 16  # super-circuits that are kept for the next generations


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
        self._known: list[tuple[int, ...]] = []  # gates of programs, the latest is the last
        self._compiled: dict[tuple[int, ...], SuperCircuit] = {}

    def parts(self, candidates: Sequence[Candidate], random: np.random.Generator) -> list[Part]:
        """Return candidates by program, and circuits of a user; see `PartTrainer`."""
        found: list[Part] = []

        def add(members: Sequence[int], program: tuple[int, ...]) -> None:
            for first in range(0, len(members), self._rows):
                own = list(members[first : first + self._rows])
                chosen = [candidates[at] for at in own]
                offsets = [self._offsets(one, random) for one in chosen]
                found.append(Part(own, chosen, program, offsets))

        inner = [at for at, one in enumerate(candidates) if not one.circuit]
        for group in self._groups(candidates, inner):
            program = self._sequence(tuple(group.whole))
            members = group.members
            if self._space.ordered:
                order = side_by_side([candidates[at].gates for at in members])
                members = [members[at] for at in order]
            add(members, program)
        add([at for at, one in enumerate(candidates) if one.circuit], ())
        return found

    def train_part(self, part: Part) -> list[Trained]:
        """Train the candidates of a part; see `PartTrainer`."""
        if part.candidates[0].circuit:
            return self._train_circuits(part)
        return self._train_masks(part)

    def skip(self, candidates: Sequence[Candidate]) -> None:
        """Note the programs of a generation; see `PartTrainer`. Others would round differently."""
        inner = [at for at, one in enumerate(candidates) if not one.circuit]
        for group in self._groups(candidates, inner):
            self._sequence(tuple(group.whole))

    def _offsets(self, candidate: Candidate, random: np.random.Generator) -> np.ndarray:
        count, size = self._training.starts - 1, len(candidate.angles)
        return random.normal(0, self._training.spread, (count, size))

    @property
    def _rows(self) -> int:
        return max(1, MOST_ROWS // self._training.starts)

    def _groups(self, candidates: Sequence[Candidate], numbers: Sequence[int]) -> list[_Group]:
        if self._space.ordered and numbers:
            union = sorted({gate for at in numbers for gate in candidates[at].gates})
            return [_Group(union, list(numbers))]
        groups: list[_Group] = []
        for at in numbers:
            own = candidates[at].gates
            limit = max(2 * self._operations(own), self._operations(own) + EXTRA_OPERATIONS)
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
                self._known.remove(known)
                self._known.append(known)
                return known
        self._known = [*self._known, whole][-_KEPT:]
        return whole

    def _program(self, sequence: tuple[int, ...]) -> SuperCircuit:
        program = self._compiled.pop(sequence, None)
        if program is None:
            gates = [self._space.gates[gate] for gate in sequence]
            program = SuperCircuit(gates, self._observable, self._space.qubits, self._space.start)
        self._compiled[sequence] = program
        if len(self._compiled) > _KEPT:
            del self._compiled[next(iter(self._compiled))]
        return program

    def _train_masks(self, part: Part) -> list[Trained]:
        program = self._program(part.program)
        masks = np.zeros((len(part.members), len(part.program)), bool)
        columns = []
        for row, one in enumerate(part.candidates):
            slots = places(one.gates, part.program)
            assert slots is not None
            masks[row, slots] = True
            columns.append(program.columns(slots))
        count = self._training.starts
        repeated = np.repeat(masks, count, axis=0)

        def function(rows: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return program.value_and_gradient(repeated[rows], points)

        return self._minimise(function, program.angles, columns, part)

    def _train_circuits(self, part: Part) -> list[Trained]:
        size = max(len(one.angles) for one in part.candidates)
        names = [f"a{at}" for at in range(size)]
        circuits = [from_json(one.circuit) for one in part.candidates]
        batch = compile_batch(circuits, names, (), [self._observable], method="state_vector")
        count = self._training.starts
        columns = [np.arange(len(one.angles)) for one in part.candidates]
        evaluate = [_of_group(group, size) for group in batch.groups]
        group_of = np.zeros(len(circuits), np.int64)
        place_of = np.zeros(len(circuits), np.int64)
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

        return self._minimise(function, size, columns, part)

    def _minimise(
        self, function: Function, size: int, columns: Sequence[np.ndarray], part: Part
    ) -> list[Trained]:
        """Return the best start of each candidate.

        Args:
            function: The energies of all starts, and their gradients.
            size: Columns of a point.
            columns: Those of the angles of each candidate.
            part: The candidates.
        """
        training, count = self._training, self._training.starts
        points = np.zeros((len(columns) * count, size))
        for row, (own, one) in enumerate(zip(columns, part.candidates, strict=True)):
            points[row * count : (row + 1) * count, own] = one.angles
            points[row * count + 1 : (row + 1) * count, own] += part.offsets[row]
        minima = training.optimizer(
            function,
            points,
            evaluations=training.evaluations,
            tolerance=training.tolerance,
            halving=training.halving(self._space, part.candidates, count),
        )
        found = []
        for row, own in enumerate(columns):
            rows = slice(row * count, (row + 1) * count)
            best = row * count + int(np.argmin(minima.values[rows]))
            angles = tuple(map(float, minima.points[best, own]))
            total = int(minima.evaluations[rows].sum())
            found.append(Trained(angles, float(minima.values[best]), total))
        return found


def energy_trainer(
    space: Space, words: Sequence[cirq.PauliString], training: Training
) -> CandidateTrainer:
    """Return a trainer, of arguments that can be sent to another process.

    Args:
        space: The space of the candidates.
        words: The terms of the energy: a `cirq.PauliSum` can't be pickled.
        training: How they are trained.
    """
    return CandidateTrainer(space, cirq.PauliSum.from_pauli_strings(list(words)), training)


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
