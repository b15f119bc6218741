"""JAX adapter: circuits on all patches of images."""

import doctest
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import qfleet
import qfleet.jax.convolution
from qfleet.errors import ArgumentError
from qfleet.jax import QuantumConvolution
from tests.support.patches import INPUTS, OBSERVABLES, patch_circuit


@pytest.fixture(autouse=True)
def enable_x64() -> None:
    """Compute in 64 bits."""
    with jax.enable_x64(True):
        yield


def images(*shape: int) -> np.ndarray:
    """Return random images in float64."""
    return np.random.default_rng(1).normal(size=shape)


def exact_layer(*entanglers: int, stride: Any = 2) -> QuantumConvolution:
    """Return a layer in complex128, with a circuit for each number of entanglers."""
    circuits = [patch_circuit(number) for number in entanglers]
    return QuantumConvolution(circuits, INPUTS, OBSERVABLES, 2, stride=stride, dtype="complex128")


@pytest.mark.parametrize("compiled", [False, True])
def test_channels_equal_each_patch_of_each_circuit(compiled: bool) -> None:
    layer, batch = exact_layer(2, 3, stride=(1, 2)), images(3, 5, 6, 2)
    parameters = layer.initial_parameters(jax.random.key(1))
    found = (jax.jit(layer.__call__) if compiled else layer)(batch, parameters)
    assert found.shape == (3, 4, 3, 4)
    for at, entanglers in enumerate((2, 3)):
        circuit = qfleet.compile(patch_circuit(entanglers), INPUTS, observables=OBSERVABLES)
        for row in range(4):
            for column in range(3):
                corner = slice(row, row + 2), slice(2 * column, 2 * column + 2)
                patches = batch[:, *corner].reshape(3, -1)
                wanted = circuit.expectation(patches, np.asarray(parameters[at]))
                values = found[:, row, column, 2 * at : 2 * at + 2]
                np.testing.assert_allclose(values, wanted, atol=1e-12)
    np.testing.assert_allclose(layer(batch[0], parameters), found[0], atol=1e-12)
    nested = layer(batch.reshape(1, 3, 5, 6, 2), parameters)
    np.testing.assert_allclose(nested, found[None], atol=1e-12)


def test_derivatives_by_images_and_parameters_are_exact() -> None:
    layer, batch = exact_layer(2), images(1, 4, 4, 2)
    parameters = layer.initial_parameters(jax.random.key(2))
    check_grads(layer, (batch, parameters), order=2, modes=["rev"], atol=1e-5, rtol=1e-5)


def test_initial_parameters_differ_by_circuit_and_key() -> None:
    layer = exact_layer(2, 3)
    first, second = layer.initial_parameters(jax.random.key(1))
    assert first.shape == second.shape == (4,)
    assert not jnp.allclose(first, second)
    assert not jnp.allclose(first, layer.initial_parameters(jax.random.key(2))[0])
    assert float(first.min()) >= 0
    assert float(first.max()) < 2 * np.pi


def test_layer_without_images_or_parameters_is_evaluated() -> None:
    circuit = patch_circuit(1)
    bound = circuit[:2]
    layer = QuantumConvolution(bound, INPUTS, OBSERVABLES, 2)
    found = layer(jnp.zeros((0, 3, 3, 2), jnp.float32))
    assert (found.shape, found.dtype) == ((0, 2, 2, 2), jnp.float32)
    np.testing.assert_allclose(layer(jnp.zeros((2, 2, 2)))[0, 0], [1, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 4, 5, 2), "width 5, which patches of 2 pixels with stride 2.* to 4 or 6"),
        ((1, 1, 4, 2), "height 1, .* to 2 or 4"),
        ((1, 4, 4, 1), "8 names: a patch of 2 x 2 pixels with 1 channels has 4 numbers"),
        ((1, 2, 4, 4), r"pass \[..., height, .*, for example jax.numpy.moveaxis\(images, -3, -1\)"),
        ((4, 4), r"images have shape \[4, 4\]: pass \[..., height, width, channels\]"),
    ],
)
def test_images_that_do_not_fit_are_refused(shape: tuple[int, ...], message: str) -> None:
    layer = exact_layer(1)
    with pytest.raises(ArgumentError, match=message):
        layer(jnp.zeros(shape), layer.initial_parameters(jax.random.key(1)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (None, "parameters are missing: the circuit has 4 parameters"),
        ([], "parameters has length 0: pass an array for each of the 1 circuits"),
        ([np.zeros(3)], r"parameters has shape \[3\]"),
        (5, "parameters is 5: pass a sequence with an array per circuit"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(parameters: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        exact_layer(1)(images(4, 4, 2), parameters)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_size": 0}, "kernel_size is 0: pass an integer of at least 1"),
        ({"kernel_size": 2, "stride": 1.5}, "stride is 1.5: pass an integer"),
        ({"kernel_size": 2, "circuits": []}, "circuits is empty"),
        ({"kernel_size": 2, "observables": []}, "observables is empty"),
        ({"kernel_size": 2, "inputs": 5}, "inputs is 5: pass a sequence"),
        ({"kernel_size": 2, "dtype": "float32"}, "dtype is float32: use complex64"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, Any], message: str) -> None:
    arguments = {"circuits": patch_circuit(1), "inputs": INPUTS, "observables": OBSERVABLES}
    with pytest.raises(ArgumentError, match=message):
        QuantumConvolution(**arguments | options)


def test_docstring_example_of_the_layer_passes() -> None:
    results = doctest.testmod(qfleet.jax.convolution)
    assert results.attempted
    assert not results.failed
