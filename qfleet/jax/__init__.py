"""The engine as JAX functions: `jit`, `grad` and `vmap`, without host callbacks but for pulses."""

from qfleet.jax.convolution import QuantumConvolution
from qfleet.jax.expectation import expectation
from qfleet.jax.state import state

__all__ = ["QuantumConvolution", "expectation", "state"]
