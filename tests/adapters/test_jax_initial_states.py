"""Initial states of JAX functions, against JAX's own derivatives of a simulation with matrices."""

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
from qfleet.errors import ArgumentError
from tests.support import random_circuits
from tests.support.mixed_states import MixedCase, draw_mixed_case

Function = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]  # inputs, parameters, states

QUBITS = cirq.LineQubit.range(3)
CIRCUIT = cirq.Circuit(
    cirq.H(QUBITS[1]),
    [cirq.rx(sympy.Symbol(f"x{at}"))(QUBITS[at]) for at in range(2)],
    [cirq.CNOT(*QUBITS[:2]), cirq.ISWAP(*QUBITS[1:])],
    [cirq.ry(sympy.Symbol(f"p{at}"))(QUBITS[at]) for at in range(3)],
)
OBSERVABLES = (cirq.Z(QUBITS[0]) * cirq.Z(QUBITS[2]), cirq.X(QUBITS[1]) + cirq.Y(QUBITS[0]))
RANDOM = np.random.default_rng(3)
INPUTS, PARAMETERS = RANDOM.normal(size=(4, 2)), RANDOM.normal(size=3)
STATES = RANDOM.normal(size=(4, 8)) + 1j * RANDOM.normal(size=(4, 8))
STATES /= np.linalg.norm(STATES, axis=1, keepdims=True)
UPSTREAM = RANDOM.normal(size=(4, 8)) + 1j * RANDOM.normal(size=(4, 8))


@pytest.fixture(autouse=True)
def enable_x64() -> None:
    """Compute in 64 bits."""
    with jax.enable_x64(True):
        yield


def compiled_circuit(observables: tuple = (), **options: Any) -> qfleet.CompiledCircuit:
    """Return the compiled circuit, which takes states."""
    names = ["x0", "x1"], ["p0", "p1", "p2"]
    return qfleet.compile(CIRCUIT, *names, observables, initial_states=True, **options)


def on_qubit(matrix: Any, at: int) -> jax.Array:
    """Return the matrix of all qubits of a gate on one."""
    return jnp.kron(jnp.kron(jnp.eye(2**at), matrix), jnp.eye(2 ** (2 - at)))


def dense_state(row: jax.Array, parameters: jax.Array, state: jax.Array) -> jax.Array:
    """Return the state after `CIRCUIT`, as a product of matrices."""
    x, y = cirq.unitary(cirq.X), cirq.unitary(cirq.Y)

    def rotation(angle: jax.Array, axis: np.ndarray) -> jax.Array:
        return jnp.cos(angle / 2) * jnp.eye(2) - 1j * jnp.sin(angle / 2) * axis

    state = on_qubit(cirq.unitary(cirq.H), 1) @ state
    for at in range(2):
        state = on_qubit(rotation(row[at], x), at) @ state
    fixed = cirq.Circuit([cirq.CNOT(*QUBITS[:2]), cirq.ISWAP(*QUBITS[1:])])
    state = fixed.unitary(qubit_order=QUBITS) @ state
    for at in range(3):
        state = on_qubit(rotation(parameters[at], y), at) @ state
    return state


def dense_values(row: jax.Array, parameters: jax.Array, state: jax.Array) -> jax.Array:
    """Return the expectation values of `OBSERVABLES`."""
    final = dense_state(row, parameters, state)
    matrices = [cirq.PauliSum.wrap(one).matrix(QUBITS) for one in OBSERVABLES]
    return jnp.stack([jnp.vdot(final, matrix @ final).real for matrix in matrices])


def pair_of(kind: str) -> tuple[Function, Function]:
    """Return a loss of the engine and the plain one, both of arrays with a batch axis."""
    compiled = compiled_circuit(() if kind == "state" else OBSERVABLES)
    function = qfleet.jax.state if kind == "state" else qfleet.jax.expectation

    def single(row: jax.Array, parameters: jax.Array, state: jax.Array) -> jax.Array:
        return function(compiled, row, parameters, initial_states=state)

    def batch(inputs: jax.Array, parameters: jax.Array, states: jax.Array) -> jax.Array:
        return function(compiled, inputs, parameters, initial_states=states)

    plain = jax.vmap(dense_state if kind == "state" else dense_values, (0, None, 0))
    return jax.vmap(single, (0, None, 0)) if kind == "vmap" else batch, plain


