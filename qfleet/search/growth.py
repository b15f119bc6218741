"""Methods that follow gradients: ADAPT-VQE, and growth and pruning of several candidates."""

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from qfleet.argument_checks import instance, integer, number, optional
from qfleet.errors import ArgumentError
from qfleet.search.methods import (
    SearchMethod,
    Task,
    join,
    last_generation,
    next_generation,
    split_angles,
)
from qfleet.search.records import Candidate, Result

_NUDGE = 0.05  # first angles of a gate without a gradient, in radians
_START = Candidate((), ())
_FEW = 14  # gates of which all pairs are removed, too


class Adapt(SearchMethod):
    """ADAPT-VQE: adds the gate with the largest gradient, and trains all angles again.

    Grimsley et al., "An adaptive variational algorithm for exact molecular simulations on a quantum
    computer" (arXiv:1812.11173).

    Args:
        most_gates: Most gates.
        tolerance: The search ends where no gradient is larger, in the unit of energy per angle.
        gain: It also ends after a gate with which the energy improves by less.
    """

    name = "adapt"
    generation = 1

    def __init__(self, most_gates: int = 100, tolerance: float = 1e-4, gain: float = 1e-9) -> None:
        self.most_gates: int = integer(1)(most_gates, "most_gates")
        self.tolerance = number(tolerance, "tolerance")
        self.gain = number(gain, "gain")

    def extent(self, gates: int, entangling: int) -> tuple[int, int]:
        """Return the most candidates and gates of each; see `SearchMethod.extent`."""
        return 1, self.most_gates

    def ask(self, task: Task, history: Sequence[Result]) -> list[Candidate]:
        """Return the candidates of the next generation; see `SearchMethod.ask`."""
        if len(history) > 1 and history[-1].energy > history[-2].energy - self.gain:
            return []
        last = history[-1].candidate if history else _START
        slopes = _allowed(task, last, task.gradients([last])[0])
        if len(last.gates) >= self.most_gates or slopes.max() <= self.tolerance:
            return []
        return [_with_gate(task, last, int(slopes.argmax()), 0.0, "adapt")]


class Growth(SearchMethod):
    """Adds gates with large gradients to several candidates, then removes gates one by one.

    Each generation of growth trains the children of the best candidates; it ends where they do not
    improve. Each generation of pruning trains the best candidates without one of their gates. All
    of them are results, so that the front has circuits of any length. Further rounds choose among
    gates at random, in proportion to their gradients.

    Args:
        width: Candidates that are kept in each generation.
        children: Gates that are tried for each of them.
        most_gates: Most gates.
        rounds: Rounds of growth and pruning.
        tolerance: Least gain of energy of a generation of growth.
    """

    name = "growth"

    def __init__(
        self,
        width: int = 4,
        children: int = 12,
        most_gates: int = 30,
        rounds: int = 3,
        tolerance: float = 1e-7,
    ) -> None:
        self.width: int = integer(1)(width, "width")
        self.children: int = integer(1)(children, "children")
        self.most_gates: int = integer(1)(most_gates, "most_gates")
        self.rounds: int = integer(1)(rounds, "rounds")
        self.tolerance = number(tolerance, "tolerance")

    @property
    def generation(self) -> int:
        """Most candidates of the first generation."""
        return self.children

    def extent(self, gates: int, entangling: int) -> tuple[int, int]:
        """Return the most candidates and gates of each; see `SearchMethod.extent`."""
        return self.width * max(min(self.children, gates), self.most_gates), self.most_gates

    def ask(self, task: Task, history: Sequence[Result]) -> list[Candidate]:
        """Return the candidates of the next generation; see `SearchMethod.ask`."""
        last = last_generation(history)
        phase, _, text = (last[0].candidate.origin if last else "grow 0").partition(" ")
        turn = int(text)
        parents = [one.candidate for one in _best(last, self.width)] or [_START]
        if phase == "grow" and self._improves(history, last):
            found = self._grown(task, parents, turn, next_generation(history))
            if found:
                return found
        if last and (found := removals(task, parents, f"prune {turn}")):
            return found
        if last and turn + 1 < self.rounds:
            return self._grown(task, [_START], turn + 1, next_generation(history))
        return []

    def _improves(self, history: Sequence[Result], last: Sequence[Result]) -> bool:
        if not last:
            return True
        before = [one for one in history if one.generation == last[0].generation - 1]
        if not before or before[0].candidate.origin != last[0].candidate.origin:
            return True
        lowest = min(one.energy for one in last)
        return lowest < min(one.energy for one in before) - self.tolerance

    def _grown(
        self, task: Task, parents: Sequence[Candidate], turn: int, generation: int
    ) -> list[Candidate]:
        parents = [one for one in parents if len(one.gates) < self.most_gates]
        if not parents:
            return []
        random = task.random(generation)
        children = []
        for parent, found in zip(parents, task.gradients(parents), strict=True):
            slopes = _allowed(task, parent, found)
            if turn:
                slopes = slopes * random.exponential(size=len(slopes))
            order = np.argsort(-slopes, kind="stable")[: self.children]
            for gate in order[slopes[order] > 0]:
                nudge = 0.0 if found[gate] > 1e-6 else _NUDGE
                children.append(_with_gate(task, parent, int(gate), nudge, f"grow {turn}"))
        return _distinct(children)


