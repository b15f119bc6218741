"""A circuit whose observables the C++ engine computes by contracting tensor networks."""

from typing import Any, final

import cirq
import numpy as np

from qfleet.compiler.network_program import NetworkProgram
from qfleet.compiler.network_writer import NetworkWriter
from qfleet.engine.network_memory import describe_networks, require_network_memory
from qfleet.errors import CircuitError, ShardingError
from qfleet.tensorflow.engine_simulator import EngineSimulator
from qfleet.tensorflow.runtime import tf
from qfleet.tensorflow.simulator import REAL_DTYPES, Simulator


@final
class NetworkSimulator(EngineSimulator):
    """Contracts the light cone of each observable; see `qfleet.compile`.

    Args:
        program: The networks.
        dtype: "complex64" or "complex128".

    Raises:
        MemoryLimitError: The tensors do not fit into the free memory.
    """

    has_no_state = True

    def __init__(self, program: NetworkProgram, *, dtype: str = "complex64") -> None:
        self.networks = program
        self.inputs, self.parameters = program.inputs, program.parameters
        self.qubits: tuple[cirq.Qid, ...] = program.qubits
        self.readouts = program.readouts
        self.dtype = REAL_DTYPES[dtype]
        self.require_memory(1)
        writer = NetworkWriter(program)
        self._load(writer.bytes(), writer.shared, writer.per_example)

    def require_memory(self, states: int, processes: int = 1) -> None:
        """Check the memory as Simulator.require_memory; for tensors instead of states."""
        require_network_memory(self.networks, self.dtype.size, processes)

    def describe(self, batch: int | None = None) -> str:
        """Describe the networks and their memory."""
        return describe_networks(self.networks, real_bytes=self.dtype.size, threads=self._threads)

    def subspace_size(self, angles: np.ndarray) -> int:
        """Return 0: there is no subspace; see `NativeSimulator`."""
        return 0

    def swap_count(self, bits: int) -> int:
        """Refuse to shard; see `NativeSimulator`."""
        raise ShardingError("tensor networks have no state that processes could share")

    def state(self, angles: tf.Tensor, parameters: tf.Tensor) -> Any:
        """Refuse; see Simulator.state."""
        self._require_state_output()

    @property
    def _plain(self) -> Simulator:
        raise CircuitError(
            "Keras layers have no second derivatives of tensor networks: choose the method"
            " state_vector, or qfleet.compile, which has Hessian-vector products"
        )