def loss_of(function: Function) -> Function:
    """Return a loss that differs per row and is not linear in the values."""

    def loss(inputs: jax.Array, parameters: jax.Array, states: jax.Array) -> jax.Array:
        found = function(inputs, parameters, states)
        return jnp.sum(jnp.real(found * UPSTREAM[:, : found.shape[1]]) ** 3)

    return loss


def check_equal(found: Any, expected: Any) -> None:
    """Check that two results are equal."""
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-11), found, expected)


@pytest.mark.parametrize("kind", ["batch", "vmap", "state"])
def test_values_and_gradients_equal_dense(kind: str) -> None:
    ours, plain = pair_of(kind)
    point = INPUTS, PARAMETERS, STATES
    check_equal(ours(*point), plain(*point))
    for arguments in ((0, 1, 2), 2, 1):
        ours_of, plain_of = (jax.grad(loss_of(one), arguments) for one in (ours, plain))
        expected = jax.jit(plain_of)(*point)
        check_equal(jax.jit(ours_of)(*point), expected)
        check_equal(ours_of(*point), expected)


@pytest.mark.parametrize("kind", ["batch", "vmap"])
def test_second_derivatives_equal_dense(kind: str) -> None:
    found, expected = (
        jax.jit(jax.jacrev(jax.grad(loss_of(one), (0, 1)), (0, 1)))(INPUTS, PARAMETERS, STATES)
        for one in pair_of(kind)
    )
    check_equal(found, expected)


@pytest.mark.parametrize("kind", ["batch", "vmap"])
@pytest.mark.parametrize("order", [(1, 2), (2, 1), (2, 2)])
def test_second_derivative_by_states_is_refused(kind: str, order: tuple[int, int]) -> None:
    slope = jax.grad(lambda *point: loss_of(pair_of(kind)[0])(*point).real, order[0])

    def sum_of_slope(*point: jax.Array) -> jax.Array:
        return jnp.sum(jnp.real(slope(*point)))

    with pytest.raises(ArgumentError, match="initial states"):
        jax.grad(sum_of_slope, order[1])(INPUTS, PARAMETERS, STATES)


def test_second_derivatives_with_slopes_by_states_equal_dense() -> None:
    """The states have first derivatives, which the second ones do not use."""

    def slopes(function: Function) -> Any:
        slope = jax.grad(loss_of(function), (1, 2))
        return jax.jacrev(lambda parameters: slope(INPUTS, parameters, STATES)[0])(PARAMETERS)

    def by_states(function: Function) -> Any:
        both = jax.value_and_grad(loss_of(function), 1)
        return jax.grad(lambda states: both(INPUTS, PARAMETERS, states)[0])(STATES + 0j)

    ours, plain = pair_of("batch")
    for compute in (slopes, by_states):
        check_equal(compute(ours), compute(plain))
        check_equal(jax.jit(lambda compute=compute: compute(ours))(), compute(plain))


@pytest.mark.parametrize("axes", [(0, 0, 0), (None, None, 0), (0, None, None), (None, 0, None)])
def test_vmap_of_gradients_equals_dense(axes: tuple) -> None:
    compiled = compiled_circuit(OBSERVABLES)
    parameters = np.random.default_rng(5).normal(size=(4, 3))
    point = [
        array if axis == 0 else array[0]
        for array, axis in zip((INPUTS, parameters, STATES), axes, strict=True)
    ]

    def ours(row: jax.Array, parameters: jax.Array, state: jax.Array) -> jax.Array:
        values = qfleet.jax.expectation(compiled, row, parameters, initial_states=state)
        return jnp.sum(values**3)

    def plain(*point: jax.Array) -> jax.Array:
        return jnp.sum(dense_values(*point) ** 3)

    found, expected = (jax.vmap(jax.grad(one, (0, 1, 2)), axes)(*point) for one in (ours, plain))
    check_equal(found, expected)


