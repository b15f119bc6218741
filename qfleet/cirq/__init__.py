"""The engine as a simulator with Cirq's own interfaces, and adjoint gradients."""

from qfleet.cirq.fallback import FallbackWarning
from qfleet.cirq.simulator import Simulator

__all__ = ["FallbackWarning", "Simulator"]
