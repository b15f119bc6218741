"""Candidates of a search that are trained per second: `benchmarks.search rate`.

The rate trains random masks of layers for the transverse-field Ising model: all of them in one
batch, the same one after another, and the published loop, COBYLA with 1,000 evaluations, on Qulacs
and lightning.qubit. Energies that were reached are next to the rates.

`benchmarks.search masks` times what gates that are off cost: values and gradients of 64 candidates
with all gates, with their own ones, in the order of a search, and with the gates of one candidate.
"""

import time
from collections.abc import Callable, Sequence

import cirq
import numpy as np

from qfleet.problems import named
from qfleet.search import Candidate, Space, layers
from qfleet.search.super_circuit import SuperCircuit, side_by_side

EVALUATIONS = 1000  # of COBYLA, as published
ROWS = 64
ROUNDS = 9  # of the masks, each with all ways in turn


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


def masks() -> None:
    """Print candidates per second in a call, by the share of gates that are on."""
    print("qubits, share of gates: candidates per second; all gates, own, ordered, all alike")
    for qubits in (4, 8, 12):
        space = layers(qubits, 3)
        energy = next(named(f"tfim:{qubits}:1.0").members()).pauli_sum()
        program = SuperCircuit(space.gates, energy, space.qubits, space.start)
        random = np.random.default_rng(qubits)
        angles = random.uniform(-0.5, 0.5, (ROWS, program.angles))
        for share in (0.2, 0.6, 1.0):
            own = random.random((ROWS, len(space.gates))) < share
            own[:, 0] = True
            order = side_by_side([np.flatnonzero(row).tolist() for row in own])
            equal = np.tile(own[:1], (ROWS, 1))  # as the rows of data have them
            ways = [np.ones_like(own), own, own[order], equal]
            times = np.array([_seconds(program, ways, angles) for _ in range(ROUNDS)])
            rates = (f"{ROWS / one:10,.0f}" for one in np.median(times, axis=0))
            print(f"{qubits:2} {share:.1f} {''.join(rates)}", flush=True)


def _seconds(
    program: SuperCircuit, ways: Sequence[np.ndarray], angles: np.ndarray, calls: int = 20
) -> list[float]:
    """Return the seconds of a call with each of some masks."""
    found = []
    for chosen in ways:
        start = time.perf_counter()
        for _ in range(calls):
            program.value_and_gradient(chosen, angles)
        found.append((time.perf_counter() - start) / calls)
    return found


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