class GatePruning(SearchMethod):
    """Removes gates of one circuit, such as one of `super_circuit_of`, until none is left.

    Each generation trains the best candidates without one of their gates that entangle, without
    pairs of them if they are few, and without all that several good candidates lack.

    Args:
        start: The candidate that is pruned; all gates with angles of 0 unless given.
        width: Candidates that are kept in each generation.
        slack: Energies that differ by less are equal, so that several gates are removed at once.
    """

    name = "pruning"
    generation = 1

    def __init__(self, start: Candidate | None = None, width: int = 4, slack: float = 1e-6) -> None:
        self.start: Candidate | None = optional(instance(Candidate, "a Candidate"))(start, "start")
        self.width: int = integer(1)(width, "width")
        self.slack = number(slack, "slack")

    def extent(self, gates: int, entangling: int) -> tuple[int, int]:
        """Return the most candidates and gates of each; see `SearchMethod.extent`."""
        return self.width * entangling + math.comb(min(entangling, _FEW), 2) + 1, gates

    def ask(self, task: Task, history: Sequence[Result]) -> list[Candidate]:
        """Return the candidates of the next generation; see `SearchMethod.ask`."""
        last = last_generation(history)
        if last:
            lowest = min(one.energy for one in last) + self.slack
            parents = sorted(last, key=lambda one: _price(task, one, lowest))[: self.width]
            found = removals(task, [one.candidate for one in parents], "prune")
            found += _pairs_removed(task, parents[0].candidate)
            return _distinct(found + (self._joint(task, last) if task.space.ordered else []))
        if self.start is not None:
            return [self.start]
        if not task.space.ordered:
            raise ArgumentError(
                "start is missing: the space is not ordered, so pass the candidate to prune"
            )
        every = tuple(range(len(task.space.gates)))
        return [Candidate(every, (0.0,) * task.space.angle_count(every), origin="start")]

    def _joint(self, task: Task, last: Sequence[Result]) -> list[Candidate]:
        """Return candidates without all gates that several of the best lack."""
        best = _best(last, len(last))
        found = []
        count = 2
        while count <= len(best):
            common = set.intersection(*(set(one.candidate.gates) for one in best[:count]))
            first = best[0].candidate
            parts = zip(first.gates, split_angles(task.space, first), strict=True)
            kept = [one for one in parts if one[0] in common]
            if any(task.space.gates[gate].entangles for gate, _ in kept):
                found.append(join(kept, "prune"))
            count *= 2
        return found


def _pairs_removed(task: Task, parent: Candidate) -> list[Candidate]:
    """Return candidates without two gates that entangle, if these are few."""
    parts = list(zip(parent.gates, split_angles(task.space, parent), strict=True))
    wide = [at for at, (gate, _) in enumerate(parts) if task.space.gates[gate].entangles]
    if len(wide) > _FEW:
        return []
    pairs = itertools.combinations(wide, 2)
    return [
        join([one for at, one in enumerate(parts) if at not in pair], "prune") for pair in pairs
    ]


def _price(task: Task, result: Result, lowest: float) -> tuple[float, ...]:
    """Return the order of parents: the fewest gates of those with a low energy, then the others."""
    wide = sum(task.space.gates[gate].entangles for gate in result.candidate.gates)
    if result.energy <= lowest:
        return 0, wide, result.energy
    return 1, result.energy


def removals(task: Task, parents: Iterable[Candidate], origin: str) -> list[Candidate]:
    """Return candidates without one of their gates that entangle, each structure once."""
    found = []
    for parent in parents:
        parts = list(zip(parent.gates, split_angles(task.space, parent), strict=True))
        for at, (gate, _) in enumerate(parts):
            if task.space.gates[gate].entangles and len(parts) > 1:
                found.append(join(parts[:at] + parts[at + 1 :], origin))
    return _distinct(found)


def _with_gate(task: Task, parent: Candidate, gate: int, angle: float, origin: str) -> Candidate:
    """Return a candidate with one more gate: the last, or in an ordered space at its place."""
    parts = list(zip(parent.gates, split_angles(task.space, parent), strict=True))
    place = len(parts)
    if task.space.ordered:
        place = sum(one < gate for one in parent.gates)
    parts.insert(place, (gate, (angle,) * len(task.space.gates[gate].angles)))
    return join(parts, origin)


def _allowed(task: Task, parent: Candidate, slopes: np.ndarray) -> np.ndarray:
    """Return gradients, 0 for gates that an ordered candidate has already."""
    if not task.space.ordered:
        return slopes
    found = slopes.copy()
    found[list(parent.gates)] = 0.0
    return found


def _best(results: Sequence[Result], count: int) -> list[Result]:
    return sorted(results, key=lambda one: (one.energy, one.candidate.key))[:count]


def _distinct(candidates: Iterable[Candidate]) -> list[Candidate]:
    return list({one.key: one for one in reversed(list(candidates))}.values())[::-1]
