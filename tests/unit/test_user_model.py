"""MODEL=module:factory: models that do not fit the target."""

import pytest

from common.data.target import SIGNS, Target
from common.errors import SettingsError
from common.models.user_model import build_user_model
from common.settings import Settings


@pytest.mark.parametrize(
    ("factory", "target", "words"),
    [
        ("with_two_numbers", SIGNS, "returned 2 numbers per example, but needs 1"),
        ("with_two_numbers", Target("classes", "c", ("a", "b", "d")), "3 classes"),
        ("with_two_outputs", SIGNS, "returned 2 arrays, but needs one"),
        ("with_missing_keras_3", SIGNS, "qfleet.tensorflow.runtime import keras` in place"),
        ("with_mixed_keras_3", SIGNS, "qfleet.tensorflow.runtime import keras` in place"),
        ("with_model_of_keras_3", SIGNS, "qfleet.tensorflow.runtime import keras` in place"),
        ("with_subclass_of_keras_3", SIGNS, "returned a model of Keras 3"),
        ("without_weights", SIGNS, "without trainable weights"),
        ("with_wider_input", SIGNS, r"inputs of the shape \[3\] per example, but .* has 2 angles"),
        (
            "with_other_symbols",
            SIGNS,
            r"ValueError: in layer 'expectation.*': angles have shape",
        ),
        ("with_setting_without_group", SIGNS, "read settings.training.learning_rate"),
    ],
)
def test_model_that_does_not_fit_is_refused(factory: str, target: Target, words: str) -> None:
    settings = Settings.from_args([f"MODEL=tests.support.user_models:{factory}", "QUBITS=2"])
    with pytest.raises(SettingsError, match=words) as caught:
        build_user_model(2, settings, target)
    assert "in user code" not in str(caught.value)
    assert "Call arguments" not in str(caught.value)
