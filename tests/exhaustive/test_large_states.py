"""Large sums: circuits of 20 qubits and more with known values and gradients.

In float32 a sum of equal terms stops growing at 2**24 terms, and loses digits long before.
QFLEET_LARGEST=28 adds circuits of 28 qubits, which take 7 GiB and two minutes.
"""

import os
from collections.abc import Callable
from itertools import pairwise

import cirq
import numpy as np
import pytest
import sympy

from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.native import NativeSimulator
from qfleet.tensorflow.runtime import tf

RELATIVE = 1e-5  # in complex64
SIZES = [(20, 1), (20, 2), (20, 16), (24, 1)]
if "QFLEET_LARGEST" in os.environ:
    SIZES.append((int(os.environ["QFLEET_LARGEST"]), 1))

# From [V] values of the symbols: [K] values and their derivatives [K, V].
Known = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def check(
    circuit: cirq.Circuit,
    observables: list[cirq.PauliSum],
    points: np.ndarray,
    known: Known,
    inputs: int,
) -> None:
    """Compare a batch with known values.

    Args:
        circuit: With symbols a0, a1, ...; the first `inputs` of them are data symbols.
        observables: K observables.
        points: [B, V] values of the symbols; trained symbols take those of the first row.
        known: Returns values and derivatives at one point.
        inputs: Number of data symbols.
    """
    points = points.astype(np.float32)
    points[:, inputs:] = points[0, inputs:]
    names = [f"a{at}" for at in range(points.shape[1])]
    # By default, circuits as local as these are contracted as tensor networks.
    simulator = build_simulator(
        circuit, names[:inputs], names[inputs:], observables, method="state_vector"
    )
    # Plain TensorFlow would keep one state per step.
    assert isinstance(simulator, NativeSimulator), "the native engine is not built"
    angles, trained = tf.constant(points[:, :inputs]), tf.constant(points[0, inputs:])
    weights = np.linspace(0.5, 1, points.shape[0] * len(observables))
    weights = weights.reshape(-1, len(observables))  # [B, K], positive: nothing cancels
    with tf.GradientTape() as tape:
        tape.watch([angles, trained])
        values = simulator.expectation(angles, trained)
        loss = tf.reduce_sum(values * weights.astype(np.float32))
    by_angle, by_parameter = tape.gradient(loss, [angles, trained])

    found = [known(point) for point in points.astype(np.float64)]
    expected = np.stack([value for value, _ in found])
    np.testing.assert_allclose(values, expected, rtol=RELATIVE)
    jacobians = np.stack([jacobian for _, jacobian in found])  # [B, K, V]
    gradients = np.einsum("bk,bkv->bv", weights, jacobians)
    terms = np.einsum("bk,bkv->bv", weights, np.abs(jacobians))  # errors are relative to these
    assert (np.abs(by_angle - gradients[:, :inputs]) <= RELATIVE * terms[:, :inputs]).all()
    trained_error = np.abs(by_parameter - gradients[:, inputs:].sum(axis=0))
    assert (trained_error <= RELATIVE * terms[:, inputs:].sum(axis=0)).all()


def rotated_line(qubits: int) -> tuple[list[cirq.Qid], cirq.Circuit]:
    """Build a line of qubits, each rotated about y by an angle of its own: a0, a1, ..."""
    line: list[cirq.Qid] = list(cirq.LineQubit.range(qubits))
    return line, cirq.Circuit(cirq.ry(sympy.Symbol(f"a{at}")).on(q) for at, q in enumerate(line))


@pytest.mark.parametrize(("qubits", "batch"), SIZES)
def test_product_state_after_cnot_chain(qubits: int, batch: int) -> None:
    # After CNOT(0, 1), CNOT(1, 2), ..., Z of qubit j is Z on 0...j, and X of j is X on j, j + 1.
    line, circuit = rotated_line(qubits)
    circuit += [cirq.CNOT(*pair) for pair in pairwise(line)]
    observables = [
        cirq.PauliSum.from_pauli_strings([cirq.Z(qubit) for qubit in line]),
        cirq.PauliSum() + cirq.Z(line[-1]),
        cirq.PauliSum.from_pauli_strings([cirq.X(qubit) for qubit in line]),
    ]

    def known(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cos, sin = np.cos(point), np.sin(point)
        parities = np.cumprod(cos)
        by_each = np.cumsum(parities[::-1])[::-1] / cos * -sin
        by_last = parities[-1] / cos * -sin
        ahead, behind = np.append(sin[1:], 1.0), np.append(0.0, sin[:-1])
        values = np.array([parities.sum(), parities[-1], (sin * ahead).sum()])
        return values, np.stack([by_each, by_last, cos * (ahead + behind)])

    points = np.random.default_rng(qubits).uniform(0.1, 0.4, (batch, qubits))
    check(circuit, observables, points, known, inputs=qubits // 2)


@pytest.mark.parametrize(("qubits", "batch"), SIZES)
def test_graph_state_of_nearly_equal_amplitudes(qubits: int, batch: int) -> None:
    # After CZ on neighbours, X of a qubit between Z of its neighbours is X; Z is Z.
    line, circuit = rotated_line(qubits)
    circuit += [cirq.CZ(*pair) for pair in pairwise(line)]
    near = {q: [n for n in (q - 1, q + 1) if n in line] for q in line}
    observables = [
        cirq.PauliSum.from_pauli_strings([cirq.Z(qubit) for qubit in line]),
        cirq.PauliSum.from_pauli_strings(
            [cirq.PauliString(cirq.X(q), *(cirq.Z(n) for n in near[q])) for q in line]
        ),
    ]

    def known(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cos, sin = np.cos(point), np.sin(point)
        return np.array([cos.sum(), sin.sum()]), np.stack([-sin, cos])

    points = np.pi / 2 - np.random.default_rng(qubits).uniform(0.1, 0.2, (batch, qubits))
    check(circuit, observables, points, known, inputs=qubits // 2)


@pytest.mark.parametrize(("qubits", "batch"), SIZES)
def test_rotated_ghz_state(qubits: int, batch: int) -> None:
    # cos(a0 / 2) |0...0> + sin(a0 / 2) exp(i (a1 + a2 + ...)) |1...1>
    line = cirq.LineQubit.range(qubits)
    phases = sympy.symbols(f"a1:{qubits + 1}")
    circuit = cirq.Circuit(
        cirq.ry(sympy.Symbol("a0")).on(line[0]),
        [cirq.CNOT(*pair) for pair in pairwise(line)],
        [cirq.rz(phase).on(qubit) for phase, qubit in zip(phases, line, strict=True)],
    )
    observables = [
        cirq.PauliSum.from_pauli_strings([cirq.Z(qubit) for qubit in line]),
        cirq.PauliSum() + cirq.PauliString(dict.fromkeys(line, cirq.Z)),
        cirq.PauliSum() + cirq.PauliString(dict.fromkeys(line, cirq.X)),
    ]

    def known(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        angle, phase = point[0], point[1:].sum()
        values = [qubits * np.cos(angle), 1.0, np.sin(angle) * np.cos(phase)]
        jacobian = np.zeros((3, qubits + 1))
        jacobian[0, 0] = -qubits * np.sin(angle)
        jacobian[2, 0] = np.cos(angle) * np.cos(phase)
        jacobian[2, 1:] = -np.sin(angle) * np.sin(phase)
        return np.array(values), jacobian

    points = np.random.default_rng(qubits).uniform(0.01, 0.04, (batch, qubits + 1))
    points[:, 0] += 0.9
    check(circuit, observables, points, known, inputs=qubits // 2)
