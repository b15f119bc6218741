"""Train a Keras model of your own with a circuit layer between dense layers, without the service.

Run:   python examples/keras_model.py    (with a wheel of qfleet[tensorflow])
       PYTHONPATH=. .venv/bin/python examples/keras_model.py    (in a checkout)
Takes: twenty seconds.
Shows: loss and accuracy; the saved model, loaded again, makes the same predictions.
"""

import argparse
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import cirq
import numpy as np
import sympy

from qfleet.tensorflow.layers import Expectation
from qfleet.tensorflow.runtime import keras

FEATURES, QUBITS, EXAMPLES = 2, 4, 512


def build_model() -> keras.Model:
    """Return a model: features [B, FEATURES] -> probability [B, 1]."""
    qubits = cirq.LineQubit.range(QUBITS)
    x, p = (sympy.symbols(f"{name}:{QUBITS}") for name in "xp")
    circuit = cirq.Circuit(
        [cirq.rx(x[at])(qubit) for at, qubit in enumerate(qubits)],
        [cirq.CZ(*pair) for pair in pairwise(qubits)],
        [cirq.ry(p[at])(qubit) for at, qubit in enumerate(qubits)],
    )
    features = keras.Input((FEATURES,))
    angles = keras.layers.Dense(QUBITS, activation="tanh")(features) * np.pi
    readouts = Expectation(circuit, map(str, x), [cirq.Z(qubit) for qubit in qubits])(angles)
    return keras.Model(features, keras.layers.Dense(1, activation="sigmoid")(readouts))


def main() -> int:
    """Train, save and load the model; return 0 if the loaded model predicts the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    epochs = parser.parse_args().epochs

    keras.utils.set_random_seed(1)
    features = np.random.default_rng(1).uniform(-1, 1, (EXAMPLES, FEATURES)).astype(np.float32)
    labels = (np.hypot(*features.T) < 0.8).astype(np.float32)  # inside of a circle
    model = build_model()
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy", metrics=["accuracy"])
    history = model.fit(features, labels, batch_size=32, epochs=epochs, verbose=0).history
    print(f"loss {history['loss'][-1]:.3f}, accuracy {history['accuracy'][-1]:.2f}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.keras")
        model.save(path)
        loaded = keras.models.load_model(path)
    difference = np.abs(model.predict(features, verbose=0) - loaded.predict(features, verbose=0))
    print(f"loaded model: largest difference {difference.max():.1e}")
    return int(difference.max() > 1e-6)


if __name__ == "__main__":
    sys.exit(main())
