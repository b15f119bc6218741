"""Layers whose outputs come from a finite number of shots."""

from collections.abc import Sequence
from typing import Any, final

import cirq

from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.layers.circuit import PauliReadouts, TrainedCircuit, circuit_svg_text
from qfleet.tensorflow.runtime import keras, tf
from qfleet.tensorflow.sampling import SampledReadouts, draw_shots, sample_bits


@final
@keras.utils.register_keras_serializable("qfleet")
class Samples(TrainedCircuit):
    """Measurements of all qubits of a circuit: angles [B, inputs] in, bits [B, shots, N] out.

    The same seed gives the same bits for the same angles, at each call. There is no gradient.

    Args:
        circuit: Any Cirq circuit whose symbols are `inputs` or trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        shots: How often each example's state is measured.
        seed: Of the shots and of the initializer; drawn now unless given.
        circuit_args: parameters, initializer, simulator, and Keras's own; see TrainedCircuit and
            CircuitLayer.

    Raises:
        CircuitError: The circuit holds what the simulator can't take.
    """

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
        self.shots, self.seed = _checked(shots), circuit_svg_text(seed)
        self._simulate = build_simulator(circuit, self.inputs, self.parameters, (), **self._how)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Bits int8 [B, shots, N], the first qubit first, of angles [B, inputs] in radians."""
        state = self._simulate.state(*self._symbols(inputs))
        patterns = draw_shots(state, self.shots, tf.constant([self.seed, 0], tf.int64))
        return sample_bits(patterns, len(self._simulate.qubits))

    def get_config(self) -> dict[str, Any]:
        """What Keras saves; the circuit as Cirq JSON."""
        return {**super().get_config(), "shots": self.shots, "seed": self.seed}


@final
@keras.utils.register_keras_serializable("qfleet")
class SampledExpectation(PauliReadouts):
    """Readouts estimated from shots: angles [B, inputs] in, means [B, readouts] out.

    Each call in training draws fresh shots, each replica of a strategy its own; the n-th call is
    the same for the same seed, in a graph or not. Calls outside of training (`training` is not
    True) all use the same random numbers. Gradients come from shots, too, by the parameter-shift
    rule: two measurements for each turn by a symbol.

    Args:
        circuit: Any Cirq circuit whose symbols are `inputs` or trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        observables: What is read: a PauliSum or PauliString each. Strings that agree on every
            qubit they share are read from the same shots.
        shots: How often each group of such strings is measured for each example.
        seed: Of the shots and of the initializer; drawn now unless given.
        circuit_args: parameters, initializer, simulator, and Keras's own; see TrainedCircuit and
            CircuitLayer.

    Raises:
        CircuitError: The circuit or the observables hold what the simulator can't take.
    """

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
        self.shots, self.seed = _checked(shots), circuit_svg_text(seed)
        self._simulate = SampledReadouts(
            circuit, self.inputs, self.parameters, self.observables, shots=shots, **self._how
        )

    def build(self, input_shape: Any) -> None:
        """Make the trained angles, and the number of calls in training."""
        super().build(input_shape)
        self.calls = self.add_weight(
            "calls",
            shape=(),
            dtype=tf.int64,
            initializer="zeros",
            trainable=False,
            # Each replica counts by itself, and all count the same.
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )

    def call(self, inputs: tf.Tensor, training: Any = None) -> tf.Tensor:
        """Estimates [B, readouts] of angles [B, inputs] in radians."""
        seed = tf.stack([tf.constant(self.seed, tf.int64), self._number(training)])
        return self._simulate.expectation(*self._symbols(inputs), seed)

    def _number(self, training: Any) -> tf.Tensor:
        """int64: 0 outside of training; in training another for each call and replica."""
        if training is None:
            training = keras.backend.learning_phase()
        if not tf.is_tensor(training) and not training:
            return tf.constant(0, tf.int64)
        fresh = tf.cast(training, tf.int64)
        number = tf.convert_to_tensor(self.calls.assign_add(fresh, read_value=True))
        replica = tf.distribute.get_replica_context()
        if replica is not None and replica.num_replicas_in_sync > 1:
            number = number * replica.num_replicas_in_sync + tf.cast(
                replica.replica_id_in_sync_group, tf.int64
            )
        return fresh * number

    def get_config(self) -> dict[str, Any]:
        """What Keras saves; circuit and observables as Cirq JSON."""
        return {**super().get_config(), "shots": self.shots, "seed": self.seed}


def _checked(shots: int) -> int:
    if not isinstance(shots, int) or shots < 1:
        raise ValueError(f"shots is {shots}: at least one shot is needed, as a whole number")
    return shots
