"""Robust training of states on calibrated devices with coherent errors, without TensorFlow.

    python -m benchmarks.robust_states [--calibrations NAME ...]

Angles are trained without noise, and then further on the noisy device: with the gradient of the
circuit without noise (GRADIENT=noiseless), and with the exact gradient of the noisy circuit. The
fidelity of the angles without the coherent errors is the ceiling of what stochastic noise leaves.
`make calibration DEVICE=NAME` writes the calibrations. Seeds are fixed.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import cirq
import numpy as np

import qfleet
from benchmarks.markdown import table
from common.settings.noise_file import read_calibration
from qfleet.circuits import hardware_efficient
from qfleet.circuits.model_circuit import ModelCircuit
from qfleet.devices import Calibration, add_device_noise, map_to_device, with_coherent_errors
from qfleet.devices.lines import best_part
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.problems import (
    fidelity,
    pauli_words,
    scaled_infidelity_gradient,
    target_states,
    word_values,
)

DEVICES = ("ibm_athens", "ibm_bogota", "ibm_jakarta", "ibm_manila", "ibm_nairobi", "ibm_oslo",
           "ibm_perth", "ibm_rome", "ibm_santiago", "ibm_sherbrooke")  # fmt: skip
FAMILIES = ("ghz", "w", "dicke:2", "random:1")
WIDTHS = (4, 5)
LAYERS = 4
STEPS, RATE = 400, 0.05
ROBUST_STEPS, ROBUST_RATE = 150, 0.02
BETA_2 = 0.95  # as TASK=state
PAPER_GAINS = {4: 0.50, 5: 0.72}
"""Mean gain of fidelity on devices, arXiv:2311.16035."""

COLUMNS = ("before", "robust", "exact gradient", "ceiling")

Step = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class PreparedState:
    """Fidelities on a device: before, after robust and exact training, and the ceiling."""

    width: int
    before: float
    robust: float
    exact: float
    ceiling: float

    @property
    def removed(self) -> float:
        """Share of the coherent infidelity that robust training removes."""
        return (self.robust - self.before) / (self.ceiling - self.before)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calibrations", nargs="+", default=DEVICES)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--no-readout", action="store_true", help="without readout errors")
    args = parser.parse_args()
    start = time.monotonic()
    cells = []
    for width in args.widths:
        model, ideal = _ansatz(width)
        targets = [word_values(target_states(name, width)[0]) for name in FAMILIES]
        angles = [_trained_without_noise(ideal, target) for target in targets]
        rows = []
        for seed, name in enumerate(args.calibrations):
            device = _device(name, seed, readout=not args.no_readout)
            circuits = _on_device(model, device)
            pairs = zip(targets, angles, strict=True)
            found = [_measure(ideal, *circuits, *pair) for pair in pairs]
            rows.append(_row(device.name, found))
            cells += found
        print(f"\n{width} qubits, mean fidelity of {', '.join(FAMILIES)}\n")
        print(table(["device", *COLUMNS, "removed, median"], rows), flush=True)
    _print_gains(cells, args.widths)
    print(f"\n{time.monotonic() - start:.0f} s")


def _ansatz(width: int) -> tuple[ModelCircuit, CompiledCircuit]:
    model = hardware_efficient(width, LAYERS)
    words = tuple(
        cirq.PauliSum.wrap(cirq.DensePauliString(word).on(*model.qubits))
        for word in pauli_words(width)
    )
    ideal = qfleet.compile(model.circuit, (), model.parameters, words)
    return replace(model, observables=words), ideal


def _device(name: str, seed: int, *, readout: bool) -> Calibration:
    device = with_coherent_errors(best_part(read_calibration(name)), seed)
    if readout:
        return device
    qubits = {key: replace(one, p01=0.0, p10=0.0) for key, one in device.qubits.items()}
    return replace(device, qubits=qubits)


def _on_device(model: ModelCircuit, device: Calibration) -> tuple[CompiledCircuit, CompiledCircuit]:
    """Return the circuit with all noise of a device, and without its coherent errors."""
    mapped = map_to_device(model.circuit, device, model.observables, model.qubits)

    def compiled(device: Calibration) -> CompiledCircuit:
        noisy = add_device_noise(mapped.circuit, device, mapped.observables)
        return qfleet.compile(noisy, (), model.parameters, mapped.observables)

    return compiled(device), compiled(with_coherent_errors(device, 0, 0.0, 0.0))


def _trained_without_noise(ideal: CompiledCircuit, target: np.ndarray) -> np.ndarray:
    angles = np.random.default_rng(0).normal(0.0, 0.5, len(ideal.parameters))
    upstream = -target / (len(target) + 1) ** 0.5  # of the infidelity
    return _minimize(angles, STEPS, RATE, lambda at: ideal.vjp(None, at, upstream).parameters)


def _measure(
    ideal: CompiledCircuit,
    noisy: CompiledCircuit,
    stochastic: CompiledCircuit,
    target: np.ndarray,
    angles: np.ndarray,
) -> PreparedState:
    forward = qfleet.NoisyForward(noisy, ideal)
    linear = -target / (len(target) + 1) ** 0.5

    def robust(at: np.ndarray) -> np.ndarray:
        _, gradients = forward.value_and_gradient(
            None, at, lambda values: scaled_infidelity_gradient(values, target)
        )
        return gradients.parameters

    def exact(at: np.ndarray) -> np.ndarray:
        return noisy.vjp(None, at, linear).parameters

    def reached(circuit: CompiledCircuit, at: np.ndarray) -> float:
        return fidelity(circuit.expectation(None, at), target)

    trained = [_minimize(angles, ROBUST_STEPS, ROBUST_RATE, step) for step in (robust, exact)]
    width = len(ideal.qubits)
    after = [reached(noisy, at) for at in trained]
    return PreparedState(width, reached(noisy, angles), *after, reached(stochastic, angles))


def _minimize(angles: np.ndarray, steps: int, rate: float, gradient: Step) -> np.ndarray:
    """Return angles after Adam with cosine decay."""
    angles = angles.copy()
    first, second = np.zeros_like(angles), np.zeros_like(angles)
    for step in range(steps):
        found = gradient(angles)
        first = 0.9 * first + 0.1 * found
        second = BETA_2 * second + (1 - BETA_2) * found**2
        unbiased = first / (1 - 0.9 ** (step + 1)), second / (1 - BETA_2 ** (step + 1))
        decay = (1 + np.cos(np.pi * step / steps)) / 2
        angles -= rate * decay * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
    return angles


def _row(name: str, cells: list[PreparedState]) -> list[str]:
    means = [statistics.mean(column) for column in zip(*map(_fidelities, cells), strict=True)]
    removed = statistics.median(cell.removed for cell in cells)
    return [name, *(f"{mean:.3f}" for mean in means), f"{removed:.2f}"]


def _print_gains(cells: Sequence[PreparedState], widths: Sequence[int]) -> None:
    removed = [cell.removed for cell in cells]
    print(f"\nremoved: median {statistics.median(removed):.2f}, lowest {min(removed):.2f}\n")
    rows = []
    for width in widths:
        chosen = [cell for cell in cells if cell.width == width]
        gains = [
            statistics.mean(_fidelities(cell)[at] / cell.before - 1 for cell in chosen)
            for at in (1, 2, 3)
        ]
        gains.append(PAPER_GAINS.get(width, float("nan")))
        rows.append([str(width), *(f"{gain:.1%}" for gain in gains)])
    print(table(["qubits", *COLUMNS[1:], "paper"], rows))


def _fidelities(cell: PreparedState) -> tuple[float, float, float, float]:
    return cell.before, cell.robust, cell.exact, cell.ceiling


if __name__ == "__main__":
    main()