def test_scan_over_batches_equals_dense() -> None:
    def total(function: Function) -> Function:
        @jax.checkpoint
        def step(sum_before: jax.Array, point: tuple) -> tuple[jax.Array, None]:
            return sum_before + loss_of(function)(*point), None

        def scanned(parameters: jax.Array, states: jax.Array) -> jax.Array:
            points = jnp.stack([INPUTS, -INPUTS]), jnp.stack([parameters] * 2), states
            return jax.lax.scan(step, 0.0, points)[0]

        return jax.jit(jax.grad(scanned, (0, 1)))

    states = np.stack([STATES, STATES[::-1]])
    found, expected = (total(one)(PARAMETERS, states) for one in pair_of("batch"))
    check_equal(found, expected)


def test_vmap_over_states_is_one_call() -> None:
    compiled = compiled_circuit(OBSERVABLES)

    def mapped(states: jax.Array) -> jax.Array:
        function = qfleet.jax.expectation
        row = jax.vmap(lambda one: function(compiled, INPUTS[0], PARAMETERS, initial_states=one))
        return row(states)

    gradient = jax.jit(jax.grad(lambda states: mapped(states).sum()))
    text = gradient.lower(STATES).as_text()
    assert text.count("stablehlo.custom_call @qfleet_expectation_gradient") == 1
    assert "while" not in text


@pytest.mark.parametrize("kind", ["batch", "vmap", "state"])
def test_shard_map_gradients_equal_dense(kind: str) -> None:
    ours, plain = pair_of(kind)
    rows, same = PartitionSpec("rows"), PartitionSpec()
    mesh = Mesh(np.array(jax.devices()[:2]), ("rows",))
    sharded = jax.shard_map(ours, mesh=mesh, in_specs=(rows, same, rows), out_specs=rows)
    for wrap in (jax.jit, lambda function: function):
        found = wrap(jax.grad(loss_of(sharded), (0, 1, 2)))(INPUTS, PARAMETERS, STATES)
        check_equal(found, jax.grad(loss_of(plain), (0, 1, 2))(INPUTS, PARAMETERS, STATES))


@pytest.mark.parametrize("kind", ["batch", "vmap", "state"])
def test_states_with_explicit_axes_equal_dense(kind: str) -> None:
    ours, plain = pair_of(kind)
    with jax.set_mesh(jax.make_mesh((2,), ("rows",), axis_types=(AxisType.Explicit,))):
        states = jax.device_put(STATES, PartitionSpec("rows"))
        inputs = jax.device_put(INPUTS, PartitionSpec("rows"))
        found = jax.grad(loss_of(ours), (1, 2))(inputs, jnp.array(PARAMETERS), states)
        assert jax.typeof(found[1]) == jax.typeof(states)
        found = jax.device_get(found)
    check_equal(found, jax.grad(loss_of(plain), (1, 2))(INPUTS, PARAMETERS, STATES))


def test_real_states_have_real_gradients() -> None:
    ours, plain = pair_of("batch")
    states = np.abs(STATES)
    found, expected = (
        jax.grad(lambda real, one=one: loss_of(one)(INPUTS, PARAMETERS, real))(states)
        for one in (ours, plain)
    )
    assert found.dtype == np.float64
    check_equal(found, expected)


def test_states_of_circuit_without_inputs_are_the_batch() -> None:
    circuit = cirq.Circuit(cirq.ry(sympy.Symbol("p"))(QUBITS[0]))
    compiled = qfleet.compile(circuit, observables=cirq.Z(QUBITS[0]), initial_states=True)
    states = np.eye(2)
    for inputs in (None, np.zeros(0), np.zeros((2, 0))):
        found = qfleet.jax.expectation(compiled, inputs, np.zeros(1), initial_states=states)
        check_equal(found, np.array([[1.0], [-1.0]]))
    single = qfleet.jax.expectation(compiled, None, np.zeros(1), initial_states=states[1])
    check_equal(single, np.array([-1.0]))


