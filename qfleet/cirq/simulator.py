"""Cirq's simulator interfaces on the engine."""

from qfleet.cirq.expectation_values import ExpectationValues
from qfleet.cirq.final_states import FinalStates
from qfleet.cirq.samples import MeasuredSamples


class Simulator(MeasuredSamples, FinalStates, ExpectationValues):
    """A state-vector simulator with the interfaces of `cirq.Simulator`, and adjoint gradients.

    All points of a sweep are computed in one call of the engine. Compiled circuits are cached: a
    circuit with symbols is compiled once for all values.

    Circuits with noise, resets, measurements before the end and classical control are run by
    trajectories of the engine, which share their states until they differ. A final state, or an
    expectation value, is of one trajectory. `cirq.Simulator` computes what the engine has no form
    for, with a FallbackWarning: qudits, loops until an outcome, and single moments.

    Args:
        dtype: np.complex64 or np.complex128, of the state.
        noise: Noise model or channel after each moment, as for `cirq.Simulator`.
        seed: Seed of sampled measurements, as for `cirq.Simulator`.
        split_untangled_states: As for `cirq.Simulator`, which it is passed to; the engine evolves
            one state of all qubits.
    """
