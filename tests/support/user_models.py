"""Models of a user, for tests: MODEL=tests.support.user_models:diverging."""

from typing import Any

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
