"""A model of your own: a data re-uploading circuit with trained input scales and a dense readout.

The factory `build` receives the number of features and the settings, and returns a Keras model.
Its input is [batch, features] (angles in radians), its output [batch, 1]; the sign is the class.
"""

from itertools import pairwise

import cirq
import sympy

from qfleet.tensorflow.layers import Expectation
from qfleet.tensorflow.runtime import keras

LAYERS = 3


def build(features, settings):
    """Return a Keras model: angles [batch, features] -> prediction [batch, 1]."""
    qubits = cirq.LineQubit.range(features)
    x = sympy.symbols(f"x:{features}")
    circuit = cirq.Circuit()
    for layer in range(LAYERS):
        scale, angle = (sympy.symbols(f"{name}{layer}_:{features}") for name in ("scale", "angle"))
        circuit += [cirq.ry(scale[i] * x[i]).on(q) for i, q in enumerate(qubits)]
        circuit += [cirq.rz(angle[i]).on(q) for i, q in enumerate(qubits)]
        circuit += [cirq.CZ(*pair) for pair in pairwise(qubits)]
    circuit += [cirq.rx(sympy.Symbol(f"last{i}")).on(q) for i, q in enumerate(qubits)]

    # Symbols that are not inputs are trained.
    angles = keras.Input((features,))
    readouts = Expectation(circuit, map(str, x), [cirq.Z(q) for q in qubits])(angles)
    return keras.Model(angles, keras.layers.Dense(1)(readouts))
