"""A model of all layers: gradients, and saving."""

import json
from pathlib import Path
from random import Random

import cirq
import numpy as np
import pytest
import sympy

from qfleet.errors import ArgumentError, CircuitError
from qfleet.tensorflow.layers import Expectation, Samples
from qfleet.tensorflow.runtime import keras, tf
from tests.support import random_circuits
from tests.support.circuit_grammar import draw_circuit
from tests.support.layer_cases import (
    ANGLES,
    CIRCUIT,
    FEATURES,
    INPUTS,
    MAKERS,
    SUMS,
    TRAINED,
    mixed,
    trained,
)

FILES = Path(__file__).parents[1] / "keras" / "files"


@pytest.fixture(scope="module")
def model() -> keras.Model:
    """Train the mixed model for several steps per call."""
    keras.utils.set_random_seed(0)
    made = mixed()
    made.compile("adam", "mse", steps_per_execution=3)
    made.fit(FEATURES, np.ones(6), batch_size=2, epochs=2, verbose=0)
    return made


@pytest.mark.exhaustive
def test_gradients_reach_every_layer(model: keras.Model) -> None:
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(model(FEATURES, training=True))
    gradients = tape.gradient(total, model.trainable_variables)
    # Samples have no gradient, and the weights of that layer none.
    missing = [
        v.name for v, g in zip(model.trainable_variables, gradients, strict=True) if g is None
    ]
    assert missing == [layer.angles.name for layer in model.layers if isinstance(layer, Samples)]
    assert all(bool(tf.reduce_any(g != 0)) for g in gradients if g is not None)


