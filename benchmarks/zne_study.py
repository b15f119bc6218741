"""Zero-noise extrapolation of ground state energies under the noise of devices.

    .venv/bin/python -m benchmarks.zne_study ibm_sherbrooke ibm_torino willow_pink

Arguments are values of NOISE: calibrations, files or rates. Each ansatz is trained without noise.
Then its energy is computed with the noise, folded by 1, 3 and 5, and extrapolated. A reduction is
that of the distance to the energy without noise. Prints Markdown tables.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import cirq
import numpy as np
from scipy.optimize import minimize

import qfleet
from benchmarks import markdown
from common.model_circuits import with_noise
from common.settings import Settings
from qfleet.circuits import (
    ModelCircuit,
    hamiltonian_variational,
    hardware_efficient,
    join_zeros,
    uccsd,
)
from qfleet.extrapolation import extrapolate
from qfleet.problems import named
from qfleet.zne_factors import FITS

FACTORS = (1, 3, 5)
RATES = ("depolarizing:0.001,two-qubit-depolarizing:0.01,readout:0.02",)
PROBLEMS = (
    ("tfim:4:1.0", "hamiltonian-variational"),
    ("tfim:6:1.0", "hamiltonian-variational"),
    ("h2:0.74", "hardware-efficient"),
    ("h2:0.74", "uccsd"),
)
LAYERS = 2
READ_ONCE = "exponential, readout error not amplified"


class Trained(NamedTuple):
    """An ansatz without noise, trained.

    Attributes:
        title: Problem and ansatz.
        circuit: The circuit; its observables are the Pauli words.
        coefficients: Of the words.
        angles: The trained angles.
        energy: The energy without that of the identity.
    """

    title: str
    circuit: ModelCircuit
    coefficients: np.ndarray
    angles: np.ndarray
    energy: float


class Row(NamedTuple):
    """Energies of a trained ansatz with one noise."""

    noise: str
    title: str
    gates: int
    fidelity: float
    deviation: float
    reductions: dict[str, float]


def main(arguments: Sequence[str]) -> None:
    """Print the tables."""
    trained = [train(*problem) for problem in PROBLEMS]
    rows = [measure(noise, one) for noise in arguments or RATES for one in trained]
    names = list(rows[0].reductions)
    columns = ["noise", "energy", "two-qubit gates", "fidelity", "deviation", *names]
    print(markdown.table(columns, [_cells(row) for row in rows]))
    means = {name: float(np.mean([row.reductions[name] for row in rows])) for name in names}
    print(f"\nMean reduction of the deviation, {len(rows)} energies:\n")
    print(markdown.table(["fit", "reduction"], [[name, f"{v:.1%}"] for name, v in means.items()]))


def train(problem: str, ansatz: str) -> Trained:
    """Return the ansatz of a Hamiltonian with the angles of the lowest energy found."""
    family = named(problem)
    terms = dict(zip(family.terms, family.coefficients[0], strict=True))
    terms = {word: value for word, value in terms.items() if set(word) != {"I"}}
    qubits = len(next(iter(terms)))
    if ansatz == "uccsd":
        circuit = uccsd(qubits, family.electrons)
    elif ansatz == "hardware-efficient":
        circuit = hardware_efficient(qubits, LAYERS)
    else:
        circuit = hamiltonian_variational(terms, LAYERS)
    words = [cirq.PauliSum.wrap(cirq.DensePauliString(word).on(*circuit.qubits)) for word in terms]
    coefficients = np.array(list(terms.values()))
    compiled = qfleet.compile(circuit.circuit, (), circuit.parameters, words)

    def energy(angles: np.ndarray) -> tuple[float, np.ndarray]:
        values, gradients = compiled.value_and_gradient(
            np.zeros((1, 0)), angles, coefficients[None]
        )
        return float(values[0] @ coefficients), gradients.parameters

    random = np.random.default_rng(0)
    start = random.normal(0, 0.02, len(circuit.parameters))
    start += circuit.initial or random.uniform(0, 2 * np.pi, len(start))
    found = minimize(energy, start, jac=True, method="L-BFGS-B", options={"maxiter": 400})
    return Trained(
        *(f"{problem}, {ansatz}", replace(circuit, observables=tuple(words)), coefficients),
        *(found.x, float(found.fun)),
    )


def measure(noise: str, trained: Trained) -> Row:
    """Return the reductions of a trained ansatz by each fit."""
    arguments = [f"NOISE={noise}", "TASK=energy", "MODEL=hardware-efficient", "QUBITS=6"]
    resolved = Settings.from_args(arguments).model.noise
    circuits = [with_noise(trained.circuit, resolved, factor=factor) for factor in FACTORS]
    folded = np.stack([_values(one, trained) for one in circuits])
    once = [with_noise(trained.circuit, resolved, factor=f, readings=1) for f in FACTORS]
    read_once = np.stack([_values(one, trained) for one in once])
    ideal = trained.energy
    deviation = abs(folded[0] @ trained.coefficients - ideal)
    energies = {
        fit: float(extrapolate(FACTORS, folded, fit) @ trained.coefficients) for fit in FITS
    }
    energies[READ_ONCE] = float(extrapolate(FACTORS, read_once) @ trained.coefficients)
    two = sum(
        len(one.qubits) == 2 and cirq.has_unitary(one)
        for one in circuits[0].circuit.all_operations()
    )
    reductions = {fit: 1 - abs(value - ideal) / deviation for fit, value in energies.items()}
    name = noise.rpartition("/")[-1].removesuffix(".yaml")
    fidelity = np.sqrt(_return_probability(trained, resolved))
    return Row(name, trained.title, two, float(fidelity), float(deviation), reductions)


def _values(circuit: ModelCircuit, trained: Trained) -> np.ndarray:
    compiled = qfleet.compile(
        circuit.circuit, (), trained.circuit.parameters, list(circuit.observables)
    )
    return compiled.expectation(np.zeros((1, 0)), trained.angles)[0]


def _return_probability(trained: Trained, noise: str) -> float:
    qubits = trained.circuit.qubits
    parity = (cirq.PauliSum.wrap(cirq.PauliString(map(cirq.Z, qubits))),)
    noisy = with_noise(replace(trained.circuit, observables=parity), noise, is_reversed=True)
    read = (cirq.PauliSum.wrap(cirq.Z(noisy.qubits[0])),)
    ended = replace(noisy, circuit=noisy.circuit + join_zeros(noisy.qubits), observables=read)
    return float(1 + _values(ended, trained)[0]) / 2


def _cells(row: Row) -> list[str]:
    return [
        *(row.noise, row.title, str(row.gates), f"{row.fidelity:.3f}", f"{row.deviation:.4f}"),
        *(f"{value:.0%}" for value in row.reductions.values()),
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
