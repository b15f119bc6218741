"""Circuits with a pulse in layers of Keras 3: gradients of NumPy, training, files."""

from pathlib import Path

import keras
import numpy as np
import pytest

import qfleet
from qfleet.keras import Expectation
from qfleet.pulses import PulseGate
from tests.support.keras3_cases import array, gradients
from tests.support.pulse_circuits import (
    NAMES,
    OBSERVABLES,
    POINT,
    ROWS,
    circuit_of,
    one_qubit_gate,
    two_qubit_gate,
)


@pytest.mark.parametrize("gate", [one_qubit_gate(), two_qubit_gate()], ids=["one", "two"])
def test_gradients_of_pulses_are_those_of_numpy(gate: PulseGate) -> None:
    circuit = circuit_of(gate)
    layer = Expectation(circuit, ["x", "y"], OBSERVABLES, parameters=NAMES, dtype="float64")
    layer.build((None, 2))
    layer.angles.assign(POINT)
    compiled = qfleet.compile(circuit, ["x", "y"], NAMES, OBSERVABLES)
    values, wanted = compiled.value_and_gradient(ROWS, POINT)
    np.testing.assert_allclose(array(layer(ROWS)), values, atol=1e-10)
    (by_inputs,), (by_angles,) = gradients(layer, keras.ops.sum, ROWS)
    np.testing.assert_allclose(by_inputs, wanted.inputs, atol=1e-10)
    np.testing.assert_allclose(by_angles, wanted.parameters, atol=1e-10)


def test_model_with_a_pulse_is_trained_and_saved(tmp_path: Path) -> None:
    gate = one_qubit_gate()
    free = PulseGate(gate.propagator, gate.pulse, gate.pulse.symbols("p"), ["v"])
    start = keras.initializers.Constant(0.3)
    inputs = keras.Input((2,))
    readouts = Expectation(circuit_of(free), ["x", "y"], OBSERVABLES[:1], initializer=start)(inputs)
    model = keras.Model(inputs, readouts)
    model.compile(keras.optimizers.Adam(0.05), "mse")
    rows, targets = ROWS[:1].astype("float32"), np.array([[0.5]], "float32")
    losses = model.fit(rows, targets, epochs=60, verbose=0).history["loss"]
    assert losses[-1] < 0.1 * losses[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(rows, verbose=0), model.predict(rows, verbose=0))
