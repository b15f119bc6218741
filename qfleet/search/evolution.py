"""Evolution with several objectives: NSGA-II on gates of a space."""

from collections.abc import Sequence

import numpy as np

from qfleet.argument_checks import integer
from qfleet.search.methods import (
    SearchMethod,
    Task,
    join,
    next_generation,
    random_candidate,
    split_angles,
)
from qfleet.search.pareto import crowding, ranks
from qfleet.search.records import Candidate, Result

_Part = tuple[int, tuple[float, ...]]

_SPREAD = 0.2  # standard deviation of the angles of a new gate, in radians


class Evolution(SearchMethod):
    """NSGA-II: parents by Pareto rank and crowding, children by crossover and mutation.

    Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II" (IEEE Transactions on
    Evolutionary Computation 6, 2002). Children begin at the angles of their parents. Parents are
    chosen among all results, the best of each structure; of equal ones, those of the lowest loss.

    Args:
        population: Candidates per generation, and parents.
        most_gates: Most gates of a candidate.
        start: Candidates of the first generation, in the place of random ones.
        drawn: For data, candidates that are drawn per candidate that is trained: those with the
            highest scores before any training, as in `Task.best`.
    """

    name = "evolution"

    def __init__(
        self,
        population: int = 32,
        most_gates: int = 20,
        start: Sequence[Candidate] = (),
        drawn: int = 1,
    ) -> None:
        self.population: int = integer(2)(population, "population")
        self.most_gates: int = integer(1)(most_gates, "most_gates")
        self.start = tuple(start)
        self.drawn: int = integer(1)(drawn, "drawn")

    @property
    def generation(self) -> int:
        """Most candidates of the first generation."""
        return self.population

    def extent(self, gates: int, entangling: int) -> tuple[int, int]:
        """Return the most candidates and gates of each; see `SearchMethod.extent`."""
        first = max((len(one.gates) for one in self.start), default=0)
        return self.drawn * self.population, min(max(self.most_gates, first), gates)

    def ask(self, task: Task, history: Sequence[Result]) -> list[Candidate]:
        """Return the candidates of the next generation; see `SearchMethod.ask`."""
        random = task.random(next_generation(history))
        parents = self._survivors(task, history)
        known = {one.candidate.key for one in history}
        found: dict[str, Candidate] = {}
        if not history:
            found = {one.key: one for one in self.start[: self.population]}
        count = self.drawn * self.population
        for _ in range(20 * count):  # a small space may have no more structures
            if len(found) == count:
                break
            if parents:
                child = self._child(task, parents, random)
            else:
                child = random_candidate(task.space, random, self.most_gates)
            if child.gates and child.key not in known:
                found.setdefault(child.key, child)
        return task.best([*found.values()], self.population)

    def _survivors(self, task: Task, history: Sequence[Result]) -> list[Candidate]:
        best: dict[str, Result] = {}
        for one in history:
            if not one.candidate.circuit:
                other = best.get(one.candidate.key)
                if other is None or one.energy < other.energy:
                    best[one.candidate.key] = one
        results = list(best.values())
        if not results:
            return []
        points = task.points(results)
        rank = ranks(points)
        spread = np.zeros(len(results))
        for value in np.unique(rank):
            spread[rank == value] = crowding(points[rank == value])
        losses = np.array([one.energy for one in results])
        order = np.lexsort((losses, -spread, rank))  # the best first
        return [results[at].candidate for at in order[: self.population]]

    def _child(
        self, task: Task, parents: Sequence[Candidate], random: np.random.Generator
    ) -> Candidate:
        first, second = (parents[int(random.integers(len(parents), size=2).min())] for _ in "ab")
        parts = _parts(task, first)
        if random.random() < 0.3:
            parts = self._crossed(task, parts, _parts(task, second), random)
        for _ in range(int(random.integers(1, 4))):
            parts = self._mutated(task, parts, random)
        return join(parts[: self.most_gates], "evolve")

    def _crossed(
        self,
        task: Task,
        first: list[_Part],
        second: list[_Part],
        random: np.random.Generator,
    ) -> list[_Part]:
        if task.space.ordered:
            cut = int(random.integers(len(task.space.gates) + 1))
            low = [one for one in first if one[0] < cut]
            return low + [one for one in second if one[0] >= cut]
        share = random.random()
        return first[: round(share * len(first))] + second[round(share * len(second)) :]

    def _mutated(self, task: Task, parts: list[_Part], random: np.random.Generator) -> list[_Part]:
        choice = random.random()
        parts = list(parts)
        if parts and choice < 0.4:
            del parts[int(random.integers(len(parts)))]
        if not parts or choice > 0.25:
            gate = int(random.integers(len(task.space.gates)))
            place = int(random.integers(len(parts) + 1))
            if task.space.ordered:
                if any(one[0] == gate for one in parts):
                    return parts
                place = sum(one[0] < gate for one in parts)
            count = len(task.space.gates[gate].angles)
            parts.insert(place, (gate, tuple(map(float, random.normal(0, _SPREAD, count)))))
        return parts


def _parts(task: Task, candidate: Candidate) -> list[_Part]:
    return list(zip(candidate.gates, split_angles(task.space, candidate), strict=True))
