"""Micro-batches of a global batch: the parts whose gradients are summed independently of order."""

from common.settings.registry import SettingGroups

MIN_AMPLITUDES = 1 << 16
"""Amplitudes of a micro-batch's states from which its fixed cost of 0.1 ms is small."""

MAX_AMPLITUDES, MAX_ROWS = 1 << 18, 64
"""Amplitudes and examples beyond which a larger micro-batch saves no more time. Up to there, gates
that all examples share cost a noticeable part of it."""

NETWORK_QUBITS, NETWORK_ROWS = 35, 32
"""Width from which circuits are too wide for a state, and the examples of a micro-batch then."""

WHOLE_BATCH_DATA = ("excitations",)
"""Data sets whose batches span so few states that dividing a batch saves no time."""


def micro_batch_rows(settings: SettingGroups) -> int:
    """Return the examples of a micro-batch: MICRO_BATCH, or a number that fits to the circuit.

    The number depends only on settings that identify a run.
    """
    batch = settings.training.global_batch
    if settings.training.micro_batch:
        return min(settings.training.micro_batch, batch)
    if settings.data.data in WHOLE_BATCH_DATA:
        return batch
    qubits = settings.model.qubits
    if qubits >= NETWORK_QUBITS:
        return min(NETWORK_ROWS, batch)
    rows = max(1, MIN_AMPLITUDES >> qubits, min(MAX_ROWS, MAX_AMPLITUDES >> qubits))
    return min(rows, batch)


def micro_batch_count(settings: SettingGroups) -> int | None:
    """Return the micro-batches of a global batch; None with REPRODUCIBLE=false."""
    if not settings.training.reproducible:
        return None
    count = -(-settings.training.global_batch // micro_batch_rows(settings))
    return min(count, settings.data.partitions)
