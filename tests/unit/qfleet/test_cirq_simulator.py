"""The Cirq adapter: one contract for cirq.Simulator and qfleet.cirq.Simulator, and gradients."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import cirq
import numpy as np
import pytest
import sympy

import qfleet.cirq
from qfleet.cirq.trial_result import StateVectorTrialResult
from qfleet.errors import ArgumentError, CircuitError

A, B, C = cirq.LineQubit.range(3)
x, y = sympy.symbols("x y")

Factory = Callable[..., Any]
pytestmark = pytest.mark.filterwarnings("ignore:.*split_untangled_states.*")


@pytest.fixture(params=[cirq.Simulator, qfleet.cirq.Simulator], ids=["cirq", "qfleet"])
def simulator(request: pytest.FixtureRequest) -> Factory:
    """Return a class of simulators that fulfils the contract."""
    return request.param


def ansatz() -> cirq.Circuit:
    """Return a circuit of three qubits with two symbols."""
    return cirq.Circuit(
        cirq.H(A), cirq.rx(x)(B), cirq.CNOT(A, C), cirq.ZZ(B, C) ** (y / 2), cirq.ry(x + y)(C)
    )


def reference(circuit: cirq.AbstractCircuit, values: dict, **options: Any) -> np.ndarray:
    """Return the final state by Cirq's own function, in complex128."""
    resolved = cirq.resolve_parameters(circuit, values)
    return cirq.final_state_vector(
        resolved, dtype=np.complex128, ignore_terminal_measurements=True, **options
    )


def test_simulate_returns_final_state(simulator: Factory) -> None:
    result = simulator(dtype=np.complex128).simulate(ansatz(), {"x": 0.3, "y": 0.7})
    expected = reference(ansatz(), {"x": 0.3, "y": 0.7})
    np.testing.assert_allclose(result.final_state_vector, expected, atol=1e-12)
    assert result.params == cirq.ParamResolver({"x": 0.3, "y": 0.7})
    assert result.qubit_map == {A: 0, B: 1, C: 2}


@pytest.mark.parametrize("keys", [("x", "y"), (x, "y"), (x, y)])
def test_simulate_params_are_a_copy_by_name(simulator: Factory, keys: tuple) -> None:
    values = dict(zip(keys, (1, sympy.pi / 4), strict=True))
    result = simulator(dtype=np.complex128).simulate(ansatz(), values)
    values[keys[0]] = 2
    assert result.params == cirq.ParamResolver({"x": 1, "y": sympy.pi / 4})
    expected = reference(ansatz(), {"x": 1.0, "y": np.pi / 4})
    np.testing.assert_allclose(result.final_state_vector, expected, atol=1e-12)


@pytest.mark.filterwarnings("ignore:final state vector's norm")
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("excess", [0, 0.5, 2], ids=["unit", "near", "far"])
def test_result_state_has_the_bits_of_cirqs(dtype: Any, excess: float) -> None:
    random = np.random.default_rng(0)
    state = random.normal(size=(8, 2)).astype(dtype(0).real.dtype).view(dtype)[:, 0]
    state[::3] = -0.0
    state *= (1 + excess * np.sqrt(np.finfo(dtype).eps)) / np.linalg.norm(state)
    final = cirq.StateVectorSimulationState(initial_state=state, qubits=(A, B, C), dtype=dtype)
    one, other = (
        result(cirq.ParamResolver(), {}, final).final_state_vector
        for result in (StateVectorTrialResult, cirq.StateVectorTrialResult)
    )
    assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())
    assert excess == 0 or np.array_equal(one, state) == (excess > 1)


def test_simulate_default_dtype_is_complex64(simulator: Factory) -> None:
    state = simulator().simulate(ansatz(), {"x": 0.3, "y": 0.7}).final_state_vector
    assert state.dtype == np.complex64
    np.testing.assert_allclose(state, reference(ansatz(), {"x": 0.3, "y": 0.7}), atol=1e-6)


