"""Operations that Cirq calls equal, and that differ: no cache, cancellation or file joins them."""

import functools
import itertools
from collections.abc import Iterator

import cirq
import numpy as np
import pytest
import sympy

import qfleet.cirq
from qfleet.circuits.circuit_json import from_json, to_json
from qfleet.circuits.from_tfq import circuits_to_angles
from qfleet.circuits.pruning import without_angles
from qfleet.compiler.circuit.identity import circuit_identity, identity
from qfleet.devices.fidelity import product_of_fidelities
from qfleet.devices.native_gates import to_native_gates
from qfleet.errors import CircuitError

A, B, C = QUBITS = cirq.LineQubit.range(3)
T = sympy.Symbol("t")
GRID = (-0.5, 0.0, 0.5, 1.0, 3.0)
POWERS = (
    *(cirq.XPowGate, cirq.YPowGate, cirq.ZPowGate, cirq.HPowGate, cirq.CZPowGate, cirq.CXPowGate),
    *(cirq.SwapPowGate, cirq.ISwapPowGate, cirq.XXPowGate, cirq.YYPowGate, cirq.ZZPowGate),
)


@cirq.value_equality
class OfUser(cirq.Gate):
    """A composite gate that is equal to all of its kind."""

    def __init__(self, angle: float) -> None:
        self.angle = angle

    def _value_equality_values_(self) -> str:
        return "equal"

    def _num_qubits_(self) -> int:
        return 1

    def _decompose_(self, qubits: tuple[cirq.Qid, ...]) -> Iterator[cirq.Operation]:
        yield cirq.rx(self.angle)(*qubits)

    def __pow__(self, power: float) -> "OfUser":
        return OfUser(self.angle * power)


class Subclass(cirq.YPowGate):
    """Another gate than powers of Y."""

    def _eigen_components(self) -> list[tuple[float, np.ndarray]]:
        return cirq.X._eigen_components()

    def _apply_unitary_(self, args: object) -> None:
        return NotImplemented


def gates() -> Iterator[cirq.Gate]:
    for kind in POWERS:
        for exponent, shift in itertools.product(GRID, (-0.5, 0.0, 0.25)):
            yield kind(exponent=exponent, global_shift=shift)
    for kind, exponent in itertools.product((cirq.CCXPowGate, cirq.CCZPowGate), GRID):
        yield from (kind(exponent=exponent), kind(exponent=exponent, global_shift=0.25))
    yield from (cirq.CSWAP, cirq.ControlledGate(cirq.SWAP))
    for x, z, axis in itertools.product(GRID[:-1], repeat=3):
        yield cirq.PhasedXZGate(x_exponent=x, z_exponent=z, axis_phase_exponent=axis)
    for one, other in itertools.product(GRID, repeat=2):
        yield cirq.PhasedXPowGate(phase_exponent=one, exponent=other)
        yield cirq.PhasedXPowGate(phase_exponent=one, exponent=other, global_shift=-0.5)
        yield cirq.PhasedISwapPowGate(phase_exponent=one, exponent=other)
        yield cirq.FSimGate(np.pi * one, np.pi * other)
        yield cirq.PhasedFSimGate(np.pi * one, zeta=np.pi * other, phi=0.5)
    for angle in GRID:
        yield from (cirq.rx(np.pi * angle), cirq.ms(np.pi * angle))
        yield cirq.PauliInteractionGate(cirq.X, True, cirq.Z, False, exponent=angle)
        yield cirq.PauliStringPhasorGate(cirq.DensePauliString("XY"), exponent_neg=angle)
        yield cirq.PhaseGradientGate(num_qubits=2, exponent=angle)
        yield cirq.DiagonalGate([0.0, np.pi * angle])
        yield cirq.MatrixGate(cirq.unitary(cirq.rx(np.pi * angle)))
        yield cirq.DensePauliString("X", coefficient=np.exp(1j * angle))
        yield from (OfUser(angle), Subclass(exponent=angle))
    yield from cirq.SingleQubitCliffordGate.all_single_qubit_cliffords


