"""Plans of the native engine, and their results compared with each other."""

import cirq
import numpy as np
import pytest
import sympy

from qfleet.circuits.qcnn import qcnn
from qfleet.compiler.state import cache_blocking, kernel_fusion
from qfleet.compiler.state.program import compile_program
from qfleet.engine import memory
from qfleet.errors import MemoryLimitError
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.native import NativeSimulator
from qfleet.tensorflow.runtime import tf

A, B, C = cirq.LineQubit.range(3)
S, T, X = sympy.symbols("s t x")


def fused_blocks(circuit: cirq.Circuit, inputs: tuple[str, ...] = ()) -> list[tuple[tuple, int]]:
    """Return qubits and nonzero entries of the blocks, with Z read on all qubits."""
    names = sorted(set(cirq.parameter_names(circuit)) - set(inputs))
    read = [cirq.PauliSum.wrap(cirq.Z(qubit)) for qubit in sorted(circuit.all_qubits())]
    program = compile_program(circuit, inputs, names, read)
    return [
        (block.qubits, int(kernel_fusion.block_entries(block).sum())) for block in program.blocks
    ]


def build_native(
    qubits: int, *, dtype: str = "complex64", encoder: str = "cluster"
) -> NativeSimulator:
    model = qcnn(qubits, encoder=encoder, features=qubits)
    simulator = build_simulator(
        model.circuit, model.inputs, model.parameters, model.observables, dtype=dtype
    )
    assert isinstance(simulator, NativeSimulator), "the native engine is not built"
    return simulator


def test_cnot_between_dense_pairs_stays_a_permutation() -> None:
    pair = [(cirq.XX**S), (cirq.YY**T)]
    circuit = cirq.Circuit(
        [gate.on(A, B) for gate in pair],
        [(cirq.X**S).on(B), cirq.CNOT(B, C), (cirq.Y**S).on(C)],
        [gate.on(C, A) for gate in pair],
    )
    # X on B goes to the pair before, Y on C to the one after.
    assert fused_blocks(circuit) == [((0, 1), 8 * 2), ((1, 2), 2), ((2, 0), 16)]


def test_gates_on_one_pair_are_one_block() -> None:
    circuit = cirq.Circuit(
        (cirq.XX**S).on(A, B), cirq.rx(T).on(A), cirq.CNOT(B, A), cirq.ry(S).on(B), cirq.CZ(A, B)
    )
    assert fused_blocks(circuit) == [((0, 1), 16)]


def test_single_qubit_gates_share_blocks_in_pairs() -> None:
    circuit = cirq.Circuit(cirq.rx(S).on_each(A, B, C))
    assert [len(qubits) for qubits, _ in fused_blocks(circuit)] == [2, 1]


def test_controlled_gate_changes_half_of_the_state() -> None:
    circuit = cirq.Circuit(cirq.rx(S).on(A).controlled_by(B))
    assert fused_blocks(circuit) == [((1, 0), 4)]


def test_data_gates_join_trained_ones() -> None:
    circuit = cirq.Circuit(cirq.rx(X).on(A), cirq.ry(S).on(A), (cirq.XX**T).on(A, B))
    assert fused_blocks(circuit, ("x",)) == [((0, 1), 16)]


def test_cache_blocks_apply_each_block_once_in_valid_order() -> None:
    simulator = build_native(20)
    plan = simulator.plan
    size = cache_blocking.CACHE_BLOCK_QUBITS["complex64"]
    assert plan.cache_blocks
    assert sum(cache_block.block_count for cache_block in plan.cache_blocks) == len(plan.blocks)
    steps = simulator.program.blocks
    at = 0
    done: list[int] = []
    for cache_block in plan.cache_blocks:
        assert len(cache_block.qubits) <= size
        assert set(plan.order[: cache_blocking.LANE_QUBITS]) <= cache_block.qubits
        for block in plan.blocks[at : at + cache_block.block_count]:
            assert set(block.qubits) <= cache_block.qubits
            done.append(next(i for i, step in enumerate(steps) if step is block))
        at += cache_block.block_count
    assert sorted(done) == list(range(len(steps)))
    for qubit in range(20):
        on_it = [i for i in done if qubit in steps[i].qubits]
        assert on_it == sorted(on_it), "blocks on one qubit changed places"


def test_state_of_one_chunk_has_no_cache_blocks() -> None:
    assert not build_native(16).plan.cache_blocks
    assert build_native(16, dtype="complex128").plan.cache_blocks


