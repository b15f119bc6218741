"""Sharding plans: global qubits, seeds and swaps."""

import random

import cirq
import pytest
import sympy

from qfleet import native
from qfleet.circuits.qcnn import qcnn
from qfleet.compiler.circuit.fused_blocks import FusedBlock
from qfleet.compiler.state.program import compile_program
from qfleet.distributed import state_group
from qfleet.distributed.plan import ShardingPlan, plan_sharding
from qfleet.errors import ShardingError
from qfleet.tensorflow.backends import build_simulator


def make_plan(circuit: cirq.Circuit, bits: int) -> tuple[list[FusedBlock], ShardingPlan]:
    names = sorted(cirq.parameter_names(circuit))
    read = [cirq.PauliSum.wrap(cirq.Z(qubit)) for qubit in sorted(circuit.all_qubits())]
    program = compile_program(circuit, (), names, read, target="sharded")
    blocks = program.blocks
    return blocks, plan_sharding(blocks, len(program.qubits), bits)


def brickwork(qubits: int, layers: int) -> cirq.Circuit:
    """Build a circuit in which every qubit is used until the end."""
    line = cirq.LineQubit.range(qubits)
    circuit = cirq.Circuit()
    for layer in range(layers):
        for at in range(layer % 2, qubits - 1, 2):
            circuit.append((cirq.XX ** sympy.Symbol(f"s{layer}")).on(*line[at : at + 2]))
            circuit.append(cirq.rz(sympy.Symbol(f"t{layer}")).on(line[at]))
    return circuit


@pytest.mark.parametrize("bits", [1, 2, 3])
@pytest.mark.parametrize("qubits", [22, 30])
def test_qcnn_plan_has_no_swaps(qubits: int, bits: int) -> None:
    model = qcnn(qubits, encoder="angle", features=qubits)
    program = compile_program(
        model.circuit, model.inputs, model.parameters, model.observables, target="sharded"
    )
    plan = plan_sharding(program.blocks, qubits, bits)
    assert plan.swaps == ()
    assert len(plan.seed) <= 12  # the work that every process repeats is small


@pytest.mark.parametrize("bits", [1, 2, 3])
@pytest.mark.parametrize("qubits", [7, 12, 20])
def test_plan_applies_each_block_once_on_local_qubits(qubits: int, bits: int) -> None:
    blocks, plan = make_plan(brickwork(qubits, 4), bits)
    assert set(plan.seed[:bits]) == set(plan.stages[0].globals)
    assert all(set(block.qubits) <= set(plan.seed) for block in plan.seed_blocks)
    order = list(plan.seed_blocks)
    for stage in plan.stages:
        assert set(stage.slots).isdisjoint(stage.globals)
        assert sorted((*stage.slots, *stage.globals)) == list(range(qubits))
        assert all(set(block.qubits).isdisjoint(stage.globals) for block in stage.blocks)
        order += stage.blocks
    assert len(order) == len(blocks)
    for qubit in range(qubits):
        expected = [id(block) for block in blocks if qubit in block.qubits]
        assert [id(block) for block in order if qubit in block.qubits] == expected


def test_swap_exchanges_slots() -> None:
    _, plan = make_plan(brickwork(12, 6), 2)
    assert plan.swaps
    for before, after, slots in zip(plan.stages, plan.stages[1:], plan.swaps, strict=False):
        assert tuple(before.slots[slot] for slot in slots) == after.globals
        assert tuple(after.slots[slot] for slot in slots) == before.globals


def test_swaps_do_not_move_the_lane_qubits() -> None:
    _, plan = make_plan(brickwork(20, 8), 2)
    swapped = {slot for swap in plan.swaps for slot in swap}
    assert len(plan.stages[0].slots) - len(swapped) >= 4


def test_plan_of_random_blocks_contains_all() -> None:
    draw = random.Random(3)
    for _ in range(30):
        bits = draw.randint(1, 3)
        width = draw.randint(2 * bits + 1, 12)
        blocks = [FusedBlock(tuple(draw.sample(range(width), 2)), ()) for _ in range(40)]
        plan = plan_sharding(blocks, width, bits)
        done = len(plan.seed_blocks) + sum(len(stage.blocks) for stage in plan.stages)
        assert done == 40


def test_plan_with_too_few_qubits_raises() -> None:
    with pytest.raises(ShardingError, match="at least 5 qubits"):
        make_plan(brickwork(4, 2), 2)


@pytest.mark.parametrize("size", [0, 3, 6])
def test_group_size_not_power_of_two_raises(size: int) -> None:
    with pytest.raises(ShardingError, match=f"over {size} processes.*power of two"):
        state_group.StateGroup(size=size, rank=0, key=1)


@pytest.mark.parametrize("backend", ["tensorflow", pytest.param("tfq", marks=pytest.mark.tfq)])
def test_sharded_build_with_other_backend_raises(backend: str) -> None:
    qubit = cirq.LineQubit(0)
    with (
        state_group.use_group(state_group.StateGroup(size=2, rank=0, key=1)),
        pytest.raises(ShardingError, match=f"{backend}.*use 'qfleet'"),
    ):
        build_simulator(
            cirq.Circuit(cirq.X(qubit)),
            (),
            (),
            [cirq.PauliSum.wrap(cirq.Z(qubit))],
            backend=backend,
        )  # type: ignore[arg-type]


def test_sharded_build_without_native_engine_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "unavailable_reason", lambda: "the native engine is not built")
    circuit = brickwork(8, 2)
    read = [cirq.PauliSum.wrap(cirq.Z(cirq.LineQubit(0)))]
    with (
        state_group.use_group(state_group.StateGroup(size=2, rank=0, key=1)),
        pytest.raises(ShardingError, match="the native engine is not built"),
    ):
        build_simulator(circuit, (), sorted(cirq.parameter_names(circuit)), read)


def test_sharded_build_without_observables_raises() -> None:
    circuit = brickwork(8, 2)
    names = sorted(cirq.parameter_names(circuit))
    with (
        state_group.use_group(state_group.StateGroup(size=2, rank=0, key=1)),
        pytest.raises(ShardingError, match="read expectation values"),
    ):
        build_simulator(circuit, (), names, ())


def test_group_of_one_does_not_shard() -> None:
    circuit = brickwork(4, 2)
    names = sorted(cirq.parameter_names(circuit))
    read = [cirq.PauliSum.wrap(cirq.Z(cirq.LineQubit(0)))]
    with state_group.use_group(state_group.StateGroup(size=1, rank=0, key=1)):
        inside = build_simulator(circuit, (), names, read)
    assert type(inside) is type(build_simulator(circuit, (), names, read))
