"""Models of a user, for tests: MODEL=tests.support.user_models:diverging."""

from typing import Any

import cirq
import sympy

from qfleet.tensorflow.layers import Expectation
from qfleet.tensorflow.runtime import keras, tf

INITIALIZATION_SEEDS = (1, 104_730, 209_459)
"""SEED of the first initializations of a run with SEED=0."""


def diverging(features: int, settings: Any, start: float = 0.0) -> keras.Model:
    """Return a model that a regulariser drives to infinity, with LEARNING_RATE=1 in 5 steps."""
    return keras.Sequential(
        [
            keras.Input((features,)),
            keras.layers.Dense(
                1,
                kernel_initializer=keras.initializers.Constant(start),
                kernel_regularizer=lambda kernel: -tf.reduce_sum(tf.exp(tf.exp(kernel))),
            ),
        ]
    )


def without_weights(features: int, settings: Any) -> keras.Model:
    """Return a model that nothing is trained of."""
    return keras.Sequential([keras.Input((features,)), keras.layers.Dense(1, trainable=False)])


def diverging_second(features: int, settings: Any) -> keras.Model:
    """Return a model that is infinite only in the second initialization."""
    is_second = settings.data.seed == INITIALIZATION_SEEDS[1]
    return keras.Sequential(
        [
            keras.Input((features,)),
            keras.layers.Dense(
                1, kernel_initializer=keras.initializers.Constant(1e30 if is_second else 0.1)
            ),
        ]
    )


def with_dropout(features: int, settings: Any) -> keras.Model:
    """Return a model whose calls draw random numbers."""
    layers = keras.layers
    return keras.Sequential([keras.Input((features,)), layers.Dropout(0.5), layers.Dense(1)])


def with_batchnorm(features: int, settings: Any) -> keras.Model:
    """Return a model that keeps statistics of its calls."""
    layers = keras.layers
    return keras.Sequential(
        [keras.Input((features,)), layers.BatchNormalization(), layers.Dense(1)]
    )


def with_two_numbers(features: int, settings: Any) -> keras.Model:
    """Return a model of two numbers per example."""
    return keras.Sequential([keras.Input((features,)), keras.layers.Dense(2)])


def with_two_outputs(features: int, settings: Any) -> keras.Model:
    """Return a model of two arrays."""
    angles = keras.Input((features,))
    return keras.Model(angles, [keras.layers.Dense(1)(angles), keras.layers.Dense(1)(angles)])


def with_missing_keras_3(features: int, settings: Any) -> Any:
    """Fail as `import keras` without Keras 3."""
    raise ModuleNotFoundError("No module named 'keras'", name="keras.layers")


def with_mixed_keras_3(features: int, settings: Any) -> Any:
    """Fail as a layer of one Keras that gets a tensor of the other."""
    raise ValueError("Exception encountered: got <KerasTensor shape=(None, 4), name=keras_tensor>")


def with_model_of_keras_3(features: int, settings: Any) -> Any:
    """Return a model of Keras 3 with a circuit."""
    import keras

    from qfleet.keras import Expectation

    qubit = cirq.LineQubit(0)
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("x"))(qubit))
    layer = Expectation(circuit, ["x"], [cirq.Z(qubit)])
    return keras.Sequential([keras.Input((features,)), keras.layers.Dense(1), layer])


def with_subclass_of_keras_3(features: int, settings: Any) -> Any:
    """Return a model of a class of the user, of Keras 3."""
    import keras

    return type("Own", (keras.Model,), {"__module__": __name__})()


def with_wider_input(features: int, settings: Any) -> keras.Model:
    """Return a model of one angle too many."""
    return keras.Sequential([keras.Input((features + 1,)), keras.layers.Dense(1)])


def with_other_symbols(features: int, settings: Any) -> keras.Model:
    """Fail in a call of a layer of qfleet."""
    qubit = cirq.LineQubit(0)
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("x"))(qubit))
    angles = keras.Input((features,))
    return keras.Model(angles, Expectation(circuit, ["x"], [cirq.Z(qubit)])(angles))


def with_setting_without_group(features: int, settings: Any) -> keras.Model:
    """Read a setting as if it were no member of a group."""
    return settings.learning_rate
