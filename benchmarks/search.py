"""Ansatz search: molecules of published searches, digits under noise, candidates per second.

    .venv/bin/python -m benchmarks.search molecules [--cases h2o-8] [--seeds 10] [--folder parts]
    .venv/bin/python -m benchmarks.search digits --folder parts [--cases 2:ibm_santiago] [--seeds 5]
    .venv/bin/python -m benchmarks.search table --folder parts  # both, 10 and 5 seeds
    .venv-peers/bin/python -m benchmarks.search rate
    .venv/bin/python -m benchmarks.search masks

Molecules are those of TensorRL-QAS (arXiv:2505.09371), Jordan-Wigner, restricted Hartree-Fock
orbitals, with the error from exact diagonalisation. Their coordinates are in bohr, PennyLane's
unit, in which that project computed them: the Hartree-Fock error of LiH is then 2.4e-2 Ha as in its
table, while it is 1.2e-1 in angstrom; --unit angstrom measures the latter. ADAPT-VQE with qubit
excitations is the baseline. Its circuits, as gates that can be left out, are then pruned with two
starts per candidate, the second of which depends on the seed. With --folder, a seed that has ended
is a file there, with its time, and the same command continues with the missing seeds.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import qfleet
from common import storage
from qfleet.problems import active_space
from qfleet.search import (
    Adapt,
    GatePruning,
    Result,
    SearchResult,
    Space,
    excitations,
    pareto_front,
    search,
)

BEH2 = [("H", (0.0, 0.0, -1.33)), ("Be", (0.0, 0.0, 0.0)), ("H", (0.0, 0.0, 1.33))]
H2O = [("H", (-0.021, -0.002, 0.0)), ("O", (0.835, 0.452, 0.0)), ("H", (1.477, -0.273, 0.0))]
LIH = [("Li", (0.0, 0.0, 0.0)), ("H", (0.0, 0.0, 3.4))]
SEEDS = {"molecules": 10, "digits": 5}  # of the table
MOST_SHOWN = 100  # CNOTs of a front


@dataclass(frozen=True)
class MoleculeCase:
    """A molecule, and what is wanted.

    Attributes:
        atoms: Symbols and coordinates.
        electrons: Active electrons.
        orbitals: Active orbitals.
        basis: Basis.
        pruned: Numbers of gates of ADAPT-VQE's circuits that are pruned.
        goals: Pairs of error in hartree and CNOTs.
        seconds: Time of the goal.
    """

    atoms: list[tuple[str, tuple[float, float, float]]]
    electrons: int
    orbitals: int
    basis: str
    pruned: tuple[int, ...]
    goals: tuple[tuple[float, int], ...]
    seconds: float


CASES = {
    "beh2-6": MoleculeCase(BEH2, 4, 3, "sto-3g", (2,), ((6.8e-5, 5),), 60),
    "h2o-8": MoleculeCase(H2O, 4, 4, "sto-3g", (3, 4), ((8.9e-4, 9), (1.3e-4, 30)), 300),
    "h2o-10": MoleculeCase(H2O, 4, 5, "6-31g", (3, 6), ((4.1e-4, 15),), 900),
    "lih-12": MoleculeCase(LIH, 4, 6, "sto-3g", (5,), ((1.6e-3, 1000),), 3600),
}


def main() -> None:
    """Print one of the tables, or the whole one of molecules and digits."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search")
    parser.add_argument("part", choices=("molecules", "digits", "table", "rate", "masks"))
    parser.add_argument("--cases", default="", help="names, with commas; all unless given")
    parser.add_argument("--seeds", type=int, help="1 unless given; 10 and 5 for the table")
    parser.add_argument("--evaluations", type=int, default=2_000, help="of each search for digits")
    parser.add_argument("--folder", type=Path, help="keeps the seeds that have ended")
    parser.add_argument("--unit", choices=("bohr", "angstrom"), default="bohr")
    options = parser.parse_args()
    print(f"{qfleet.num_threads()} threads", flush=True)
    if options.part in ("rate", "masks"):
        from benchmarks.search_rates import masks, rates

        (rates if options.part == "rate" else masks)()
        return
    from benchmarks.search_digits import CLASSES, DEVICES, digits

    every = {
        "molecules": list(CASES),
        "digits": [f"{classes}:{device}" for classes in CLASSES for device in DEVICES],
    }
    parts = [options.part] if options.part in every else list(every)
    known = [one for part in parts for one in every[part]]
    chosen = options.cases.split(",") if options.cases else known
    if unknown := [one for one in chosen if one not in known]:
        parser.error(f"--cases has no {unknown[0]!r}: use {', '.join(known)}")
    seeds = {part: options.seeds or (SEEDS[part] if len(parts) > 1 else 1) for part in every}
    for name in (one for one in chosen if one in CASES):
        molecule(name, seeds["molecules"], options.unit, options.folder)
    if cells := [one for one in chosen if one not in CASES]:
        digits(cells, seeds["digits"], options.evaluations, options.folder or Path("digits"))


