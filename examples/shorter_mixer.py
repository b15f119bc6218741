"""From the calibration of a device to QAOA with a shorter mixer: pulses in place of gates.

Run:   PYTHONPATH=. .venv/bin/python examples/shorter_mixer.py [examples/tasks/four_transmons.yaml]
       (in a checkout; a file, or the name of a device of `make calibration`)
Takes: ten seconds.
Shows: for each mixer, its length, that of the circuit, and the trained energy of a chain of four
       spins with and without T1 and T2. All mixers have the same problem gates, T1 and T2. Errors
       of gates and readouts are left out: a calibration has none for pulses.
"""

import argparse
import sys
from dataclasses import replace
from itertools import pairwise

import cirq
import numpy as np
import sympy
from scipy.optimize import minimize

import qfleet
from common.errors import run_main
from common.settings.noise_file import read_calibration
from qfleet.devices import Calibration, add_device_noise, map_to_device
from qfleet.devices.lines import best_line
from qfleet.devices.noise import circuit_duration
from qfleet.pulses import (
    BSplineSeries,
    Grid,
    Propagator,
    Pulse,
    PulseGate,
    calibrated_transmons,
    drive,
)

QUBITS = 4
LINE = cirq.LineQubit.range(QUBITS)
KINDS = ("gates, one angle", "gates, own angles", "pulses")
SPREAD = 0.5
"""Deviation of the first angles in radians."""


def read(device: str) -> Calibration:
    """Return the best line of a device, whose only errors are T1 and T2."""
    whole = read_calibration(device)
    found = whole.part(best_line(whole, QUBITS))
    none = {"error": 0, "p01": 0, "p10": 0, "over_rotation": 0}
    qubits = {name: replace(one, **none) for name, one in found.qubits.items()}
    pairs = {name: replace(one, error=0, crosstalk=0) for name, one in found.pairs.items()}
    return replace(found, qubits=qubits, pairs=pairs)


def mixer_pulse(calibration: Calibration, name: str, prefix: str) -> PulseGate:
    """Return a pulse of 12 ns on a calibrated qubit: B-splines on I and Q, and a virtual Z."""
    grid = Grid(duration=12, dt=0.5)
    pulse = Pulse([(BSplineSeries(grid, 3), one) for one in drive(0, bound=0.5)])
    device = calibrated_transmons(calibration, [name])
    propagator = Propagator(device, pulse.channels, grid)
    return PulseGate(propagator, pulse, pulse.symbols(prefix), [f"{prefix}.z"])


def mixer(kind: str, calibration: Calibration) -> cirq.Circuit:
    """Return a mixer, of one of KINDS."""
    if kind == "gates, one angle":
        return cirq.Circuit(cirq.rx(sympy.Symbol("x")).on_each(*LINE))
    found = cirq.Circuit()
    for qubit, name in zip(LINE, best_line(calibration, QUBITS), strict=True):
        own = f"x{qubit.x}"
        if kind == "pulses":
            found += mixer_pulse(calibration, name, own)(qubit)
        else:
            before, turn, after = (sympy.Symbol(f"{own}{end}") for end in "abc")
            found += [cirq.rz(before)(qubit), cirq.rx(turn)(qubit), cirq.rz(after)(qubit)]
    return found


def ansatz(kind: str, calibration: Calibration) -> cirq.Circuit:
    """Return QAOA of one layer for the chain: an angle for all bonds, then a mixer."""
    bond = cirq.ZZPowGate(exponent=sympy.Symbol("zz") / sympy.pi, global_shift=-0.5)
    bonds = [bond(*pair) for pair in pairwise(LINE)]
    return cirq.Circuit(cirq.H.on_each(*LINE), bonds, mixer(kind, calibration))


def energy() -> cirq.PauliSum:
    """Return the Hamiltonian of the transverse-field Ising chain."""
    bonds = [-cirq.Z(first) * cirq.Z(second) for first, second in pairwise(LINE)]
    return sum(bonds, start=cirq.PauliSum()) - sum(map(cirq.X, LINE), start=cirq.PauliSum())


def train(program: qfleet.CompiledCircuit, iterations: int) -> np.ndarray:
    """Return the numbers of the lowest energy, by exact gradients."""

    def loss(angles: np.ndarray) -> tuple[float, np.ndarray]:
        values, gradients = program.value_and_gradient(np.zeros((1, 0)), angles)
        return float(values[0, 0]), np.asarray(gradients.parameters, np.float64)

    first = np.random.default_rng(0).normal(0, SPREAD, len(program.parameters))
    options = {"maxiter": iterations}
    return minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x


def main() -> int:
    """Print a line per mixer; return 0 if pulses are shorter and lower in energy than rx."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calibration", nargs="?", default="examples/tasks/four_transmons.yaml")
    parser.add_argument("--iterations", type=int, default=100)
    options = parser.parse_args()
    calibration = read(options.calibration)
    matrix = energy().matrix(LINE)
    print(f"{calibration.name}, ground state {np.linalg.eigvalsh(matrix)[0]:.4f}")
    lengths, energies = [], []
    for kind in KINDS:
        circuit = ansatz(kind, calibration)
        mapped = map_to_device(circuit, calibration, [energy()], LINE)
        noisy = add_device_noise(mapped.circuit, calibration, mapped.observables)
        program = qfleet.compile(noisy, observables=mapped.observables)
        numbers = train(program, options.iterations)
        ideal = qfleet.compile(circuit, [], program.parameters, [energy()])
        with_decay, without = (
            float(one.expectation(np.zeros((1, 0)), numbers)[0, 0]) for one in (program, ideal)
        )
        alone = map_to_device(mixer(kind, calibration), calibration, qubits=LINE)
        lengths.append(circuit_duration(alone.circuit, calibration))
        energies.append(with_decay)
        whole = circuit_duration(mapped.circuit, calibration)
        print(
            f"{kind:17}  mixer {lengths[-1]:g} ns, circuit {whole:g} ns, energy {with_decay:.4f};"
            f" {without:.4f} without T1 and T2"
        )
    print(f"The mixer of pulses is {1 - lengths[-1] / lengths[0]:.0%} shorter.")
    return int(not (lengths[-1] < lengths[0] and energies[-1] < energies[0]))


if __name__ == "__main__":
    sys.exit(run_main(main))
