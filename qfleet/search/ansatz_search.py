"""The search: candidates of a method, trained in batches, until the budget is spent."""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import cirq
import numpy as np

from qfleet.argument_checks import (
    checked,
    choice,
    instance,
    integer,
    items,
    number,
    optional,
    shown,
)
from qfleet.devices.calibration import Calibration
from qfleet.errors import ArgumentError
from qfleet.problems.hamiltonian import Hamiltonian, lowest_eigenvalue
from qfleet.search.crew import Crew
from qfleet.search.data_task import DataTask
from qfleet.search.data_trainer import DataTrainer
from qfleet.search.evolution import Evolution
from qfleet.search.gate_gradients import Screen
from qfleet.search.growth import Adapt, Growth
from qfleet.search.history import History, identity_of
from qfleet.search.memory import require_memory
from qfleet.search.methods import Random, SearchMethod, Task
from qfleet.search.optimizers import adam, lbfgs
from qfleet.search.priced import priced, require_device
from qfleet.search.records import Result
from qfleet.search.screening import Screening
from qfleet.search.search_result import SearchResult
from qfleet.search.space import Space
from qfleet.search.trainer import energy_trainer
from qfleet.search.training import Training

OBJECTIVES = ("error", "two_qubit_gates", "depth", "fidelity", "duration")
MAX_REFERENCE_QUBITS = 14
"""Widest observable that is diagonalised for a reference."""

MAX_QUBITS = 24
"""Widest circuits, of which many states are in memory at a time."""

_OPTIMIZERS = {"adam": adam, "lbfgs": lbfgs}
_METHODS: dict[str, type[SearchMethod]] = {
    one.name: one for one in (Adapt, Growth, Evolution, Random)
}
_PROBLEM = instance(
    Hamiltonian | cirq.PauliSum | DataTask, "a Hamiltonian, a cirq.PauliSum or a DataTask"
)


@checked(
    problem=_PROBLEM,
    space=instance(Space, "a qfleet.search.Space"),
    evaluations=optional(integer(1)),
    seconds=optional(number),
    seed=integer(0),
    calibration=optional(Calibration.check),
    objectives=items(choice(OBJECTIVES), "names of objectives"),
    reference=optional(number),
    file=optional(instance(str | Path, "a path")),
    optimizer=choice(tuple(_OPTIMIZERS)),
    steps=integer(1),
    tolerance=number,
    starts=integer(1),
    reduction_factor=integer(1),
    workers=integer(1),
)
def search(
    problem: Hamiltonian | cirq.PauliSum | DataTask,
    space: Space,
    method: str | SearchMethod = "growth",
    *,
    evaluations: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    calibration: Calibration | None = None,
    objectives: Sequence[str] = ("error", "two_qubit_gates"),
    reference: float | None = None,
    file: str | Path | None = None,
    optimizer: str = "lbfgs",
    steps: int = 200,
    tolerance: float = 1e-8,
    starts: int = 1,
    reduction_factor: int = 1,
    workers: int = 1,
    target: Callable[[Result], bool] | None = None,
    progress: Callable[[Sequence[Result]], None] | None = None,
) -> SearchResult:
    """Search circuits of low energy, or low error of data, and low price.

    Each generation of candidates is trained exactly, in batches of one compiled program. A
    generation that was started is finished.

    Args:
        problem: The Hamiltonian, or the data of a classification or a regression.
        space: The gates, and the state that they begin with.
        method: "adapt", "growth", "evolution", "random", or a `SearchMethod`; for data, one that
            chooses gates without gradients.
        evaluations: Most evaluations of an energy and its gradient, of all candidates; for data, of
            the loss of all training rows.
        seconds: Most seconds.
        seed: Seed of all random numbers. Equal seeds give equal histories.
        calibration: A device, for which each result has a predicted fidelity and a duration.
        objectives: What the front minimises, of OBJECTIVES; "fidelity" is maximised, and
            "duration" is the wall time of a run on the device. Both need a calibration.
        reference: The energy that errors refer to; the exact one of the Hamiltonian unless given.
        file: A file of JSON lines that the history is written to. A search that finds one of the
            same problem, space, method and seed continues it.
        optimizer: "lbfgs" or "adam", for the angles of a candidate.
        steps: Most evaluations of a start.
        tolerance: A start ends where its energy improves by less, in the unit of the energy.
        starts: Starts per candidate; those after the first begin near its angles.
        reduction_factor: Early stop in groups: one of this many candidates with as many gates that
            entangle is trained further after a part of the steps, twice; 1 for no such stop.
        workers: Processes that train candidates side by side: those of different programs, and rows
            of data. The history does not depend on it. A script needs the usual
            `if __name__ == "__main__":`.
        target: Ends the search at a result for which it is true.
        progress: Is called with all results after each generation, also with those of a file.

    Returns:
        The results.

    Raises:
        ArgumentError: An argument is wrong; there is no budget, or it is less than a generation;
            all gates commute with the Hamiltonian; the file is of another search; or an external
            program fails.
        CircuitError: A gate or the Hamiltonian is not supported, or acts on other qubits.
        MemoryLimitError: A generation of candidates does not fit into the free memory.
        NoiseError: The device has too few qubits, or can't run a gate of the space.
    """
    start = time.monotonic()
    chosen = _method(method)
    _require_budget(evaluations, seconds, chosen)
    _require_device(objectives, calibration)
    if len(space.qubits) > MAX_QUBITS:
        raise ArgumentError(
            f"space has {len(space.qubits)} qubits: circuits of up to {MAX_QUBITS} are searched"
        )
    data = problem if isinstance(problem, DataTask) else None
    require_memory(space, chosen, starts=starts, data=data)
    if calibration is not None:
        require_device(space, calibration)
    training = Training(
        optimizer, _OPTIMIZERS[optimizer], steps, tolerance, starts, 0.3, reduction_factor
    )
    screening: Screening | None
    if isinstance(problem, DataTask):
        observable, exact, screen = problem, reference, None
        screening = Screening(space, problem, calibration, seed)
        crew = Crew(DataTrainer, (space, problem, training), workers)
    else:
        observable, exact = _observable(problem, space, reference)
        screen, screening = _screen(space, observable, seed), None
        crew = Crew(energy_trainer, (space, tuple(observable), training), workers)
    deadline = math.inf if seconds is None else start + seconds
    task = Task(space, screen, seed, tuple(objectives), screening, deadline)
    identity = identity_of(observable, space, chosen, seed, training, exact)
    with History(file, identity) as log, crew:
        history = log.found
        for generation in sorted({one.generation for one in history}):
            results = [one for one in history if one.generation == generation]
            crew.trainer.skip([one.candidate for one in results])
            chosen.tell(results)
        spent = sum(one.evaluations for one in history)
        if progress is not None and history:
            progress(history)
        while not (target is not None and any(map(target, history))):
            if evaluations is not None and spent >= evaluations:
                break
            if history and time.monotonic() >= deadline:
                break
            candidates = chosen.ask(task, history)
            if not candidates:
                break
            generation = history[-1].generation + 1 if history else 0
            random = np.random.default_rng([seed, generation, 1])
            trained = crew.train(candidates, random)
            found = [
                priced(space, one, got, exact, calibration, generation, len(candidates))
                for one, got in zip(candidates, trained, strict=True)
            ]
            log.append(found)
            chosen.tell(found)
            history += found
            spent += sum(one.evaluations for one in found)
            if progress is not None:
                progress(history)
    invalid = tuple(getattr(chosen, "invalid", ()))
    elapsed = time.monotonic() - start
    return SearchResult(tuple(history), exact, tuple(objectives), space, elapsed, invalid)


