"""Base class of compiled circuits: the program, its symbols, checked arguments and results."""

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import integer
from qfleet.compiler.density_program import DensityProgram
from qfleet.compiler.density_writer import DensityWriter
from qfleet.compiler.methods import AnyProgram, Method
from qfleet.compiler.native_program import NativeProgram, prepare_native_program
from qfleet.compiler.network_program import NetworkProgram
from qfleet.compiler.network_writer import NetworkWriter
from qfleet.compiler.noisy_writer import NoisyWriter
from qfleet.compiler.trajectory_program import TrajectoryProgram
from qfleet.compiler.trajectory_writer import TrajectoryWriter
from qfleet.engine import arguments, devices, library
from qfleet.engine.arguments import Point
from qfleet.engine.density_memory import describe_density, require_density_memory
from qfleet.engine.description import describe_native
from qfleet.engine.devices import CPU
from qfleet.engine.engine_program import EngineProgram
from qfleet.engine.gradients import Gradients
from qfleet.engine.network_memory import describe_networks, require_network_memory
from qfleet.engine.symbol_map import SymbolMap
from qfleet.engine.trajectory_memory import describe_trajectories, require_trajectory_memory


class PreparedCircuit:
    """A program, and the map from its symbols to exponents. Abstract.

    Args:
        program: As for `CompiledCircuit`.
        dtype: As for `CompiledCircuit`.
        device: As for `CompiledCircuit`.
    """

    def __init__(
        self, program: AnyProgram, dtype: str = "complex128", device: str | None = None
    ) -> None:
        wanted = devices.resolve(device)
        self.inputs, self.parameters = program.inputs, program.parameters
        self.qubits = program.qubits
        self.readouts = program.readouts
        self.dtype = np.dtype(dtype)
        self._source = program
        serialized: NativeProgram | NetworkWriter | NoisyWriter
        if isinstance(program, NetworkProgram):
            self.method: Method = "tensor_network"
            require_network_memory(program, self.dtype.itemsize // 2)
            serialized = NetworkWriter(program)
        elif isinstance(program, DensityProgram):
            self.method = "density_matrix"
            require_density_memory(program, self.dtype.itemsize // 2, 1)
            serialized = DensityWriter(program)
        elif isinstance(program, TrajectoryProgram):
            self.method = "trajectories"
            require_trajectory_memory(program, self.dtype.itemsize // 2, 1)
            serialized = TrajectoryWriter(program)
        else:
            self.method = "state_vector"
            devices.require_memory(wanted, len(self.qubits), self.dtype.itemsize)
            serialized = self._native = prepare_native_program(program, dtype)
            self.program = EngineProgram(
                serialized.serialized,
                dtype,
                bit_order=serialized.bit_order,
                subspace=program.subspace,
                device=wanted,
            )
        if not isinstance(serialized, NativeProgram):
            if wanted != CPU:
                devices.warn_once(self.method, wanted)
            self.program = EngineProgram(serialized.bytes(), dtype, bit_order=(), device=CPU)
        self.device = self.program.device
        self.real_dtype = self.program.real_dtype
        self.symbols = SymbolMap(
            serialized.shared, serialized.per_example, self.inputs, self.parameters
        )

    def describe(self, batch: int | None = None) -> str:
        """Describe the compiled program and the plan for a batch.

        Args:
            batch: Number of examples; those that fill a SIMD vector unless given.
        """
        real_bytes = self.real_dtype.itemsize
        if batch is None:
            batch = library.simd_lanes(real_bytes)
        batch = integer(1, 2**40)(batch, "batch")
        threads = library.num_threads()
        if isinstance(self._source, NetworkProgram):
            return describe_networks(self._source, real_bytes=real_bytes, threads=threads)
        if isinstance(self._source, DensityProgram):
            return describe_density(self._source, real_bytes)
        if isinstance(self._source, TrajectoryProgram):
            return describe_trajectories(self._source, real_bytes)
        text = describe_native(
            self._source,
            self._native.plan,
            prefix=self._native.prefix,
            real_bytes=real_bytes,
            batch=batch,
            threads=threads,
        )
        return text if self.device == CPU else f"{devices.describe(self.device)}\n{text}"

    def _require_gradient_memory(self) -> None:
        """Check the memory of a gradient of a circuit with noise, which is more than of values."""
        if isinstance(self._source, DensityProgram):
            require_density_memory(self._source, self.real_dtype.itemsize, 2)
        elif isinstance(self._source, TrajectoryProgram):
            require_trajectory_memory(self._source, self.real_dtype.itemsize, 2)

    def _gradients(
        self, point: Point, changes: tuple[np.ndarray, np.ndarray | None], input_gradients: bool
    ) -> Gradients:
        """Return the gradients by the symbols, given those by the exponents."""
        by_inputs, by_parameters = self.symbols.pullback(*point.symbols, *changes)
        if not input_gradients or by_inputs is None:
            return Gradients(None, by_parameters)
        return Gradients(point.result(by_inputs), by_parameters)

    def _point(self, inputs: ArrayLike | None, parameters: ArrayLike | None) -> Point:
        return arguments.checked_point(inputs, parameters, len(self.inputs), len(self.parameters))
