"""Circuits as Keras layers.

    Expectation            expectation values of a circuit with trained angles of its own
    ControlledExpectation  expectation values of a circuit whose angles come from other layers
    BatchExpectation       expectation values of different circuits, one per row
    SampledExpectation     Expectation from a finite number of shots
    QuantumConvolution     expectation values of circuits on all patches of images
    State                  the state vector
    Samples                measured bit strings

All layers take angles [B, inputs] in the layer's dtype, float32 or float64; BatchExpectation also
takes the numbers of circuits. All but Samples are
differentiable by the angles and by their weights. They work under tf.function and distribution
strategies, and are saved with their model.

Conventions: qubits are sorted as Cirq sorts them, and the first is the most significant bit of a
state's index. Global phases are Cirq's. Symbols have the unit that the circuit gives them: radians
in rotations such as `cirq.rx(x)`, half-turns in powers such as `cirq.X**x`.
"""

from qfleet.tensorflow.layers.batch import BatchExpectation
from qfleet.tensorflow.layers.circuit import CircuitLayer, PauliReadouts, TrainedCircuit
from qfleet.tensorflow.layers.convolution import QuantumConvolution
from qfleet.tensorflow.layers.expectation import ControlledExpectation, Expectation
from qfleet.tensorflow.layers.sampled import SampledExpectation, Samples
from qfleet.tensorflow.layers.state import State

__all__ = [
    "BatchExpectation",
    "CircuitLayer",
    "ControlledExpectation",
    "Expectation",
    "PauliReadouts",
    "QuantumConvolution",
    "SampledExpectation",
    "Samples",
    "State",
    "TrainedCircuit",
]
