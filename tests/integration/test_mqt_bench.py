"""Independent circuits: the families of MQT Bench, compared with cirq.Simulator.

tests/support/mqt_circuits.py creates them at test time in .venv-peers, which `make test` sets up.
Amplitudes are compared including the global phase.
"""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import cirq
import numpy as np
import pytest
import sympy
from cirq.circuits.qasm_output import QasmUGate

from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.runtime import tf
from tests.support.reference import Reference

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
PEERS = ROOT / ".venv-peers" / "bin" / "python"
FAMILIES = 28
TOLERANCE = {"complex64": 1e-5, "complex128": 1e-10}
# Of different kinds, with at least 14 rotations each.
TRAINED = ("bmw_quark_copula", "qaoa", "qnn", "vqe_real_amp", "vqe_su2", "wstate")

Circuits = Mapping[str, cirq.Circuit]


@pytest.fixture(scope="module")
def circuits(tmp_path_factory: pytest.TempPathFactory) -> Circuits:
    """One circuit per family."""
    assert PEERS.exists(), "create .venv-peers first: ./setup.sh '' .venv-peers peers"
    folder = tmp_path_factory.mktemp("mqt")
    done = subprocess.run(
        [PEERS, ROOT / "tests" / "support" / "mqt_circuits.py", folder],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {file.stem: cirq.read_json(file) for file in sorted(folder.glob("*.json"))}


def test_mqt_bench_has_enough_families(circuits: Circuits) -> None:
    assert len(circuits) >= FAMILIES
    for family, circuit in circuits.items():
        assert 2 <= len(circuit.all_qubits()) <= 14, family
    assert sum(len(circuit.all_qubits()) >= 12 for circuit in circuits.values()) >= 24
    assert set(TRAINED) <= set(circuits)


def test_final_states_match_cirq(circuits: Circuits) -> None:
    for family, circuit in circuits.items():
        expected = Reference(circuit, ()).state(np.zeros(0))
        for dtype, tolerance in TOLERANCE.items():
            simulator = build_simulator(circuit, (), (), (), dtype=dtype)
            nothing = tf.zeros([0], simulator.dtype)
            (state,) = simulator.state(nothing[None], nothing).numpy()
            np.testing.assert_allclose(state, expected, rtol=0, atol=tolerance, err_msg=family)


def test_final_states_after_data_match_cirq(circuits: Circuits) -> None:
    # Without symbols, a circuit is simulated at compile time; after data rotations it is not.
    for family, circuit in circuits.items():
        qubits = sorted(circuit.all_qubits())
        names = [f"x{index}" for index in range(len(qubits))]
        rotations = [cirq.ry(sympy.Symbol(x)).on(q) for x, q in zip(names, qubits, strict=True)]
        whole = cirq.Circuit(rotations) + circuit
        reference = Reference(whole, names)
        angles = np.random.default_rng(0).uniform(-2, 2, (3, len(names))).astype(np.float32)
        expected = [reference.state(example) for example in angles[[0, 2]]]
        for dtype, tolerance in TOLERANCE.items():
            simulator = build_simulator(whole, names, (), (), dtype=dtype)
            nothing = tf.zeros([0], simulator.dtype)
            states = simulator.state(tf.cast(angles, simulator.dtype), nothing).numpy()
            np.testing.assert_allclose(
                states[[0, 2]], expected, rtol=0, atol=tolerance, err_msg=family
            )


def parametrize(circuit: cirq.Circuit) -> tuple[cirq.Circuit, list[float]]:
    """Replace the angle of each rotation by a symbol a0, a1, ...; return the values in radians."""
    values: list[float] = []

    def symbol(gate: type, angle: float, operation: cirq.Operation) -> cirq.Operation:
        values.append(float(angle))
        return gate(rads=sympy.Symbol(f"a{len(values) - 1}")).on(*operation.qubits)

    def replaced(operation: cirq.Operation) -> Iterator[cirq.Operation]:
        gate = operation.gate
        if isinstance(gate, QasmUGate):
            # U(theta, phi, lambda) is rz(phi) ry(theta) rz(lambda), up to a global phase.
            yield symbol(cirq.Rz, gate.lmda * np.pi, operation)
            yield symbol(cirq.Ry, gate.theta * np.pi, operation)
            yield symbol(cirq.Rz, gate.phi * np.pi, operation)
        elif isinstance(gate, cirq.Rx | cirq.Ry | cirq.Rz):
            yield symbol(type(gate), gate._rads, operation)
        else:
            yield operation

    return cirq.Circuit(new for op in circuit.all_operations() for new in replaced(op)), values


@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCE.items())
@pytest.mark.parametrize("family", TRAINED)
def test_symbolic_rotations_match_values_and_gradients(
    circuits: Circuits, family: str, dtype: str, tolerance: float
) -> None:
    plain = circuits[family]
    circuit, values = parametrize(plain)
    names = [f"a{index}" for index in range(len(values))]
    inputs, parameters = names[::2], names[1::2]
    first, *rest = sorted(plain.all_qubits())
    observables = (
        cirq.PauliSum.from_pauli_strings([cirq.Z(q) * (0.2 + 0.1 * i) for i, q in enumerate(rest)]),
        cirq.X(first) * cirq.Y(rest[0]) - cirq.Z(first) * cirq.Z(rest[-1]),
    )
    simulator = build_simulator(circuit, inputs, parameters, observables, dtype=dtype)
    point = np.array(values).astype(simulator.dtype.as_numpy_dtype)
    angles, trained = tf.constant(point[None, ::2]), tf.constant(point[1::2])
    with tf.GradientTape() as tape:
        tape.watch([angles, trained])
        result = simulator.expectation(angles, trained)
        loss = tf.reduce_sum(result)
    by_angle, by_parameter = tape.gradient(loss, [angles, trained])
    gradient = np.zeros(len(names))
    gradient[::2], gradient[1::2] = by_angle[0], by_parameter

    reference = Reference(circuit, names, observables)
    tolerance *= reference.scale
    expected = Reference(plain, (), observables).values(np.zeros(0))
    np.testing.assert_allclose(result[0], expected, rtol=0, atol=tolerance)
    direction = np.random.default_rng(1).normal(size=len(names))
    direction /= np.linalg.norm(direction)
    wanted = reference.derivative(point.astype(np.float64), direction).sum()
    np.testing.assert_allclose(gradient @ direction, wanted, rtol=0, atol=2 * tolerance)
