"""Entry points of the compiler, programs of layers, and a further kind of program."""

import pickle
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, get_args

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from planning.workload_analysis import _Circuit
from qfleet.compiler import choose_method
from qfleet.compiler.any_program import AnyProgram, ProgramCost, SerializedProgram, Source
from qfleet.compiler.circuit.lowering import lower
from qfleet.compiler.state.program import compile_factors, compile_program
from qfleet.compiler.writer import Writer
from qfleet.engine.machine import Machine
from qfleet.errors import ArgumentError, CircuitError
from qfleet.tensorflow.layers import Expectation, State
from qfleet.tensorflow.runtime import tf
from qfleet.tensorflow.simulator import Simulator

A, B = cirq.LineQubit.range(2)
CIRCUIT = cirq.Circuit(cirq.rx(sympy.Symbol("x")).on(A), cirq.CNOT(A, B))


def test_compile_factors_equals_compile_program() -> None:
    readouts = [cirq.PauliSum.wrap(cirq.Z(B))]
    expected = compile_program(CIRCUIT, ("x",), (), readouts)
    actual = compile_factors(lower(CIRCUIT), ("x",), (), readouts, qubits=(A, B))
    assert actual.qubits == expected.qubits
    assert actual.gates == expected.gates
    assert [block.qubits for block in actual.blocks] == [block.qubits for block in expected.blocks]
    assert [[factor.key for factor in block.factors] for block in actual.blocks] == [
        [factor.key for factor in block.factors] for block in expected.blocks
    ]
    np.testing.assert_array_equal(actual.terms.weights, expected.terms.weights)


def test_layer_exposes_simulator_and_program() -> None:
    layer = Expectation(CIRCUIT, ["x"], [cirq.Z(B)])
    assert isinstance(layer.simulator, Simulator)
    assert layer.program is layer.simulator.program


@pytest.mark.parametrize("backend", ["tensorflow", pytest.param("tfq", marks=pytest.mark.tfq)])
def test_layer_of_other_backend_has_a_program(backend: str) -> None:
    assert State(CIRCUIT, ["x"], backend=backend).program.qubits == (A, B)


@dataclass(frozen=True)
class Draft(AnyProgram):
    """A kind of program whose observable is constant: a network program without networks."""

    method = "draft"
    kind = "drafts"
    has_hvp = False
    hessian_advice = "finish the draft"

    @property
    def readouts(self) -> int:
        """One."""
        return 1

    def with_inputs(self) -> Self:
        """Return the program with more inputs."""
        return replace(self, inputs=(*self.inputs, *self.parameters), parameters=())

    def serialized(self, dtype: str) -> SerializedProgram:
        """Return a constant of 0.25."""
        writer = Writer(self.inputs)
        writer._ints, writer._reals = [2, 1, 0, 0, 1, 0], [0.25]
        return writer.program()

    def require_memory(self, machine: Machine, states: int, processes: int = 1) -> None:
        """Require a byte."""
        machine.require_bytes(1, "a draft", processes=processes)

    def describe(self, machine: Machine, batch: int, spanning: int | None = None) -> str:
        """Return the type of numbers."""
        return f"a draft in {machine.real}"

    def cost(self, machine: Machine, angles: np.ndarray) -> ProgramCost:
        """Return some numbers."""
        return ProgramCost(1.0, 2.0, 3, lambda threads: [4.0] * threads)


def compile_draft(source: Source) -> Draft:
    return Draft(tuple(source.inputs), tuple(source.parameters), tuple(source.qubits), (0, 0))


@pytest.fixture
def draft(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a further kind of program, in the one place that lists them."""
    method = choose_method.SimulationMethod(compile_draft, shots=True)
    monkeypatch.setitem(choose_method.METHODS, "draft", method)


@pytest.mark.usefixtures("draft")
def test_registered_kind_of_program_is_compiled() -> None:
    compiled = qfleet.compile(CIRCUIT, ["x"], observables=cirq.Z(B), method="draft", shots=3)
    for one in (compiled, pickle.loads(pickle.dumps(compiled)), compiled.with_all_inputs()):
        assert (one.method, one.readouts, one.describe()) == ("draft", 1, "a draft in float64")
        assert one.value_and_gradient([0.1])[0].tolist() == [0.25]
    noisy = cirq.Circuit(CIRCUIT, cirq.depolarize(0.1).on(B))
    factors = choose_method.lowering.lower_noisy(noisy, allows_noise=True)
    with pytest.raises(CircuitError, match="density_matrix, trajectories, or auto"):
        choose_method.compile_factors_by("draft", factors, ["x"], (), [cirq.Z(B)], qubits=(A, B))


@pytest.mark.usefixtures("draft")
def test_registered_kind_of_program_has_a_layer_and_a_plan() -> None:
    layer = Expectation(CIRCUIT, ["x"], [cirq.Z(B)], method="draft")
    assert layer(np.zeros((2, 1))).numpy().tolist() == [[0.25], [0.25]]
    assert (layer.program.kind, layer.state_qubits, layer.contraction) == ("drafts", 0, None)
    circuit = _Circuit.of(layer, np.zeros((2, 1)))
    assert (circuit.cost.backward, circuit.batch_work(2)) == (2.0, [4.0, 4.0])
    angle = tf.zeros([1, 1])
    with tf.GradientTape() as outer:
        outer.watch(angle)
        with tf.GradientTape() as inner:
            inner.watch(angle)
            value = layer(angle)
        slope = inner.gradient(value, angle)
    with pytest.raises(CircuitError, match="drafts: finish the draft"):
        outer.gradient(slope, angle)


def test_every_method_is_registered_and_no_other_is_taken() -> None:
    assert get_args(choose_method.Method) == choose_method.method_names()
    with pytest.raises(ArgumentError, match="method"):
        choose_method.compile_circuit_by("draft", CIRCUIT, ["x"], (), [cirq.Z(B)])  # type: ignore[arg-type]


def test_no_module_asks_for_the_kind_of_a_program() -> None:
    asks = re.compile(
        r"isinstance\([^()]*Program\b|(Network|Density|Trajectory)(Program|Simulator)"
    )
    root = Path(__file__).parents[3]
    folders = "qfleet", "common", "training", "inference", "planning", "benchmarks", "studies"
    for path in (path for folder in folders for path in (root / folder).rglob("*.py")):
        if not path.is_relative_to(root / "qfleet" / "compiler"):
            assert not asks.search(path.read_text(encoding="utf-8")), path
