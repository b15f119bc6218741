"""Memory of quantum trajectories, and the description of their programs."""

from qfleet.compiler.trajectory_program import TREE_TRAJECTORIES, TrajectoryProgram
from qfleet.engine import library, memory

_MAX_TREE_BYTES = 256 << 20  # of one state per trajectory (native/noisy/trajectory_engine.cc)
_COPIES = 2  # of states, where operators have no inverse (native/noisy/trajectory_engine.h)


def trajectory_bytes(program: TrajectoryProgram, real_bytes: int, states: int = 2) -> int:
    """Return the bytes of the states of one thread: those of branches that are open, and copies.

    Args:
        program: The program.
        real_bytes: Bytes per real number, 4 or 8.
        states: 1 for readouts, 2 for gradients.
    """
    size, together = _tree(program, real_bytes)
    copies = _COPIES if states > 1 and program.depends_on_state else 0
    return together.bit_length() * (states + copies) * size


def _tree(program: TrajectoryProgram, real_bytes: int) -> tuple[int, int]:
    """Return the bytes of a state, and the trajectories that share states."""
    size = memory.state_bytes(len(program.qubits), 2 * real_bytes)
    return size, min(program.trajectories, TREE_TRAJECTORIES, max(1, _MAX_TREE_BYTES // size))


def require_trajectory_memory(
    program: TrajectoryProgram, real_bytes: int, states: int, processes: int = 1
) -> None:
    """Check that the states of all threads fit into the free memory of this machine.

    Args:
        program: The program.
        real_bytes: Bytes per real number, 4 or 8.
        states: 1 for readouts, 2 for gradients.
        processes: Processes on this machine that do the same.

    Raises:
        MemoryLimitError: The message states the needed and the free bytes.
    """
    task = "differentiating" if states > 1 else "evolving"
    threads = min(library.num_threads(), -(-program.trajectories // _tree(program, real_bytes)[1]))
    memory.require_bytes(
        threads * trajectory_bytes(program, real_bytes, states),
        f"{task} trajectories of {len(program.qubits)} qubits on {threads} threads",
        "use fewer qubits, fewer threads or a machine with more memory",
        processes,
    )


def describe_trajectories(program: TrajectoryProgram, real_bytes: int) -> str:
    """Describe a trajectory program and its memory.

    Args:
        program: The program.
        real_bytes: Bytes per real number, 4 or 8.
    """
    return (
        f"trajectories, native engine, {library.instruction_set()}, float{8 * real_bytes}:"
        f" {program}\nmemory: {trajectory_bytes(program, real_bytes):,} bytes per thread;"
        f" {memory.available_bytes():,} bytes are free"
    )