def operations() -> Iterator[cirq.Operation]:
    for gate in gates():
        if gate.num_qubits() > 1:
            yield gate.on(*QUBITS[: gate.num_qubits()])
            yield cirq.CircuitOperation(cirq.FrozenCircuit(gate.on(*QUBITS[: gate.num_qubits()])))
            continue
        yield gate.controlled().on(A, B)
        yield cirq.ParallelGate(gate, 1).controlled().on(A, B)
        yield cirq.ControlledOperation([A], gate.on(B))
        part = cirq.CircuitOperation(cirq.FrozenCircuit(gate.on(B)))
        yield part.controlled_by(A)
        yield cirq.CircuitOperation(
            cirq.FrozenCircuit(cirq.ParallelGate(gate, 1).controlled()(A, B))
        )


def matrix(*parts: cirq.Operation) -> np.ndarray:
    return cirq.Circuit(parts).unitary(QUBITS, qubits_that_should_be_present=QUBITS)


@functools.cache
def unitaries() -> list[tuple[cirq.Operation, np.ndarray]]:
    return [(one, matrix(one)) for one in operations()]


@functools.cache
def equal_pairs() -> list[tuple[cirq.Operation, cirq.Operation]]:
    """Return pairs that Cirq calls equal, and that differ."""
    seen: dict[cirq.Operation, tuple[cirq.Operation, np.ndarray]] = {}
    pairs = []
    for one, unitary in unitaries():
        first, expected = seen.setdefault(one, (one, unitary))
        if not np.allclose(unitary, expected, atol=1e-6):
            pairs.append((first, one))
    return pairs


def examples() -> list[tuple[cirq.Operation, cirq.Operation]]:
    """Return a pair for each kind of operation and gate."""
    kinds = {}
    for first, second in equal_pairs():
        gate = getattr(second.gate, "sub_gate", second.gate)
        kinds[type(second), type(gate), type(getattr(gate, "sub_gate", None))] = first, second
    return list(kinds.values())


def test_search_finds_equal_pairs_of_cirq_and_of_users():
    found = {type(getattr(one.gate, "sub_gate", one.gate)) for one, _ in equal_pairs()}
    assert {cirq.PhasedXZGate, cirq.ParallelGate, OfUser} <= found
    assert any(isinstance(one, cirq.CircuitOperation) for one, _ in equal_pairs())


def test_operations_of_one_identity_have_one_unitary():
    groups: dict = {}
    for one, unitary in unitaries():
        expected = groups.setdefault(identity(one), unitary)
        np.testing.assert_allclose(unitary, expected, atol=1e-6)


def test_operations_built_twice_have_one_identity():
    assert [identity(one) for one in operations()] == [identity(one) for one, _ in unitaries()]


def test_inverse_of_an_inverse_has_one_identity():
    for gate in (cirq.X, cirq.H, cirq.CZ, cirq.SWAP, cirq.ISWAP**0.5, cirq.CNOT):
        there = gate.on(*QUBITS[: gate.num_qubits()])
        assert identity(cirq.inverse(cirq.inverse(there))) == identity(there)


def test_simulator_keeps_equal_operations_apart():
    simulator = qfleet.cirq.Simulator(dtype=np.complex128)
    for pair in examples():
        for one in pair:
            circuit = cirq.Circuit(cirq.H(A), cirq.ry(0.3)(B), one)
            state = simulator.simulate(circuit, qubit_order=QUBITS).final_state_vector
            expected = cirq.Circuit(circuit).unitary(QUBITS)[:, 0]
            np.testing.assert_allclose(state, expected, atol=1e-6)


