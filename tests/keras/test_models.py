"""Models of Keras 3 with circuits: training, files, other backends, export."""

import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import qfleet.keras
from qfleet.errors import ArgumentError, LibraryError
from qfleet.keras import ControlledExpectation, Expectation, QuantumConvolution, Samples, State
from tests.support import patches
from tests.support.keras3_cases import (
    ANGLES,
    BACKEND,
    CIRCUIT,
    INPUTS,
    SUMS,
    array,
    plain_model,
    plain_values,
    trained,
)

FILES = Path(__file__).parent / "files"
SINGLE = ANGLES.astype("float32")


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    """A model that is a class, with a circuit whose parameters a layer computes."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self.first = keras.layers.Dense(2, "tanh")
        self.second = keras.layers.Dense(2)
        self.circuit = ControlledExpectation(CIRCUIT, INPUTS, SUMS)
        self.head = keras.layers.Dense(1)

    def call(self, inputs: object) -> object:
        return self.head(self.circuit([self.first(inputs), self.second(inputs)]))


def functional() -> keras.Model:
    """Return a functional model with a circuit."""
    inputs = keras.Input((2,))
    readouts = Expectation(CIRCUIT, INPUTS, SUMS, seed=1)(keras.layers.Dense(2)(inputs))
    return keras.Model(inputs, keras.layers.Dense(1)(readouts))


def fit(model: keras.Model, **options: object) -> list[float]:
    """Train a model; return the losses of the epochs."""
    rows = np.random.default_rng(2).uniform(-1, 1, (20, 2)).astype("float32")
    model.compile(keras.optimizers.Adam(0.05), "mse", **options)
    history = model.fit(rows, np.sin(rows[:, :1]), batch_size=8, epochs=8, verbose=0)
    return history.history["loss"]


@pytest.mark.parametrize("build", [functional, Subclassed])
@pytest.mark.parametrize("how", ["auto", "eager", "jit"])
def test_fit_lowers_the_loss(build: type, how: str) -> None:
    if how == "jit" and BACKEND == "tensorflow":
        pytest.skip("XLA lacks the operations; see the next test")
    keras.utils.set_random_seed(3)
    options = {"auto": {}, "eager": {"run_eagerly": True}, "jit": {"jit_compile": True}}[how]
    losses = fit(build(), **options)
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="other backends have jit_compile")
def test_jit_of_tensorflow_is_left_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="jit_compile"):
        losses = fit(functional(), jit_compile=True)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("build", [functional, Subclassed])
def test_saved_model_predicts_and_trains(build: type, tmp_path: Path) -> None:
    model = build()
    fit(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(array(loaded(SINGLE)), array(model(SINGLE)), atol=1e-6)
    assert np.isfinite(fit(loaded)).all()


@pytest.mark.parametrize("origin", ["tensorflow", "jax", "torch"])
def test_model_of_any_backend_predicts_equally(origin: str) -> None:
    loaded = keras.models.load_model(FILES / f"{origin}.keras", compile=False)
    np.testing.assert_allclose(array(loaded(SINGLE)), plain_values(), atol=1e-5)


@pytest.mark.filterwarnings("ignore:The structure of `inputs`:UserWarning")
def test_model_of_legacy_keras_predicts_equally() -> None:
    file, functional = FILES / "legacy.keras", {"Functional": keras.Model}
    loaded = keras.models.load_model(file, compile=False, custom_objects=functional)
    np.testing.assert_allclose(array(loaded(SINGLE)), plain_values(), atol=1e-5)


def test_weights_of_legacy_keras_are_loaded() -> None:
    model = plain_model()
    model.set_weights([0 * one for one in model.get_weights()])
    model.load_weights(FILES / "legacy.keras")
    np.testing.assert_allclose(array(model(SINGLE)), plain_values(), atol=1e-5)


def test_every_layer_is_made_again_from_its_configuration() -> None:
    layers = [
        trained(Expectation(CIRCUIT, INPUTS, SUMS, parameters=["q", "p"], sampling={"shots": 9})),
        State(CIRCUIT, INPUTS, dtype="float64", initial_states=True),
        Samples(CIRCUIT, INPUTS, 5, seed=8),
        ControlledExpectation(CIRCUIT, INPUTS, SUMS, dtype="mixed_float16"),
        QuantumConvolution(patches.patch_circuit(1), patches.INPUTS, patches.OBSERVABLES, (1, 4)),
    ]
    for layer in layers:
        config = keras.saving.serialize_keras_object(layer)
        again = keras.saving.deserialize_keras_object(config)
        assert keras.saving.serialize_keras_object(again)["config"] == config["config"]


@pytest.mark.parametrize("name", ["file.weights.h5", "file.keras"])
def test_weights_of_other_parameters_are_refused(name: str, tmp_path: Path) -> None:
    layers = [
        Expectation(CIRCUIT, INPUTS, SUMS, parameters=order) for order in (["p", "q"], ["q", "p"])
    ]
    models = [keras.Sequential([keras.Input((2,)), layer]) for layer in layers]
    save = models[0].save if name.endswith(".keras") else models[0].save_weights
    save(tmp_path / name)
    with pytest.raises(ValueError, match="angles of other names or in another order"):
        models[1].load_weights(tmp_path / name)


def test_robust_layer_of_legacy_keras_is_refused() -> None:
    config = Expectation(CIRCUIT, INPUTS, SUMS).get_config()
    with pytest.raises(ArgumentError, match="gradient_circuit"):
        Expectation.from_config(config | {"gradient_circuit": config["circuit"]})


@pytest.mark.parametrize("shape", [(8,), (8, 8)], ids=["vectors", "matrices"])
def test_model_of_initial_states_is_fitted(shape: tuple[int, ...]) -> None:
    # Keras's own call before the first step has tensors of ones, which are no states.
    method = "auto" if len(shape) == 1 else "density_matrix"
    states, angles = keras.Input(shape, dtype="complex64"), keras.Input((2,))
    layer = Expectation(CIRCUIT, INPUTS, SUMS, initial_states=True, method=method, seed=1)
    model = keras.Model([states, angles], layer([states, angles]))
    model.compile(keras.optimizers.Adam(0.1), "mse")
    basis = np.eye(8, dtype="complex64")[:4]
    rows = basis if len(shape) == 1 else np.einsum("bi,bj->bij", basis, basis)
    data = [rows, np.zeros((4, 2), "float32")]
    history = model.fit(data, np.zeros((4, 2)), epochs=3, verbose=0).history["loss"]
    assert history[-1] < history[0]


def test_cloned_model_has_the_circuit() -> None:
    model = plain_model()
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_allclose(array(clone(SINGLE)), plain_values(), atol=1e-5)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="other backends refuse")
def test_exported_model_of_tensorflow_predicts_equally(tmp_path: Path) -> None:
    import tensorflow as tf

    plain_model().export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_allclose(served.serve(SINGLE), plain_values(), atol=1e-5)


@pytest.mark.skipif(BACKEND != "torch", reason="of PyTorch's exporter")
def test_export_from_torch_is_refused() -> None:
    import torch

    with pytest.raises(LibraryError, match="export it with KERAS_BACKEND=tensorflow"):
        torch.export.export(plain_model(), (torch.zeros(4, 2),), strict=False)


def test_legacy_keras_is_not_imported() -> None:
    assert qfleet.keras.__name__ in sys.modules
    assert "tf_keras" not in sys.modules
