"""Memory of density matrices, and the description of their programs."""

import math

from qfleet.compiler.density_program import DensityProgram
from qfleet.engine import library, memory


def density_bytes(program: DensityProgram, real_bytes: int, states: int = 2) -> int:
    """Return the bytes of the density matrices of one example that are in memory at a time.

    Args:
        program: The program.
        real_bytes: Bytes per real number, 4 or 8.
        states: 1 for readouts, 2 for gradients.
    """
    kept = _kept_coefficients(program.coefficients) if states > 1 else 0
    return real_bytes * (4 ** len(program.qubits) + kept)


def _kept_coefficients(before: list[int]) -> int:
    """Return the least that a gradient keeps: see ReverseTile in native/noisy/density_engine.cc.

    Args:
        before: Coefficients before each block.
    """
    segment = max(1, math.ceil(math.sqrt(len(before))))
    starts = range(0, len(before), segment)
    others = (sum(before[first + 1 : first + segment]) for first in starts)
    return sum(before[first] for first in starts) + max(others, default=0)


def require_density_memory(
    program: DensityProgram, real_bytes: int, states: int, processes: int = 1
) -> None:
    """Check that density matrices fit into the free memory of this machine.

    Args:
        program: The program.
        real_bytes: Bytes per real number, 4 or 8.
        states: 1 for readouts, 2 for gradients.
        processes: Processes on this machine that do the same.

    Raises:
        MemoryLimitError: The message states the needed and the free bytes.
    """
    task = "differentiating" if states > 1 else "evolving"
    memory.require_bytes(
        density_bytes(program, real_bytes, states),
        f"{task} density matrices of {len(program.qubits)} qubits",
        "use the method trajectories, or fewer qubits",
        processes,
    )


def describe_density(program: DensityProgram, real_bytes: int) -> str:
    """Describe a density program and its memory.

    Args:
        program: The program.
        real_bytes: Bytes per real number, 4 or 8.
    """
    return (
        f"density matrices, native engine, {library.instruction_set()}, float{8 * real_bytes}:"
        f" {program}\nmemory: {density_bytes(program, real_bytes):,} bytes per gradient of an"
        " example;"
        f" {memory.available_bytes():,} bytes are free"
    )
