"""Values and gradients of both backends against cirq.Simulator."""

from collections.abc import Callable
from typing import Any

import cirq
import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from common.circuits.qcnn import qcnn
from common.simulator import build
from common.tensorflow import tf

TOLERANCE = {"complex64": 1e-5, "complex128": 1e-10}
REAL = {"complex64": np.float32, "complex128": np.float64}
INPUTS, PARAMETERS = ("x0", "x1"), ("p0", "p1", "p2")
NAMES = (*INPUTS, *PARAMETERS)


def slopes(
    simulator: Any, angles: np.ndarray, parameters: np.ndarray, direction: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """[B, K] values and their derivatives along a direction of all symbols."""
    angles, parameters = tf.constant(angles), tf.constant(parameters)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([angles, parameters])
        values = simulator.expectation(angles, parameters)
        single = [[values[b, k] for k in range(values.shape[1])] for b in range(len(angles))]
    found = np.zeros(values.shape)
    for b, row in enumerate(single):
        for k, value in enumerate(row):
            by_angle, by_parameter = tape.gradient(
                value, [angles, parameters], unconnected_gradients="zero"
            )
            slope = np.concatenate([by_angle.numpy()[b], by_parameter.numpy()])
            found[b, k] = slope @ direction
            others = np.delete(by_angle.numpy(), b, axis=0)
            assert not others.any(), "an example's readout depends on another example"
    return values.numpy(), found


def compare(
    circuit: cirq.Circuit,
    observables: list[cirq.PauliSum],
    judge: tuple[Any, Any, Any],
    *,
    inputs: tuple[str, ...] = INPUTS,
    parameters: tuple[str, ...] = PARAMETERS,
    backend: str = "qfleet",
    dtype: str = "complex128",
    gradient: float | None = None,
    seed: int = 0,
) -> None:
    expect, slope, weight = judge
    rng = np.random.default_rng(seed)
    real = REAL[dtype]
    angles = rng.uniform(-1.5, 1.5, (2, len(inputs))).astype(real)
    trained = rng.uniform(-1.5, 1.5, len(parameters)).astype(real)
    direction = rng.normal(size=len(inputs) + len(parameters))
    direction /= max(1.0, np.linalg.norm(direction))
    simulator = build(circuit, inputs, parameters, observables, backend=backend, dtype=dtype)
    values, derivatives = slopes(simulator, angles, trained, direction)
    names, scale = (*inputs, *parameters), weight(observables)
    for b in range(2):
        point = np.concatenate([angles[b], trained]).astype(np.float64)
        wanted = expect(circuit, names, point, observables)
        np.testing.assert_allclose(values[b], wanted, rtol=0, atol=TOLERANCE[dtype] * scale)
        wanted = slope(circuit, names, point, direction, observables)
        tolerance = (gradient or TOLERANCE[dtype]) * scale
        np.testing.assert_allclose(derivatives[b], wanted, rtol=0, atol=tolerance)


@pytest.fixture(scope="session")
def judge(expect: Any, slope: Any, weight: Any) -> tuple[Any, Any, Any]:
    return expect, slope, weight


@pytest.mark.parametrize(
    ("backend", "dtype", "gradient"),
    [("qfleet", "complex64", None), ("qfleet", "complex128", None), ("tfq", "complex64", 1e-4)],
)
@pytest.mark.parametrize("encoder", ["angle", "reupload"])
@pytest.mark.parametrize("qubits", [4, 5])
def test_qcnn_agrees_with_cirq(
    backend: str, dtype: str, gradient: float | None, encoder: str, qubits: int, judge: Any
) -> None:
    model = qcnn(qubits, encoder=encoder, features=qubits)
    compare(
        model.circuit,
        list(model.observables),
        judge,
        inputs=model.inputs,
        parameters=model.parameters,
        backend=backend,
        dtype=dtype,
        gradient=gradient,
    )


EXPRESSIONS: list[Callable[[sympy.Symbol, sympy.Symbol, float], sympy.Expr]] = [
    lambda s, t, c: s,
    lambda s, t, c: s / sympy.pi,
    lambda s, t, c: -s / 2 + c,
    lambda s, t, c: c * s + t / 2,
    lambda s, t, c: s * t / 2,
    lambda s, t, c: sympy.sin(s),
    lambda s, t, c: s**2 / 3,
    lambda s, t, c: sympy.cos(s + t) * c,
    lambda s, t, c: 1 / (2 + s**2),
    lambda s, t, c: sympy.exp(s / 3) / 2,
    lambda s, t, c: sympy.sqrt(s**2 + 1),
    lambda s, t, c: (s - t) ** 3 / 9,
    lambda s, t, c: sympy.Float(c),
]
# Cirq takes long over a phase that is not affine.
PHASES = EXPRESSIONS[:4]

ONE: list[Callable[[sympy.Expr, sympy.Expr, int], cirq.Gate]] = [
    lambda e, f, n: cirq.X**e,
    lambda e, f, n: cirq.Y**e,
    lambda e, f, n: cirq.Z**e,
    lambda e, f, n: cirq.H**e,
    lambda e, f, n: cirq.rx(e),
    lambda e, f, n: cirq.ry(e),
    lambda e, f, n: cirq.rz(e),
    lambda e, f, n: cirq.PhasedXPowGate(phase_exponent=f, exponent=e),
    lambda e, f, n: cirq.PhasedXZGate(x_exponent=e, z_exponent=f, axis_phase_exponent=f),
    lambda e, f, n: cirq.H,
    lambda e, f, n: cirq.T,
    lambda e, f, n: cirq.MatrixGate(cirq.testing.random_unitary(2, random_state=n)),
]
TWO: list[Callable[[sympy.Expr, sympy.Expr, int], cirq.Gate]] = [
    lambda e, f, n: cirq.XX**e,
    lambda e, f, n: cirq.YY**e,
    lambda e, f, n: cirq.ZZ**e,
    lambda e, f, n: cirq.CZ**e,
    lambda e, f, n: cirq.CX**e,
    lambda e, f, n: cirq.SWAP**e,
    lambda e, f, n: cirq.ISWAP**e,
    lambda e, f, n: cirq.FSimGate(e, f),
    lambda e, f, n: cirq.PhasedISwapPowGate(phase_exponent=f, exponent=e),
    lambda e, f, n: cirq.rx(e).controlled(),
    lambda e, f, n: (cirq.H**e).controlled(control_values=[0]),
    lambda e, f, n: cirq.PhasedXPowGate(phase_exponent=f, exponent=e).controlled(),
    lambda e, f, n: cirq.CNOT,
    lambda e, f, n: cirq.MatrixGate(cirq.testing.random_unitary(4, random_state=n)),
]
THREE: list[Callable[[sympy.Expr, sympy.Expr, int], cirq.Gate]] = [
    lambda e, f, n: cirq.CCX**e,
    lambda e, f, n: cirq.CCZ**e,
    lambda e, f, n: cirq.CSWAP,
    lambda e, f, n: cirq.CCX,
    lambda e, f, n: cirq.ry(e).controlled(2),
    lambda e, f, n: (cirq.ZZ**e).controlled(),
    lambda e, f, n: cirq.MatrixGate(cirq.testing.random_unitary(8, random_state=n)),
]


@st.composite
def operations(draw: st.DrawFn, qubits: list[cirq.Qid]) -> cirq.Operation:
    s, t = (sympy.Symbol(draw(st.sampled_from(NAMES))) for _ in range(2))
    c = draw(st.sampled_from([-0.75, -0.3, 0.125, 0.6, 1.0]))
    width = draw(st.sampled_from([1, 1, 2, 2, 3] if len(qubits) > 2 else [1, 2]))
    make = draw(st.sampled_from({1: ONE, 2: TWO, 3: THREE}[width]))
    exponent = draw(st.sampled_from(EXPRESSIONS))(s, t, c)
    phase = draw(st.sampled_from(PHASES))(t, s, c)
    gate = make(exponent, phase, draw(st.integers(0, 99)))
    return gate.on(*draw(st.permutations(qubits))[:width])


@st.composite
def cases(draw: st.DrawFn) -> tuple[cirq.Circuit, list[cirq.PauliSum]]:
    qubits: list[cirq.Qid] = list(cirq.LineQubit.range(draw(st.integers(2, 6))))
    circuit = cirq.Circuit(draw(st.lists(operations(qubits), min_size=3, max_size=14)))
    observables = []
    for _ in range(draw(st.integers(1, 3))):
        total = cirq.PauliSum() + draw(st.sampled_from([0.0, 0.5]))
        for _ in range(draw(st.integers(1, 4))):
            paulis = {q: draw(st.sampled_from("IXYZ")) for q in qubits}
            coefficient = draw(st.sampled_from([1.0, -0.7, 2.5]))
            total += coefficient * cirq.DensePauliString(paulis.values()).on(*qubits)
        observables.append(total)
    return circuit, observables


# Not shrunk: a failing case is short as it is, and shrinking takes minutes.
RANDOM = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@settings(RANDOM, max_examples=20)
@given(case=cases(), seed=st.integers(0, 9))
def test_random_circuits_agree_with_cirq(
    case: tuple[cirq.Circuit, list[cirq.PauliSum]], seed: int, judge: Any
) -> None:
    compare(*case, judge, seed=seed)


@settings(RANDOM, max_examples=6)
@given(case=cases(), seed=st.integers(0, 9))
def test_random_circuits_agree_with_cirq_in_tensorflow_quantum(
    case: tuple[cirq.Circuit, list[cirq.PauliSum]], seed: int, judge: Any
) -> None:
    compare(*case, judge, backend="tfq", dtype="complex64", gradient=1e-4, seed=seed)
