"""Synthesis of unitaries from gates on one and two qubits, global phases included."""

import cirq
import numpy as np
import pytest

from qfleet.compiler.circuit.synthesis import decompose, synthesize


def embed(matrix: np.ndarray, on: list[int], width: int) -> np.ndarray:
    """Extend a unitary on some qubits to `width` qubits."""
    qubits = cirq.LineQubit.range(width)
    gate = cirq.MatrixGate(matrix).on(*[qubits[at] for at in on])
    return cirq.Circuit(gate).unitary(qubits, qubits)


def unitaries() -> dict[str, np.ndarray]:
    random = cirq.testing.random_unitary
    found = {f"random on {n}": random(2**n, random_state=n) for n in (1, 2, 3, 4)}
    for n in (1, 2, 3, 4):
        found[f"identity on {n}"] = np.eye(2**n) * np.exp(0.3j)
    for width in (2, 3, 4):
        for idle in range(width):
            on = [at for at in range(width) if at != idle]
            found[f"on {width}, qubit {idle} idle"] = embed(
                random(2 ** (width - 1), random_state=idle), on, width
            )
            found[f"on {width}, only qubit {idle}"] = embed(
                random(2, random_state=idle), [idle], width
            )
    for width in (3, 4):
        blocks = [random(2, random_state=at) for at in range(2)]
        half = np.kron(np.eye(2 ** (width - 2)), blocks[0])
        zero = np.zeros_like(half)
        found[f"controlled on {width}, the rest idle"] = np.block(
            [[half, zero], [zero, np.kron(np.eye(2 ** (width - 2)), blocks[1])]]
        )
        found[f"permutation on {width}"] = np.eye(2**width)[
            np.random.default_rng(width).permutation(2**width)
        ]
        found[f"diagonal on {width}"] = np.diag(np.exp(1j * np.arange(2**width)))
    return found


@pytest.mark.parametrize("matrix", unitaries().values(), ids=unitaries())
def test_synthesize_product_equals_the_unitary(matrix: np.ndarray) -> None:
    qubits = cirq.LineQubit.range(len(matrix).bit_length() - 1)
    for order in (qubits, qubits[::-1]):
        parts = synthesize(order, matrix)
        assert all(len(part.qubits) <= 2 for part in parts)
        found = cirq.Circuit(parts).unitary(order, order)
        # For one and two qubits Cirq ignores values below 1e-8.
        atol = 1e-13 if len(order) > 2 else 1e-9
        np.testing.assert_allclose(found, matrix, rtol=0, atol=atol)


def test_synthesize_controlled_unitary_takes_fewer_gates() -> None:
    qubits = cirq.LineQubit.range(3)

    def pairs(gate: cirq.Gate) -> int:
        return sum(len(part.qubits) == 2 for part in synthesize(qubits, cirq.unitary(gate)))

    assert pairs(cirq.CSWAP) == pairs(cirq.ry(0.3).controlled(2)) == 6
    assert pairs(cirq.MatrixGate(cirq.testing.random_unitary(8, random_state=0))) == 16


def test_decompose_is_independent_of_qubit_positions() -> None:
    gate = cirq.ThreeQubitDiagonalGate([0.5, 0.1, 0.9, 0.7, -0.4, 2.0, 0.2, 0.3])
    for places in ((0, 1, 2), (3, 1, 4), (2, 0, 1), (7, 5, 3)):
        qubits = [cirq.LineQubit(at) for at in places]
        found = cirq.Circuit(decompose(gate.on(*qubits))).unitary(qubits, qubits)
        np.testing.assert_allclose(found, cirq.unitary(gate), atol=1e-12)