def test_simulate_sweep_returns_a_result_per_point(simulator: Factory) -> None:
    sweep = cirq.Linspace("x", 0, 2, 5) * cirq.Points("y", [0.1, -0.4])
    results = simulator(dtype=np.complex128).simulate_sweep(ansatz(), sweep)
    assert len(results) == 10
    for result, resolver in zip(results, cirq.to_resolvers(sweep), strict=True):
        values = {name: resolver.value_of(name) for name in ("x", "y")}
        assert result.params == resolver
        np.testing.assert_allclose(
            result.final_state_vector, reference(ansatz(), values), atol=1e-12
        )


@pytest.mark.parametrize("order", [(C, A, B), (B, C, A)])
def test_simulate_follows_qubit_order(simulator: Factory, order: tuple) -> None:
    values = {"x": 0.3, "y": 0.7}
    result = simulator(dtype=np.complex128).simulate(ansatz(), values, qubit_order=order)
    expected = reference(ansatz(), values, qubit_order=order)
    np.testing.assert_allclose(result.final_state_vector, expected, atol=1e-12)


def test_simulate_adds_qubits_of_the_order(simulator: Factory) -> None:
    extra = cirq.LineQubit.range(4)
    circuit = cirq.Circuit(cirq.X(A) ** 0.3)
    state = simulator().simulate(circuit, qubit_order=extra).final_state_vector
    assert state.shape == (16,)
    np.testing.assert_allclose(state, reference(circuit, {}, qubit_order=extra), atol=1e-6)


@pytest.mark.parametrize(
    "start",
    [
        5,
        np.full(8, 8**-0.5),
        np.arange(1, 9) / np.linalg.norm(np.arange(1, 9)),
        cirq.KET_PLUS(A) * cirq.KET_MINUS(B) * cirq.KET_IMAG(C),
    ],
    ids=["basis", "uniform", "vector", "product"],
)
def test_simulate_starts_at_the_initial_state(simulator: Factory, start: Any) -> None:
    values = {"x": 0.3, "y": 0.7}
    given = start.state_vector() if isinstance(start, cirq.ProductState) else start
    result = simulator(dtype=np.complex128).simulate(ansatz(), values, initial_state=start)
    given = given if isinstance(given, int) else np.asarray(given, np.complex128)
    expected = reference(ansatz(), values, initial_state=given)
    np.testing.assert_allclose(result.final_state_vector, expected, atol=1e-6)


@pytest.mark.parametrize("start", [8, -1, np.ones(4) / 2, np.ones(8)])
def test_simulate_invalid_initial_state_is_refused(start: Any) -> None:
    with pytest.raises(CircuitError, match="initial"):
        qfleet.cirq.Simulator().simulate(ansatz(), {"x": 0, "y": 0}, initial_state=start)


def test_simulate_collapses_measured_qubits(simulator: Factory) -> None:
    circuit = cirq.Circuit(cirq.H(A), cirq.CNOT(A, B), cirq.H(C), cirq.measure(A, key="a"))
    outcomes = set()
    for seed in range(12):
        result = simulator(seed=seed).simulate(circuit)
        bit = int(result.measurements["a"][0])
        outcomes.add(bit)
        expected = np.zeros((2, 2, 2))
        expected[bit, bit] = 0.5**0.5
        np.testing.assert_allclose(result.final_state_vector, expected.reshape(-1), atol=1e-6)
    assert outcomes == {0, 1}


def test_expectation_values_match_the_state(simulator: Factory) -> None:
    observables = [cirq.Z(A) * cirq.X(B) + 0.5 * cirq.Y(C), 2 * cirq.Z(C) - 1]
    sweep = cirq.Zip(cirq.Linspace("x", 0, 2, 4), cirq.Linspace("y", 1, -1, 4))
    values = simulator(dtype=np.complex128).simulate_expectation_values_sweep(
        ansatz(), observables, sweep
    )
    for row, resolver in zip(values, cirq.to_resolvers(sweep), strict=True):
        state = reference(ansatz(), {name: resolver.value_of(name) for name in ("x", "y")})
        places = {A: 0, B: 1, C: 2}
        expected = [
            cirq.PauliSum.wrap(one).expectation_from_state_vector(state, places).real
            for one in observables
        ]
        np.testing.assert_allclose(row, expected, atol=1e-12)


