"""The order of blocks that start at |0...0>, and the operations that are left."""

from itertools import pairwise

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.compiler.state.cache_blocking import plan_cache_blocks
from qfleet.compiler.state.cost import pass_costs
from qfleet.compiler.state.program import Program, compile_program
from qfleet.compiler.state.program_writer import ProgramWriter
from qfleet.engine.exponent_program import ExponentProgram


def chain(qubits: int, layers: int) -> tuple[cirq.Circuit, list[str], cirq.PauliString]:
    """Return layers of rotations and CNOTs, their symbols and an observable."""
    line = cirq.LineQubit.range(qubits)
    names = [f"t{at:03d}" for at in range(layers * qubits)]
    circuit = cirq.Circuit()
    for layer in range(layers):
        for qubit, name in zip(line, names[layer * qubits :], strict=False):
            circuit.append([cirq.rx(sympy.Symbol(name)).on(qubit), cirq.ry(0.3).on(qubit)])
        circuit.append(cirq.CNOT(a, b) ** 0.5 for a, b in pairwise(line))
    return circuit, names, cirq.X(line[-1]) * cirq.Z(line[1])


def compiled(qubits: int, layers: int) -> Program:
    circuit, names, observable = chain(qubits, layers)
    readouts = [cirq.PauliSum.wrap(observable)]
    program = compile_program(circuit, (), names, readouts)
    assert program.initial is None
    return program


@pytest.mark.parametrize(("qubits", "size"), [(13, 15), (16, 10), (16, 14)])
def test_order_from_zero_has_the_same_gradient(qubits: int, size: int) -> None:
    program = compiled(qubits, 3)
    found = []
    for from_zero in (False, True):
        plan = plan_cache_blocks([program.blocks], qubits, size, from_zero=from_zero)
        writer = ProgramWriter(program.inputs, program.terms, plan)
        engine = ExponentProgram(writer.bytes(), "complex128")
        values = {
            str(one): float(np.sin(at)) for at, one in enumerate(sorted(map(str, writer.shared)))
        }
        exponents = np.array([values[str(one)] for one in writer.shared]), np.zeros((1, 0))
        gradient = engine.gradient(*exponents, np.ones((1, 1)))[0]
        by_name = dict(zip(map(str, writer.shared), gradient, strict=True))
        found.append([engine.expectation(*exponents)[0, 0], *(by_name[one] for one in values)])
    np.testing.assert_allclose(found[1], found[0], atol=1e-12)


def test_order_from_zero_needs_fewer_operations() -> None:
    blocks = compiled(16, 3).blocks
    every = pass_costs(plan_cache_blocks([blocks], 16, 15), 0, 8)
    fewer = pass_costs(plan_cache_blocks([blocks], 16, 15, from_zero=True), 0, 8)
    for a, b in zip(every, fewer, strict=True):
        assert b.operations < 0.75 * a.operations
        assert b.bytes <= a.bytes


def test_costs_of_one_block_are_those_of_its_matrix() -> None:
    circuit = cirq.Circuit(cirq.XX(*cirq.LineQubit.range(2)) ** sympy.Symbol("s"))
    program = compile_program(circuit, (), ("s",), [])
    plan = program.plan_blocks("complex64")[0]
    forward, backward = pass_costs(plan, 0, 8)
    assert forward.operations == 8 * 8  # 8 nonzero entries, 4 multiply-adds each
    assert forward.bytes == forward.cached_bytes == 2 * 8 * 4
    assert backward.cached_bytes == 2 * 8 * 4  # two states are read, none is written
    assert backward.operations == forward.operations  # the gradient; no block before is uncomputed
    assert pass_costs(plan, 0, 8, {"s"})[1].operations == 0


def test_batch_of_a_wide_circuit_equals_its_examples() -> None:
    circuit, names, observable = chain(14, 2)
    angles = np.random.default_rng(0).normal(size=(5, len(names)))
    together = qfleet.compile(circuit, names, (), [observable]).value_and_gradient(angles)
    for at, row in enumerate(angles):
        alone = qfleet.compile(circuit, names, (), [observable]).value_and_gradient(row)
        np.testing.assert_allclose(together[0][at], alone[0], atol=1e-12)
        np.testing.assert_allclose(together[1].inputs[at], alone[1].inputs, atol=1e-12)
