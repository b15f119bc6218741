"""Constants and hops that training and planning have in common. This module imports nothing."""

MAX_STEPS_PER_CALL = 500
"""Most training steps in one call of a TensorFlow function."""

MAX_CALL_SECONDS = 0.5
"""Longest time that one call is meant to take; a process reacts to signals between two calls."""

MAX_ONE_HOP_BYTES = 2**18
"""Most bytes of all workers' vectors in an all-reduce of one hop; see `hops`."""

STEP_PARTS = ("simulate", "exchange", "input", "other")
"""Parts of a step's time. "exchange" is the all-reduce with its wait for the slowest worker.
"other" is the rest: the optimizer, metrics, and the host between two calls."""


def hops(workers: int, vector_bytes: int) -> int:
    """Return the consecutive hops of an all-reduce: 1 for small vectors, 2 for large ones."""
    return 1 if workers * vector_bytes <= MAX_ONE_HOP_BYTES else 2
