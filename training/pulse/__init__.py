"""TASK=gate: optimizations of a pulse from several starts, and the best of them."""
