"""Base class of the simulators whose programs the C++ engine runs."""

import abc
from collections.abc import Callable, Sequence

import numpy as np

from qfleet import native
from qfleet.compiler.any_program import SerializedProgram
from qfleet.engine import devices, memory
from qfleet.engine.cpus import usable_cpu_count
from qfleet.engine.devices import CPU, Device
from qfleet.tensorflow.exponents import BatchGateExponents
from qfleet.tensorflow.framework import is_watched, tf
from qfleet.tensorflow.micro_batch import MEMORY_LIMIT, current_micro_batch
from qfleet.tensorflow.simulator import Gradient, Simulator

NO_STATES = np.zeros((0, 0), np.complex64)
"""The operand of initial states, if a program does not take any."""


class EngineSimulator(Simulator):
    """Runs a serialized program in the engine. Abstract.

    Subclasses set the attributes of `Simulator`, and call `_load`.
    """

    @property
    @abc.abstractmethod
    def _plain(self) -> Simulator:
        """The same circuit in plain TensorFlow, for second derivatives."""

    @property
    def _threads(self) -> int:
        """Threads of TensorFlow's pool, which the engine uses."""
        return tf.config.threading.get_intra_op_parallelism_threads() or usable_cpu_count()

    @property
    def device(self) -> Device:
        """The device of values, gradients and states."""
        return self._device

    _device: Device = CPU
    _subspace = True  # if a batch may be computed from the states that span it

    def _load(self, written: SerializedProgram) -> None:
        """Set the program.

        Args:
            written: The program in the form that the engine takes.

        Raises:
            DeviceError: The library of the device is not built.
        """
        self._serialized, self._order = written.serialized, list(written.bit_order)
        self._device_attributes = device_attributes(self._device)
        self._free = memory.available_bytes()
        self._exponents = BatchGateExponents(
            written.shared, written.per_example, self.inputs, self.parameters
        )
        self._mixed = self._exponents.mixed

    # AutoGraph would take longer than everything else in tracing.
    @tf.autograph.experimental.do_not_convert
    def expectation(
        self, angles: tf.Tensor, parameters: tf.Tensor, *initial_states: tf.Tensor
    ) -> tf.Tensor:
        """Compute the readouts; see Simulator.expectation."""
        symbols = self._checked_arguments(angles, parameters, *initial_states)
        watched = [is_watched(one) for one in symbols]
        by_angles = watched[0]
        if any(watched):
            self.require_memory(2)

        @tf.custom_gradient
        def values(*symbols: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
            exponents = self._exponents(*symbols[:2])
            result, kept = native.ops().qfleet_expectation(
                *exponents,
                initial_states=self._initial_states(symbols),
                program=self._serialized,
                T=self.dtype,
                keep_states=any(watched),
                order=self._order,
                **self._device_attributes,
                **self._plan_attributes(not by_angles),
            )

            def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
                return self._gradients(
                    "qfleet_expectation_gradient",
                    lambda *symbols: self._plain.expectation(*symbols),
                    symbols,
                    upstream,
                    watched,
                    exponents=exponents,
                    operands=(upstream, kept),
                    **self._plan_attributes(by_angles is False),
                )

            return result, gradient

        result = values(*symbols)
        return tf.ensure_shape(result, [symbols[0].shape[0], self.readouts])

    def _initial_states(self, symbols: Sequence[tf.Tensor]) -> tf.Tensor | np.ndarray:
        """Return the operand of initial states: a row for each, also for a density matrix."""
        if not self.takes_states:
            return NO_STATES
        states = symbols[-1]
        if states.shape.rank == 2:
            return states
        return tf.reshape(states, [-1, states.shape[1] * states.shape[2]])

    def _plan_attributes(self, subspace: bool) -> dict[str, int]:
        """Attributes of the plan: if the subspace plan is allowed, and bytes for kept states.

        The subspace plan has no gradient by what differs per example. Forward and adjoint pass must
        choose the same plan, so both get the free bytes at construction. The plan of a micro-batch
        is the same on every machine.
        """
        fixed = current_micro_batch() is not None
        return {
            "allow_subspace": subspace and self._subspace and not self._mixed,
            "memory_limit": MEMORY_LIMIT if fixed else self._free // 4,
            "fixed_layout": fixed,
        }

    def _gradients(
        self,
        op: str,
        plain: Callable[..., tf.Tensor],
        symbols: tuple[tf.Tensor, ...],
        upstream: tf.Tensor,
        watched: Sequence[bool | None],
        *,
        exponents: Sequence[tf.Tensor],
        operands: tuple[tf.Tensor, tf.Tensor],
        **attributes: int | list[int],
    ) -> tuple[tf.Tensor | None, ...]:
        """Compute the gradients by angles, parameters and initial states, differentiable again.

        Args:
            op: Name of the adjoint operation.
            plain: The same function in plain TensorFlow, for second derivatives.
            symbols: [B, inputs] angles, [parameters], and initial states, if any.
            upstream: Gradient by the function's result.
            watched: For each of `symbols` as `is_watched`.
            exponents: Those of the forward pass, whose kept states belong to equal bits.
            operands: Further operands of the operation.
            attributes: Further attributes of the operation.
        """
        by_each = self._mixed or watched[0] is not False
        by_states = self.takes_states and watched[-1] is not False

        @tf.custom_gradient
        def first(*sources: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., list[tf.Tensor]]]:
            *symbols, upstream = sources
            angles, parameters = symbols[:2]
            with tf.GradientTape() as tape:
                tape.watch([angles, parameters])
                again = self._exponents(angles, parameters)
            by_shared, by_example, by_initial = getattr(native.ops(), op)(
                *exponents,
                *operands,
                initial_states=self._initial_states(symbols),
                per_example_gradients=by_each,
                state_gradients=by_states,
                program=self._serialized,
                order=self._order,
                **self._device_attributes,
                **attributes,
            )
            targets, gradients = [again[0]], [by_shared]
            if by_each:
                targets.append(again[1])
                gradients.append(by_example)
            result = tape.gradient(
                targets, [angles, parameters], gradients, unconnected_gradients="zero"
            )
            if by_states:
                result.append(tf.reshape(by_initial, tf.shape(symbols[-1])))

            def second(*second_upstream: tf.Tensor) -> list[tf.Tensor]:
                with tf.GradientTape() as outer:
                    outer.watch(sources)
                    with tf.GradientTape() as inner:
                        inner.watch(symbols)
                        values = plain(*symbols)
                    gradients = inner.gradient(
                        values, symbols[: len(result)], upstream, unconnected_gradients="zero"
                    )
                found: list[tf.Tensor] = outer.gradient(
                    gradients, sources, second_upstream, unconnected_gradients="zero"
                )
                return found

            return result, second

        found = first(*symbols, upstream)
        return (*found, *[None] * (len(symbols) - len(found)))


def device_attributes(device: Device) -> dict[str, str | int]:
    """Return the attributes of an operation that place its program on a device.

    Args:
        device: Computes values, gradients and states.

    Raises:
        DeviceError: The library of the device is not built.
    """
    if device == CPU:
        return {}
    return {"device_library": str(devices.library_path_of(device)), "device": device.number}
