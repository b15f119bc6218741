"""Layers whose outputs are exact expectation values."""

from collections.abc import Sequence
from typing import Any, final

import cirq

from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.layers.circuit import CircuitLayer, PauliReadouts
from qfleet.tensorflow.runtime import keras, tf


@final
@keras.utils.register_keras_serializable("qfleet")
class Expectation(PauliReadouts):
    """Readouts of a circuit: angles [B, inputs] in, expectation values [B, readouts] out.

    Args:
        circuit: Any Cirq circuit whose symbols are `inputs` or trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        observables: What is read: a PauliSum or PauliString each.
        circuit_args: parameters, initializer, seed, simulator, and Keras's own; see TrainedCircuit
            and CircuitLayer.

    Raises:
        CircuitError: The circuit or the observables hold what the simulator can't take.
    """

    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        observables: Sequence[cirq.PauliSum | cirq.PauliString],
        **circuit_args: Any,
    ) -> None:
        super().__init__(circuit, inputs, observables, **circuit_args)
        self._simulate = build_simulator(
            circuit, self.inputs, self.parameters, self.observables, **self._how
        )

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Expectation values [B, readouts] of angles [B, inputs] in radians."""
        return self._simulate.expectation(*self._symbols(inputs))


@final
@keras.utils.register_keras_serializable("qfleet")
class ControlledExpectation(CircuitLayer):
    """Readouts of a circuit whose parameters another layer gives, for each example its own.

    Called as `layer([angles, parameters])` with [B, inputs] and [B, parameters]; differentiable by
    both, so that the other layer is trained. It has no weights.

    Args:
        circuit: Any Cirq circuit.
        inputs: Names of the symbols that `angles` holds, in the order of its columns.
        observables: What is read: a PauliSum or PauliString each.
        circuit_args: parameters (the symbols that the other layer gives, sorted unless given),
            simulator, and Keras's own; see CircuitLayer.

    Raises:
        CircuitError: The circuit or the observables hold what the simulator can't take.
    """

    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        observables: Sequence[cirq.PauliSum | cirq.PauliString],
        **circuit_args: Any,
    ) -> None:
        super().__init__(circuit, inputs, **circuit_args)
        self.observables = tuple(cirq.PauliSum.wrap(observable) for observable in observables)
        names = (*self.inputs, *self.parameters)
        self._simulate = build_simulator(circuit, names, (), self.observables, **self._how)

    def build(self, input_shape: Any) -> None:
        """Check that there are two inputs, as wide as they must be."""
        widths = [len(self.inputs), len(self.parameters)]
        given = [tf.TensorShape(shape) for shape in input_shape]
        if len(given) != 2 or not all(
            shape.is_compatible_with([None, width])
            for shape, width in zip(given, widths, strict=True)
        ):
            raise ValueError(
                f"the layer {self.name} takes [angles, parameters] of shapes"
                f" [batch, {widths[0]}] and [batch, {widths[1]}], but was given"
                f" {' and '.join(map(str, given)) or 'nothing'}"
            )
        super().build(input_shape)

    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Expectation values [B, readouts] of [angles, parameters] in radians."""
        symbols = tf.concat([tf.cast(part, self.compute_dtype) for part in inputs], axis=1)
        return self._simulate.expectation(symbols, tf.zeros([0], self.compute_dtype))

    def get_config(self) -> dict[str, Any]:
        """What Keras saves; circuit and observables as Cirq JSON."""
        return {**super().get_config(), "observables": cirq.to_json(list(self.observables))}
