"""Options, compiled circuits and trajectories, which all parts of the simulator share."""

from collections.abc import Mapping, Sequence

import cirq
import numpy as np
from cirq import Simulator as CirqSimulator
from numpy.typing import DTypeLike

from qfleet.argument_checks import flag, shown
from qfleet.cirq import fallback
from qfleet.cirq.compiled_circuits import CompiledCircuits, initial_vector
from qfleet.cirq.dynamic import NoForm
from qfleet.cirq.qubit_orders import ordered
from qfleet.engine.arguments import checked_dtype
from qfleet.errors import ArgumentError


class SimulatorBase:
    """The options of a simulator, the circuits that it has compiled, and their trajectories.

    Args:
        dtype: As of `qfleet.cirq.Simulator`, and so are all others.
        noise: Noise after each moment.
        seed: Seed of sampled measurements.
        split_untangled_states: For `cirq.Simulator`.
    """

    def __init__(
        self,
        *,
        dtype: DTypeLike = np.complex64,
        noise: cirq.NOISE_MODEL_LIKE = None,
        seed: cirq.RANDOM_STATE_OR_SEED_LIKE = None,
        split_untangled_states: bool = True,
    ) -> None:
        self._dtype = np.dtype(checked_dtype(dtype))
        try:
            self._prng = cirq.value.parse_random_state(seed)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"seed is {shown(seed)}: {error}") from None
        # parse_random_state returns any other object as it is.
        if not isinstance(self._prng, np.random.RandomState) and self._prng is not np.random:
            raise ArgumentError(
                f"seed is {shown(seed)}: pass an integer, a numpy.random.RandomState or None"
            )
        try:
            self._noise = cirq.NoiseModel.from_noise_model_like(noise)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"noise is {shown(noise)}: {error}") from None
        self._circuits = CompiledCircuits(self._dtype)
        self._warned: set[str] = set()
        self._cirq = CirqSimulator(
            dtype=self._dtype.type,
            noise=self._noise,
            seed=self._prng,
            split_untangled_states=flag(split_untangled_states, "split_untangled_states"),
        )

    @property
    def noise(self) -> cirq.NoiseModel:
        """The noise model."""
        return self._noise

    def _draw(
        self,
        circuit: cirq.AbstractCircuit,
        resolver: cirq.ParamResolver,
        qubits: Sequence[cirq.Qid],
        initial_state: cirq.STATE_VECTOR_LIKE | None,
    ) -> tuple[Mapping[str, np.ndarray], np.ndarray]:
        """Return the records and the final state [2**N] of a trajectory.

        Raises:
            NoForm: The engine has no form for the circuit.
        """
        if isinstance(initial_state, cirq.SimulationStateBase):
            raise NoForm("initial_state is a simulation state")
        if reason := fallback.reason_of_qubits(qubits):
            raise NoForm(reason)
        start = initial_vector(initial_state, qubits)
        dynamic = self._circuits.dynamic(
            circuit, resolver, self._noise, qubits, takes_state=start is not None
        )
        return dynamic.final_state(start, self._prng)

    def _is_dynamic(
        self,
        program: cirq.AbstractCircuit,
        qubit_order: cirq.QubitOrderOrList = cirq.QubitOrder.DEFAULT,
        initial_state: object = None,
    ) -> bool:
        """Return True if a circuit has more than gates and terminal measurements."""
        if self._noise is not cirq.NO_NOISE or isinstance(initial_state, cirq.SimulationStateBase):
            return True
        return self._circuits.is_dynamic(program, ordered(program.all_qubits(), qubit_order))

    def _warn(self, reason: str) -> None:
        """Warn once for each reason; each time where the warning is an error."""
        if reason not in self._warned:
            fallback.warn(reason)
            self._warned.add(reason)
