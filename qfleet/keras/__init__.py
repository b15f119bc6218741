"""Circuits as layers of Keras 3, on its backends TensorFlow, JAX and PyTorch.

    Expectation            expectation values of a circuit with trained angles of its own
    ControlledExpectation  expectation values of a circuit whose angles come from other layers
    QuantumConvolution     expectation values of circuits on all patches of images
    State                  the state vector
    Samples                measured bit strings

All layers take angles [B, inputs]. All but Samples are differentiable by the angles and by their
weights. A model that is saved with one backend is loaded with any other. The layers of legacy Keras
are in qfleet.tensorflow.layers.

Conventions: qubits are sorted as Cirq sorts them, and the first is the most significant bit of a
state's index. Global phases are Cirq's. Symbols have the unit that the circuit gives them: radians
in rotations such as `cirq.rx(x)`, half-turns in powers such as `cirq.X**x`.
"""

from qfleet.keras.circuit import CircuitLayer, TrainedCircuit
from qfleet.keras.convolution import QuantumConvolution
from qfleet.keras.expectation import ControlledExpectation, Expectation
from qfleet.keras.state import Samples, State

__all__ = [
    "CircuitLayer",
    "ControlledExpectation",
    "Expectation",
    "QuantumConvolution",
    "Samples",
    "State",
    "TrainedCircuit",
]
