"""Circuits as Keras layers: the one adapter between the simulator and Keras.

    Expectation            readouts of a circuit with trained angles of its own
    ControlledExpectation  readouts of a circuit whose other angles come from another layer
    SampledExpectation     Expectation from a finite number of shots
    State                  the state vector
    Samples                bit strings, as measured

All take angles [B, inputs] in the layer's dtype, float32 or float64, and are differentiable by
them and by what they train, but for Samples. They work under tf.function and distribution
strategies, and are saved with their model.
"""

from qfleet.tensorflow.layers.circuit import PauliReadouts
from qfleet.tensorflow.layers.expectation import ControlledExpectation, Expectation
from qfleet.tensorflow.layers.sampled import SampledExpectation, Samples
from qfleet.tensorflow.layers.state import State

__all__ = [
    "ControlledExpectation",
    "Expectation",
    "PauliReadouts",
    "SampledExpectation",
    "Samples",
    "State",
]
