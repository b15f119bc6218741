"""The search of one seed: its stages, each with a history of its own, within the budget."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from common import storage
from common.errors import SettingsError
from qfleet.search import (
    Adapt,
    Candidate,
    Evolution,
    External,
    GatePruning,
    Growth,
    Random,
    Result,
    SearchMethod,
    SearchResult,
    Space,
    search,
)
from qfleet.search.external import ProposerError
from studies.budget import Budget
from studies.search.definition import SearchDefinition
from studies.search.folder import SearchFolder
from studies.search.history_file import HistoryFile

Report = Callable[["SeedSearch"], None]
"""Is called after each generation."""

GROWN = 0.5
"""Part of the budget in which ADAPT-VQE adds gates, before circuits are pruned."""

SAME_ERROR = 1e-6
"""Errors that differ by less, in the unit of the Hamiltonian, need no larger circuit."""

ROUNDING = 1e-10
"""Errors that are smaller are rounding, in the unit of the Hamiltonian."""

_MIN_SECONDS = 1e-3
_METHODS: dict[str, type[SearchMethod]] = {
    "adapt": Adapt,
    "growth": Growth,
    "evolution": Evolution,
    "random": Random,
}


@dataclass(frozen=True)
class Stage:
    """A part of the search of a seed.

    Attributes:
        name: Its name in the name of its file; empty for the first.
        space: Its gates.
        method: How it chooses circuits.
        share: Part of the budget that it may use, of what earlier stages left.
        starts: Starts per candidate.
        steps: Most evaluations of a start.
        tolerance: As for `qfleet.search.search`.
    """

    name: str
    space: Space
    method: SearchMethod
    share: float = 1.0
    starts: int = 1
    steps: int = 200
    tolerance: float = 1e-8


def first_stage(definition: SearchDefinition, space: Space, seed: int = 0) -> Stage:
    """Return the first stage of every seed.

    Args:
        definition: The search.
        space: Its gates.
        seed: The seed, of the first angles for data.
    """
    chosen = definition.method_name
    if definition.has_data:
        method: SearchMethod
        if chosen == "pruning":
            method = _pruned_layers(space, seed)
        else:
            method = {"evolution": Evolution, "random": Random}[chosen](drawn=definition.drawn)
        return Stage("", space, method, steps=60, tolerance=1e-4)
    start = definition.matrix_product[1] if definition.has_start else None
    if chosen == "pruning":
        if space.ordered:
            return _pruning("", space, start)
        return Stage("", space, Adapt(), share=GROWN)
    if start is not None:
        return Stage("", space, Evolution(start=[start]))
    if chosen in _METHODS:
        return Stage("", space, _METHODS[chosen]())
    return Stage("", space, External(definition.command))


def _pruning(name: str, space: Space, start: Candidate | None) -> Stage:
    method = GatePruning(start, width=2)
    return Stage(name, space, method, starts=2, steps=100, tolerance=1e-7)


def _pruned_layers(space: Space, seed: int) -> GatePruning:
    """Return the pruning of all gates of layers, from random angles."""
    every = tuple(range(len(space.gates)))
    angles = np.random.default_rng(seed).normal(0, 0.3, space.angle_count(every))
    return GatePruning(Candidate(every, (), origin="start").trained(angles), width=2)


@dataclass
class SeedSearch:
    """The search of one seed.

    Attributes:
        definition: The search.
        folder: Its folder.
        seed: The seed.
        report: Is called after each generation.
        budget: Its limit; BUDGET unless given.
        stages: Results of its stages so far, by name.
        running: Results of the stage that runs.
    """

    definition: SearchDefinition
    folder: SearchFolder
    seed: int
    report: Report
    budget: Budget | None = None
    stages: dict[str, SearchResult] = field(default_factory=dict)
    running: Sequence[Result] = ()

    def run(self, space: Space) -> None:
        """Search, and continue the histories of earlier starts.

        Args:
            space: The gates.

        Raises:
            ArgumentError: As `qfleet.search.search`.
        """
        self._seconds = self.folder.seconds(self.seed)
        first = first_stage(self.definition, space, self.seed)
        found = self._search(first)
        if self.definition.method != "pruning" or space.ordered:
            return
        for count in _sizes(len(found.history)):
            name = f"pruned-{count}"
            if self._is_used_up() and not storage.is_file(self.folder.history(self.seed, name)):
                return
            smaller, start = found.super_circuit(found.history[count - 1])
            pruned = self._search(_pruning(name, smaller, start))
            if pruned.best.error <= found.best.error + SAME_ERROR:
                return

    @property
    def results(self) -> list[Result]:
        """All results so far."""
        done = [one for stage in self.stages.values() for one in stage.history]
        return [*done, *self.running]

    @property
    def best(self) -> Result:
        """The result with the lowest error; of equal ones, one with the fewest CNOTs."""
        return min(self.results, key=lambda one: (rounded(one.error), one.two_qubit_gates))

    @property
    def evaluations(self) -> int:
        """Evaluations of an energy and its gradient so far."""
        return sum(one.evaluations for one in self.results)

    @property
    def seconds(self) -> float:
        """Seconds of all starts so far."""
        return sum(self._seconds.values())

    @property
    def _budget(self) -> Budget:
        return self.budget or self.definition.budget

    def _is_used_up(self) -> bool:
        budget = self._budget
        return (budget.evaluations is not None and self.evaluations >= budget.evaluations) or (
            budget.seconds is not None and self.seconds >= budget.seconds
        )

    @property
    def _is_flat(self) -> bool:
        """If all circuits have the energy of the first state, which is not the exact one."""
        if self.definition.has_data or self.definition.command or self.best.error < ROUNDING:
            return False
        energies = [one.energy for one in self.results]
        return len(energies) > 1 and max(energies) - min(energies) < ROUNDING

    def _search(self, stage: Stage) -> SearchResult:
        definition, budget = self.definition, self._budget
        before = self._seconds.get(stage.name, 0.0)
        others = self.seconds - before
        started = time.monotonic()
        evaluations = seconds = None
        if budget.evaluations is not None:
            left = stage.share * (budget.evaluations - self.evaluations)
            evaluations = max(stage.method.generation, int(left))
        if budget.seconds is not None:
            seconds = max(stage.share * (budget.seconds - others) - before, _MIN_SECONDS)

        with HistoryFile(self.folder.history(self.seed, stage.name)) as history:

            def progress(results: Sequence[Result]) -> None:
                self.running = results
                self._seconds[stage.name] = before + time.monotonic() - started
                if history.is_due:
                    history.save()
                    self.folder.write_seconds(self.seed, self._seconds)
                self.report(self)

            try:
                found = search(
                    definition.problem,
                    stage.space,
                    stage.method,
                    evaluations=evaluations,
                    seconds=seconds,
                    seed=self.seed,
                    calibration=definition.calibration,
                    objectives=definition.objectives,
                    reference=definition.reference,
                    file=str(history.local),
                    steps=stage.steps,
                    tolerance=stage.tolerance,
                    starts=stage.starts,
                    reduction_factor=definition.reduction_factor,
                    workers=definition.workers_per_seed,
                    progress=progress,
                )
            except ProposerError as error:
                raise SettingsError(f"METHOD={definition.method[:80]}: {error}") from None
        self.folder.write_seconds(self.seed, self._seconds)
        self.running = ()
        self.stages[stage.name] = found
        if not self.results:
            raise SettingsError(
                f"METHOD={definition.method} finds no gate of SPACE={definition.space}"
                " that changes the energy of the first state: set METHOD=evolution or another SPACE"
            )
        if self._is_flat:
            raise SettingsError(
                f"none of the {len(self.results)} circuits of SPACE={definition.space} changes the"
                f" energy of the first state, {self.best.energy:.6g}: set another SPACE"
            )
        return found


def rounded(error: float) -> float:
    """Return an error in three digits; smaller ones than ROUNDING are 0."""
    return 0.0 if abs(error) < ROUNDING else float(f"{error:.2e}")


def _sizes(most: int) -> Iterator[int]:
    """Yield 1, 2, 3, 4, 6, 8, 12, 16 and so on, and the largest."""
    sizes = {one for power in range(64) for one in (1 << power, 3 << power)}
    yield from sorted({one for one in sizes if one < most} | {most} if most else ())
