"""Find pulses for X, SX and CZ on transmons of three levels, and see what decay leaves of them.

Run:   python examples/pulse_gates.py    (with a wheel of qfleet; needs NumPy and Cirq)
       PYTHONPATH=. .venv/bin/python examples/pulse_gates.py    (in a checkout)
Takes: ten seconds.
Shows: for each gate, the average fidelity and the leakage without decay, and the fidelity of the
       same pulse with T1 and T2 acting while it lasts, next to the limit of these times.
"""

import argparse
import sys
from dataclasses import replace

import cirq
import numpy as np

from qfleet.pulses import (
    BSplineSeries,
    ControlChannel,
    Coupling,
    GateObjective,
    GateResult,
    Grid,
    Propagator,
    Pulse,
    Transmon,
    Transmons,
    decay_limit,
    drive,
    optimize,
)

FIRST = Transmon(frequency=5.0, anharmonicity=-0.3, levels=3, t1=60_000, t2=50_000)
SECOND = replace(FIRST, frequency=5.3)
ONE = Transmons((FIRST,))
PAIR = Transmons((FIRST, SECOND), (Coupling(0, 1, exchange=0.01),))
STARTS = 6


def rotation(target: cirq.Gate) -> GateObjective:
    """Return the infidelity of a gate on one qubit: 6 B-splines on I and 6 on Q, 16 ns."""
    grid = Grid(duration=16, dt=0.5)
    i, q = drive(0, bound=0.6)
    pulse = Pulse([(BSplineSeries(grid, 6), i), (BSplineSeries(grid, 6), q)])
    return GateObjective(Propagator(ONE, pulse.channels, grid), pulse, cirq.unitary(target))


def controlled_z() -> GateObjective:
    """Return the infidelity of CZ: B-splines on the second qubit's flux and on a coupler, 40 ns."""
    grid = Grid(duration=40, dt=1)
    flux, coupler = (
        ControlChannel("detuning", (1,), bound=2.5),
        ControlChannel("coupler", (0, 1), bound=0.2),
    )
    pulse = Pulse([(BSplineSeries(grid), flux), (BSplineSeries(grid), coupler)])
    propagator = Propagator(PAIR, pulse.channels, grid, order=4)
    propagator = propagator.within(1e-6, np.zeros((grid.samples, 2)))
    return GateObjective(propagator, pulse, cirq.unitary(cirq.CZ))


def best_of(objective: GateObjective, iterations: int, wanted: float) -> GateResult:
    """Return the best pulse from several random starts, or the first that is good enough."""
    results = []
    for seed in range(STARTS):
        start = np.random.default_rng(seed).normal(size=len(objective.bounds)) * 0.1
        results.append(optimize(objective, start, iterations=iterations, infidelity=wanted / 10))
        if results[-1].fidelity[0] > 1 - wanted:
            break
    return max(results, key=lambda one: float(one.fidelity[0]))


def with_decay(objective: GateObjective, result: GateResult) -> GateResult:
    """Return the same pulse with T1 and T2."""
    propagator = replace(objective.propagator, decay=True)
    decayed = GateObjective(propagator, objective.pulse, objective.fidelity.target)
    return decayed.result(result.values)


def main() -> int:
    """Print a line per gate; return 0 if all are as good as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=300)
    iterations = parser.parse_args().iterations
    is_good = True
    for name, device, objective, wanted in (
        ("X", ONE, rotation(cirq.X), 1e-4),
        ("SX", ONE, rotation(cirq.X**0.5), 1e-4),
        ("CZ", PAIR, controlled_z(), 1e-3),
    ):
        result = best_of(objective, iterations, wanted)
        decayed = with_decay(objective, result)
        limit = decay_limit(device, result.duration)
        with_times = f"with T1 and T2 {decayed.fidelity[0]:.6f} of {limit:.6f}"
        print(f"{name:2}  {result}; {with_times}")
        is_good &= bool(result.fidelity[0] > 1 - wanted and result.leakage[0] < wanted)
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
