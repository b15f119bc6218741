"""Which qubits stand for the ranks of a split state, and when they change."""

import random

import cirq
import pytest
import sympy

from qfleet.errors import CircuitError, ShardingError
from qfleet import native
from qfleet.circuits.qcnn import qcnn
from qfleet.compiler.dense_fusion import FusedBlock
from qfleet.compiler.program import compile_program
from qfleet.distributed import state_group
from qfleet.distributed.plan import ShardingPlan, plan_sharding
from qfleet.tensorflow.backends import build_simulator


def planned(circuit: cirq.Circuit, bits: int) -> tuple[list[FusedBlock], ShardingPlan]:
    names = sorted(cirq.parameter_names(circuit))
    read = [cirq.PauliSum.wrap(cirq.Z(qubit)) for qubit in sorted(circuit.all_qubits())]
    program = compile_program(circuit, (), names, read, target="sharded")
    blocks = [step for step in program.steps if isinstance(step, FusedBlock)]
    return blocks, plan_sharding(blocks, len(program.qubits), bits)


def brick(qubits: int, layers: int) -> cirq.Circuit:
    """Every qubit is used until the end."""
    line = cirq.LineQubit.range(qubits)
    circuit = cirq.Circuit()
    for layer in range(layers):
        for at in range(layer % 2, qubits - 1, 2):
            circuit.append((cirq.XX ** sympy.Symbol(f"s{layer}")).on(*line[at : at + 2]))
            circuit.append(cirq.rz(sympy.Symbol(f"t{layer}")).on(line[at]))
    return circuit


@pytest.mark.parametrize("bits", [1, 2, 3])
@pytest.mark.parametrize("qubits", [22, 30])
def test_a_qcnn_needs_no_exchange(qubits: int, bits: int) -> None:
    model = qcnn(qubits, encoder="angle", features=qubits)
    program = compile_program(
        model.circuit, model.inputs, model.parameters, model.observables, target="sharded"
    )
    found = plan_sharding(
        [one for one in program.steps if isinstance(one, FusedBlock)], qubits, bits
    )
    assert found.exchanges == ()
    assert len(found.seed) <= 12  # what is done twice is small


@pytest.mark.parametrize("bits", [1, 2, 3])
@pytest.mark.parametrize("qubits", [7, 12, 20])
def test_every_block_comes_once_after_what_it_depends_on_and_on_local_qubits(
    qubits: int, bits: int
) -> None:
    blocks, found = planned(brick(qubits, 4), bits)
    assert set(found.seed[:bits]) == set(found.stages[0].globals)
    assert all(set(block.qubits) <= set(found.seed) for block in found.seed_blocks)
    order = list(found.seed_blocks)
    for stage in found.stages:
        assert set(stage.slots).isdisjoint(stage.globals)
        assert sorted((*stage.slots, *stage.globals)) == list(range(qubits))
        assert all(set(block.qubits).isdisjoint(stage.globals) for block in stage.blocks)
        order += stage.blocks
    assert len(order) == len(blocks)
    for qubit in range(qubits):
        mine = [id(block) for block in blocks if qubit in block.qubits]
        assert [id(block) for block in order if qubit in block.qubits] == mine


def test_an_exchange_puts_a_qubit_into_the_slot_of_the_one_it_is_swapped_with() -> None:
    _, found = planned(brick(12, 6), 2)
    assert found.exchanges
    for before, after, slots in zip(found.stages, found.stages[1:], found.exchanges, strict=False):
        assert tuple(before.slots[slot] for slot in slots) == after.globals
        assert tuple(after.slots[slot] for slot in slots) == before.globals


def test_exchanges_leave_the_qubits_of_the_lanes_alone() -> None:
    _, found = planned(brick(20, 8), 2)
    assert len(found.still) >= 4


def test_random_pairs_are_planned_whatever_they_are() -> None:
    draw = random.Random(3)
    for _ in range(30):
        bits = draw.randint(1, 3)
        width = draw.randint(2 * bits + 1, 12)
        blocks = [FusedBlock(tuple(draw.sample(range(width), 2)), ()) for _ in range(40)]
        found = plan_sharding(blocks, width, bits)
        done = len(found.seed_blocks) + sum(len(stage.blocks) for stage in found.stages)
        assert done == 40


def test_too_few_qubits_are_refused_in_a_sentence() -> None:
    with pytest.raises(CircuitError, match=r"a state of 4 qubits can't be split over 4 workers"):
        planned(brick(4, 2), 2)


@pytest.mark.parametrize("size", [0, 3, 6])
def test_a_group_that_is_no_power_of_two_is_refused(size: int) -> None:
    with pytest.raises(SettingsError, match=f"STATE_SHARDS={size}: .* power of two"):
        state_group.StateGroup(size=size, rank=0, key=1)


@pytest.mark.parametrize("backend", ["tensorflow", "tfq"])
def test_other_simulators_are_refused(backend: str) -> None:
    qubit = cirq.LineQubit(0)
    with (
        state_group.use_group(state_group.StateGroup(size=2, rank=0, key=1)),
        pytest.raises(CircuitError, match="STATE_SHARDS=2 needs the simulator qfleet"),
    ):
        build_simulator(
            cirq.Circuit(cirq.X(qubit)),
            (),
            (),
            [cirq.PauliSum.wrap(cirq.Z(qubit))],
            backend=backend,
        )  # type: ignore[arg-type]


def test_a_kernel_that_is_not_built_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        native, "unavailable_reason", lambda: "the native kernel is not built (make it)"
    )
    circuit = brick(8, 2)
    read = [cirq.PauliSum.wrap(cirq.Z(cirq.LineQubit(0)))]
    with (
        state_group.use_group(state_group.StateGroup(size=2, rank=0, key=1)),
        pytest.raises(
            CircuitError, match="STATE_SHARDS=2 can't be had here: the native kernel is not built"
        ),
    ):
        build_simulator(circuit, (), sorted(cirq.parameter_names(circuit)), read)


def test_a_state_is_refused_and_so_are_shots() -> None:
    circuit = brick(8, 2)
    names = sorted(cirq.parameter_names(circuit))
    with (
        state_group.use_group(state_group.StateGroup(size=2, rank=0, key=1)),
        pytest.raises(CircuitError, match="state is wanted, or that is read by shots"),
    ):
        build_simulator(circuit, (), names, ())


def test_a_group_of_one_splits_nothing() -> None:
    circuit = brick(4, 2)
    names = sorted(cirq.parameter_names(circuit))
    read = [cirq.PauliSum.wrap(cirq.Z(cirq.LineQubit(0)))]
    with state_group.use_group(state_group.StateGroup(size=1, rank=0, key=1)):
        inside = build_simulator(circuit, (), names, read)
    assert type(inside) is type(build_simulator(circuit, (), names, read))
