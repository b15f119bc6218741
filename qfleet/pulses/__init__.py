"""Pulses: gates from the controls of a device, with exact gradients.

    device = Transmons([Transmon(frequency=5.0, anharmonicity=-0.3, levels=3)])
    grid = Grid(duration=16, dt=0.5)
    i, q = drive(0, bound=0.6)
    pulse = Pulse([(BSplineSeries(grid, 6), i), (BSplineSeries(grid, 6), q)])
    propagator = Propagator(device, pulse.channels, pulse.grid)
    objective = GateObjective(propagator, pulse, cirq.unitary(cirq.X))
    result = optimize(objective, start)

Public names:
    Transmons, Transmon, Coupling    superconducting qubits of 2 to 8 levels
    calibrated_transmons             transmons of a calibration file
    Atoms                            neutral atoms
    ControlChannel, drive                   what a pulse acts on
    Grid                             samples in time
    PiecewiseConstant, Gaussian, Drag, FlatTop, CosineSeries, BSplineSeries
                                     envelopes
    Pulse, GaussianFilter            envelopes on channels; bandwidth
    Propagator                       unitaries, or channels with T1 and T2
    SplitEvolution                   states of up to 14 qubits
    GateObjective, GateResult        average gate fidelity and leakage over devices
    optimize                         a pulse of low infidelity, by L-BFGS-B
    PulseGate                        a pulse as a gate of a circuit, with numbers or symbols
    populations, amplitude_table     what a pulse does while it lasts; its amplitudes as CSV
    decay_limit                      the fidelity that T1 and T2 leave
"""

from qfleet.pulses.analysis import amplitude_table, decay_limit, populations
from qfleet.pulses.atoms import Atoms
from qfleet.pulses.calibrated import calibrated_transmons
from qfleet.pulses.channels import ControlChannel, drive
from qfleet.pulses.envelopes import Drag, Envelope, FlatTop, Gaussian
from qfleet.pulses.grid import Grid
from qfleet.pulses.objective import GateObjective, GateResult
from qfleet.pulses.optimizer import optimize
from qfleet.pulses.propagator import Propagator
from qfleet.pulses.pulse import GaussianFilter, Pulse
from qfleet.pulses.pulse_gate import PulseGate
from qfleet.pulses.series import BSplineSeries, CosineSeries, PiecewiseConstant
from qfleet.pulses.split_evolution import SplitEvolution
from qfleet.pulses.transmons import Coupling, Transmon, Transmons

__all__ = [
    "Atoms",
    "BSplineSeries",
    "ControlChannel",
    "CosineSeries",
    "Coupling",
    "Drag",
    "Envelope",
    "FlatTop",
    "GateObjective",
    "GateResult",
    "Gaussian",
    "GaussianFilter",
    "Grid",
    "PiecewiseConstant",
    "Propagator",
    "Pulse",
    "PulseGate",
    "SplitEvolution",
    "Transmon",
    "Transmons",
    "amplitude_table",
    "calibrated_transmons",
    "decay_limit",
    "drive",
    "optimize",
    "populations",
]
