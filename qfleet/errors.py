"""Exceptions of the library. They carry no exit codes: an application decides on those.

ValueError
└── LibraryError
    ├── CircuitError             a circuit, its symbols or its observables can't be simulated
    │   └── MemoryLimitError     the state does not fit into memory
    └── ShardingError            a state can't be sharded over this many processes
"""


class LibraryError(ValueError):
    """Base class: the caller passed something that the library can't use."""


class CircuitError(LibraryError):
    """A circuit, its symbols or its observables can't be simulated."""


class MemoryLimitError(CircuitError):
    """The state of the circuit does not fit into the memory of this machine."""


class ShardingError(LibraryError):
    """A state can't be sharded over the requested number of processes."""
