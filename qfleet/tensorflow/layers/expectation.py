"""Layers whose outputs are exact expectation values."""

from collections.abc import Sequence
from typing import Any, final

import cirq

from qfleet.argument_checks import checked, instance, optional, shown
from qfleet.circuit_checks import CIRCUIT
from qfleet.circuits.circuit_json import require_json, to_json
from qfleet.compiler.any_program import AnyProgram
from qfleet.compiler.circuit.sampling import EXACT
from qfleet.engine.arguments import required_observables
from qfleet.engine.sampled_forward import SampledForward
from qfleet.errors import ArgumentError
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.layers.circuit import CircuitLayer, PauliReadouts
from qfleet.tensorflow.robust import RobustSimulator
from qfleet.tensorflow.runtime import keras, tf
from qfleet.tensorflow.simulator import Simulator


@final
@keras.utils.register_keras_serializable("qfleet")
class Expectation(PauliReadouts):
    """Expectation values of a circuit with trained angles: [B, inputs] -> [B, readouts].

    Differentiable by the inputs and by the weight `angles` [parameters], any number of times (once
    for a sharded state).

    Args:
        circuit: Any Cirq circuit of unitary gates and noise channels. Its symbols are inputs or
            trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        observables: PauliSums or PauliStrings with real coefficients.
        program: The compiled circuit, if the caller has it; see `build_simulator`.
        gradient_circuit: The circuit without noise, with the same symbols: gradients are its
            gradients at the values of `circuit`; see `RobustSimulator`.
        sampler: Measures `circuit`, in place of a simulation; a saved layer has none. Gradients
            are those of `gradient_circuit`, or else of `circuit`.
        shots: Measurements by `sampler` of each group of Pauli strings per example.
        circuit_args: `parameters`, `initializer`, `seed`, `backend`, `method`, `sampling`,
            `initial_states`, and Keras's arguments; see TrainedCircuit and CircuitLayer.

    Raises:
        CircuitError: The circuit or the observables are not supported.
        ArgumentError: The sampler has another type, `shots` is not positive, or a layer with
            `initial_states` has a sampler or a gradient circuit.

    Examples:
        >>> import cirq, sympy
        >>> import numpy as np
        >>> from qfleet.tensorflow.layers import Expectation
        >>> qubit = cirq.LineQubit(0)
        >>> x, p = sympy.symbols("x p")
        >>> circuit = cirq.Circuit(cirq.rx(x).on(qubit), cirq.ry(p).on(qubit))
        >>> layer = Expectation(circuit, ["x"], [cirq.Z(qubit)], initializer="zeros")
        >>> layer(np.array([[0.0], [np.pi]])).numpy().round(3).tolist()
        [[1.0], [-1.0]]
    """

    _simulator: Simulator

    @checked(
        program=optional(instance(AnyProgram, "the program of compile_circuit_by")),
        sampler=optional(instance(cirq.Sampler, "a cirq.Sampler")),
    )
    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        observables: Sequence[cirq.PauliSum | cirq.PauliString],
        *,
        program: AnyProgram | None = None,
        gradient_circuit: cirq.Circuit | None = None,
        sampler: cirq.Sampler | None = None,
        shots: int = 0,
        **circuit_args: Any,
    ) -> None:
        super().__init__(circuit, inputs, observables, **circuit_args)
        self.gradient_circuit: cirq.Circuit | None = None
        if gradient_circuit is not None:
            require_json(CIRCUIT(gradient_circuit, "gradient_circuit"))
            self.gradient_circuit = gradient_circuit.unfreeze()
        if sampler is None and shots != 0:
            raise ArgumentError(
                f"shots is {shown(shots)}, but there is no sampler: pass a cirq.Sampler, too"
            )
        if self.initial_states and not (sampler is None and gradient_circuit is None):
            raise ArgumentError(
                "initial_states is True, which excludes sampler and gradient_circuit: leave both"
                " out"
            )
        self._sampler, self._shots = sampler, shots
        self._simulator = self._build_simulator(program)

    def _build_simulator(self, program: AnyProgram | None = None) -> Simulator:
        symbols = self.inputs, self.parameters, self.observables
        arguments = self._simulator_args
        forward: Simulator | SampledForward
        if self._sampler is None:
            forward = build_simulator(self.circuit, *symbols, program=program, **arguments)
            if self.gradient_circuit is None:
                return forward
        else:
            forward = SampledForward(
                self.circuit, *symbols, sampler=self._sampler, shots=self._shots
            )
        exact = {**arguments, "sampling": EXACT}
        return RobustSimulator(
            forward, build_simulator(self.gradient_circuit or self.circuit, *symbols, **exact)
        )

    def call(self, inputs: tf.Tensor | Sequence[tf.Tensor]) -> tf.Tensor:
        """Return expectation values [B, readouts] for angles [B, inputs], or [states, angles]."""
        return self._simulator.expectation(*self._symbols(inputs))

    def get_config(self) -> dict[str, object]:
        """Return the layer's configuration, without the sampler; circuits are Cirq JSON."""
        config = super().get_config()
        if self.gradient_circuit is not None:
            config["gradient_circuit"] = to_json(self.gradient_circuit)
        return config


