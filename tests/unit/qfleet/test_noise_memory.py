"""Memory of density matrices and trajectories: checked before anything is computed."""

import cirq
import pytest
import sympy

import qfleet
from qfleet.engine import library, memory
from qfleet.errors import MemoryLimitError


def noisy(qubits: int, channel: cirq.Gate) -> tuple[cirq.Circuit, list[cirq.PauliString]]:
    line = cirq.LineQubit.range(qubits)
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("a")).on_each(*line), channel.on_each(*line))
    circuit += [cirq.CZ(*line[at : at + 2]) for at in range(qubits - 1)]
    circuit += cirq.ry(sympy.Symbol("a")).on_each(*line)
    return circuit, [cirq.Z(qubit) for qubit in line]


def test_gradient_without_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit, observables = noisy(11, cirq.depolarize(0.1))
    built = qfleet.compile(circuit, (), ["a"], observables, method="density_matrix")
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 27)
    for call in (built.value_and_gradient, lambda *point: built.vjp(*point, [1.0] * 11)):
        with pytest.raises(MemoryLimitError, match="differentiating"):
            call(None, [0.1])


def test_density_bytes_include_the_states_that_are_kept() -> None:
    circuit, observables = noisy(8, cirq.depolarize(0.1))
    program = qfleet.compile(circuit, (), ["a"], observables, method="density_matrix")._source
    state, blocks = 8 * 4**8, len(program.blocks)
    assert program.example_bytes(8, 1) == state
    least = state * 2 * (blocks**0.5 - 1)
    assert least <= program.example_bytes(8, 2) <= least + 4 * state


def test_trajectories_of_all_threads_need_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit, observables = noisy(21, cirq.depolarize(0.1))
    monkeypatch.setattr(memory, "available_bytes", lambda: 3 << 26)
    monkeypatch.setattr(library, "num_threads", lambda: 1)
    built = qfleet.compile(circuit, (), ["a"], observables, method="trajectories")
    with pytest.raises(MemoryLimitError, match="differentiating"):
        built.value_and_gradient(None, [0.1])
    monkeypatch.setattr(library, "num_threads", lambda: 4)
    with pytest.raises(MemoryLimitError, match="4 threads"):
        qfleet.compile(circuit, (), ["a"], observables, method="trajectories")


def test_trajectories_keep_copies_of_states_without_an_inverse() -> None:
    sizes = [
        qfleet.compile(
            circuit, (), ["a"], observables, method="trajectories", trajectories=20
        )._source.example_bytes(8)
        for circuit, observables in (noisy(4, cirq.depolarize(0.1)), noisy(4, cirq.ResetChannel()))
    ]
    assert sizes == [5 * 2 * 256, 5 * 4 * 256]
