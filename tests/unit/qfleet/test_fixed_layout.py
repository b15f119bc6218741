"""A micro-batch has the same bits with any number of threads."""

import itertools

import cirq
import numpy as np
import pytest
import sympy

from qfleet.circuits.qcnn import qcnn
from qfleet.engine import library
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.micro_batch import use_micro_batch
from qfleet.tensorflow.runtime import tf


@pytest.fixture
def restored_threads():
    before = library.num_threads()
    yield
    library.set_num_threads(before)


@pytest.mark.parametrize("rows", [3, 16, 40, 1100])  # the last: several tiles per range of sums
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.usefixtures("restored_threads")
def test_bits_do_not_depend_on_threads(rows: int, turned: bool) -> None:
    circuit = qcnn(8)
    simulator = build_simulator(
        circuit.circuit, circuit.inputs, circuit.parameters, circuit.observables
    )
    rng = np.random.default_rng(rows)
    angles = rng.uniform(-3, 3, (rows, len(circuit.inputs))).astype("f4")
    if not turned:  # few states span the batch
        angles *= np.arange(angles.shape[1]) == rng.integers(angles.shape[1], size=(rows, 1))
    parameters = tf.constant(rng.uniform(-3, 3, len(circuit.parameters)), tf.float32)
    found = set()
    for threads in (1, 2, 3, 5):
        library.set_num_threads(threads)
        with use_micro_batch(), tf.GradientTape() as tape:
            tape.watch(parameters)
            values = simulator.expectation(tf.constant(angles), parameters)
            gradient = tape.gradient(tf.reduce_sum(values**2), parameters)
        found.add((values.numpy().tobytes(), gradient.numpy().tobytes()))
    assert len(found) == 1


@pytest.mark.usefixtures("restored_threads")
def test_states_do_not_depend_on_threads() -> None:
    qubits = cirq.LineQubit.range(9)
    names = [f"x{i}" for i in range(9)]
    circuit = cirq.Circuit(
        cirq.ry(sympy.Symbol(name))(qubit) for name, qubit in zip(names, qubits, strict=True)
    ) + cirq.Circuit(cirq.CNOT(*pair) for pair in itertools.pairwise(qubits))
    simulator = build_simulator(circuit, names, [], [])
    angles = tf.constant(np.random.default_rng(0).uniform(-3, 3, (2, 9)), tf.float32)
    found = set()
    for threads in (1, 2, 4):
        library.set_num_threads(threads)
        with use_micro_batch():
            found.add(simulator.state(angles, tf.zeros([0])).numpy().tobytes())
    assert len(found) == 1
