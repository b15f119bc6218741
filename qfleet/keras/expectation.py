"""Layers of Keras 3 whose outputs are expectation values."""

from collections.abc import Sequence
from typing import Any, final

import cirq
import keras

from qfleet.engine.arguments import required_observables
from qfleet.keras.backend_circuit import CircuitSource, Tensor
from qfleet.keras.circuit import CircuitLayer, Shape, TrainedCircuit, shapes_of


class _Readouts(CircuitLayer):
    """A circuit with observables. Abstract."""

    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        observables: Sequence[cirq.PauliSum | cirq.PauliString],
        **circuit_args: Any,
    ) -> None:
        sums = required_observables(observables)
        super().__init__(circuit, inputs, observables=sums, **circuit_args)

    def compute_output_shape(self, input_shape: Any) -> Shape:
        """Return the shape of the values, [batch, readouts]."""
        return shapes_of(input_shape)[0][0], len(self.observables)


@final
@keras.saving.register_keras_serializable("qfleet")
class Expectation(_Readouts, TrainedCircuit):
    """Expectation values of a circuit with trained angles: [B, inputs] -> [B, readouts].

    Differentiable by the inputs and by the weight `angles` [parameters]: once and twice on
    PyTorch and JAX, any number of times on TensorFlow.

    Args:
        circuit: Any Cirq circuit of unitary gates and noise channels. Its symbols are inputs or
            trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        observables: PauliSums or PauliStrings with real coefficients.
        circuit_args: `parameters`, `initializer`, `seed`, `method`, `sampling`, `initial_states`,
            and Keras's arguments; see TrainedCircuit and CircuitLayer.

    Raises:
        ArgumentError: An argument has the wrong type or value; the message names it.
        CircuitError: The circuit or the observables are not supported.

    Examples:
        >>> import cirq, sympy
        >>> import numpy as np
        >>> from qfleet.keras import Expectation
        >>> qubit = cirq.LineQubit(0)
        >>> x, p = sympy.symbols("x p")
        >>> circuit = cirq.Circuit(cirq.rx(x).on(qubit), cirq.ry(p).on(qubit))
        >>> layer = Expectation(circuit, ["x"], [cirq.Z(qubit)], initializer="zeros")
        >>> values = layer(np.array([[0.0], [np.pi]]))
        >>> keras.ops.convert_to_numpy(values).round(3).tolist()
        [[1.0], [-1.0]]
    """

    def call(self, inputs: Tensor | Sequence[Tensor]) -> Tensor:
        """Return expectation values [B, readouts] for angles [B, inputs], or [states, angles]."""
        return self._rounded(self._backend.expectation(*self._symbols(inputs)))


@final
@keras.saving.register_keras_serializable("qfleet")
class ControlledExpectation(_Readouts):
    """Expectation values of a circuit whose parameters other layers compute, per example.

    Called as `layer([angles, parameters])` with [B, inputs] and [B, parameters], or as
    `layer([states, angles, parameters])` with initial states; returns [B, readouts]. Differentiable
    by all, so the other layers are trained. It has no weights.

    Args:
        circuit: Any Cirq circuit of unitary gates and noise channels.
        inputs: Names of the symbols that `angles` holds, in the order of its columns.
        observables: PauliSums or PauliStrings with real coefficients.
        circuit_args: `parameters` (the symbols of the second input, sorted by name unless given),
            `method`, `sampling`, `initial_states`, and Keras's arguments; see CircuitLayer.

    Raises:
        ArgumentError: An argument has the wrong type or value; the message names it.
        CircuitError: The circuit or the observables are not supported.

    Examples:
        >>> import cirq, sympy
        >>> import numpy as np
        >>> from qfleet.keras import ControlledExpectation
        >>> qubit = cirq.LineQubit(0)
        >>> x, p = sympy.symbols("x p")
        >>> circuit = cirq.Circuit(cirq.rx(x).on(qubit), cirq.rx(p).on(qubit))
        >>> layer = ControlledExpectation(circuit, ["x"], [cirq.Z(qubit)])
        >>> values = layer([np.array([[0.0]]), np.array([[np.pi]])])
        >>> keras.ops.convert_to_numpy(values).round(3).tolist()
        [[-1.0]]
    """

    def _source(self) -> CircuitSource:
        # The engine has a gradient per example by inputs only.
        found = super()._source()
        return found._replace(inputs=(*self.inputs, *self.parameter_names), parameters=())

    def build(self, input_shape: Any) -> None:
        """Check the shapes of the inputs."""
        widths = {"angles": len(self.inputs), "parameters": len(self.parameter_names)}
        if self.initial_states:
            widths = {"states": self._dimension, **widths}
        self._check_shapes(shapes_of(input_shape), **widths)

    def call(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return expectation values [B, readouts] for [angles, parameters]; see the class."""
        *states, angles, parameters = inputs
        symbols = keras.ops.concatenate([self._real(angles), self._real(parameters)], axis=1)
        shared = keras.ops.zeros((0,), self.variable_dtype)
        found = self._backend.expectation(symbols, shared, *map(self._complex, states))
        return self._rounded(found)
