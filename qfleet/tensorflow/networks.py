"""Circuits whose observables the C++ engine computes without state vectors."""

import abc
from typing import Any, ClassVar, final

import cirq
import numpy as np

from qfleet.compiler.density_program import DensityProgram
from qfleet.compiler.density_writer import DensityWriter
from qfleet.compiler.network_program import NetworkProgram
from qfleet.compiler.network_writer import NetworkWriter
from qfleet.compiler.noisy_writer import NoisyWriter
from qfleet.compiler.trajectory_program import TrajectoryProgram
from qfleet.compiler.trajectory_writer import TrajectoryWriter
from qfleet.engine import devices
from qfleet.engine.density_memory import describe_density, require_density_memory
from qfleet.engine.network_memory import describe_networks, require_network_memory
from qfleet.engine.trajectory_memory import describe_trajectories, require_trajectory_memory
from qfleet.errors import CircuitError, ShardingError
from qfleet.tensorflow.engine_simulator import EngineSimulator
from qfleet.tensorflow.runtime import tf
from qfleet.tensorflow.simulator import REAL_DTYPES, Simulator


class StatelessSimulator(EngineSimulator):
    """Computes expectation values only. Abstract.

    Args:
        program: Tensor networks, a density program or a trajectory program.
        dtype: "complex64" or "complex128".

    Raises:
        MemoryLimitError: What the engine evolves does not fit into the free memory.
    """

    has_no_state = True
    _kind: ClassVar[str]
    _method: ClassVar[str]

    def __init__(
        self,
        program: NetworkProgram | DensityProgram | TrajectoryProgram,
        *,
        dtype: str = "complex64",
    ) -> None:
        self.inputs, self.parameters = program.inputs, program.parameters
        self.qubits: tuple[cirq.Qid, ...] = program.qubits
        self.readouts = program.readouts
        self.dtype = REAL_DTYPES[dtype]
        if (wanted := devices.resolve(None)) != devices.CPU:
            devices.warn_once(self._method, wanted)
        self.require_memory(1)
        writer = self._writer()
        self._load(writer.bytes(), writer.shared, writer.per_example)

    @abc.abstractmethod
    def _writer(self) -> NetworkWriter | NoisyWriter:
        """Return the serialized program."""

    def subspace_size(self, angles: np.ndarray) -> int:
        """Return 0: there is no subspace; see `NativeSimulator`."""
        return 0

    def swap_count(self, bits: int) -> int:
        """Refuse to shard; see `NativeSimulator`."""
        raise ShardingError(f"{self._kind} have no state vector that processes could share")

    def state(self, angles: tf.Tensor, parameters: tf.Tensor) -> Any:
        """Refuse; see Simulator.state."""
        self._require_state_output()


@final
class NetworkSimulator(StatelessSimulator):
    """Contracts the light cone of each observable; see `qfleet.compile`."""

    _kind, _method = "tensor networks", "tensor_network"

    def __init__(self, program: NetworkProgram, *, dtype: str = "complex64") -> None:
        self.networks = program
        super().__init__(program, dtype=dtype)

    def _writer(self) -> NetworkWriter:
        return NetworkWriter(self.networks)

    def require_memory(self, states: int, processes: int = 1) -> None:
        """Check the memory as Simulator.require_memory; for tensors instead of states."""
        require_network_memory(self.networks, self.dtype.size, processes)

    def describe(self, batch: int | None = None) -> str:
        """Describe the networks and their memory."""
        return describe_networks(self.networks, real_bytes=self.dtype.size, threads=self._threads)

    @property
    def _plain(self) -> Simulator:
        raise CircuitError(
            "Keras layers have no second derivatives of tensor networks: choose the method"
            " state_vector, or qfleet.compile, which has Hessian-vector products"
        )


@final
class DensitySimulator(StatelessSimulator):
    """Evolves density matrices through noise channels; see `qfleet.compile`."""

    _kind, _method = "density matrices", "density_matrix"

    def __init__(self, program: DensityProgram, *, dtype: str = "complex64") -> None:
        self.density = program
        super().__init__(program, dtype=dtype)

    def _writer(self) -> DensityWriter:
        return DensityWriter(self.density)

    def require_memory(self, states: int, processes: int = 1) -> None:
        """Check the memory as Simulator.require_memory; for density matrices."""
        require_density_memory(self.density, self.dtype.size, states, processes)

    def describe(self, batch: int | None = None) -> str:
        """Describe the program and its memory."""
        return describe_density(self.density, self.dtype.size)

    @property
    def _plain(self) -> Simulator:
        raise CircuitError("density matrices have no second derivatives: remove the noise")


@final
class TrajectorySimulator(StatelessSimulator):
    """Averages over quantum trajectories; see `qfleet.compile`."""

    _kind = _method = "trajectories"

    def __init__(self, program: TrajectoryProgram, *, dtype: str = "complex64") -> None:
        self.trajectories = program
        super().__init__(program, dtype=dtype)

    def _writer(self) -> TrajectoryWriter:
        return TrajectoryWriter(self.trajectories)

    def require_memory(self, states: int, processes: int = 1) -> None:
        """Check the memory as Simulator.require_memory; for the trajectories of all threads."""
        require_trajectory_memory(self.trajectories, self.dtype.size, states, processes)

    def describe(self, batch: int | None = None) -> str:
        """Describe the program and its memory."""
        return describe_trajectories(self.trajectories, self.dtype.size)

    @property
    def _plain(self) -> Simulator:
        raise CircuitError(
            "trajectories have no second derivatives: remove the noise and the shots"
        )
