"""Circuits whose observables the C++ engine computes without state vectors."""

from typing import final

from qfleet.compiler.any_program import AnyProgram
from qfleet.engine import device_choice, devices
from qfleet.engine.devices import CPU
from qfleet.engine.machine import Machine
from qfleet.errors import CircuitError
from qfleet.tensorflow.engine_simulator import EngineSimulator
from qfleet.tensorflow.framework import tf
from qfleet.tensorflow.simulator import REAL_DTYPES, Simulator


@final
class StatelessSimulator(EngineSimulator):
    """Computes expectation values only: by tensor networks, density matrices or trajectories.

    Args:
        program: A program without state vectors.
        dtype: "complex64" or "complex128".

    Raises:
        MemoryLimitError: What the engine evolves does not fit into the free memory.
    """

    has_no_state = True

    def __init__(self, program: AnyProgram, *, dtype: str = "complex64") -> None:
        self.program = program
        self.inputs, self.parameters = program.inputs, program.parameters
        self.qubits, self.readouts = program.qubits, program.readouts
        self.takes_states = program.takes_states
        self.takes_matrices = program.method == "density_matrix"
        self.dtype = REAL_DTYPES[dtype]
        self._wanted = devices.resolve(None)
        self._device = device_choice.choose(self._wanted, program, dtype)
        if self._device != CPU:
            # An error of an operation would be an OpError.
            devices.require_device(self._device, self.dtype.size)
        self.require_memory(1)
        self._load(program.serialized(dtype))

    def require_memory(self, states: int, processes: int = 1) -> None:
        """Check the memory as Simulator.require_memory; of what the program evolves."""
        machine = Machine(self.dtype.size, device=self._device)
        self.program.require_memory(machine, states, processes)

    def describe(self, batch: int | None = None) -> str:
        """Describe the program and its memory."""
        machine = Machine(self.dtype.size, self._threads, self._device, self._wanted)
        return self.program.describe(machine, batch or 1)

    def state(
        self, angles: tf.Tensor, parameters: tf.Tensor, *initial_states: tf.Tensor
    ) -> tf.Tensor:
        """Refuse; see Simulator.state."""
        self._require_state_output()

    @property
    def _plain(self) -> Simulator:
        raise CircuitError(
            f"Keras layers have no second derivatives of {self.program.kind}:"
            f" {self.program.hessian_advice}"
        )
