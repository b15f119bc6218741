"""The PennyLane device qfleet.qubit: whole batches of circuits, and their adjoint gradients."""

from qfleet.pennylane.device import QfleetDevice

__all__ = ["QfleetDevice"]
