"""Simulators whose values come from one source, and whose gradients from another."""

from typing import final

import numpy as np

from qfleet.engine.sampled_forward import SampledForward
from qfleet.tensorflow.framework import tf
from qfleet.tensorflow.simulator import Gradient, Simulator


@final
class RobustSimulator(Simulator):
    """Values of a noisy circuit with the gradients of the circuit without noise.

    The derivative of a loss is taken at the noisy values, and multiplied with the derivative of the
    values without noise. There are no second derivatives.

    Wang et al., "RobustState" (arXiv:2311.16035).

    Args:
        forward: The circuit with noise, or a sampler.
        backward: The circuit without noise, with the same symbols and observables.
    """

    def __init__(self, forward: Simulator | SampledForward, backward: Simulator) -> None:
        self.forward, self.backward = forward, backward
        self.inputs, self.parameters = backward.inputs, backward.parameters
        self.readouts, self.qubits = backward.readouts, backward.qubits
        self.dtype, self.has_no_state = backward.dtype, backward.has_no_state

    @tf.autograph.experimental.do_not_convert
    def expectation(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """Compute the noisy readouts; see Simulator.expectation."""
        angles, parameters = self._checked_arguments(angles, parameters)

        @tf.custom_gradient
        def values(angles: tf.Tensor, parameters: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
            result = self._forward_values(tf.stop_gradient(angles), tf.stop_gradient(parameters))

            def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                with tf.GradientTape() as tape:
                    tape.watch([angles, parameters])
                    noiseless = self.backward.expectation(angles, parameters)
                return tuple(
                    tape.gradient(
                        noiseless, [angles, parameters], upstream, unconnected_gradients="zero"
                    )
                )

            return result, gradient

        result = values(angles, parameters)
        return tf.ensure_shape(result, [angles.shape[0], self.readouts])

    def _forward_values(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        if isinstance(self.forward, Simulator):
            return self.forward.expectation(angles, parameters)

        def measure(angles: np.ndarray, parameters: np.ndarray) -> np.ndarray:
            found = self.forward.expectation(angles, parameters)
            return found.astype(self.dtype.as_numpy_dtype)

        return tf.numpy_function(measure, [angles, parameters], self.dtype)

    def state(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """Refuse; see Simulator.state."""
        self._require_state_output()

    def require_memory(self, states: int, processes: int = 1) -> None:
        """Check the memory of both simulators."""
        if isinstance(self.forward, Simulator):
            self.forward.require_memory(1, processes)
        self.backward.require_memory(states, processes)

    def describe(self, batch: int | None = None) -> str:
        """Describe both simulators as text."""
        parts = ["gradients:", self.backward.describe(batch)]
        if isinstance(self.forward, Simulator):
            parts = ["values:", self.forward.describe(batch), *parts]
        return "\n".join(parts)
