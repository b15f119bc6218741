"""Pulses for states on devices that deviate from their model: training with measured states.

    .venv/bin/python -m benchmarks.robust_pulses [--qubits 4 5]

The source is RobustState (arXiv:2311.16035), which measured on hardware: the state comes from the
device, and the gradient from a simulation of its model. Here, a device is the model with drawn
deviations. Chains with exchange couplings are driven and tuned for 120 ns; four families of states
(GHZ, W, the ground state of a critical Ising chain, a normal distribution) are prepared:

    model       fidelity on the device of pulses that were trained on the model
    measured    after training on with the device's states and the model's gradients
    decayed     that with T1 and T2 of the device while the pulse acts, by quantum trajectories
    ceiling     what T1 and T2 of the device leave to a perfect pulse (`decay_limit`)

A line has the medians over the families.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from qfleet.pulses import (
    BSplineSeries,
    ControlChannel,
    Coupling,
    Grid,
    Pulse,
    SplitEvolution,
    Transmon,
    Transmons,
    decay_limit,
    drive,
)

GRID, SPLINES, EXCHANGE = Grid(120.0, 2.0), 10, 0.005
TIMES = ((200.0, 150.0), (100.0, 80.0), (40.0, 25.0))
"""T1 and T2 of the devices in microseconds."""

FREQUENCY_GHZ, STRENGTH, COUPLING = 5e-4, 0.05, 0.1
"""Standard deviations of the devices from their model: absolute, and of factors."""

RATE, ITERATIONS = 0.01, 300
TRAJECTORIES = 2000
DECAY = (0.9, 0.99)  # of the moments of Adam


def targets(qubits: int) -> dict[str, np.ndarray]:
    """Return a state [2^qubits] of each family."""
    size = 1 << qubits
    ghz, w = np.zeros(size), np.zeros(size)
    ghz[[0, -1]] = 1
    w[[1 << at for at in range(qubits)]] = 1
    spins = 1 - 2 * (np.arange(size)[:, np.newaxis] >> np.arange(qubits) & 1)
    ising = np.diag(-(spins[:, 1:] * spins[:, :-1]).sum(axis=1)).astype(float)
    for at in range(qubits):
        ising[np.arange(size), np.arange(size) ^ 1 << at] -= 1
    normal = np.exp(-(((np.arange(size) - (size - 1) / 2) / (size / 5)) ** 2) / 2)
    found = {"ghz": ghz, "w": w, "ising": np.linalg.eigh(ising)[1][:, 0], "normal": normal}
    return {name: state / np.linalg.norm(state) for name, state in found.items()}


def model(qubits: int, t1: float, t2: float) -> Transmons:
    """Return the model of a chain of one drive frequency, with times in microseconds."""
    one = Transmon(5.0, -0.3, 2, t1=1e3 * t1, t2=1e3 * t2)
    return Transmons(
        (one,) * qubits, tuple(Coupling(at, at + 1, EXCHANGE) for at in range(qubits - 1))
    )


def deviating(device: Transmons, seed: int) -> Transmons:
    """Return a device whose frequencies, drives and couplings deviate from the model."""
    random = np.random.default_rng(seed)
    qubits = tuple(
        replace(
            one,
            frequency=one.frequency + random.normal(0, FREQUENCY_GHZ),
            drive_frequency=one.frame,
            drive_strength=one.drive_strength * random.normal(1, STRENGTH),
        )
        for one in device.qubits
    )
    couplings = tuple(
        replace(one, exchange=one.exchange * random.normal(1, COUPLING)) for one in device.couplings
    )
    return replace(device, qubits=qubits, couplings=couplings)


@dataclass(frozen=True)
class Preparation:
    """A state that a pulse prepares.

    Attributes:
        target: [D].
        nominal: The model.
        device: The device.
        pulse: Its channels and envelopes.
    """

    target: np.ndarray
    nominal: SplitEvolution
    device: SplitEvolution
    pulse: Pulse

    def on_model(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the infidelity on the model, and its gradient."""
        state, pullback = self.nominal.with_pullback(self.pulse.sample(values))
        overlap = np.vdot(self.target, state)
        gradient = self.pulse.vjp(values, pullback(-2 * overlap * self.target))
        return float(1 - abs(overlap) ** 2), gradient

    def measured(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the infidelity on the device, and a gradient of the distance to the target.

        The distance of the device's state is propagated back through the model.
        """
        amplitudes = self.pulse.sample(values)
        state = self.device(amplitudes)
        overlap = np.vdot(self.target, state)
        distance = state - overlap / abs(overlap) * self.target
        _, pullback = self.nominal.with_pullback(amplitudes)
        return float(1 - abs(overlap) ** 2), self.pulse.vjp(values, pullback(2 * distance))


def prepared(target: np.ndarray, nominal: Transmons, device: Transmons) -> Preparation:
    """Return the preparation of a state on a device."""
    qubits = range(len(nominal.qubits))
    channels = [one for at in qubits for one in drive(at, bound=0.2)]
    channels += [ControlChannel("detuning", (at,), 0.2) for at in qubits]
    pulse = Pulse([(BSplineSeries(GRID, SPLINES), one) for one in channels])
    both = (SplitEvolution(one, pulse.channels, GRID, block=4) for one in (nominal, device))
    return Preparation(target, *both, pulse)


def trained(one: Preparation, seed: int = 0) -> np.ndarray:
    """Return the numbers of a pulse that is trained on the model."""
    bounds = np.array(one.pulse.bounds)
    start = np.random.default_rng(seed).normal(0, 0.2, len(bounds)) * bounds[:, 1]
    found = minimize(
        one.on_model, start, jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": ITERATIONS},
    )  # fmt: skip
    return np.asarray(found.x)


def refined(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]],
    values: np.ndarray,
    bounds: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Return the least infidelity of Adam within bounds, whose rate falls to 0, and its numbers."""
    best, chosen = function(values)[0], values
    first, second = np.zeros_like(values), np.zeros_like(values)
    for at in range(1, ITERATIONS + 1):
        infidelity, gradient = function(values)
        if infidelity < best:
            best, chosen = infidelity, values
        first = DECAY[0] * first + (1 - DECAY[0]) * gradient
        second = DECAY[1] * second + (1 - DECAY[1]) * gradient**2
        step = first / (1 - DECAY[0] ** at) / (np.sqrt(second / (1 - DECAY[1] ** at)) + 1e-12)
        rate = RATE * bounds[:, 1] * (1 - at / ITERATIONS)
        values = np.clip(values - rate * step, bounds[:, 0], bounds[:, 1])
    return best, chosen


def with_decay(one: Preparation, values: np.ndarray) -> float:
    """Return the fidelity on the device with T1 and T2."""
    states = one.device.trajectories(one.pulse.sample(values), TRAJECTORIES)
    return float((np.abs(states @ one.target.conj()) ** 2).mean())


def fidelities(
    target: np.ndarray, nominal: Transmons, device: Transmons
) -> tuple[float, float, float]:
    """Return those on the device: of the model's pulse, with measured states, and with decay."""
    one = prepared(target, nominal, device)
    values = trained(one)
    before, _ = one.measured(values)
    after, chosen = refined(one.measured, values, np.array(one.pulse.bounds))
    return 1 - before, 1 - after, with_decay(one, chosen)


def main() -> None:
    """Print a line for each number of qubits and each device."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robust_pulses")
    parser.add_argument("--qubits", type=int, nargs="+", default=[4, 5])
    options = parser.parse_args()
    for qubits in options.qubits:
        gains = []
        for seed, times in enumerate(TIMES):
            nominal = model(qubits, *times)
            device = deviating(nominal, seed)
            found = [fidelities(one, nominal, device) for one in targets(qubits).values()]
            gains += [after / before - 1 for before, after, _ in found]
            before, after, decayed = np.median(found, axis=0)
            print(
                f"{qubits} qubits, T1 {times[0]:g} us: model {before:.4f}, measured {after:.4f},"
                f" decayed {decayed:.4f}, ceiling {decay_limit(device, GRID.duration):.4f}",
                flush=True,
            )
        print(f"{qubits} qubits: fidelity {np.median(gains):+.0%}, the median of all", flush=True)


if __name__ == "__main__":
    main()
