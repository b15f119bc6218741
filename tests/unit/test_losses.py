"""Losses and metrics by target, compared with scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics as oracle

from common.data.target import SIGNS, Target
from common.errors import SettingsError
from common.settings.groups.training import LOSSES
from qfleet.tensorflow.runtime import keras, tf
from training.step.losses import Measures, measures_of
from training.step.objective import Objective

CLASSES = Target("classes", "label", ("a", "b", "c"))
NUMBER = Target("number", "y", center=5.0, scale=3.0)
RANDOM = np.random.default_rng(0)
LOGITS = RANDOM.normal(size=(40, 3)).astype("f4")
INDICES = RANDOM.integers(3, size=40).astype("f4")
SCALED, TRUTH = (RANDOM.uniform(-1, 1, 40).astype("f4") for _ in range(2))


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_one_of_keras(name):
    target = CLASSES if "categorical" in name else NUMBER
    assert measures_of(target, name).loss == name


def measured(measures: Measures, predictions: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    rows = measures.stack(tf.constant(predictions), tf.constant(labels))
    sums = tf.cast(tf.reduce_sum(rows, axis=1), tf.float64)
    return {name: float(value) for name, value in measures.results(sums).items()}


def test_metrics_of_two_classes_are_those_of_the_sign():
    labels = np.sign(TRUTH)
    found = measured(measures_of(SIGNS), SCALED[:, None], labels)
    assert found["mse"] == pytest.approx(oracle.mean_squared_error(labels, SCALED), rel=1e-5)
    assert found["accuracy"] == pytest.approx((np.sign(SCALED) == labels).mean())


def test_metrics_of_classes_equal_scikit_learn():
    found = measured(measures_of(CLASSES), LOGITS, INDICES)
    probabilities = tf.nn.softmax(LOGITS).numpy()
    assert found["log_loss"] == pytest.approx(oracle.log_loss(INDICES, probabilities), rel=1e-5)
    assert found["accuracy"] == oracle.accuracy_score(INDICES, LOGITS.argmax(1))
    assert found["examples"] == 40


def test_metrics_of_numbers_are_in_units_of_the_table():
    found = measured(measures_of(NUMBER), SCALED[:, None], TRUTH)
    predictions, labels = (5 + 3 * one.astype(float) for one in (SCALED, TRUTH))
    assert found["mse"] == pytest.approx(oracle.mean_squared_error(labels, predictions), rel=1e-5)
    assert found["mae"] == pytest.approx(oracle.mean_absolute_error(labels, predictions), rel=1e-5)
    assert found["r2"] == pytest.approx(oracle.r2_score(labels, predictions), rel=1e-4)


def test_metrics_of_energies_have_errors_only_with_references():
    target = Target("energy", "e", terms=("Z",), coefficients=(1.0,))
    energies, exact = np.array([[-1.0], [-2.0]], "f4"), np.array([-1.5, -2.5], "f4")
    assert measured(measures_of(target), energies, exact) == {
        "energy": -1.5, "energy_error": 0.5, "examples": 2,
    }  # fmt: skip
    unknown = Target("energy", "e", terms=("Z",), coefficients=(1.0,), has_reference=False)
    assert list(measured(measures_of(unknown), energies, exact)) == ["energy", "examples"]


def test_loss_of_states_is_the_infidelity():
    found = measured(measures_of(Target("state", "f")), np.array([[0.9]], "f4"), np.ones(1, "f4"))
    assert found["infidelity"] == pytest.approx(0.1, rel=1e-5)
    assert list(found) == ["infidelity", "fidelity", "examples"]


@pytest.mark.parametrize(
    ("target", "name", "labels", "outputs"),
    [
        (NUMBER, "huber", TRUTH, SCALED[:, None]),
        (NUMBER, "mean_absolute_error", TRUTH, SCALED[:, None]),
        (SIGNS, "hinge", np.sign(TRUTH), SCALED[:, None]),
    ],
)
def test_named_loss_equals_that_of_keras(target, name, labels, outputs):
    found = measured(measures_of(target, name), outputs, labels)
    expected = keras.losses.get(name)(labels[:, None], outputs).numpy().mean()
    assert next(iter(found)) == name
    assert found[name] == pytest.approx(expected, rel=1e-5)
    assert set(measures_of(target).metrics) < set(found)


@pytest.mark.parametrize("name", ["categorical_crossentropy", "sparse_categorical_crossentropy"])
def test_cross_entropies_of_keras_equal_the_log_loss(name):
    found = measured(measures_of(CLASSES, name), LOGITS, INDICES)
    assert found[name] == pytest.approx(found["log_loss"], rel=1e-4)


def test_binary_cross_entropy_takes_the_prediction_as_a_logit():
    labels = np.sign(TRUTH)
    found = measured(measures_of(SIGNS, "binary_crossentropy"), SCALED[:, None], labels)
    probabilities = 1 / (1 + np.exp(-SCALED.astype(float)))
    expected = oracle.log_loss(labels > 0, probabilities)
    assert found["binary_crossentropy"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("target", "name"),
    [(NUMBER, "no_such_loss"), (Target("state", "f"), "huber")],
    ids=["unknown", "of a state"],
)
def test_impossible_loss_is_refused(target, name):
    with pytest.raises(SettingsError, match=f"LOSS={name}"):
        measures_of(target, name)


def test_loss_that_a_model_was_compiled_with_is_used():
    loss = keras.losses.Huber(delta=0.1)
    found = measured(measures_of(NUMBER, model_loss=loss), SCALED[:, None], TRUTH)
    assert found["huber_loss"] == pytest.approx(float(loss(TRUTH, SCALED)), rel=1e-4)


@pytest.mark.parametrize(
    "loss",
    ["bce", keras.losses.BinaryCrossentropy(name="own"),
     keras.losses.BinaryCrossentropy(from_logits=True)],
    ids=["alias", "named", "logits"],
)  # fmt: skip
def test_compiled_binary_cross_entropy_takes_a_logit(loss):
    operands = SCALED[:, None], np.sign(TRUTH)
    expected = measured(measures_of(SIGNS, "binary_crossentropy"), *operands)
    found = measured(measures_of(SIGNS, model_loss=loss), *operands)
    assert next(iter(found.values())) == pytest.approx(expected["binary_crossentropy"], rel=1e-5)


@pytest.mark.parametrize("logits", [True, False])
def test_compiled_cross_entropy_equals_the_log_loss(logits):
    for loss in (keras.losses.CategoricalCrossentropy, keras.losses.SparseCategoricalCrossentropy):
        measures = measures_of(CLASSES, model_loss=loss(from_logits=logits, name="own"))
        found = measured(measures, LOGITS, INDICES)
        assert found["own"] == pytest.approx(found["log_loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("loss", "name"),
    [(keras.losses.MeanAbsoluteError(name="mae"), "mae_loss"),
     (lambda truth, outputs: (truth - outputs) ** 2, "loss")],
    ids=["taken", "nameless"],
)  # fmt: skip
def test_compiled_loss_has_a_metric_name_of_its_own(loss, name):
    measures = measures_of(NUMBER, model_loss=loss)
    assert measures.metrics == (name, "mse", "mae", "r2")


@pytest.mark.parametrize(
    "loss",
    [lambda truth, outputs: tf.reduce_mean((truth - outputs) ** 2), lambda *_: 0.0],
    ids=["of a batch", "constant"],
)
def test_compiled_loss_of_a_whole_batch_is_refused(loss):
    """Its value would depend on the padding of a worker's batch."""
    with pytest.raises(SettingsError, match="one number per example"):
        measures_of(NUMBER, model_loss=loss)


def gradient(factors: tuple[float, ...], labels: np.ndarray) -> np.ndarray:
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(3, kernel_initializer="ones", use_bias=False)]
    )
    objective = Objective(model, measures_of(CLASSES, class_factors=factors), 1, None)
    rows = RANDOM.normal(size=(len(labels), 2)) * 0 + np.arange(2 * len(labels)).reshape(-1, 2) / 9
    weights = np.ones(len(labels))
    batch = [tf.constant(one, tf.float32) for one in (rows, labels, weights, len(labels))]
    return objective.derive(batch, tf.constant(0, tf.int64)).numpy()[:6]


def test_class_factor_counts_a_row_more_than_once():
    once = gradient((), np.array([0.0, 1.0]))
    tripled = gradient((1.0, 3.0, 1.0), np.array([0.0, 1.0]))
    only_first = gradient((1.0, 1e-5, 1.0), np.array([0.0, 1.0]))
    np.testing.assert_allclose(tripled, 3 * once - 2 * only_first, rtol=1e-3, atol=1e-6)