def test_complex64_circuit_casts_states() -> None:
    compiled = compiled_circuit(dtype="complex64")
    with jax.enable_x64(False):
        found = qfleet.jax.state(compiled, INPUTS, PARAMETERS, initial_states=STATES)
    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, pair_of("state")[1](INPUTS, PARAMETERS, STATES), atol=1e-5)


def mixed_circuit(case: MixedCase) -> qfleet.CompiledCircuit:
    """Return the compiled circuit of a case."""
    names = random_circuits.INPUTS, random_circuits.PARAMETERS
    return qfleet.compile(case.circuit, *names, case.observables, initial_states=True)


@pytest.mark.parametrize("mapped", [False, True])
def test_mixed_states_are_the_mean_of_their_vectors(mapped: bool) -> None:
    case = draw_mixed_case(1 + mapped)
    compiled = mixed_circuit(case)

    def values(inputs: jax.Array, parameters: jax.Array, states: jax.Array) -> jax.Array:
        return qfleet.jax.expectation(compiled, inputs, parameters, initial_states=states)

    function = jax.vmap(values, (0, None, 0)) if mapped else values
    point = case.inputs, case.parameters, case.matrices + 0j

    @jax.jit
    def values_and_gradients(*point: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        found, pull_back = jax.vjp(function, *point)
        return found, pull_back(jnp.asarray(case.upstream))

    found, (by_inputs, by_parameters, by_states) = values_and_gradients(*point)
    check_equal(found, case.values)
    check_equal((by_inputs, by_parameters, by_states.conj()), case.gradients)


def test_wrong_density_matrices_are_refused() -> None:
    case = draw_mixed_case(1)
    compiled = mixed_circuit(case)

    def values(states: jax.Array) -> jax.Array:
        point = case.inputs, case.parameters
        return qfleet.jax.expectation(compiled, *point, initial_states=states)

    uneven = np.diag([1.5, -0.5, *6 * [0]]) + 0 * case.matrices
    for wrong, message, compiled_message in (
        (2 * case.matrices, "has the trace 2: divide", "has the trace 2.0"),
        (case.matrices + np.eye(8, k=1), "differs from its adjoint by 1", "adjoint by 1.0"),
        (uneven, "has the eigenvalue -0.5", None),
        (case.matrices[:2], r"per example of inputs \[3, 3\]", "per example"),
    ):
        with pytest.raises(ArgumentError, match=message):
            values(wrong)
        if compiled_message is not None:
            with pytest.raises((ArgumentError, jax.errors.JaxRuntimeError), match=compiled_message):
                jax.jit(values)(wrong).block_until_ready()
    for function, other in (
        (qfleet.jax.state, compiled_circuit()),
        (qfleet.jax.expectation, compiled_circuit(OBSERVABLES)),
    ):
        with pytest.raises(ArgumentError, match='method="density_matrix"'):
            function(other, INPUTS[:3], PARAMETERS, initial_states=case.matrices)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (None, "missing"),
        (STATES[:, :4], r"\[B, 8\]"),
        (STATES[:3], "per example"),
        (STATES[0], "per example"),
    ],
)
def test_wrong_states_are_refused(states: np.ndarray | None, message: str) -> None:
    with pytest.raises(ArgumentError, match=f"initial_states.*{message}"):
        qfleet.jax.state(compiled_circuit(), INPUTS, PARAMETERS, initial_states=states)


def test_states_that_are_not_used_are_refused() -> None:
    compiled = qfleet.compile(CIRCUIT, ["x0", "x1"])
    with pytest.raises(ArgumentError, match="initial_states=True"):
        qfleet.jax.state(compiled, INPUTS, PARAMETERS, initial_states=STATES)


def test_states_without_norm_one_are_refused() -> None:
    states = pair_of("batch")[0]
    arguments = INPUTS, PARAMETERS, 2 * STATES
    gradient = jax.grad(lambda *given: jnp.abs(states(*given)).sum())
    for known in (states, gradient):
        with pytest.raises(ArgumentError, match=r"initial_states\[0\] has the norm 2"):
            known(*arguments)
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"state 0 has the norm 2\.000000, which must be 1"
    ):
        jax.jit(states)(*arguments).block_until_ready()
