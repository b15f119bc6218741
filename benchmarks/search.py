"""Ansatz search: molecules of published searches, and candidates trained per second.

    .venv/bin/python -m benchmarks.search molecules [--cases h2o-8] [--seeds 10] [--folder parts]
    .venv-peers/bin/python -m benchmarks.search rate

Molecules are those of TensorRL-QAS (arXiv:2505.09371), Jordan-Wigner, restricted Hartree-Fock
orbitals, with the error from exact diagonalisation. Their coordinates are in bohr, PennyLane's
unit, in which that project computed them: the Hartree-Fock error of LiH is then 2.4e-2 Ha as in its
table, while it is 1.2e-1 in angstrom; --unit angstrom measures the latter. ADAPT-VQE with qubit
excitations is the baseline. Its circuits, as gates that can be left out, are then pruned with two
starts per candidate, the second of which depends on the seed. With --folder, a seed that has ended
is a file there, with its time, and the same command continues with the missing seeds.

The rate trains random masks of layers for the transverse-field Ising model: all of them in one
batch, the same one after another, and the published loop, COBYLA with 1,000 evaluations, on Qulacs
and lightning.qubit. Energies that were reached are next to the rates.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cirq
import numpy as np

import qfleet
from common import storage
from qfleet.problems import active_space, named
from qfleet.search import (
    Adapt,
    Candidate,
    GatePruning,
    Result,
    SearchResult,
    Space,
    excitations,
    layers,
    pareto_front,
    search,
)

BEH2 = [("H", (0.0, 0.0, -1.33)), ("Be", (0.0, 0.0, 0.0)), ("H", (0.0, 0.0, 1.33))]
H2O = [("H", (-0.021, -0.002, 0.0)), ("O", (0.835, 0.452, 0.0)), ("H", (1.477, -0.273, 0.0))]
LIH = [("Li", (0.0, 0.0, 0.0)), ("H", (0.0, 0.0, 3.4))]
EVALUATIONS = 1000  # of COBYLA, as published
ROWS = 64
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
    """Print one of the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search")
    parser.add_argument("part", choices=("molecules", "rate"))
    parser.add_argument("--cases", default=",".join(CASES), help="names, with commas")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keeps the seeds that have ended")
    parser.add_argument("--unit", choices=("bohr", "angstrom"), default="bohr")
    options = parser.parse_args()
    print(f"{qfleet.num_threads()} threads", flush=True)
    if options.part == "rate":
        rates()
        return
    for name in options.cases.split(","):
        molecule(name, options.seeds, options.unit, options.folder)


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


def rates() -> None:
    """Print candidates per second at several widths."""
    print("qubits, way: candidates per second, mean error of the first candidates, candidates")
    for qubits, few in ((4, 8), (8, 4), (12, 2)):
        space = layers(qubits, 3)
        problem = next(named(f"tfim:{qubits}:1.0").members())
        random = np.random.default_rng(qubits)
        candidates = []
        for _ in range(ROWS):
            mask = random.random(len(space.gates)) < 0.6
            gates = tuple(np.flatnonzero(mask).tolist())
            angles = tuple(random.uniform(-0.5, 0.5, space.angle_count(gates)).tolist())
            candidates.append(Candidate(gates, angles))
        exact = problem.reference_energy() or 0.0
        ways = training_ways(problem.pauli_sum(), space, few)
        for way, (count, train) in ways.items():
            start = time.perf_counter()
            energies = train(candidates[:count])
            rate = count / (time.perf_counter() - start)
            first = float(np.mean(energies[: min(few, 2)])) - exact
            print(f"{qubits:2} {way:26} {rate:9.2f} {first:9.4f} {count:4}", flush=True)