@pytest.mark.parametrize(
    ("qubits", "batch"),
    [(4, 1), (9, 40), (12, 3), pytest.param(17, 2, marks=pytest.mark.exhaustive)],
)
def test_native_results_equal_plain_tensorflow(qubits: int, batch: int) -> None:
    model = qcnn(qubits, encoder="reupload" if qubits < 10 else "cluster", features=qubits)
    rng = np.random.default_rng(qubits)
    angles = tf.constant(rng.uniform(-2, 2, (batch, qubits)))
    parameters = tf.constant(rng.uniform(-2, 2, len(model.parameters)))
    found = []
    for backend in ("qfleet", "tensorflow"):
        simulator = build_simulator(
            model.circuit,
            model.inputs,
            model.parameters,
            model.observables,
            backend=backend,
            dtype="complex128",
        )
        with tf.GradientTape() as tape:
            tape.watch([angles, parameters])
            values = simulator.expectation(angles, parameters)
            loss = tf.reduce_sum(values**2)
        found.append([values, *tape.gradient(loss, [angles, parameters])])
    for native, plain in zip(*found, strict=True):
        np.testing.assert_allclose(native, plain, atol=1e-10)


def sparse_angles(qubits: int, batch: int, most: int) -> np.ndarray:
    """Draw [B, N] angles of which each example has at most `most` nonzero ones."""
    rng = np.random.default_rng(3)
    angles = np.zeros((batch, qubits))
    for row in angles:
        row[rng.integers(0, qubits, rng.integers(0, most + 1))] = rng.uniform(-3, 3)
    return angles


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(("qubits", "most"), [(9, 1), (11, 2), (16, 1)])
def test_subspace_plan_equals_direct_plan(qubits: int, most: int, dtype: str) -> None:
    simulator = build_native(qubits, dtype=dtype)
    angles = tf.constant(sparse_angles(qubits, 120, most), simulator.dtype)
    rng = np.random.default_rng(1)
    parameters = tf.constant(rng.uniform(-2, 2, len(simulator.parameters)), simulator.dtype)
    upstream = tf.constant(rng.normal(size=(120, 1)), simulator.dtype)
    states = simulator.subspace_size(angles)
    assert 1 < states < 120
    found = []
    for direct in (False, True):
        with tf.GradientTape() as tape:
            # Only the direct plan has gradients by angles.
            tape.watch([parameters, angles] if direct else parameters)
            values = simulator.expectation(angles, parameters)
            loss = tf.reduce_sum(values * upstream)
        found.append((values, tape.gradient(loss, parameters)))
    scale = 1e-5 if dtype == "complex64" else 1e-10
    np.testing.assert_allclose(found[0][0], found[1][0], atol=scale)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=scale * 120)
    np.testing.assert_allclose(simulator.expectation(angles, parameters), found[1][0], atol=scale)


def test_subspace_plan_needs_batches_that_span_few_states() -> None:
    simulator = build_native(8)
    assert simulator.subspace_size(np.random.default_rng(0).uniform(1, 2, (50, 8))) == 0
    assert simulator.subspace_size(np.eye(8)[:5]) == 0  # 6 states for 5 examples
    few = sparse_angles(8, 500, 1)
    assert simulator.subspace_size(few) == 9
    assert "sums of 9 states" in simulator.describe(angles=few)
    assert "direct plan" in simulator.describe(angles=np.eye(8)[:5])


def test_angle_in_several_gates_takes_the_direct_plan() -> None:
    simulator = build_native(4, encoder="reupload")
    assert simulator.subspace_size(sparse_angles(4, 500, 1)) == 0


def test_describe_names_blocks_bytes_and_operations() -> None:
    text = build_native(18).describe(32)
    for word in (
        "lanes",
        "cache block of",
        "operations per example: ",
        "bytes per state",
        "dense",
        "permutation",
    ):
        assert word in text
    assert f"{2 * 8 * 2**18:,} bytes" in text
    # A dense block is 16 multiply-adds of 2 operations an amplitude.
    model = cirq.Circuit((cirq.XX**S).on(A, B), (cirq.X**T).on(A))
    simulator = build_simulator(model, (), ("s", "t"), [cirq.PauliSum.wrap(cirq.Z(A))])
    assert f"operations per example: {16 * 2 * 4:,} forward" in simulator.describe(1)


def test_circuit_larger_than_memory_raises() -> None:
    with pytest.raises(MemoryLimitError, match=r"takes 8,796,093,022,208 bytes .* at most"):
        build_native(40)
    simulator = build_native(4)
    simulator.require_memory(2)
    fits = memory.available_bytes() // (2 * memory.state_bytes(4, 8, 1))
    with pytest.raises(MemoryLimitError, match=r"processes.*fewer processes"):
        simulator.require_memory(2, processes=2 * fits)
