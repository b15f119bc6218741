"""QAOA whose mixer is a pulse: MaxCut on three graphs, with T1 and T2 of a device.

    .venv/bin/python -m benchmarks.pulse_mixer [--seeds 5] [--layers 1]

The source is arXiv:2212.00661, "hybrid gate-pulse": up to 8 % better, with a mixer that is 60 %
shorter. Its graphs and its hardware are not available; graphs and device are those below. All
circuits have one angle per layer for all edges, the same routing, T1 and T2, and no other errors:

    gates            rx by one angle per layer: the ordinary mixer, of two SX each
    free gates       rz, rx and rz of each qubit with angles of their own, of the same length
    shared pulse     one pulse for all qubits
    own pulses       a pulse for each qubit, as MODEL=hybrid-pulse

So "free gates" less "gates" is what freedom contributes, and "own pulses" less "free gates" what
shorter pulses do. All are trained with the noise by L-BFGS-B with exact gradients. The ratio is the
mean cut by the largest one. The table has medians over the seeds of the first angles.
"""

import argparse
import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import cirq
import networkx as nx
import numpy as np
import sympy
from scipy.optimize import minimize

import qfleet
from qfleet.circuits.pulse_ansatz import DURATION, mixer_pulse, mixer_start
from qfleet.devices import Calibration, add_device_noise, map_to_device

GRAPHS = {
    "3-regular, 6 nodes": nx.random_regular_graph(3, 6, seed=1),
    "random, 6 nodes": nx.gnp_random_graph(6, 0.5, seed=4),
    "3-regular, 8 nodes": nx.random_regular_graph(3, 8, seed=2),
}
KINDS = ("gates", "free gates", "shared pulse", "own pulses")
SX_NS, CZ_NS, T1_US, T2_US = 16.0, 40.0, 100.0, 80.0
"""A device of the gates of examples/pulse_gates.py."""

TURN, SPREAD = -0.8, 0.1
"""First turn of the mixer in radians, and deviation of all first angles."""


@dataclass
class Ansatz:
    """A circuit of one graph.

    Attributes:
        circuit: The circuit, without noise.
        names: Its symbols.
        first: Their first values.
    """

    circuit: cirq.Circuit
    names: list[str]
    first: list[float]


def ansatz(graph: nx.Graph, kind: str, layers: int) -> Ansatz:
    """Return the circuit of a graph.

    Args:
        graph: Nodes 0 to n - 1.
        kind: Of KINDS.
        layers: Number of layers.
    """
    line = cirq.LineQubit.range(len(graph))
    found = Ansatz(cirq.Circuit(cirq.H.on_each(*line)), [], [])

    def new(*values: float) -> list[sympy.Symbol]:
        names = [f"theta_{len(found.names) + at}" for at in range(len(values))]
        found.names += names
        found.first += values
        return [sympy.Symbol(one) for one in names]

    for _ in range(layers):
        (edge,) = new(0.6)
        found.circuit += [
            cirq.ZZPowGate(exponent=edge / sympy.pi, global_shift=-0.5).on(line[a], line[b])
            for a, b in graph.edges
        ]
        shared = new(*(mixer_start(TURN) if kind == "shared pulse" else [TURN]))
        if kind in ("free gates", "own pulses"):
            del found.names[-1], found.first[-1]
        for qubit in line:
            if kind == "gates":
                found.circuit += cirq.rx(shared[0]).on(qubit)
            elif kind == "free gates":
                a, b, c = new(0.0, TURN, 0.0)
                found.circuit += [gate.on(qubit) for gate in (cirq.rz(a), cirq.rx(b), cirq.rz(c))]
            else:
                own = shared if kind == "shared pulse" else new(*mixer_start(TURN))
                found.circuit += mixer_pulse(own).on(qubit)
    return found


def device(qubits: int) -> Calibration:
    """Return a line of qubits that decay, whose gates have no other errors."""
    one = {"t1": T1_US, "t2": T2_US, "duration": SX_NS}
    pair = {"duration": CZ_NS}
    return Calibration.from_values(
        {
            "name": "line",
            "gate": "cz",
            "pulse": "sx",
            "qubits": {str(at): one for at in range(qubits)},
            "pairs": {f"{at}-{at + 1}": pair for at in range(qubits - 1)},
        }
    )


def largest_cut(graph: nx.Graph) -> int:
    """Return the most edges that a partition of the nodes cuts."""
    sides = itertools.product((0, 1), repeat=len(graph))
    return max(sum(side[a] != side[b] for a, b in graph.edges) for side in sides)


def ratios(graph: nx.Graph, kind: str, layers: int, seeds: int) -> tuple[list[float], list[float]]:
    """Return the ratios with and without noise of each seed."""
    made, calibration = ansatz(graph, kind, layers), device(len(graph))
    line = cirq.LineQubit.range(len(graph))
    cut = [cirq.PauliSum.from_pauli_strings(
        [0.5 * cirq.I(line[0]), *(-0.5 * cirq.Z(line[a]) * cirq.Z(line[b]) for a, b in [edge])]
    ) for edge in graph.edges]  # fmt: skip
    total = sum(cut[1:], cut[0])
    mapped = map_to_device(made.circuit, calibration, [total], line)
    noisy = add_device_noise(mapped.circuit, calibration, mapped.observables)
    programs = [
        qfleet.compile(circuit, [], made.names, observables)
        for circuit, observables in ((noisy, mapped.observables), (made.circuit, [total]))
    ]
    best, found = largest_cut(graph), ([], [])

    def loss(angles: np.ndarray) -> tuple[float, np.ndarray]:
        values, gradients = programs[0].value_and_gradient(np.zeros((1, 0)), angles)
        return -float(values[0, 0]), -np.asarray(gradients.parameters, np.float64)

    for seed in range(seeds):
        drawn = np.random.default_rng(seed).normal(0, SPREAD, len(made.names))
        trained = minimize(
            loss, drawn + made.first, jac=True, method="L-BFGS-B", options={"maxiter": 100}
        )
        for ratio, program in zip(found, programs, strict=True):
            ratio.append(float(program.expectation(np.zeros((1, 0)), trained.x)[0, 0]) / best)
    return found


def table(seeds: int, layers: int, graphs: Sequence[str]) -> list[str]:
    """Return the lines of the table, in Markdown."""
    lines = [
        "| graph | mixer | ns | ratio with T1 and T2 | against gates | ratio without |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name in graphs:
        reference = 0.0
        for kind in KINDS:
            length = DURATION if "pulse" in kind else 2 * SX_NS
            noisy, ideal = map(statistics.median, ratios(GRAPHS[name], kind, layers, seeds))
            reference = reference or noisy
            lines.append(
                f"| {name} | {kind} | {length:g} | {noisy:.4f} | {noisy / reference - 1:+.1%}"
                f" | {ideal:.4f} |"
            )
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pulse_mixer")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--graphs", nargs="+", choices=[*GRAPHS], default=[*GRAPHS])
    options = parser.parse_args()
    table(options.seeds, options.layers, options.graphs)
    shorter = 1 - DURATION / (2 * SX_NS)
    print(f"The mixer of pulses is {shorter:.0%} shorter than that of gates.")


if __name__ == "__main__":
    main()
