"""The native engine: a serialized program, and its C++ operations as one TensorFlow function.

The C++ engine takes exponents, blocks and Pauli strings. The map from symbols to exponents, and its
derivative, are TensorFlow operations: a small matrix product for the exponents of all gates.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import final

import cirq
import numpy as np

from qfleet import native
from qfleet.compiler.state.program import Program, compile_program
from qfleet.distributed import plan
from qfleet.engine import device_choice, devices
from qfleet.engine.devices import CPU
from qfleet.engine.machine import Machine
from qfleet.tensorflow.dense import TensorFlowSimulator
from qfleet.tensorflow.engine_simulator import EngineSimulator
from qfleet.tensorflow.framework import is_watched, tf
from qfleet.tensorflow.micro_batch import current_micro_batch
from qfleet.tensorflow.simulator import COMPLEX_DTYPES, REAL_DTYPES, Gradient


@final
class NativeSimulator(EngineSimulator):
    """Runs a program in the C++ engine, differentiated by the adjoint method.

    QFLEET_DEVICE names the device of values, gradients and states at the time of the construction;
    it is the CPU unless given. Second derivatives are computed on the CPU. `auto` is decided by
    `device_choice.use_batch`.

    Jones and Gacon, "Efficient calculation of gradients in classical simulations of variational
    quantum algorithms" (arXiv:2009.02823).

    Args:
        circuit: The circuit.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        readouts: Observables with real coefficients; none for the state.
        dtype: "complex64" or "complex128".
        program: The circuit, compiled, if the caller has it.

    Raises:
        CircuitError: The circuit, its symbols or the observables are not supported.
        MemoryLimitError: A state does not fit into the free memory.
        ArgumentError: QFLEET_DEVICE is not a device.
        DeviceError: The device is missing or fails, or its library is not built.
    """

    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        inputs: Sequence[str],
        parameters: Sequence[str],
        readouts: Sequence[cirq.PauliSum],
        *,
        dtype: str = "complex64",
        program: Program | None = None,
    ) -> None:
        self.program = program or compile_program(circuit, inputs, parameters, readouts)
        self.inputs, self.parameters = self.program.inputs, self.program.parameters
        self.qubits, self._subspace = self.program.qubits, self.program.subspace
        self.readouts, self.takes_states = len(readouts), self.program.takes_states
        self.dtype = REAL_DTYPES[dtype]
        self._complex = COMPLEX_DTYPES[dtype]
        self._source = (circuit, tuple(inputs), tuple(parameters), tuple(readouts))
        self._device = device_choice.choose(
            devices.resolve(None), self.program, dtype, self._threads
        )
        if self._device != CPU:
            # An error of an operation would be an OpError.
            devices.require_device(self._device, self.dtype.size)
        devices.require_memory(self._device, len(self.qubits), self._complex.size)
        prepared = self.program.serialized(dtype)
        self.plan, self.prefix = prepared.plan, prepared.prefix
        self._load(prepared)

    @cached_property
    def _plain(self) -> TensorFlowSimulator:
        return TensorFlowSimulator(self.program, dtype=self._complex.name)

    def describe(self, batch: int | None = None, angles: np.ndarray | None = None) -> str:
        """Describe the compiled program and the plan for a batch.

        Args:
            batch: Number of examples; those that fill a SIMD vector unless given.
            angles: [B, inputs] a batch, to report if the subspace plan applies; its length takes
                the place of `batch`.
        """
        machine = Machine(self.dtype.size, self._threads, self._device)
        if angles is not None:
            return self.program.describe(machine, len(angles), self.subspace_size(angles))
        return self.program.describe(machine, batch or machine.lanes)

    def require_memory(self, states: int, processes: int = 1) -> None:
        """Check the memory as Simulator.require_memory; of the CPU only.

        The memory of another device is checked at construction: later, the operations hold some.
        """
        if self._device == CPU:
            super().require_memory(states, processes)

    def subspace_size(self, angles: np.ndarray) -> int:
        """Return the number of states that span the states of a batch.

        Args:
            angles: [B, inputs] values of the data symbols.

        Returns:
            The number of states; 0 if the engine evolves each example.
        """
        if self.takes_states:
            return 0
        angles = tf.convert_to_tensor(angles, self.dtype)
        exponents = self._exponents(angles, tf.zeros([len(self.parameters)], self.dtype))
        size = native.ops().qfleet_subspace_size(
            *exponents,
            program=self._serialized,
            **self._device_attributes,
            **self._plan_attributes(True),
        )
        return int(size)

    def swap_count(self, bits: int) -> int:
        """Return the index-bit swaps of a forward pass that is sharded over 2**bits processes.

        Raises:
            ShardingError: There are too few qubits.
        """
        program = compile_program(*self._source, target="sharded", takes_states=self.takes_states)
        return len(plan.plan_for_program(program, bits).swaps)

    @tf.autograph.experimental.do_not_convert
    def state(
        self, angles: tf.Tensor, parameters: tf.Tensor, *initial_states: tf.Tensor
    ) -> tf.Tensor:
        """Compute the state vectors; see Simulator.state."""
        self._require_state_output()
        symbols = self._checked_arguments(angles, parameters, *initial_states)
        watched = [is_watched(one) for one in symbols]

        @tf.custom_gradient
        def states(*symbols: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
            exponents = self._exponents(*symbols[:2])
            result = native.ops().qfleet_state(
                *exponents,
                initial_states=self._initial_states(symbols),
                program=self._serialized,
                T=self._complex,
                order=self._order,
                fixed_layout=current_micro_batch() is not None,
                **self._device_attributes,
            )

            def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
                return self._gradients(
                    "qfleet_state_gradient",
                    lambda *symbols: self._plain.state(*symbols),
                    symbols,
                    upstream,
                    watched,
                    exponents=exponents,
                    operands=(result, upstream),
                    fixed_layout=current_micro_batch() is not None,
                )

            return result, gradient

        result = states(*symbols)
        return tf.ensure_shape(result, [symbols[0].shape[0], 2 ** len(self.qubits)])