def _method(method: object) -> SearchMethod:
    """Return a method, or the one of a name."""
    if isinstance(method, SearchMethod):
        return method
    if isinstance(method, str) and method in _METHODS:
        return _METHODS[method]()
    raise ArgumentError(
        f"method is {shown(method)}: choose {', '.join(_METHODS)}, or pass a SearchMethod"
    )


def _observable(
    problem: Hamiltonian | cirq.PauliSum, space: Space, reference: float | None
) -> tuple[cirq.PauliSum, float | None]:
    """Return the observable, and its reference energy."""
    observable = problem.pauli_sum() if isinstance(problem, Hamiltonian) else problem
    if other := sorted(set(observable.qubits) - set(space.qubits)):
        raise ArgumentError(
            f"problem acts on {other[0]}, which is not among the qubits of the space: build the"
            " space on all qubits of the Hamiltonian"
        )
    if reference is not None:
        return observable, reference
    if isinstance(problem, Hamiltonian):
        return observable, problem.reference_energy()
    if len(space.qubits) > MAX_REFERENCE_QUBITS:
        return observable, None
    strings = [one.dense(space.qubits) for one in observable]
    words = ["".join("IXYZ"[letter] for letter in one.pauli_mask) for one in strings]
    values = np.array([complex(one.coefficient).real for one in strings])
    return observable, lowest_eigenvalue(words, values)


def _screen(space: Space, observable: cirq.PauliSum, seed: int) -> Screen:
    """Return the gradients of the gates, some of which change the energy."""
    screen = Screen(space, observable)
    if screen.nothing_changes(np.random.default_rng(seed)):
        raise ArgumentError(
            "all gates of the space commute with the Hamiltonian, so that no candidate changes the"
            " energy: add gates with other Pauli matrices"
        )
    return screen


def _require_budget(evaluations: int | None, seconds: float | None, method: SearchMethod) -> None:
    if evaluations is None and seconds is None:
        raise ArgumentError("the budget is missing: pass evaluations, seconds or both")
    if evaluations is not None and evaluations < method.generation:
        raise ArgumentError(
            f"evaluations is {evaluations}, but one generation of {method.name or 'the method'} has"
            f" {method.generation} candidates: pass at least as many"
        )
    if seconds is not None and seconds <= 0:
        raise ArgumentError(f"seconds is {seconds:g}: pass a positive number")


def _require_device(objectives: Sequence[str], calibration: Calibration | None) -> None:
    if not objectives:
        raise ArgumentError(f"objectives is empty: name some of {', '.join(OBJECTIVES)}")
    if calibration is None and (needed := {"fidelity", "duration"} & {*objectives}):
        raise ArgumentError(
            f"objectives has {min(needed)}, but calibration is missing: pass a device"
        )
