"""Exceptions of the library. They carry no exit codes: an application decides on those.

ValueError
└── LibraryError
    ├── ArgumentError            an argument has the wrong shape, type or value
    ├── CircuitError             a circuit, its symbols or its observables can't be simulated
    │   └── MemoryLimitError     the state does not fit into memory
    ├── DeviceError              a GPU, its driver or the device library is missing or fails
    │   └── DeviceLostError      a GPU failed, and this process cannot use it any more
    ├── NoiseError               a noise is unknown, or its rate is out of range
    ├── ProblemError             a Hamiltonian or a target state can't be read or is unknown
    ├── ShardingError            a state can't be sharded over this many processes
    └── TfqMissingError          TensorFlow Quantum is not installed, or can't be loaded
"""


class LibraryError(ValueError):
    """Base class: the caller passed something that the library can't use."""


class ArgumentError(LibraryError):
    """An argument has the wrong shape, type or value; the message names it."""


class CircuitError(LibraryError):
    """A circuit, its symbols or its observables can't be simulated."""


class MemoryLimitError(CircuitError):
    """The state of the circuit does not fit into the memory of this machine."""


class DeviceError(LibraryError):
    """A GPU is missing, lost or cannot be used, or the device library is not built."""


class DeviceLostError(DeviceError):
    """A GPU failed while it computed, and this process cannot use it any more."""


class ShardingError(LibraryError):
    """A state can't be sharded over the requested number of processes."""


class TfqMissingError(LibraryError):
    """TensorFlow Quantum is not installed, or can't be loaded."""


class ProblemError(LibraryError):
    """A Hamiltonian or a target state can't be read, or its name is unknown."""


class NoiseError(LibraryError):
    """A noise is unknown, or its rate is out of range."""