def molecule(name: str, seeds: int, unit: str, folder: Path | None) -> None:
    """Print the fronts of ADAPT-VQE and of pruning, and how often each goal was reached."""
    case = CASES[name]
    problem = active_space(
        case.atoms,
        case.electrons,
        case.orbitals,
        basis=case.basis,
        unit=unit,  # type: ignore[arg-type]
    )
    space = excitations(problem.qubits, case.electrons, "qubit")
    reference = problem.reference_energy()
    print(f"\n{name}: {case.basis}, {unit}, {case.electrons} electrons, {case.orbitals} orbitals")
    print(f"exact energy {reference:.9f} Ha, {len(problem.terms)} words", flush=True)
    start = time.perf_counter()
    adapt = search(problem, space, Adapt(max(*case.pruned, 8)), seconds=case.seconds)
    print(f"ADAPT-VQE: {time.perf_counter() - start:.1f} s, {adapt.evaluations} evaluations")
    print(points(adapt.history), flush=True)
    times, counts = [], []
    reached = [0] * len(case.goals)
    every: list[Result] = list(adapt.history)
    for seed in range(seeds):
        file = folder / f"{name}-{unit}-{seed}.jsonl" if folder else None
        taken, found = kept(file, lambda seed=seed: pruned(problem, space, case, seed))
        times.append(taken)
        counts.append(sum(one.evaluations for one in found))
        every += found
        for at, (error, cnots) in enumerate(case.goals):
            good = [one for one in found if one.error <= error and one.two_qubit_gates <= cnots]
            reached[at] += bool(good)
    print(
        f"pruning: {seeds} seeds, {statistics.median(times):.1f} s and"
        f" {statistics.median(counts):,.0f} evaluations each, with ADAPT-VQE; the front of all:"
    )
    print(points(every))
    for at, (error, cnots) in enumerate(case.goals):
        within = sum(one <= case.seconds for one in times)
        print(
            f"goal {error:.1e} Ha with {cnots} CNOT: {reached[at]} of {seeds} seeds; {within} took"
            f" at most {case.seconds:.0f} s",
            flush=True,
        )


def kept(file: Path | None, compute: Callable[[], list[Result]]) -> tuple[float, list[Result]]:
    """Return the seconds and the results of a seed, from its file if there is one.

    Args:
        file: A line with the seconds, and a line of JSON per result; None to keep nothing.
        compute: Returns the results.
    """
    if file and file.exists():
        seconds, *lines = file.read_text().splitlines()
        return float(seconds), [Result.from_json(one) for one in lines]
    start = time.perf_counter()
    results = compute()
    seconds_taken = time.perf_counter() - start
    if file:
        lines = [f"{seconds_taken:.3f}", *(one.to_json() for one in results)]
        storage.write_atomic(file, "\n".join([*lines, ""]).encode())
    return seconds_taken, results


def pruned(
    problem: qfleet.problems.Hamiltonian, space: Space, case: MoleculeCase, seed: int
) -> list[Result]:
    """Return the results of ADAPT-VQE, and of pruning some of its circuits."""
    adapt = search(problem, space, Adapt(max(case.pruned)), seconds=case.seconds, seed=seed)
    results = list(adapt.history)
    for count in case.pruned:
        results += _pruned(problem, adapt, adapt.history[min(count, len(adapt.history)) - 1], seed)
    return results


def _pruned(
    problem: qfleet.problems.Hamiltonian, adapt: SearchResult, one: Result, seed: int
) -> tuple[Result, ...]:
    space, start = adapt.super_circuit(one)
    options = {"seconds": 1200, "steps": 100, "tolerance": 1e-7, "starts": 2}
    return search(problem, space, GatePruning(start, width=2), seed=seed, **options).history  # type: ignore[arg-type]


def points(results: Sequence[Result]) -> str:
    """Return the front as text."""
    values = [(one.two_qubit_gates, one.error) for one in results]
    front = [values[at] for at in pareto_front(values) if values[at][0] <= MOST_SHOWN]
    return "  CNOT: error  " + ", ".join(f"{count}: {error:.1e}" for count, error in front)


if __name__ == "__main__":
    main()