@pytest.mark.parametrize(
    "name", ["model.keras", "model.h5", pytest.param("saved_model", marks=pytest.mark.exhaustive)]
)
@pytest.mark.filterwarnings("ignore:.*saving your model as an HDF5 file:UserWarning")
def test_saved_model_predicts_and_trains_equally(
    model: keras.Model, name: str, tmp_path: Path
) -> None:
    model.save(tmp_path / name)
    loaded = keras.models.load_model(tmp_path / name, safe_mode=False)
    np.testing.assert_array_equal(loaded(FEATURES), model(FEATURES))
    # The number of calls is saved as well: the next shots of both are the same.
    calls = [w for w in model.weights if "calls" in w.name]
    before = [int(count.numpy()) for count in calls]
    assert before >= [6]
    np.testing.assert_array_equal(loaded(FEATURES, training=True), model(FEATURES, training=True))
    calls[0].assign(before[0])


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.exhaustive) for part in range(1, 4))]
)
def test_saved_layers_of_drawn_circuits_are_equal(part: int, tmp_path: Path) -> None:
    circuits = [
        draw_circuit(Random(seed), noise=seed % 4 == 3) for seed in range(4 * part, 4 * part + 4)
    ]
    entry = keras.Input((len(random_circuits.INPUTS),))
    layers = [
        Expectation(
            circuit,
            random_circuits.INPUTS,
            [cirq.X(one) + 0.7 * cirq.Z(one) for one in sorted(circuit.all_qubits())],
            parameters=random_circuits.PARAMETERS,
        )
        for circuit in circuits
    ]
    model = keras.Model(entry, [layer(entry) for layer in layers])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    point = np.random.default_rng(part).uniform(0.1, 0.9, (2, len(random_circuits.INPUTS)))
    for one, other in zip(model(point), loaded(point), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_saved_weights_are_loaded(model: keras.Model, tmp_path: Path) -> None:
    model.save_weights(tmp_path / "weights.h5")
    other = mixed()
    other.load_weights(tmp_path / "weights.h5")
    np.testing.assert_allclose(other(FEATURES), model(FEATURES), atol=1e-6)


def test_weights_of_keras_3_are_loaded() -> None:
    model = keras.models.load_model(FILES / "legacy.keras", compile=False)
    expected = model(ANGLES)
    model.set_weights([0 * one for one in model.get_weights()])
    model.load_weights(FILES / "torch.keras")
    np.testing.assert_allclose(model(ANGLES), expected, atol=1e-5)


def test_model_of_keras_3_is_refused() -> None:
    with pytest.raises((TypeError, ValueError), match="Functional"):
        keras.models.load_model(FILES / "torch.keras")


@pytest.mark.parametrize("file", ["w.weights.h5", "checkpoint"])
def test_weights_of_other_names_are_refused(tmp_path: Path, file: str) -> None:
    names = Expectation(CIRCUIT, INPUTS, SUMS).parameters
    saved, same, other = (
        keras.Sequential([keras.Input((2,)), Expectation(CIRCUIT, INPUTS, SUMS, parameters=order)])
        for order in (names, names, names[::-1])
    )
    saved.save_weights(tmp_path / file)
    same.load_weights(tmp_path / file)
    np.testing.assert_array_equal(same.layers[0].angles, saved.layers[0].angles)
    with pytest.raises(ArgumentError, match="in another order"):
        other.load_weights(tmp_path / file)


def test_layer_that_was_never_called_is_saved() -> None:
    store: dict[str, np.ndarray] = {}
    Expectation(CIRCUIT, INPUTS, SUMS).save_own_variables(store)
    assert list(store) == ["names"]


def test_weights_of_expectation_fit_sampled_expectation() -> None:
    exactly, sampled = trained(Expectation(CIRCUIT, INPUTS, SUMS)), MAKERS["SampledExpectation"]()
    sampled(ANGLES[:1])
    sampled.angles.assign(exactly.angles)
    np.testing.assert_array_equal(sampled.angles, TRAINED)


def test_saved_config_of_expectation_is_stable() -> None:
    config = Expectation(CIRCUIT, INPUTS, SUMS, name="e", seed=1).get_config()
    assert set(config) == {
        "name", "trainable", "dtype", "circuit", "inputs", "observables", "parameters",
        "backend", "initializer", "method", "sampling",
    }  # fmt: skip
    layer = trained(Expectation(CIRCUIT, INPUTS, SUMS))
    assert [weight.name.split("/")[-1] for weight in layer.weights] == ["angles:0"]
    assert keras.utils.get_registered_name(Expectation) == "qfleet>Expectation"


@pytest.mark.parametrize("name", ["circuit", "gradient_circuit", "observables"])
def test_text_in_a_saved_circuit_is_not_evaluated(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    qubit = cirq.LineQubit(0)
    layer = Expectation(cirq.Circuit(cirq.X(qubit)), [], [cirq.Z(qubit)])
    payload = {"cirq_type": "sympy.Add", "args": ["open('trace', 'w').close() or 1", 1]}
    hostile = {"cirq_type": "Rz", "rads": payload}
    with pytest.raises(ValueError, match="text in an expression"):
        Expectation.from_config({**layer.get_config(), name: json.dumps(hostile)})
    assert not (tmp_path / "trace").exists()


QUBIT = cirq.LineQubit(0)
X, W = sympy.symbols("x w")


@pytest.mark.parametrize(
    "operation",
    [
        cirq.rx(X / sympy.sqrt(2) * sympy.GoldenRatio + W**1.5)(QUBIT).with_tags(cirq.VirtualTag()),
        cirq.GlobalPhaseGate(sympy.I ** (W * X)).controlled()(QUBIT),
    ],
    ids=["rotation", "phase"],
)
def test_layer_that_compiles_is_loaded_again(operation: cirq.Operation, tmp_path: Path) -> None:
    circuit = cirq.Circuit(cirq.H(QUBIT), cirq.wait(QUBIT, nanos=3), operation)
    layer = Expectation(circuit, ["x"], [cirq.Y(QUBIT)])
    made = keras.Sequential([keras.Input([1]), layer])
    made.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(ANGLES[:, :1]), made(ANGLES[:, :1]))


@pytest.mark.parametrize("field", ["circuit", "gradient_circuit"])
def test_layer_that_cannot_be_saved_is_refused(field: str) -> None:
    plain = cirq.Circuit(cirq.rx(X)(QUBIT))
    circuits = {"circuit": plain, "gradient_circuit": plain}
    circuits[field] = cirq.Circuit(cirq.rx(X**2000)(QUBIT))
    with pytest.raises(CircuitError, match="in moment 0"):
        Expectation(inputs=["x"], observables=[cirq.Z(QUBIT)], **circuits)
