"""Values, gradients and states of every backend against cirq.Simulator."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import cirq
import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, Phase, given, seed, settings

from qfleet.circuits.qcnn import qcnn
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.runtime import tf
from tests.support.random_circuits import BATCHES, INPUTS, KINDS, PARAMETERS, TABLES, Case, cases
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
    backend: str = "qfleet",
    dtype: str = "complex128",
    gradient: float | None = None,
) -> None:
    """Hold values and slopes to the reference.

    The examples of a batch are two points, so that two points of the reference judge all of them.
    The slope is that of a weighted sum of the readouts of one point's examples, along a random
    direction of all symbols; the other's examples must have none.
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
    # What is not asked for is not computed: that takes other ways.
    forward = simulator.expectation(angles, variables)
    with tf.GradientTape() as tape:
        tape.watch(variables)
        loss = tf.reduce_sum(simulator.expectation(angles, variables) * cotangent)
    by_parameter_alone = tape.gradient(loss, variables, **ZERO)

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
    wanted = reference.slope(ends[0], direction) @ weights
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)
    np.testing.assert_allclose(by_parameter_alone, by_parameter, rtol=0, atol=tolerance)


def compare_states(case: Case, *, backend: str, dtype: str) -> None:
    """Hold states, global phase included, and the slope of an overlap to the reference."""
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
    wanted = np.vdot(other, reference.state_slope(point, direction)).real
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("backend", "dtype", "gradient"),
    [
        ("qfleet", "complex64", None),
        ("qfleet", "complex128", None),
        ("tensorflow", "complex128", None),
        ("tfq", "complex64", 1e-4),
    ],
)
@pytest.mark.parametrize("encoder", ["angle", "reupload"])
@pytest.mark.parametrize("qubits", [4, 5])
def test_qcnn_agrees_with_cirq(
    backend: str, dtype: str, gradient: float | None, encoder: str, qubits: int
) -> None:
    model = qcnn(qubits, encoder=encoder, features=qubits)
    compare(
        Case(model.circuit, tuple(model.observables), batch=3, seed=qubits),
        inputs=model.inputs,
        parameters=model.parameters,
        backend=backend,
        dtype=dtype,
        gradient=gradient,
    )


@pytest.mark.parametrize("kind", sorted(name for table in TABLES for name in table))
def test_each_kind_of_gate_agrees_with_cirq(kind: str) -> None:
    (make,) = (table[kind] for table in TABLES if kind in table)
    x, p = sympy.symbols("x0 p0")
    gate = make(lambda: sympy.sin(x) * p + 0.3, lambda: x / 2 + p, 7)
    width = cirq.num_qubits(gate)
    qubits = cirq.LineQubit.range(5)
    circuit = cirq.Circuit(
        [cirq.ry(0.4 + 0.3 * at).on(q) for at, q in enumerate(qubits)],
        [cirq.CZ(*pair) for pair in pairwise(qubits)],
        [cirq.rx(sympy.Symbol("p1") + at).on(q) for at, q in enumerate(qubits)],
        gate.on(*[qubits[at] for at in (3, 1, 4, 0)][:width]),
        [cirq.ry(sympy.Symbol("x1") - at).on(q) for at, q in enumerate(qubits)],
    )
    a, b, c, d, e = qubits
    observables = (
        cirq.PauliSum() + cirq.Z(b) * cirq.X(d),
        cirq.X(a) * cirq.Y(b) * cirq.Z(c) * cirq.X(d) * cirq.Y(e) + 0.5 * cirq.Z(d),
    )
    compare(Case(circuit, observables, batch=3, seed=1))


@cache
def drawn(part: int, count: int, most_qubits: int = 10) -> list[Case]:
    """Random circuits, the same in every run; parts differ."""
    found: list[Case] = []

    @seed(part)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases(most_qubits))
    def draw(case: Case) -> None:
        found.append(case)

    draw()
    return found


def each(found: list[Case], check: Callable[[Case], None]) -> None:
    """Check every circuit, and say which one fails."""
    for at, case in enumerate(found):
        try:
            check(case)
        except Exception as error:
            error.add_note(f"in circuit {at}, {case!r}")
            raise


PARTS, EACH = range(10), 50


@pytest.mark.parametrize("part", PARTS)
def test_random_circuits_agree_with_cirq(part: int) -> None:
    dtype = "complex64" if part % 4 == 0 else "complex128"
    each(drawn(part, EACH), lambda case: compare(case, dtype=dtype))


def test_the_random_circuits_hold_every_kind_of_gate_width_and_batch() -> None:
    found = [case for part in PARTS for case in drawn(part, EACH)]
    assert len(found) == 500
    kinds = Counter(kind for case in found for kind in case.kinds)
    assert {kind: kinds[kind] for kind in KINDS if kinds[kind] < 10} == {}
    assert {case.batch for case in found} == set(BATCHES)
    assert {max(case.circuit.all_qubits()).x for case in found} >= set(range(1, 10))


def test_random_circuits_agree_with_cirq_in_plain_tensorflow() -> None:
    each(drawn(10, 40, most_qubits=7), lambda case: compare(case, backend="tensorflow"))


def test_random_circuits_agree_with_cirq_in_tensorflow_quantum() -> None:
    each(
        drawn(11, 6, most_qubits=5),
        lambda case: compare(case, backend="tfq", dtype="complex64", gradient=1e-4),
    )


@pytest.mark.parametrize(
    ("backend", "dtype", "count"),
    [
        ("qfleet", "complex64", 20),
        ("qfleet", "complex128", 40),
        ("tensorflow", "complex128", 20),
        ("tfq", "complex64", 6),
    ],
)
def test_states_of_random_circuits_agree_with_cirq(backend: str, dtype: str, count: int) -> None:
    each(
        drawn(12, 40, most_qubits=6)[:count],
        lambda case: compare_states(case, backend=backend, dtype=dtype),
    )
