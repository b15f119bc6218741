"""Memory of the tensors that a network program contracts, and its description."""

from qfleet.compiler.network_program import NetworkProgram
from qfleet.engine import library, memory


def network_bytes(program: NetworkProgram, real_bytes: int, threads: int) -> int:
    """Return the bytes of a gradient: all tensors and their derivatives, in each thread.

    Args:
        program: The program.
        real_bytes: Bytes per real number, 4 or 8.
        threads: Number of threads.
    """
    lanes = library.simd_lanes(real_bytes)
    return threads * 2 * program.elements * 2 * real_bytes * lanes


def require_network_memory(program: NetworkProgram, real_bytes: int, processes: int = 1) -> None:
    """Check that a contraction fits into the free memory of this machine.

    Args:
        program: The program.
        real_bytes: Bytes per real number, 4 or 8.
        processes: Processes on this machine that do the same.

    Raises:
        MemoryLimitError: The message states the needed and the free bytes.
    """
    threads = library.num_threads()
    memory.require_bytes(
        network_bytes(program, real_bytes, threads),
        f"contracting tensor networks of width {program.width} on {threads} threads",
        processes=processes,
    )


def summarize_networks(program: NetworkProgram, real_bytes: int, threads: int) -> str:
    """Summarize a network program in a line: width, operations and memory.

    Args:
        program: The program.
        real_bytes: Bytes per real number, 4 or 8.
        threads: Number of threads.
    """
    size = network_bytes(program, real_bytes, threads) / 2**20
    return (
        f"tensor networks of width {program.width}, {program.operations:,} complex multiplications"
        f" per example, {size:,.1f} MiB on {threads} threads"
    )


def describe_networks(program: NetworkProgram, *, real_bytes: int, threads: int) -> str:
    """Describe a network program and its memory.

    Args:
        program: The program.
        real_bytes: Bytes per real number, 4 or 8.
        threads: Number of threads.
    """
    lanes = library.simd_lanes(real_bytes)
    return (
        f"tensor networks, native engine, {library.instruction_set()}, {lanes} lanes of"
        f" float{8 * real_bytes}: {program}\nmemory:"
        f" {network_bytes(program, real_bytes, threads):,} bytes on {threads} threads;"
        f" {memory.available_bytes():,} bytes are free"
    )
