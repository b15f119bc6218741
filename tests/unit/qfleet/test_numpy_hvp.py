"""Hessian-vector products of the NumPy interface, compared with differences of gradients."""

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet import ArgumentError
from qfleet.circuits.qcnn import qcnn
from tests.support.random_circuits import INPUTS, PARAMETERS, Case, check_each, draw_cases

STEP = 1e-4


def compare(case: Case, dtype: str) -> None:
    """Compare derivatives along a random direction with central differences in complex128."""
    rng = np.random.default_rng(case.seed)
    inputs = rng.uniform(-1.5, 1.5, (min(case.batch, 5), len(INPUTS)))
    parameters = rng.uniform(-1.5, 1.5, len(PARAMETERS))
    direction = rng.normal(size=inputs.shape) / 3, rng.normal(size=parameters.shape) / 3
    upstream = rng.normal(size=(len(inputs), len(case.observables))) / len(inputs)
    arguments = case.circuit, INPUTS, PARAMETERS, case.observables
    exact = qfleet.compile(*arguments)

    def differences(step: float) -> list[np.ndarray]:
        after, before = (
            exact.value_and_gradient(
                inputs + sign * step * direction[0],
                parameters + sign * step * direction[1],
                upstream,
            )
            for sign in (1, -1)
        )
        return [
            (plus - minus) / (2 * step)
            for plus, minus in zip((after[0], *after[1]), (before[0], *before[1]), strict=True)
        ]

    wanted = [
        (4 * fine - coarse) / 3  # Richardson extrapolation
        for fine, coarse in zip(differences(STEP), differences(2 * STEP), strict=True)
    ]
    compiled = qfleet.compile(*arguments, dtype=dtype)
    values, gradients = compiled.hvp(inputs, parameters, upstream, *direction)
    assert values.dtype == compiled.real_dtype
    tolerance = {"complex64": 2e-4, "complex128": 1e-7}[dtype]
    for found, one in zip((values, *gradients), wanted, strict=True):
        scale = 1 + np.abs(one).max()
        np.testing.assert_allclose(found, one, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_hvp_of_random_circuits_matches_differences(dtype: str) -> None:
    check_each(draw_cases(23, 8, most_qubits=6), lambda case: compare(case, dtype))


def test_hvp_of_two_rotations_is_exact() -> None:
    qubits = cirq.LineQubit.range(2)
    a, b = sympy.symbols("a b")
    circuit = cirq.Circuit(cirq.rx(a).on(qubits[0]), cirq.CNOT(*qubits), cirq.rx(b).on(qubits[1]))
    compiled = qfleet.compile(circuit, ["a"], observables=[cirq.Z(qubits[1])])  # cos a cos b
    c, s = np.cos([0.4, 0.7]), np.sin([0.4, 0.7])
    values, gradients = compiled.hvp([0.4], [0.7], None, [1.0], [2.0])
    np.testing.assert_allclose(values, [-s[0] * c[1] - 2 * c[0] * s[1]], atol=1e-14)
    np.testing.assert_allclose(gradients.inputs, [-c[0] * c[1] + 2 * s[0] * s[1]], atol=1e-14)
    np.testing.assert_allclose(gradients.parameters, [s[0] * s[1] - 2 * c[0] * c[1]], atol=1e-14)


def test_hvp_is_linear_and_symmetric() -> None:
    model = qcnn(6, encoder="reupload", features=6)
    compiled = qfleet.compile(model.circuit, model.inputs, model.parameters, model.observables)
    rng = np.random.default_rng(3)
    point = rng.normal(size=(4, 6)), rng.normal(size=len(model.parameters))
    first, second = (tuple(rng.normal(size=one.shape) for one in point) for _ in range(2))

    def product(tangents: tuple[np.ndarray, ...]) -> np.ndarray:
        gradients = compiled.hvp(*point, None, *tangents)[1]
        assert gradients.inputs is not None
        return np.concatenate([gradients.inputs.ravel(), gradients.parameters])

    def flat(tangents: tuple[np.ndarray, ...]) -> np.ndarray:
        return np.concatenate([one.ravel() for one in tangents])

    sums = tuple(a + 2 * b for a, b in zip(first, second, strict=True))
    np.testing.assert_allclose(product(sums), product(first) + 2 * product(second), atol=1e-12)
    assert np.isclose(product(first) @ flat(second), product(second) @ flat(first), rtol=1e-11)
    assert not np.isclose(product(first) @ flat(second), 0)


def test_hvp_without_tangents_is_zero() -> None:
    qubit = cirq.LineQubit(0)
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("x") * sympy.Symbol("p")).on(qubit))
    compiled = qfleet.compile(circuit, ["x"], observables=[cirq.Z(qubit)])
    values, gradients = compiled.hvp([[0.3], [0.5]], [0.7])
    assert not values.any()
    assert gradients.inputs is not None
    assert gradients.inputs.shape == (2, 1)
    assert not gradients.inputs.any()
    assert not gradients.parameters.any()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("input_tangents", np.zeros((3, 1))),
        ("input_tangents", np.zeros(1)),
        ("input_tangents", [[np.nan], [0]]),
        ("input_tangents", np.zeros((2, 1), complex)),
        ("parameter_tangents", np.zeros(2)),
        ("parameter_tangents", [np.inf]),
        ("upstream", np.zeros(2)),
    ],
)
def test_hvp_wrong_argument_is_named(argument: str, value: object) -> None:
    qubit = cirq.LineQubit(0)
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("x") * sympy.Symbol("p")).on(qubit))
    compiled = qfleet.compile(circuit, ["x"], observables=[cirq.Z(qubit)])
    valid = {"inputs": [[0.3], [0.5]], "parameters": [0.7]}
    with pytest.raises(ArgumentError, match=argument):
        compiled.hvp(**valid, **{argument: value})  # type: ignore[arg-type]
