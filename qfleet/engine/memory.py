"""Memory that states need, compared with the free memory of this machine."""

from pathlib import Path

import psutil

from qfleet.errors import MemoryLimitError

MAX_WAITING_STATE_BYTES = 4 << 30
"""Most bytes of states kept for the adjoint pass (kMaxCachedBytes in native/tf_ops.h)."""

_CGROUP_FILES = (  # (limit, usage) of a container, which psutil does not read
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def available_bytes() -> int:
    """Return the bytes that this process may still allocate, within its container's limit."""
    free = psutil.virtual_memory().available
    for limit, usage in _CGROUP_FILES:
        try:
            free = min(free, int(Path(limit).read_text()) - int(Path(usage).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return max(free, 0)


def state_bytes(qubits: int, amplitude_bytes: int, states: int = 1) -> int:
    """Return the bytes that states take.

    Args:
        qubits: Qubits per state.
        amplitude_bytes: Bytes per amplitude, 8 or 16.
        states: Number of states.
    """
    return states * amplitude_bytes << qubits


def require_memory(
    qubits: int, amplitude_bytes: int, states: int, processes: int = 1, shards: int = 1
) -> None:
    """Check that states fit into the free memory of this machine.

    Args:
        qubits: Qubits per state.
        amplitude_bytes: Bytes per amplitude, 8 or 16.
        states: States that a process holds at a time: 1 for readouts, 2 for gradients.
        processes: Processes on this machine that do the same.
        shards: Processes that each state is sharded over.

    Raises:
        MemoryLimitError: The message states the needed and the free bytes and the largest width
            that fits.
    """
    needed = state_bytes(qubits, amplitude_bytes, states * processes) // shards
    free = available_bytes()
    if needed <= free:
        return
    fits = qubits
    while fits and state_bytes(fits, amplitude_bytes, states * processes) // shards > free:
        fits -= 1
    task = "training" if states > 1 else "simulating"
    count = "1 state" if states == 1 else f"{states} states"
    where = f" in each of {processes} processes" if processes > 1 else ""
    fewer = " fewer processes," if processes > 1 else ""
    raise MemoryLimitError(
        f"{task} {qubits} qubits takes {needed:,} bytes for {count}{where}, but {free:,} bytes are"
        f" free: use at most {fits} qubits,{fewer} or a machine with more memory"
    )
