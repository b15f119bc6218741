"""Runs of circuits with measurements before the end, or with noise: qfleet, qsim and Cirq.

python -m benchmarks.dynamic_circuits [QUBITS] [RUNS] [--rotation rx]

Each simulator takes the same circuit, in complex64, with all CPUs; a time is the fastest of the
rounds, without the first call. Cirq's own simulator takes minutes: it runs FEW_RUNS times, and its
time is scaled. Matrices of rx are complex; those of ry and CZ are real, which qfleet multiplies
faster. Each outcome's frequency is compared between qfleet and qsim. Run it in
`.venv-peers`.
"""

import argparse
import time
from collections.abc import Callable

import cirq
import numpy as np
import qsimcirq

import qfleet.cirq
from qfleet import num_threads

ROUNDS, FEW_RUNS = 3, 2
LAYERS, MEASUREMENTS, NOISE = 10, 20, 0.01
FUSED_QUBITS = (2, 3, 4)


def main() -> None:
    """Time all simulators on both circuits and print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dynamic_circuits")
    parser.add_argument("qubits", nargs="?", type=int, default=16)
    parser.add_argument("runs", nargs="?", type=int, default=1000)
    parser.add_argument("--rotation", choices=("rx", "ry"), default="ry")
    options = parser.parse_args()
    layers = circuit_layers(options.qubits, getattr(cirq, options.rotation))
    compare("measurements", with_measurements(layers, options.qubits), options.runs)
    compare("depolarizing noise", with_noise(layers, options.qubits), options.runs)


def circuit_layers(
    qubits: int, rotation: Callable[[float], cirq.Gate] = cirq.ry
) -> list[cirq.Circuit]:
    """Return layers of rotations of each qubit and CZ of neighbours."""
    random = np.random.default_rng(0)
    line = cirq.LineQubit.range(qubits)
    layers = []
    for layer in range(LAYERS):
        pairs = [(line[at], line[at + 1]) for at in range(layer % 2, qubits - 1, 2)]
        rotations = [
            rotation(angle)(q) for q, angle in zip(line, random.uniform(0, 3, qubits), strict=True)
        ]
        layers.append(cirq.Circuit(rotations, [cirq.CZ(*pair) for pair in pairs]))
    return layers


def with_measurements(layers: list[cirq.Circuit], qubits: int) -> cirq.Circuit:
    """Measure two qubits after each layer, and all at the end."""
    line, circuit = cirq.LineQubit.range(qubits), cirq.Circuit()
    each = MEASUREMENTS // LAYERS
    for number, layer in enumerate(layers):
        circuit += layer
        for at in range(each):
            place = (each * number + at) * 5 % qubits
            circuit.append(cirq.measure(line[place], key=f"m{number}_{at}"))
    return circuit + cirq.measure(*line, key="end")


def with_noise(layers: list[cirq.Circuit], qubits: int) -> cirq.Circuit:
    """Add depolarizing noise to each qubit after each layer, and measure at the end."""
    line, circuit = cirq.LineQubit.range(qubits), cirq.Circuit()
    for layer in layers:
        circuit += layer
        circuit.append(cirq.depolarize(NOISE).on_each(*line))
    return circuit + cirq.measure(*line, key="end")


def compare(title: str, circuit: cirq.Circuit, runs: int) -> None:
    """Time the simulators on a circuit, compare frequencies of outcomes, and print a line."""
    own, frequencies = fastest(qfleet.cirq.Simulator(seed=1), circuit, runs)
    peers = {}
    for fused in FUSED_QUBITS:
        options = qsimcirq.QSimOptions(cpu_threads=num_threads(), max_fused_gate_size=fused)
        peers[fused], others = fastest(qsimcirq.QSimSimulator(options, seed=1), circuit, runs)
        np.testing.assert_allclose(frequencies, others, atol=6 * np.sqrt(0.5 / runs))
    few, _ = fastest(cirq.Simulator(seed=1), circuit, FEW_RUNS, rounds=1)
    best = min(peers.values())
    print(
        f"{title}, {runs} runs: qfleet {own:.3f} s, qsim {best:.3f} s ({best / own:.1f} times),"
        f" cirq.Simulator {few * runs / FEW_RUNS:.0f} s ({few * runs / FEW_RUNS / own:.0f} times)",
        flush=True,
    )


def fastest(
    simulator: cirq.SimulatesSamples, circuit: cirq.Circuit, runs: int, rounds: int = ROUNDS
) -> tuple[float, np.ndarray]:
    """Return the seconds of the fastest round, and the frequency of 1 of each measured bit."""
    call: Callable[[], cirq.Result] = lambda: simulator.run(circuit, repetitions=runs)  # noqa: E731
    if rounds > 1:
        call()
    best = np.inf
    for _ in range(rounds):
        start = time.perf_counter()
        found = call()
        best = min(best, time.perf_counter() - start)
    bits = [found.measurements[key].mean(axis=0) for key in sorted(found.measurements)]
    return float(best), np.concatenate(bits)


if __name__ == "__main__":
    main()