def test_expectation_values_refuse_measurements(simulator: Factory) -> None:
    circuit = cirq.Circuit(cirq.X(A), cirq.measure(A))
    with pytest.raises(ValueError, match="measurement"):
        simulator().simulate_expectation_values(circuit, cirq.Z(A))
    values = simulator().simulate_expectation_values(
        circuit, cirq.Z(A), permit_terminal_measurements=True
    )
    np.testing.assert_allclose(values, [-1], atol=1e-6)


def test_run_returns_records_by_key(simulator: Factory) -> None:
    circuit = cirq.Circuit(
        cirq.X(B),
        cirq.measure(A, B, key="pair", invert_mask=(True,)),
        cirq.measure(C, key="single"),
    )
    result = simulator(seed=1).run(circuit, repetitions=20)
    assert set(result.measurements) == {"pair", "single"}
    np.testing.assert_array_equal(result.measurements["pair"], [[1, 1]] * 20)
    np.testing.assert_array_equal(result.measurements["single"], [[0]] * 20)


def test_run_repeated_key_gives_instances(simulator: Factory) -> None:
    circuit = cirq.Circuit(cirq.X(B), cirq.measure(A, key="m"), cirq.measure(B, key="m"))
    records = simulator().run(circuit, repetitions=3).records["m"]
    assert records.shape == (3, 2, 1)
    assert {tuple(row) for row in records[:, :, 0]} == {(0, 1)}


def test_run_applies_the_confusion_map(simulator: Factory) -> None:
    confusion = {(0,): np.array([[0.25, 0.75], [0.0, 1.0]])}
    circuit = cirq.Circuit(cirq.MeasurementGate(1, "m", confusion_map=confusion).on(A))
    bits = simulator(seed=3).run(circuit, repetitions=4000).measurements["m"]
    assert abs(bits.mean() - 0.75) < 0.04


def test_run_samples_the_distribution(simulator: Factory) -> None:
    circuit = cirq.Circuit(cirq.ry(2 * np.arcsin(0.6))(A), cirq.CNOT(A, B), cirq.measure(A, B))
    bits = simulator(seed=4).run(circuit, repetitions=20_000).data.iloc[:, 0].to_numpy()
    counts = np.bincount(bits, minlength=4) / len(bits)
    np.testing.assert_allclose(counts, [0.64, 0, 0, 0.36], atol=0.015)


def test_run_same_seed_gives_same_samples(simulator: Factory) -> None:
    circuit = cirq.Circuit(cirq.H.on_each(A, B), cirq.measure(A, B, key="m"))
    one, other = (simulator(seed=9).run(circuit, repetitions=50) for _ in range(2))
    np.testing.assert_array_equal(one.measurements["m"], other.measurements["m"])


def test_run_sweep_returns_a_result_per_point(simulator: Factory) -> None:
    circuit = cirq.Circuit(cirq.X(A) ** x, cirq.measure(A, key="m"))
    results = simulator().run_sweep(circuit, cirq.Points("x", [0, 1]), repetitions=5)
    assert [int(result.measurements["m"].sum()) for result in results] == [0, 5]


def test_run_without_measurement_is_refused(simulator: Factory) -> None:
    with pytest.raises(ValueError, match="no measurements"):
        simulator().run(ansatz(), {"x": 0, "y": 0})


def test_simulate_symbol_without_value_is_refused(simulator: Factory) -> None:
    with pytest.raises((ValueError, TypeError)):
        simulator().simulate(ansatz(), {"x": 0.3})


@pytest.mark.parametrize("value", [np.nan, np.inf, 1j])
def test_simulate_value_not_real_is_refused(value: complex) -> None:
    with pytest.raises(CircuitError, match="symbol x"):
        qfleet.cirq.Simulator().simulate(ansatz(), {"x": value, "y": 0.0})


