"""JAX functions of the engine under `jax.shard_map` on two devices, against plain functions."""

from collections.abc import Callable
from typing import Any

import cirq
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from jax.sharding import AxisType, Mesh, PartitionSpec

import qfleet
import qfleet.jax

Function = Callable[[jax.Array, jax.Array], jax.Array]  # parameters [1], inputs [B, 1] -> [B, ...]

ROWS = PartitionSpec("rows")
SAME = PartitionSpec()
INPUTS = np.array([[0.3], [0.7], [-1.1], [2.0]])
PARAMETERS = np.array([0.4])
CIRCUIT = cirq.Circuit(cirq.rx(sympy.Symbol("x"))(cirq.q(0)), cirq.ry(sympy.Symbol("p"))(cirq.q(0)))


@pytest.fixture(autouse=True)
def enable_x64() -> None:
    """Compute in 64 bits."""
    with jax.enable_x64(True):
        yield


def plain_values(p: jax.Array, x: jax.Array) -> jax.Array:
    """Return <Z> and <X> of `CIRCUIT`."""
    return jnp.concatenate([jnp.cos(x) * jnp.cos(p), jnp.cos(x) * jnp.sin(p)], axis=1)


def plain_parts(p: jax.Array, x: jax.Array) -> jax.Array:
    """Return the real and imaginary parts of the state of `CIRCUIT`."""
    own, other = (jnp.cos(x / 2), jnp.sin(x / 2)), (jnp.cos(p / 2), jnp.sin(p / 2))
    real = [other[0] * own[0], other[1] * own[0]]
    imaginary = [other[1] * own[1], -other[0] * own[1]]
    return jnp.concatenate([*real, *imaginary], axis=1)


def pair_of(kind: str) -> tuple[Function, Function]:
    """Return a function of the engine, and the plain one with equal values."""
    observables = () if kind == "state" else (cirq.Z(cirq.q(0)), cirq.X(cirq.q(0)))
    compiled = qfleet.compile(CIRCUIT, ["x"], ["p"], observables)

    def parts(p: jax.Array, x: jax.Array) -> jax.Array:
        states = qfleet.jax.state(compiled, x, p)
        return jnp.concatenate([states.real, states.imag], axis=1)

    def mapped(p: jax.Array, x: jax.Array) -> jax.Array:
        return jax.vmap(lambda row: qfleet.jax.expectation(compiled, row, p))(x)

    def batch(p: jax.Array, x: jax.Array) -> jax.Array:
        return qfleet.jax.expectation(compiled, x, p)

    ours = {"batch": batch, "vmap": mapped, "state": parts}[kind]
    return ours, plain_parts if kind == "state" else plain_values


def sharded(function: Any, out: PartitionSpec = ROWS, *, check: bool = True) -> Any:
    """Return a function of common parameters and of inputs that two devices have a half of."""
    mesh = Mesh(np.array(jax.devices()[:2]), ("rows",))
    return jax.shard_map(function, mesh=mesh, in_specs=(SAME, ROWS), out_specs=out, check_vma=check)


def loss_of(function: Function) -> Function:
    """Return a loss that differs per row and is not linear in the values."""
    return lambda p, x: jnp.sum(function(p, x) ** 3)


def gradients(function: Function) -> Any:
    """Return the gradients outside the shards."""
    return jax.grad(loss_of(sharded(function)), (0, 1))(PARAMETERS, INPUTS)


def gradients_by_parameters(function: Function) -> Any:
    """Return the gradient by the parameters only."""
    return jax.grad(loss_of(sharded(function)))(PARAMETERS, INPUTS)


def gradients_without_checks(function: Function) -> Any:
    """Return the gradients outside shards whose manual axes are not checked."""
    return jax.grad(loss_of(sharded(function, check=False)), (0, 1))(PARAMETERS, INPUTS)


def gradients_of_mean(function: Function) -> Any:
    """Return the gradients of a loss that the devices average."""
    mean = sharded(lambda p, x: jax.lax.pmean(loss_of(function)(p, x), "rows"), SAME)
    return jax.grad(mean, (0, 1))(PARAMETERS, INPUTS)


def gradients_inside(function: Function) -> Any:
    """Return the gradient by the inputs that each device computes."""
    return sharded(jax.grad(loss_of(function), 1))(PARAMETERS, INPUTS)


def mean_gradients_inside(function: Function) -> Any:
    """Return the average of the devices' gradients by the parameters."""
    gradient = jax.grad(loss_of(function))
    return sharded(lambda p, x: jax.lax.pmean(gradient(p, x), "rows"), SAME)(PARAMETERS, INPUTS)


