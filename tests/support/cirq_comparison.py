"""Comparison of simulators with cirq.Simulator."""

import numpy as np

from qfleet.tensorflow.backends import Backend, Dtype, build_simulator
from qfleet.tensorflow.runtime import tf
from tests.support.random_circuits import INPUTS, PARAMETERS, Case
from tests.support.reference import Reference

TOLERANCE = {"complex64": 1e-5, "complex128": 1e-10}
REAL = {"complex64": np.float32, "complex128": np.float64}
NAMES = (*INPUTS, *PARAMETERS)
ZERO = {"unconnected_gradients": tf.UnconnectedGradients.ZERO}


def compare(
    case: Case,
    *,
    inputs: tuple[str, ...] = INPUTS,
    parameters: tuple[str, ...] = PARAMETERS,
    backend: Backend = "qfleet",
    dtype: Dtype = "complex128",
    gradient: float | None = None,
) -> None:
    """Compare values and gradients with the reference.

    The examples of a batch are at two points, so the reference is evaluated at two points only. The
    gradient is that of a weighted sum of the readouts of one point's examples, along a random
    direction of all symbols. The gradients of the other point's examples must be zero.

    Args:
        case: The circuit, its observables and the batch.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        backend: As for `build_simulator`.
        dtype: As for `build_simulator`.
        gradient: Tolerance of gradients; that of values unless given.
    """
    rng = np.random.default_rng(case.seed)
    simulator = build_simulator(
        case.circuit, inputs, parameters, case.observables, backend=backend, dtype=dtype
    )
    points = rng.uniform(-1.5, 1.5, (2, len(inputs))).astype(REAL[dtype])
    trained = rng.uniform(-1.5, 1.5, len(parameters)).astype(REAL[dtype])
    which = rng.integers(0, 2, case.batch)  # [B] each example's point
    which[rng.integers(case.batch)] = 0
    weights = rng.normal(size=len(case.observables))
    weights /= np.abs(weights).sum()
    shares = np.where(which == 0, rng.uniform(0.5, 1, case.batch), 0)  # [B] of each example
    shares /= shares.sum()

    angles, variables = tf.constant(points[which]), tf.constant(trained)
    cotangent = (shares[:, None] * weights).astype(REAL[dtype])
    with tf.GradientTape() as tape:
        tape.watch([angles, variables])
        values = simulator.expectation(angles, variables)
        loss = tf.reduce_sum(values * cotangent)
    by_angle, by_parameter = tape.gradient(loss, [angles, variables], **ZERO)
    # Without gradients by the angles, the engine takes other plans.
    forward = simulator.expectation(angles, variables)
    with tf.GradientTape() as tape:
        tape.watch(variables)
        loss = tf.reduce_sum(simulator.expectation(angles, variables) * cotangent)
    by_parameter_only = tape.gradient(loss, variables, **ZERO)

    reference = Reference(case.circuit, (*inputs, *parameters), case.observables)
    ends = [np.concatenate([point, trained]).astype(np.float64) for point in points]
    tolerance = TOLERANCE[dtype] * reference.scale
    expected = np.stack([reference.values(end) for end in ends])
    np.testing.assert_allclose(values, expected[which], rtol=0, atol=tolerance)
    np.testing.assert_allclose(forward, expected[which], rtol=0, atol=tolerance)

    direction = rng.normal(size=len(inputs) + len(parameters))
    direction /= np.linalg.norm(direction) or 1
    tolerance = (gradient or TOLERANCE[dtype]) * reference.scale
    by_angle = by_angle.numpy().astype(np.float64)
    per_share = by_angle[which == 0] / shares[which == 0, None]  # the same for each example
    np.testing.assert_allclose(per_share, per_share[:1].repeat(len(per_share), 0), atol=tolerance)
    assert not by_angle[which == 1].any(), "an example's readout depends on another example"
    found = np.concatenate([by_angle.sum(axis=0), by_parameter]) @ direction
    wanted = reference.derivative(ends[0], direction) @ weights
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)
    np.testing.assert_allclose(by_parameter_only, by_parameter, rtol=0, atol=tolerance)


def compare_states(case: Case, *, backend: Backend, dtype: Dtype) -> None:
    """Compare states, global phase included, and the gradient of an overlap with the reference."""
    rng = np.random.default_rng(case.seed)
    simulator = build_simulator(case.circuit, INPUTS, PARAMETERS, (), backend=backend, dtype=dtype)
    angles = rng.uniform(-1.5, 1.5, (case.batch, len(INPUTS))).astype(REAL[dtype])
    trained = rng.uniform(-1.5, 1.5, len(PARAMETERS)).astype(REAL[dtype])
    states = simulator.state(tf.constant(angles), tf.constant(trained))
    reference = Reference(case.circuit, NAMES)
    assert simulator.qubits == tuple(reference.qubits)
    assert states.shape == (case.batch, 2 ** len(reference.qubits))
    assert states.dtype.name == dtype
    example = int(rng.integers(case.batch))
    point = np.concatenate([angles[example], trained]).astype(np.float64)
    wanted = reference.state(point)
    np.testing.assert_allclose(states[example], wanted, rtol=0, atol=TOLERANCE[dtype])
    if backend == "tfq":  # its states have no gradient
        return

    other = rng.normal(size=wanted.shape) + 1j * rng.normal(size=wanted.shape)
    other /= np.linalg.norm(other)
    at_angles, at_trained = tf.constant(angles), tf.constant(trained)
    with tf.GradientTape() as tape:
        tape.watch([at_angles, at_trained])
        state = simulator.state(at_angles, at_trained)[example]
        overlap = tf.math.real(tf.reduce_sum(state * other.conj().astype(dtype)))
    by_angle, by_parameter = tape.gradient(overlap, [at_angles, at_trained], **ZERO)
    direction = rng.normal(size=len(NAMES))
    direction /= np.linalg.norm(direction)
    found = np.concatenate([by_angle[example], by_parameter]) @ direction
    wanted = np.vdot(other, reference.state_derivative(point, direction)).real
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE[dtype])