def test_simulator_other_dtype_is_refused() -> None:
    with pytest.raises(ArgumentError, match="dtype"):
        qfleet.cirq.Simulator(dtype=np.float32)


@pytest.mark.parametrize("seed", [float("nan"), 1.5, "12", -1, [1, 2], np.random.default_rng(1)])
def test_other_seed_raises(seed: object) -> None:
    with pytest.raises(ArgumentError, match="seed is "):
        qfleet.cirq.Simulator(seed=seed)


def test_gradients_match_finite_differences() -> None:
    simulator = qfleet.cirq.Simulator(dtype=np.complex128)
    observables = [cirq.Z(A) * cirq.X(B), cirq.Y(C) + 0.5 * cirq.Z(B)]
    sweep = cirq.Zip(cirq.Linspace("x", 0.2, 2, 3), cirq.Linspace("y", 1, -1, 3))
    gradients = simulator.simulate_expectation_gradients_sweep(ansatz(), observables, sweep)
    for row, resolver in zip(gradients, cirq.to_resolvers(sweep), strict=True):
        values = {name: float(resolver.value_of(name)) for name in ("x", "y")}
        single = simulator.simulate_expectation_gradients(ansatz(), observables, values)
        for name in values:
            ends = [
                simulator.simulate_expectation_values(
                    ansatz(), observables, values | {name: values[name] + step}
                )
                for step in (1e-5, -1e-5)
            ]
            expected = (np.array(ends[0]) - ends[1]) / 2e-5
            np.testing.assert_allclose([one[name] for one in row], expected, atol=1e-8)
            np.testing.assert_allclose([one[name] for one in single], expected, atol=1e-8)


def test_compiled_circuit_is_reused_for_other_values() -> None:
    simulator = qfleet.cirq.Simulator()
    for value in (0.1, 0.2, 0.3):
        simulator.simulate(ansatz(), {"x": value, "y": value})
    assert len(simulator._circuits._compiled) == 1


def test_gates_that_differ_by_a_phase_have_their_own_results(simulator: Factory) -> None:
    one = simulator(dtype=np.complex128)
    gates = [
        cirq.PhasedXZGate(x_exponent=1, z_exponent=0.3, axis_phase_exponent=0.2),
        cirq.PhasedXZGate(x_exponent=1, z_exponent=-0.7, axis_phase_exponent=0.7),
    ]
    found = [
        one.simulate_expectation_values(
            cirq.Circuit(cirq.H(A), cirq.ControlledGate(gate)(A, B), cirq.CNOT(A, B)),
            [cirq.X(A), cirq.Y(A)],
        )
        for gate in gates
    ]
    np.testing.assert_allclose(found, [[0, 1], [1, 0]], atol=1e-7)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copied_simulator_does_not_know_objects(duplicate: Callable) -> None:
    # Memory of a freed circuit may become that of another one.
    simulator, circuit = qfleet.cirq.Simulator(seed=1), cirq.FrozenCircuit(cirq.X(A))
    simulator.simulate(circuit)
    assert id(circuit) in simulator._circuits._parts
    assert not duplicate(simulator)._circuits._parts


def test_circuit_without_a_hash_is_simulated(simulator: Factory) -> None:
    circuit = cirq.Circuit(cirq.X(A), cirq.measure(A, key="a", invert_mask=[True]))
    for _ in range(2):
        assert not simulator().run(circuit).measurements["a"].any()


def test_nothing_to_compute_is_an_empty_result(simulator: Factory) -> None:
    circuit, none = cirq.Circuit(cirq.X(A)), cirq.ListSweep([])
    assert simulator().simulate_expectation_values_sweep(circuit, [cirq.Z(A)], none) == []
    assert simulator().simulate_expectation_values(circuit, []) == []


def test_gradients_of_no_points_are_an_empty_list() -> None:
    found = qfleet.cirq.Simulator().simulate_expectation_gradients_sweep(
        cirq.Circuit(cirq.rx(x)(A)), [cirq.Z(A)], cirq.ListSweep([])
    )
    assert found == []
