"""Forward simulations of Cirq circuits: qfleet.cirq.Simulator and qsim, in one run.

python -m benchmarks.cirq_simulator [QUBITS]

Each round times one simulator after the other, with new values of the symbols; a time is the
fastest of the rounds. qsim runs with all CPUs and its fastest width of fused gates. Both compute in
complex64 and cache the translated circuit as they do by default. Run it in `.venv-peers`.
"""

import argparse
import time
from collections.abc import Callable

import cirq
import numpy as np
import qsimcirq

import qfleet.cirq
from benchmarks.circuit_models import BenchmarkModel, model
from qfleet import num_threads

ROUNDS = 15
MODELS = ("entangling", "qcnn")
FUSED_QUBITS = (2, 3, 4)
Simulator = qfleet.cirq.Simulator | qsimcirq.QSimSimulator


def main() -> None:
    """Time both simulators and print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cirq_simulator")
    parser.add_argument("qubits", nargs="?", type=int, default=20)
    qubits = parser.parse_args().qubits
    for name in MODELS:
        chosen = model(name, qubits)
        for task, run in (("state", simulate), ("expectation values", expectation_of(chosen))):
            compare(f"{name}, {qubits} qubits, {task}", chosen.circuit, run)


def compare(title: str, circuit: cirq.Circuit, run: Callable[..., np.ndarray]) -> None:
    """Time all simulators on a circuit, check that they agree, and print a line."""
    simulators: dict[str, Simulator] = {"qfleet": qfleet.cirq.Simulator(dtype=np.complex64)}
    for fused in FUSED_QUBITS:
        options = qsimcirq.QSimOptions(cpu_threads=num_threads(), max_fused_gate_size=fused)
        simulators[f"qsim, {fused} fused"] = qsimcirq.QSimSimulator(options)
    best = dict.fromkeys(simulators, np.inf)
    random = np.random.default_rng(0)
    names = sorted(cirq.parameter_names(circuit))
    for _ in range(ROUNDS):
        values = dict(zip(names, random.uniform(0, 2, len(names)).tolist(), strict=True))
        results = []
        for name, simulator in simulators.items():
            start = time.perf_counter()
            results.append(run(simulator, circuit, values))
            best[name] = min(best[name], time.perf_counter() - start)
        for result in results[1:]:
            np.testing.assert_allclose(result, results[0], atol=2e-5)
    peer = min((time, name) for name, time in best.items() if name != "qfleet")
    print(
        f"{title}: qfleet {1e3 * best['qfleet']:.1f} ms, {peer[1]} {1e3 * peer[0]:.1f} ms,"
        f" ratio {peer[0] / best['qfleet']:.2f}",
        flush=True,
    )


def simulate(simulator: Simulator, circuit: cirq.Circuit, values: dict[str, float]) -> np.ndarray:
    """Return the final state."""
    return simulator.simulate(circuit, values).final_state_vector


def expectation_of(chosen: BenchmarkModel) -> Callable[..., np.ndarray]:
    """Return a function of the expectation values of a model's observables."""

    def expectation(
        simulator: Simulator, circuit: cirq.Circuit, values: dict[str, float]
    ) -> np.ndarray:
        found = simulator.simulate_expectation_values(circuit, list(chosen.observables), values)
        return np.real(found)

    return expectation


if __name__ == "__main__":
    main()