def training_ways(
    pauli_sum: cirq.PauliSum, space: Space, few: int
) -> dict[str, tuple[int, Callable[[Sequence[Candidate]], Sequence[float]]]]:
    """Return how candidates are trained, by name, and how many of them.

    Args:
        pauli_sum: The energy.
        space: Their space.
        few: Candidates of the slow ways.
    """
    return {
        "qfleet, one batch": (ROWS, lambda part: batched(pauli_sum, space, part)),
        "qfleet, one after another": (
            ROWS,
            lambda part: [batched(pauli_sum, space, [one])[0] for one in part],
        ),
        "Qulacs, COBYLA": (
            few,
            lambda part: [cobyla(qulacs_energy(pauli_sum, space, one), one) for one in part],
        ),
        "lightning.qubit, COBYLA": (
            min(few, 2),
            lambda part: [cobyla(pennylane_energy(pauli_sum, space, one), one) for one in part],
        ),
    }


def batched(
    observable: cirq.PauliSum, space: Space, candidates: Sequence[Candidate]
) -> list[float]:
    """Train candidates by L-BFGS, and compile what they need first."""
    from qfleet.search.crew import Crew
    from qfleet.search.optimizers import lbfgs
    from qfleet.search.trainer import energy_trainer
    from qfleet.search.training import Training

    options = Training("lbfgs", lbfgs, evaluations=200, tolerance=1e-8, starts=1, spread=0.3)
    crew = Crew(energy_trainer, (space, tuple(observable), options), workers=1)
    return [one.energy for one in crew.train(candidates, np.random.default_rng(0))]


def cobyla(energy: Callable[[np.ndarray], float], candidate: Candidate) -> float:
    """Return the energy that COBYLA reaches."""
    from scipy.optimize import minimize

    start = np.array(candidate.angles)
    found = minimize(energy, start, method="COBYLA", options={"maxiter": EVALUATIONS})
    return float(found.fun)


def qulacs_energy(
    observable: cirq.PauliSum, space: Space, candidate: Candidate
) -> Callable[[np.ndarray], float]:
    """Return the energy of a candidate, computed by Qulacs."""
    import qulacs

    count = len(space.qubits)
    number = {qubit: at for at, qubit in enumerate(space.qubits)}
    circuit = qulacs.ParametricQuantumCircuit(count)
    for gate in candidate.gates:
        (one,) = space.gates[gate].operations
        places = [number[qubit] for qubit in one.qubits]
        if len(places) == 2:
            circuit.add_CNOT_gate(*places)
        else:
            circuit.add_parametric_RY_gate(places[0], 0.0)
    read = qulacs.Observable(count)
    for word in observable:
        text = " ".join(f"{pauli} {number[qubit]}" for qubit, pauli in word.items())
        read.add_operator(complex(word.coefficient).real, text)
    state = qulacs.QuantumState(count)

    def energy(angles: np.ndarray) -> float:
        for at, angle in enumerate(angles):
            circuit.set_parameter(at, -angle)  # Qulacs turns the other way
        state.set_zero_state()
        circuit.update_quantum_state(state)
        return float(read.get_expectation_value(state))

    return energy


def pennylane_energy(
    observable: cirq.PauliSum, space: Space, candidate: Candidate
) -> Callable[[np.ndarray], float]:
    """Return the energy of a candidate, computed by lightning.qubit."""
    import pennylane as qml

    number = {qubit: at for at, qubit in enumerate(space.qubits)}
    coefficients = [complex(word.coefficient).real for word in observable]
    words = [
        qml.prod(*(getattr(qml, f"Pauli{pauli}")(number[qubit]) for qubit, pauli in word.items()))
        for word in observable
    ]
    hamiltonian = qml.dot(coefficients, words)

    @qml.qnode(qml.device("lightning.qubit", wires=len(space.qubits)), diff_method=None)
    def energy(angles: np.ndarray) -> qml.measurements.ExpectationMP:
        left = iter(angles)
        for gate in candidate.gates:
            (one,) = space.gates[gate].operations
            places = [number[qubit] for qubit in one.qubits]
            if len(places) == 2:
                qml.CNOT(places)
            else:
                qml.RY(next(left), places[0])
        return qml.expval(hamiltonian)

    return lambda angles: float(energy(angles))


if __name__ == "__main__":
    main()
