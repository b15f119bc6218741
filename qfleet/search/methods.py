"""Choice of candidates: the interface of all methods, and random choice."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qfleet.argument_checks import integer
from qfleet.errors import ArgumentError
from qfleet.search.gate_gradients import Screen
from qfleet.search.records import Candidate, Result
from qfleet.search.screening import Screening
from qfleet.search.space import Space


@dataclass(frozen=True)
class Task:
    """The parts of a search that a method may use.

    Attributes:
        space: The space.
        screen: Gradients of the space's gates; None for a task of data.
        seed: Seed of all choices.
        objectives: Names of what a result has, to be minimised.
        screening: Scores of untrained candidates for data; None for a Hamiltonian.
        deadline: The end of the budget, in seconds of `time.monotonic`.
    """

    space: Space
    screen: Screen | None
    seed: int
    objectives: tuple[str, ...]
    screening: Screening | None = None
    deadline: float = math.inf

    def random(self, generation: int) -> np.random.Generator:
        """Return the source of random numbers of a generation."""
        return np.random.default_rng([self.seed, generation])

    def gradients(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return `Screen.gradients`, [C, G].

        Raises:
            ArgumentError: The task is one of data, for which there are none.
        """
        if self.screen is None:
            raise ArgumentError(
                "method grows circuits by gradients of an energy, which data do not have: choose"
                " GatePruning, Evolution or Random"
            )
        return self.screen.gradients(candidates)

    def best(self, candidates: Sequence[Candidate], count: int) -> list[Candidate]:
        """Return some candidates with the highest scores before any training.

        The scores are representational capacity and, on a device, noise resilience.

        Args:
            candidates: The candidates.
            count: Most candidates that are returned; if there are no more, there are no scores.

        Raises:
            ArgumentError: The task is not one of data, which have labels.
        """
        if len(candidates) <= count:
            return list(candidates)
        if self.screening is None:
            raise ArgumentError(
                "drawn is above 1, and candidates for a Hamiltonian have no score before they are"
                " trained: pass drawn=1"
            )
        return self.screening.best(candidates, count)

    def points(self, results: Sequence[Result]) -> np.ndarray:
        """Return the objectives of results, [n, K]."""
        return np.array([[objective(one, name) for name in self.objectives] for one in results])


class SearchMethod(ABC):
    """A way to choose candidates. Abstract.

    What `ask` returns depends on its arguments only, so that a search that is resumed has the same
    history. A method of your own may collect what `tell` passes; a search that is resumed
    passes all results again.
    """

    name = ""

    def tell(self, results: Sequence[Result]) -> None:  # noqa: B027 - most methods need no state
        """Take the results of a generation.

        Args:
            results: The results, in the order of the candidates.
        """

    @abstractmethod
    def ask(self, task: Task, history: Sequence[Result]) -> list[Candidate]:
        """Return the candidates of the next generation.

        Args:
            task: Space, gradients and random numbers.
            history: All results, in order.

        Returns:
            The candidates; none if there is nothing left to try.
        """

    @property
    @abstractmethod
    def generation(self) -> int:
        """Most candidates of the first generation."""

    def extent(self, gates: int, entangling: int) -> tuple[int, int]:
        """Return the most candidates of a generation, and the most gates of each.

        The memory of a search is checked by these before it begins.

        Args:
            gates: Gates of the space.
            entangling: Those on two qubits or more.
        """
        return self.generation, 0


class Random(SearchMethod):
    """Random gates in random order, or random masks of an ordered space: the simplest baseline.

    Args:
        population: Candidates per generation.
        most_gates: Most gates of a candidate.
        drawn: For data, candidates that are drawn per candidate that is trained: those with the
            highest scores before any training, as in `Task.best`.
    """

    name = "random"

    def __init__(self, population: int = 32, most_gates: int = 12, drawn: int = 1) -> None:
        self.population: int = integer(1)(population, "population")
        self.most_gates: int = integer(1)(most_gates, "most_gates")
        self.drawn: int = integer(1)(drawn, "drawn")

    @property
    def generation(self) -> int:
        """Most candidates of the first generation."""
        return self.population

    def extent(self, gates: int, entangling: int) -> tuple[int, int]:
        """Return the most candidates and gates of each; see `SearchMethod.extent`."""
        return self.drawn * self.population, min(self.most_gates, gates)

    def ask(self, task: Task, history: Sequence[Result]) -> list[Candidate]:
        """Return the candidates of the next generation; see `SearchMethod.ask`."""
        random = task.random(next_generation(history))
        count = self.drawn * self.population
        found = [random_candidate(task.space, random, self.most_gates) for _ in range(count)]
        return task.best(found, self.population)


def random_candidate(space: Space, random: np.random.Generator, most_gates: int) -> Candidate:
    """Return a candidate of random gates with small random angles."""
    count = int(random.integers(1, most_gates + 1))
    if space.ordered:
        count = min(count, len(space.gates))
        gates = np.sort(random.choice(len(space.gates), count, replace=False))
    else:
        gates = random.integers(len(space.gates), size=count)
    numbers = tuple(map(int, gates))
    angles = random.normal(0, 0.3, space.angle_count(numbers))
    return Candidate(numbers, tuple(map(float, angles)), origin="random")


def next_generation(history: Sequence[Result]) -> int:
    """Return the number of the next generation."""
    return history[-1].generation + 1 if history else 0


def last_generation(history: Sequence[Result]) -> list[Result]:
    """Return the results of the last generation."""
    return [one for one in history if one.generation == history[-1].generation] if history else []


def objective(result: Result, name: str) -> float:
    """Return an objective of a result, to be minimised."""
    if name == "duration":
        return np.nan if result.duration is None else result.duration
    if name == "fidelity":
        return np.nan if result.fidelity is None else 1 - result.fidelity
    return float(getattr(result, name))


def split_angles(space: Space, candidate: Candidate) -> list[tuple[float, ...]]:
    """Return the angles of each gate of a candidate."""
    found, at = [], 0
    for gate in candidate.gates:
        count = len(space.gates[gate].angles)
        found.append(candidate.angles[at : at + count])
        at += count
    return found


def join(parts: Sequence[tuple[int, tuple[float, ...]]], origin: str) -> Candidate:
    """Return the candidate of some gates with their angles."""
    angles = tuple(angle for _, own in parts for angle in own)
    return Candidate(tuple(gate for gate, _ in parts), angles, origin=origin)