@final
@keras.utils.register_keras_serializable("qfleet")
class ControlledExpectation(CircuitLayer):
    """Expectation values of a circuit whose parameters other layers compute, per example.

    Called as `layer([angles, parameters])` with [B, inputs] and [B, parameters], or as
    `layer([states, angles, parameters])` with initial states; returns [B, readouts]. Differentiable
    by all, so the other layers are trained. It has no weights.

    Args:
        circuit: Any Cirq circuit of unitary gates and noise channels.
        inputs: Names of the symbols that `angles` holds, in the order of its columns.
        observables: PauliSums or PauliStrings with real coefficients.
        circuit_args: `parameters` (the symbols of the second input, sorted by name unless given),
            `backend`, `sampling`, `initial_states`, and Keras's arguments; see CircuitLayer.

    Raises:
        CircuitError: The circuit or the observables are not supported.

    Examples:
        >>> import cirq, sympy
        >>> import numpy as np
        >>> from qfleet.tensorflow.layers import ControlledExpectation
        >>> qubit = cirq.LineQubit(0)
        >>> x, p = sympy.symbols("x p")
        >>> circuit = cirq.Circuit(cirq.rx(x).on(qubit), cirq.rx(p).on(qubit))
        >>> layer = ControlledExpectation(circuit, ["x"], [cirq.Z(qubit)])
        >>> layer([np.array([[0.0]]), np.array([[np.pi]])]).numpy().round(3).tolist()
        [[-1.0]]
    """

    _simulator: Simulator

    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        observables: Sequence[cirq.PauliSum | cirq.PauliString],
        **circuit_args: Any,
    ) -> None:
        super().__init__(circuit, inputs, **circuit_args)
        self.observables = required_observables(observables)
        names = (*self.inputs, *self.parameters)
        self._simulator = build_simulator(
            circuit, names, (), self.observables, **self._simulator_args
        )

    def build(self, input_shape: tf.TensorShape) -> None:
        """Check that there are inputs of the right widths."""
        widths = {"angles": len(self.inputs), "parameters": len(self.parameters)}
        if self.initial_states:
            widths = {"states": 2 ** len(self._simulator.qubits), **widths}
        given = [tf.TensorShape(shape) for shape in input_shape]
        if len(given) != len(widths) or not all(
            shape.is_compatible_with([None, width])
            for shape, width in zip(given, widths.values(), strict=True)
        ):
            raise ValueError(
                f"the layer {self.name} takes [{', '.join(widths)}] of shapes"
                f" {' and '.join(f'[batch, {width}]' for width in widths.values())}, but was given"
                f" {' and '.join(map(str, given)) or 'nothing'}"
            )
        super().build(input_shape)

    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return expectation values [B, readouts] for [angles, parameters]; see the class."""
        *states, angles, parameters = inputs
        symbols = tf.concat([self._real(angles), self._real(parameters)], axis=1)
        arguments = symbols, tf.zeros([0], self.compute_dtype), *map(self._complex, states)
        return self._simulator.expectation(*arguments)

    def get_config(self) -> dict[str, object]:
        """Return the layer's configuration; circuit and observables are Cirq JSON."""
        return {**super().get_config(), "observables": cirq.to_json(list(self.observables))}