def jacobian(function: Function) -> Any:
    """Return the derivatives of all values by the parameters."""
    return jax.jacrev(lambda p: sharded(function)(p, INPUTS))(PARAMETERS)


def hessian(function: Function) -> Any:
    """Return the second derivatives outside the shards."""
    by_both = jax.jacrev(jax.grad(loss_of(sharded(function)), (0, 1)), (0, 1))
    return by_both(PARAMETERS, INPUTS)


def hessian_inside(function: Function) -> Any:
    """Return the second derivatives by the parameters that each device computes."""
    second = jax.jacrev(jax.grad(loss_of(function)))
    return sharded(lambda p, x: second(p, x)[None])(PARAMETERS, INPUTS)


def own_parameters(function: Function) -> Any:
    """Return the gradients where each device has parameters of its own, and all inputs."""
    mesh = Mesh(np.array(jax.devices()[:2]), ("rows",))
    each = jax.shard_map(
        lambda p, x: function(p[0], x), mesh=mesh, in_specs=(ROWS, SAME), out_specs=ROWS
    )
    return jax.grad(loss_of(each), (0, 1))(np.array([[0.4], [-0.6]]), INPUTS)


def explicit_axes(function: Function) -> Any:
    """Return the gradients where the types of arrays have their sharding."""
    mesh = jax.make_mesh((2,), ("rows",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        inputs = jax.device_put(INPUTS, ROWS)
        found = jax.grad(loss_of(function), (0, 1))(jnp.array(PARAMETERS), inputs)
        assert jax.typeof(found[1]) == jax.typeof(inputs)
        return jax.device_get(found)


def third(function: Function) -> Any:
    """Return the third derivatives by the parameters."""
    return jax.jacrev(jax.jacrev(jax.grad(loss_of(sharded(function)))))(PARAMETERS, INPUTS)


FIRST = (
    lambda function: sharded(function)(PARAMETERS, INPUTS),
    gradients,
    gradients_by_parameters,
    gradients_without_checks,
    gradients_of_mean,
    gradients_inside,
    mean_gradients_inside,
    jacobian,
    own_parameters,
)
SECOND = (hessian, hessian_inside)


def check_equal(found: Any, expected: Any) -> None:
    """Check that two results are equal."""
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), found, expected)


@pytest.mark.parametrize("kind", ["batch", "vmap", "state"])
@pytest.mark.parametrize("compute", FIRST)
def test_shard_map_under_jit_equals_plain(kind: str, compute: Callable) -> None:
    ours, plain = pair_of(kind)
    check_equal(jax.jit(lambda: compute(ours))(), jax.jit(lambda: compute(plain))())


@pytest.mark.parametrize("kind", ["batch", "vmap"])
@pytest.mark.parametrize("compute", SECOND)
def test_shard_map_hessian_equals_plain(kind: str, compute: Callable) -> None:
    ours, plain = pair_of(kind)
    check_equal(jax.jit(lambda: compute(ours))(), jax.jit(lambda: compute(plain))())


@pytest.mark.parametrize("kind", ["batch", "vmap", "state"])
@pytest.mark.parametrize("compute", [FIRST[0], gradients])
def test_shard_map_without_jit_equals_plain(kind: str, compute: Callable) -> None:
    ours, plain = pair_of(kind)
    check_equal(compute(ours), jax.jit(lambda: compute(plain))())


@pytest.mark.parametrize("kind", ["batch", "vmap", "state"])
def test_arrays_with_explicit_axes_equal_plain(kind: str) -> None:
    ours, plain = pair_of(kind)
    check_equal(explicit_axes(ours), gradients(plain))


@pytest.mark.parametrize(
    ("kind", "compute", "order"),
    [("batch", third, "third"), ("vmap", third, "third"), ("state", hessian, "second")],
)
def test_derivative_that_is_missing_is_refused(kind: str, compute: Callable, order: str) -> None:
    with pytest.raises(qfleet.ArgumentError, match=f"no {order} derivatives"):
        compute(pair_of(kind)[0])


def test_traced_call_has_several_gradients() -> None:
    """One traced call has gradients by some arguments first, and then by others."""
    ours, plain = pair_of("batch")
    called = jax.jit(ours)
    for arguments in (0, (0, 1), 1):
        found, expected = (
            jax.grad(loss_of(one), arguments)(jnp.array(PARAMETERS), jnp.array(INPUTS))
            for one in (called, plain)
        )
        check_equal(found, expected)
