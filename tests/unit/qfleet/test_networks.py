"""Expectation values by contraction of tensor networks, against states and finite differences."""

import itertools
import pathlib
import pickle
import subprocess
import sys
from collections.abc import Sequence

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.circuits import qcnn
from qfleet.compiler import choose_method
from qfleet.compiler.circuit import lowering
from qfleet.compiler.network import contraction_path
from qfleet.compiler.network.network_program import PlacedCircuit, compile_networks
from qfleet.engine.compiled_circuit import CompiledCircuit

Parts = tuple[cirq.Circuit, list[str], list[str], list[cirq.PauliSum]]


def brickwork(
    qubits: int, layers: int, *, shared: bool, places: Sequence[int] | None = None
) -> Parts:
    """A circuit of gates on neighbours with a data angle on each qubit, and local observables.

    Args:
        qubits: Width.
        layers: Layers of gates.
        shared: Use the same parameters for all gates of a layer.
        places: Qubits whose Z is read; by default observables of all kinds.
    """
    line = cirq.LineQubit.range(qubits)
    inputs = [f"x{i}" for i in range(qubits)]
    parameters: dict[str, None] = {}

    def symbol(layer: int, place: int, kind: int) -> sympy.Symbol:
        name = f"p{layer}_{kind}" if shared else f"p{layer}_{place}_{kind}"
        parameters[name] = None
        return sympy.Symbol(name)

    circuit = cirq.Circuit(
        cirq.rx(sympy.Symbol(name)).on(qubit) for name, qubit in zip(inputs, line, strict=True)
    )
    for layer in range(layers):
        for at in range(layer % 2, qubits - 1, 2):
            a, b = line[at], line[at + 1]
            circuit += [
                cirq.ry(symbol(layer, at, 0)).on(a),
                (cirq.ZZ ** symbol(layer, at, 1)).on(a, b),
                cirq.PhasedXPowGate(phase_exponent=0.3, exponent=symbol(layer, at, 2)).on(b),
                (cirq.CNOT ** symbol(layer, at, 3)).on(a, b),
                (cirq.ISWAP ** symbol(layer, at, 4)).on(b, a),
            ]
    if places is not None:
        return (
            circuit,
            inputs,
            list(parameters),
            [cirq.PauliSum.wrap(cirq.Z(line[i])) for i in places],
        )
    middle = qubits // 2
    energy = cirq.PauliSum()
    for a, b in itertools.pairwise(line):
        energy += cirq.Z(a) * cirq.Z(b)
    observables = [
        cirq.PauliSum.wrap(cirq.Z(line[0])),
        0.5 * cirq.X(line[middle]) * cirq.Y(line[middle + 1]) + 2 * cirq.Z(line[1]) - 0.25,
        cirq.PauliSum.wrap(cirq.Y(line[-1])),
        energy,
    ]
    return circuit, inputs, list(parameters), observables


def model(qubits: int, layers: int | None, encoder: str = "cluster") -> Parts:
    made = qcnn(qubits, layers=layers, encoder=encoder)
    return made.circuit, list(made.inputs), list(made.parameters), list(made.observables)


CASES = {
    "shared parameters": brickwork(9, 3, shared=True),
    "own parameters": brickwork(9, 3, shared=False),
    "QCNN to one qubit": model(8, None),
    "QCNN on a cluster state": model(12, 1),
    "QCNN with an odd number of qubits": model(9, 2, "angle"),
}


def compile_both(case: Parts, dtype: str = "complex128") -> tuple[CompiledCircuit, CompiledCircuit]:
    states = qfleet.compile(*case, method="state_vector")
    networks = qfleet.compile(*case, method="tensor_network", dtype=dtype)
    assert (states.method, networks.method) == ("state_vector", "tensor_network")
    return states, networks


