"""Options of the training of candidates, parts of a generation, and results."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from qfleet.search.halving import Halving
from qfleet.search.optimizers import Function, Minima
from qfleet.search.records import Candidate
from qfleet.search.space import Space


class Optimizer(Protocol):
    """An optimizer of `qfleet.search.optimizers`."""

    def __call__(
        self,
        function: Function,
        start: np.ndarray,
        *,
        evaluations: int,
        tolerance: float,
        halving: Halving | None = None,
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
        reduction: One of this many candidates with as many gates that entangle is trained further
            at each rung of `Halving`; 1 for all.
    """

    name: str
    optimizer: Optimizer
    evaluations: int
    tolerance: float
    starts: int
    spread: float
    reduction: int = 1

    def halving(self, space: Space, candidates: Sequence[Candidate], starts: int) -> Halving:
        """Return which starts of candidates are trained further.

        Args:
            space: The space of the candidates. Circuits of a user are not compared.
            candidates: The candidates.
            starts: Rows of each candidate.
        """
        groups = [
            -1 - at if one.circuit else sum(space.gates[gate].entangles for gate in one.gates)
            for at, one in enumerate(candidates)
        ]
        return Halving(np.repeat(groups, starts), self.evaluations, self.reduction)


class Trained(NamedTuple):
    """Angles, energy, and evaluations of all starts; of data, also the error and the head."""

    angles: tuple[float, ...]
    energy: float
    evaluations: int
    error: float | None = None
    head: tuple[float, ...] = ()


class Part(NamedTuple):
    """Candidates of a generation that are trained together, in this process or another one.

    Attributes:
        members: Their numbers in the generation.
        candidates: The candidates.
        program: Numbers of the gates of their program, in order; empty for other programs.
        offsets: For each candidate, [starts - 1, angles] offsets of its other starts.
    """

    members: list[int]
    candidates: list[Candidate]
    program: tuple[int, ...] = ()
    offsets: Sequence[np.ndarray] = ()


class PartTrainer(Protocol):
    """Trains candidates of one task."""

    def parts(self, candidates: Sequence[Candidate], random: np.random.Generator) -> list[Part]:
        """Divide a generation, whoever trains its parts.

        Args:
            candidates: The candidates.
            random: Source of the angles of further starts.
        """

    def train_part(self, part: Part) -> list[Trained]:
        """Train the candidates of a part; the result depends on nothing else."""

    def skip(self, candidates: Sequence[Candidate]) -> None:
        """Note a generation that an earlier start trained: the next ones get equal programs."""
