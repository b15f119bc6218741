"""The shortest pulse for the ground state of H2, with and without the third level.

    .venv/bin/python -m benchmarks.pulse_vqe [--seeds 5] [--bond 0.74]

The source is ctrl-VQE (Meitei et al. 2021, arXiv:2008.04302): pulses in place of a circuit, and the
shortest time with chemical accuracy. H2 has one electron of each spin, so it is a problem of two
qubits: the part of the Hamiltonian of 4 qubits with these electrons. A pulse of B-splines drives
both qubits, tunes one, and tunes their coupling, within the bounds of TASK=gate. Virtual rotations
about Z are free. The energy is that of the levels 0 and 1, normalised, as in the source.

A duration counts if one of the seeds reaches an error of at most 1.6e-3 hartree; the shortest one
is searched in samples of 0.5 ns. The gate circuit is a turn about Y, which takes two SX, and a CNOT
of CZ and SX, with the gates of examples/pulse_gates.py.
"""

import argparse
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize

from qfleet.problems import named
from qfleet.pulses import (
    BSplineSeries,
    ControlChannel,
    Coupling,
    Grid,
    Propagator,
    Pulse,
    Transmon,
    Transmons,
    drive,
)
from qfleet.pulses.fidelity import computational_places

ACCURACY = 1.6e-3
"""Chemical accuracy, in hartree."""

SX_NS, CZ_NS, DT_NS = 16.0, 40.0, 0.5
SPLINES, LONGEST = 6, 80
ELECTRONS = ((0, 1), (0, 3), (2, 1), (2, 3))
"""Occupied spin orbitals of the four states: that of spin up, and that of spin down."""


def reduced_hamiltonian(bond: float) -> np.ndarray:
    """Return the Hamiltonian of H2 with one electron of each spin, [4, 4], in hartree.

    Args:
        bond: Length in angstrom.
    """
    (member,) = named(f"h2:{bond:g}").members()
    places = [sum(1 << (3 - orbital) for orbital in pair) for pair in ELECTRONS]
    letters = {
        "I": np.eye(2),
        "X": np.array([[0, 1], [1, 0]]),
        "Y": np.array([[0, -1j], [1j, 0]]),
        "Z": np.diag([1, -1]),
    }
    total = np.zeros((16, 16), np.complex128)
    for word, value in zip(member.terms, member.coefficients, strict=True):
        matrix = np.eye(1)
        for letter in word:
            matrix = np.kron(matrix, letters[letter])
        total += value * matrix
    found: np.ndarray = total[np.ix_(places, places)]
    return found


@dataclass(frozen=True)
class PulseEnergy:
    """The energy of the state after a pulse.

    Attributes:
        hamiltonian: [4, 4].
        levels: Of each qubit.
        samples: Of the pulse.
        device: Two qubits; those of examples/tasks/two_transmons.yaml unless given.
    """

    hamiltonian: np.ndarray
    levels: int
    samples: int
    device: Transmons | None = None

    @cached_property
    def pulse(self) -> Pulse:
        """B-splines on all channels."""
        grid = Grid(self.samples * DT_NS, DT_NS)
        channels = [*drive(0, bound=0.6), *drive(1, bound=0.6)]
        channels += [
            ControlChannel("detuning", (1,), 2.5),
            ControlChannel("coupler", (0, 1), 0.2),
        ]
        splines = BSplineSeries(grid, min(SPLINES, self.samples))
        return Pulse([(splines, one) for one in channels])

    @cached_property
    def propagator(self) -> Propagator:
        """Of both qubits."""
        qubits = tuple(Transmon(one, -0.336, self.levels) for one in (5.03, 5.128))
        device = self.device or Transmons(qubits, (Coupling(0, 1, exchange=0.0018),))
        pulse = self.pulse
        steps = Propagator(device, pulse.channels, pulse.grid, order=4)
        return steps.within(1e-6, np.zeros((self.samples, len(pulse.channels))))

    def __call__(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the energy and its gradient by the numbers, and by two virtual rotations."""
        numbers, angles = values[:-2], values[-2:]
        unitary, pullback = self.propagator.with_pullback(self.pulse.sample(numbers))
        places = computational_places((self.levels,) * 2)
        excited = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        phases = np.exp(1j * excited @ angles)
        state = phases * unitary[places, 0]
        kept = float(np.vdot(state, state).real)
        energy = float(np.vdot(state, self.hamiltonian @ state).real) / kept
        by_state = 2 * (self.hamiltonian @ state - energy * state) / kept
        by_unitary = np.zeros_like(unitary)
        by_unitary[places, 0] = phases.conj() * by_state
        by_number = self.pulse.vjp(numbers, pullback(by_unitary))
        by_angle = (by_state.conj() * 1j * state).real @ excited
        return energy, np.concatenate([by_number, by_angle])

    def leakage(self, values: np.ndarray) -> float:
        """Return the probability of higher levels."""
        unitary = self.propagator(self.pulse.sample(values[:-2]))
        places = computational_places((self.levels,) * 2)
        return float(1 - (np.abs(unitary[places, 0]) ** 2).sum())

    def best(self, seeds: int, wanted: float) -> tuple[float, np.ndarray]:
        """Return the lowest energy over the seeds, and its numbers.

        Args:
            seeds: Number of starts.
            wanted: An energy below which no further start is needed.
        """
        found: tuple[float, np.ndarray] = (np.inf, np.zeros(0))
        for seed in range(seeds):
            found = min(found, self.trained(seed), key=lambda one: one[0])
            if found[0] <= wanted:
                break
        return found

    def trained(self, seed: int) -> tuple[float, np.ndarray]:
        """Return the energy that a start reaches, and its numbers."""
        bounds = [*self.pulse.bounds, (-10, 10), (-10, 10)]
        highest = np.array([high for _, high in self.pulse.bounds])
        drawn = np.random.default_rng(seed).normal(0, 0.2, len(highest)) * highest
        result = minimize(
            self, [*drawn, 0, 0], jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": 200},
        )  # fmt: skip
        return float(result.fun), result.x


def shortest(hamiltonian: np.ndarray, levels: int, seeds: int) -> tuple[float, float, float]:
    """Return the shortest duration in ns, its error in hartree, and its leakage.

    Args:
        hamiltonian: [4, 4].
        levels: Of each qubit.
        seeds: Number of starts.
    """
    exact = float(np.linalg.eigvalsh(hamiltonian)[0])
    for samples in range(1, LONGEST):
        energy = PulseEnergy(hamiltonian, levels, samples)
        found, values = energy.best(seeds, exact + ACCURACY)
        if found <= exact + ACCURACY:
            return samples * DT_NS, found - exact, energy.leakage(values)
    raise RuntimeError(f"no pulse of up to {LONGEST * DT_NS:g} ns is accurate")


def main() -> None:
    """Print a line for each number of levels, and the gate circuit's."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pulse_vqe")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--bond", type=float, default=0.74, help="angstrom")
    options = parser.parse_args()
    hamiltonian = reduced_hamiltonian(options.bond)
    values = np.linalg.eigvalsh(hamiltonian)
    print(f"exact {values[0]:.6f}, Hartree-Fock {hamiltonian[0, 0].real:.6f} hartree")
    gates = 2 * SX_NS + CZ_NS + SX_NS
    print(f"gate circuit: {gates:g} ns")
    for levels in (2, 3):
        duration, error, leakage = shortest(hamiltonian, levels, options.seeds)
        print(
            f"pulse, {levels} levels: {duration:g} ns ({1 - duration / gates:.0%} shorter), error"
            f" {error:.1e} hartree, leakage {leakage:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