def point(compiled: CompiledCircuit, batch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    return (
        random.normal(size=(batch, len(compiled.inputs))),
        random.normal(size=len(compiled.parameters)),
        random.normal(size=(batch, compiled.readouts)),
    )


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_equal_those_of_states(name: str, dtype: str) -> None:
    states, networks = compile_both(CASES[name], dtype)
    inputs, parameters, upstream = point(states, 19)
    tolerance = 1e-5 if dtype == "complex64" else 1e-12
    values, gradients = states.value_and_gradient(inputs, parameters, upstream)
    found, slopes = networks.value_and_gradient(inputs, parameters, upstream)
    assert found == pytest.approx(values, abs=tolerance)
    assert slopes.inputs == pytest.approx(gradients.inputs, abs=10 * tolerance)
    assert slopes.parameters == pytest.approx(gradients.parameters, abs=100 * tolerance)


@pytest.mark.parametrize("name", CASES)
def test_equal_examples_are_joined(name: str) -> None:
    states, networks = compile_both(CASES[name])
    inputs, parameters, upstream = point(states, 8)
    inputs[3:] = inputs[1]
    values, gradients = states.value_and_gradient(inputs, parameters, upstream)
    found, slopes = networks.value_and_gradient(inputs, parameters, upstream, input_gradients=False)
    assert found == pytest.approx(values, abs=1e-12)
    assert slopes.inputs is None
    assert slopes.parameters == pytest.approx(gradients.parameters, abs=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_hessian_vector_products_equal_those_of_states(name: str) -> None:
    states, networks = compile_both(CASES[name])
    inputs, parameters, upstream = point(states, 3)
    directions = np.cos(inputs), np.sin(parameters)
    values, products = states.hvp(inputs, parameters, upstream, *directions)
    found, others = networks.hvp(inputs, parameters, upstream, *directions)
    assert found == pytest.approx(values, abs=1e-11)
    assert others.inputs == pytest.approx(products.inputs, abs=1e-10)
    assert others.parameters == pytest.approx(products.parameters, abs=1e-9)


def test_parameters_may_become_inputs() -> None:
    states, networks = compile_both(CASES["shared parameters"])
    inputs, parameters, _ = point(states, 5)
    rows = np.concatenate([inputs, np.tile(parameters, (5, 1)) * np.arange(1, 6)[:, None]], axis=1)
    expected = states.with_all_inputs().expectation(rows)
    assert networks.with_all_inputs().expectation(rows) == pytest.approx(expected, abs=1e-12)


def test_pickled_networks_give_the_same_values() -> None:
    _, networks = compile_both(CASES["own parameters"])
    inputs, parameters, _ = point(networks, 2)
    copy = pickle.loads(pickle.dumps(networks))
    assert (copy.expectation(inputs, parameters) == networks.expectation(inputs, parameters)).all()


def test_cluster_state_does_not_widen_the_light_cone() -> None:
    # Its CZ gates form a chain over all qubits, but those beyond a neighbour cancel.
    circuit, inputs, _, observables = model(64, 1)
    placed = PlacedCircuit.of(lowering.lower(circuit), observables, sorted(circuit.all_qubits()))
    assert {cone.qubits for cone in placed.cones(inputs)} == {12}


def test_equal_light_cones_share_a_network() -> None:
    networks = qfleet.compile(*model(64, 1), method="tensor_network")._source.networks
    counts = sorted(len(network.instances) for network in networks)
    assert sum(counts) == 32
    assert counts[-2:] == [14, 14]  # even and odd places; the others are at the seams of the ring


@pytest.mark.parametrize("shared", [True, False])
def test_200_qubits_equal_states_of_their_neighbourhood(shared: bool) -> None:
    qubits, layers, places = 200, 3, (0, 77, 150, 199)
    wide = brickwork(qubits, layers, shared=shared, places=places)
    compiled = qfleet.compile(*wide)
    assert compiled.method == "tensor_network"
    inputs, parameters, _ = point(compiled, 3)
    values = compiled.expectation(inputs, parameters)
    for column, place in enumerate(places):
        near = range(max(0, place - 5), min(qubits, place + 6))
        line = {cirq.LineQubit(at) for at in near}
        circuit = cirq.Circuit(op for op in wide[0].all_operations() if line.issuperset(op.qubits))
        local = qfleet.compile(
            circuit, wide[1][near.start : near.stop], observables=[wide[3][column]],
            method="state_vector",
        )  # fmt: skip
        by_name = dict(zip(compiled.parameters, parameters, strict=True))
        expected = local.expectation(
            inputs[:, near.start : near.stop], [by_name[name] for name in local.parameters]
        )
        assert values[:, [column]] == pytest.approx(expected, abs=1e-11)


@pytest.mark.exhaustive
def test_gradients_of_1024_qubits_equal_finite_differences() -> None:
    compiled = qfleet.compile(*model(1024, 1))
    assert compiled.method == "tensor_network"
    inputs, parameters, upstream = point(compiled, 2)
    _, gradients = compiled.value_and_gradient(inputs, parameters, upstream)
    step = 1e-6

    def loss(inputs: np.ndarray, parameters: np.ndarray) -> float:
        return float((upstream * compiled.expectation(inputs, parameters)).sum())

    for at in (0, 9, 20):
        change = step * np.eye(len(parameters))[at]
        slope = loss(inputs, parameters + change) - loss(inputs, parameters - change)
        assert gradients.parameters[at] == pytest.approx(slope / (2 * step), abs=1e-6)
    change = np.zeros_like(inputs)
    change[1, 700] = step
    slope = loss(inputs + change, parameters) - loss(inputs - change, parameters)
    assert gradients.inputs is not None
    assert gradients.inputs[1, 700] == pytest.approx(slope / (2 * step), abs=1e-6)


def test_qubits_without_a_gate_are_read() -> None:
    a, b = cirq.LineQubit.range(2)
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("x")).on(a))
    observables = [cirq.Z(b), cirq.X(b), cirq.Z(a) * cirq.Z(b), cirq.PauliSum() + 0.75]
    compiled = qfleet.compile(circuit, ["x"], (), observables, method="tensor_network")
    values = compiled.expectation([[0.4]])
    assert values == pytest.approx(np.array([[1, 0, np.cos(0.4), 0.75]]), abs=1e-12)


