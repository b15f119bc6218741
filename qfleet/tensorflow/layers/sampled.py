"""Layers whose outputs come from a finite number of shots."""

from collections.abc import Sequence
from typing import Any, final

import cirq

from qfleet.compiler.circuit.sampling import SHOTS
from qfleet.errors import ArgumentError
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.layers.circuit import PauliReadouts, TrainedCircuit
from qfleet.tensorflow.layers.trained_angles import resolve_seed
from qfleet.tensorflow.micro_batch import current_micro_batch
from qfleet.tensorflow.runtime import keras, tf
from qfleet.tensorflow.sampling import SampledReadouts, draw_shots, sample_bits
from qfleet.tensorflow.simulator import Simulator


@final
@keras.utils.register_keras_serializable("qfleet")
class Samples(TrainedCircuit):
    """Measurements of all qubits of a circuit: angles [B, inputs] -> bits int8 [B, shots, N].

    Every call with the same angles gives the same bits for the same seed. There is no gradient.

    Args:
        circuit: Any Cirq circuit of unitary gates. Its symbols are inputs or trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        shots: Measurements per example, at least 1.
        seed: Seed of the shots and of the initializer; drawn at construction unless given.
        circuit_args: `parameters`, `initializer`, `backend`, `initial_states`, and Keras's
            arguments; see TrainedCircuit and CircuitLayer.

    Raises:
        CircuitError: The circuit is not supported.
        ArgumentError: The number of shots is not a positive integer.

    Examples:
        >>> import cirq
        >>> import numpy as np
        >>> from qfleet.tensorflow.layers import Samples
        >>> circuit = cirq.Circuit(cirq.X(cirq.LineQubit(0)), cirq.I(cirq.LineQubit(1)))
        >>> Samples(circuit, [], shots=3)(np.zeros((1, 0))).numpy().tolist()
        [[[1, 0], [1, 0], [1, 0]]]
    """

    has_all_methods = False
    _simulator: Simulator

    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        shots: int,
        *,
        seed: int | None = None,
        **circuit_args: Any,
    ) -> None:
        super().__init__(circuit, inputs, seed=seed, **circuit_args)
        self.shots, self.seed = SHOTS(shots, "shots"), resolve_seed(seed)
        self._simulator = build_simulator(
            circuit, self.inputs, self.parameters, (), **self._simulator_args
        )

    def call(self, inputs: tf.Tensor | Sequence[tf.Tensor]) -> tf.Tensor:
        """Return bits int8 [B, shots, N] for angles [B, inputs], or [states, angles]."""
        state = self._simulator.state(*self._symbols(inputs))
        patterns = draw_shots(state, self.shots, tf.constant([self.seed, 0], tf.int64))
        return sample_bits(patterns, len(self._simulator.qubits))

    def get_config(self) -> dict[str, object]:
        """Return the layer's configuration; the circuit is Cirq JSON."""
        return {**super().get_config(), "shots": self.shots, "seed": self.seed}


@final
@keras.utils.register_keras_serializable("qfleet")
class SampledExpectation(PauliReadouts):
    """Expectation values estimated from shots: angles [B, inputs] -> means [B, readouts].

    Each call in training draws new shots, and each replica of a strategy its own. The n-th call
    gives the same values for the same seed, in a graph or not. Calls outside of training
    (`training` is not True) all use the same random numbers. Gradients are estimated from shots
    too, by the parameter-shift rule: two measurements per shifted symbol.

    Sources: Mitarai et al., arXiv:1803.00745; Schuld et al., arXiv:1811.11184.

    Args:
        circuit: Any Cirq circuit of unitary gates. Its symbols are inputs or trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        observables: PauliSums or PauliStrings with real coefficients. Strings that agree on every
            qubit they share are read from the same shots.
        shots: Measurements of each group of such strings per example, at least 1.
        seed: Seed of the shots and of the initializer; drawn at construction unless given.
        circuit_args: `parameters`, `initializer`, `backend`, and Keras's arguments; see
            TrainedCircuit and CircuitLayer.

    Raises:
        CircuitError: The circuit or the observables are not supported.
        ArgumentError: The number of shots is not a positive integer, or `initial_states` is True.

    Examples:
        >>> import cirq
        >>> import numpy as np
        >>> from qfleet.tensorflow.layers import SampledExpectation
        >>> qubit = cirq.LineQubit(0)
        >>> layer = SampledExpectation(cirq.Circuit(cirq.X(qubit)), [], [cirq.Z(qubit)], shots=5)
        >>> layer(np.zeros((1, 0))).numpy().tolist()
        [[-1.0]]
    """

    has_all_methods = False
    _simulator: SampledReadouts

    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        observables: Sequence[cirq.PauliSum | cirq.PauliString],
        shots: int,
        *,
        seed: int | None = None,
        **circuit_args: Any,
    ) -> None:
        super().__init__(circuit, inputs, observables, seed=seed, **circuit_args)
        if self.initial_states:
            raise ArgumentError(
                "initial_states is True, and the parameter-shift rule has no gradients by states:"
                " use Expectation or Samples"
            )
        self.shots, self.seed = SHOTS(shots, "shots"), resolve_seed(seed)
        self._simulator = SampledReadouts(
            circuit,
            self.inputs,
            self.parameters,
            self.observables,
            shots=shots,
            backend=self._simulator_args["backend"],
            dtype=self._simulator_args["dtype"],
        )

    def build(self, input_shape: tf.TensorShape) -> None:
        """Create the weights: the trained angles, and the number of calls in training."""
        super().build(input_shape)
        self.calls = self.add_weight(
            "calls",
            shape=(),
            dtype=tf.int64,
            initializer="zeros",
            trainable=False,
            # Each replica has a counter of its own; all counters are equal.
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )

    def call(self, inputs: tf.Tensor, training: bool | tf.Tensor | None = None) -> tf.Tensor:
        """Return estimates [B, readouts] for angles [B, inputs]."""
        seed = tf.stack([tf.constant(self.seed, tf.int64), self._call_number(training)])
        return self._simulator.expectation(*self._symbols(inputs), seed)

    def _call_number(self, training: bool | tf.Tensor | None) -> tf.Tensor:
        """Return int64: 0 outside of training; in training, unique per call and replica."""
        if training is None:
            training = keras.backend.learning_phase()
        if not tf.is_tensor(training) and not training:
            return tf.constant(0, tf.int64)
        if (micro_batch := current_micro_batch()) is not None:
            return micro_batch.sampling_call()
        in_training = tf.cast(training, tf.int64)
        number = tf.convert_to_tensor(self.calls.assign_add(in_training, read_value=True))
        replica = tf.distribute.get_replica_context()
        if replica is not None and replica.num_replicas_in_sync > 1:
            number = number * replica.num_replicas_in_sync + tf.cast(
                replica.replica_id_in_sync_group, tf.int64
            )
        return in_training * number

    def get_config(self) -> dict[str, object]:
        """Return the layer's configuration; circuit and observables are Cirq JSON."""
        return {**super().get_config(), "shots": self.shots, "seed": self.seed}