@pytest.mark.parametrize("repeat", ["same", "built again"])
def test_simulator_compiles_equal_circuits_once(repeat, monkeypatch):
    compiled = []
    made = qfleet.cirq.compiled_circuits.CompiledCircuit.from_factors
    monkeypatch.setattr(
        qfleet.cirq.compiled_circuits.CompiledCircuit,
        "from_factors",
        lambda *args, **named: compiled.append(args) or made(*args, **named),
    )

    def build() -> cirq.Circuit:
        return cirq.Circuit(cirq.rx(T)(A), OfUser(0.3)(B), cirq.FSimGate(0.1, T)(A, B))

    simulator, circuit = qfleet.cirq.Simulator(), build()
    for value in (0.1, 0.2):
        simulator.simulate(circuit if repeat == "same" else build(), {"t": value})
    assert len(compiled) == 1


def test_simulator_sees_a_changed_circuit():
    simulator, circuit = qfleet.cirq.Simulator(), cirq.Circuit(cirq.X(A))
    simulator.simulate(circuit)
    circuit.append(cirq.X(A))
    np.testing.assert_allclose(simulator.simulate(circuit).final_state_vector, [1, 0], atol=1e-6)


def test_pruning_cancels_no_equal_operations():
    for first, second in examples():
        circuit = cirq.Circuit(first, cirq.rx(T)(B), cirq.inverse(second))
        pruned = without_angles(circuit, ["t"])
        expected = matrix(first, cirq.inverse(second))
        np.testing.assert_allclose(pruned.unitary(QUBITS), expected, atol=1e-6)


def test_pruning_takes_no_subclass_for_its_base():
    circuit = cirq.Circuit(cirq.Y(A), Subclass()(A), cirq.rx(T)(A), cirq.Y(A))
    pruned = without_angles(circuit, ["t"])
    np.testing.assert_allclose(pruned.unitary(), -cirq.unitary(cirq.X), atol=1e-6)


def test_conversion_keeps_equal_operations_apart():
    for pair in examples():
        originals = [cirq.Circuit(one) for one in pair]
        try:
            circuit, names, angles = circuits_to_angles(originals)
        except CircuitError:
            continue
        for row, original in zip(angles.tolist(), originals, strict=True):
            found = cirq.resolve_parameters(circuit, dict(zip(names, row, strict=True)))
            np.testing.assert_allclose(found.unitary(QUBITS), original.unitary(QUBITS), atol=1e-6)


def test_conversion_keeps_a_subclass():
    circuits = [cirq.Circuit(Subclass(exponent=angle)(A)) for angle in (0.1, 0.2)]
    with pytest.raises(CircuitError):
        circuits_to_angles(circuits)


def test_json_keeps_equal_parts_apart():
    pair = next(p for p in equal_pairs() if isinstance(p[0], cirq.CircuitOperation))
    read = from_json(to_json(cirq.Circuit(pair)))
    np.testing.assert_allclose(read.unitary(QUBITS), matrix(*pair), atol=1e-6)


def test_native_gates_keep_equal_operations_apart():
    for first, second in examples():
        circuit = cirq.Circuit(first, cirq.rx(0.4)(B), second)
        native = to_native_gates(circuit, "cz", "phased_x").unitary(QUBITS)
        expected = circuit.unitary(QUBITS)
        cirq.testing.assert_allclose_up_to_global_phase(native, expected, atol=1e-6)


def test_fidelity_keeps_equal_channels_apart():
    @cirq.value_equality
    class Channel(cirq.Gate):
        def __init__(self, rate: float) -> None:
            self.rate = rate

        def _value_equality_values_(self) -> str:
            return "equal"

        def _num_qubits_(self) -> int:
            return 1

        def _kraus_(self) -> tuple[np.ndarray, ...]:
            return cirq.kraus(cirq.depolarize(self.rate))

    found = [product_of_fidelities(cirq.Circuit(Channel(rate)(A))) for rate in (0.1, 0.2)]
    assert found == pytest.approx([0.95, 0.9])
    assert circuit_identity(cirq.Circuit(Channel(0.1)(A))) != circuit_identity(
        cirq.Circuit(Channel(0.2)(A))
    )