@pytest.mark.parametrize("case", [model(16, 2), model(8, 1), brickwork(12, 2, shared=True)])
def test_states_are_chosen_where_they_are_cheap(case: Parts) -> None:
    assert qfleet.compile(*case).method == "state_vector"


def test_networks_are_chosen_for_shallow_circuits() -> None:
    compiled = qfleet.compile(*brickwork(18, 2, shared=True))
    assert compiled.method == "tensor_network"
    assert "light cones" in compiled.describe()


def test_threads_do_not_change_values() -> None:
    compiled = qfleet.compile(*CASES["shared parameters"], method="tensor_network")
    inputs, parameters, _ = point(compiled, 50)
    threads = qfleet.num_threads()
    try:
        qfleet.set_num_threads(1)
        one = compiled.expectation(inputs, parameters)
        qfleet.set_num_threads(3)
        assert (compiled.expectation(inputs, parameters) == one).all()
    finally:
        qfleet.set_num_threads(threads)


def paths_of_24_qubits() -> str:
    circuit, inputs, parameters, observables = model(24, 1)
    placed = PlacedCircuit.of(lowering.lower(circuit), observables, sorted(circuit.all_qubits()))
    return str([one.path for one in compile_networks(placed, inputs, parameters).networks])


# Starts processes that search paths.
@pytest.mark.exhaustive
def test_path_is_the_same_in_every_process() -> None:
    code = "from tests.unit.qfleet import test_networks as t; print(t.paths_of_24_qubits())"
    output = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert output.strip() == paths_of_24_qubits()


@pytest.mark.parametrize("pairs", [[(0, 1), (0, 2)], [(0, 1)], [(0, 0), (1, 2)], [(0, 1), (2, 9)]])
def test_path_that_misses_a_tensor_is_refused(pairs: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="tensor"):
        contraction_path.contraction_steps([(0,), (0, 1), (1,)], pairs)


def test_states_of_networks_are_refused() -> None:
    _, networks = compile_both(CASES["shared parameters"])
    with pytest.raises(qfleet.ArgumentError, match="observables"):
        networks.state(*point(networks, 1)[:2])


def test_unknown_method_is_refused() -> None:
    with pytest.raises(qfleet.ArgumentError, match="method is 'mps': choose auto, state_vector"):
        qfleet.compile(*CASES["shared parameters"], method="mps")


@pytest.mark.parametrize("arguments", [{}, {"initial_state": np.eye(2**9)[0]}])
def test_networks_without_observables_or_start_are_refused(arguments: dict) -> None:
    *circuit, observables = CASES["shared parameters"]
    given = observables if arguments else ()
    with pytest.raises(qfleet.CircuitError, match="choose state_vector"):
        qfleet.compile(*circuit, given, method="tensor_network", **arguments)


