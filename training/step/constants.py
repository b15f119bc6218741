"""Constants of training that planning uses too. This module imports nothing."""

MAX_STEPS_PER_CALL = 500
"""Most training steps in one call of a TensorFlow function."""

MAX_CALL_SECONDS = 0.5
"""Longest time that one call is meant to take; a process reacts to signals between two calls."""

MAX_ONE_HOP_BYTES = 2**18
"""Most bytes that a worker sends to its peers in one hop; larger all-reduces take two or a ring."""

STEP_PARTS = ("simulate", "exchange", "input", "other")
"""Parts of a step's time. "exchange" is the all-reduce with its wait for the slowest worker.
"other" is the rest: the optimizer, metrics, and the host between two calls."""