def test_missing_cotengra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "cotengra", None)
    contraction_path.give_paths({})
    assert qfleet.compile(*brickwork(18, 2, shared=True)).method == "state_vector"
    with pytest.raises(qfleet.LibraryError, match="pip install cotengra"):
        qfleet.compile(*brickwork(choose_method.MAX_STATE_QUBITS + 1, 2, shared=True))


def test_wide_tensors_do_not_take_the_place_of_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = brickwork(28, 2, shared=True)
    assert qfleet.compile(*circuit).method == "tensor_network"
    monkeypatch.setattr(choose_method, "MAX_NETWORK_WIDTH", 0)
    monkeypatch.setattr("qfleet.engine.memory.require_memory", lambda *_: None)
    monkeypatch.setattr("qfleet.engine.memory.available_bytes", lambda: 1 << 60)
    assert qfleet.compile(*circuit).method == "state_vector"


def test_too_wide_networks_are_rejected_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    made = qcnn(28)  # the network of its readout has tensors of 2**28 numbers
    monkeypatch.setattr(contraction_path, "_search", lambda *_: pytest.fail("searched"))
    monkeypatch.setattr("qfleet.engine.memory.available_bytes", lambda: 1 << 60)
    compiled = qfleet.compile(made.circuit, made.inputs, made.parameters, made.observables)
    assert compiled.method == "state_vector"


@pytest.mark.parametrize("case", [model(28, 1), model(16, None)])
def test_estimated_width_is_near_that_of_the_path(case: Parts) -> None:
    circuit, inputs, parameters, observables = case
    placed = PlacedCircuit.of(lowering.lower(circuit), observables, sorted(circuit.all_qubits()))
    for one in compile_networks(placed, inputs, parameters).networks:
        network = tuple(tensor.indices for tensor in one.tensors)
        assert (
            abs(contraction_path.estimate_width(network) - one.path.width) <= choose_method._MARGIN
        )


def test_networks_beyond_the_free_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qfleet.engine.memory.available_bytes", lambda: 1 << 20)
    monkeypatch.setattr("qfleet.engine.memory.UNCHECKED_BYTES", 0)
    with pytest.raises(qfleet.MemoryLimitError, match=r"width \d+ on"):
        qfleet.compile(*model(12, 2), method="tensor_network")


@pytest.mark.parametrize("name", ["shared parameters", "own parameters"])
def test_keras_layer_trains_networks(name: str) -> None:
    from qfleet.tensorflow.layers import Expectation
    from qfleet.tensorflow.runtime import tf

    circuit, inputs, parameters, observables = CASES[name]
    layers = [
        Expectation(circuit, inputs, observables, parameters=parameters, method=method, seed=1)
        for method in ("state_vector", "tensor_network")
    ]
    rows = tf.constant(np.random.default_rng(3).normal(size=(5, len(inputs))), tf.float32)
    results = []
    for layer in layers:
        with tf.GradientTape() as tape:
            tape.watch(rows)
            loss = tf.reduce_sum(tf.square(layer(rows)))
        results.append((loss, *tape.gradient(loss, [rows, layer.angles])))
    for states, networks in zip(*results, strict=True):
        assert networks.numpy() == pytest.approx(states.numpy(), rel=1e-4, abs=1e-4)
    assert "light cones" in layers[1].describe()
    assert Expectation.from_config(layers[1].get_config()).method == "tensor_network"


def test_keras_layer_refuses_second_derivatives_of_networks() -> None:
    from qfleet.tensorflow.backends import build_simulator
    from qfleet.tensorflow.runtime import tf

    simulator = build_simulator(*CASES["shared parameters"], method="tensor_network")
    rows, angles = tf.zeros([1, 9]), tf.ones([len(simulator.parameters)])
    with tf.GradientTape() as outer:
        outer.watch(angles)
        with tf.GradientTape() as inner:
            inner.watch(angles)
            values = simulator.expectation(rows, angles)
        slope = inner.gradient(values, angles)
    with pytest.raises(qfleet.CircuitError, match="choose the method state_vector"):
        outer.gradient(slope, angles)
