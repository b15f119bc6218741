"""Runs of circuits with measurements before the end, classical control, channels and resets."""

import itertools
import pickle
import warnings
from collections import Counter
from typing import Any

import cirq
import numpy as np
import pytest
import sympy

import qfleet
import qfleet.cirq
from qfleet.errors import CircuitError
from tests.support.outcome_reference import Outcomes, outcomes, probabilities

A, B, C = QUBITS = cirq.LineQubit.range(3)
RUNS = 2000
STATES = 60
KEY_A = cirq.KeyCondition(cirq.MeasurementKey("a"))
FIRST_A = cirq.KeyCondition(cirq.MeasurementKey("a"), index=0)
A_IS_2 = cirq.BitMaskKeyCondition("a", target_value=2, equal_target=True)
A_GREATER_B = cirq.SympyCondition(sympy.Symbol("a") > sympy.Symbol("b"))
CIRCUITS = {
    "teleportation": cirq.Circuit(
        cirq.ry(0.7)(A),
        [cirq.H(B), cirq.CNOT(B, C), cirq.CNOT(A, B), cirq.H(A)],
        [cirq.measure(A, key="z"), cirq.measure(B, key="x")],
        [cirq.X(C).with_classical_controls("x"), cirq.Z(C).with_classical_controls("z")],
        cirq.measure(C, key="m"),
    ),
    "a qubit measured twice": cirq.Circuit(
        [cirq.ry(0.9)(A), cirq.measure(A, key="m"), cirq.ry(0.4)(A), cirq.measure(A, key="m")],
    ),
    "resets": cirq.Circuit(
        [cirq.H(A), cirq.CNOT(A, B), cirq.reset(A), cirq.ry(1.1)(A), cirq.measure(A, B, key="m")]
    ),
    "reset by a measurement": cirq.Circuit(
        [cirq.H(A), cirq.measure(A, key="a"), cirq.X(A).with_classical_controls("a")],
        cirq.measure(A, key="m"),
    ),
    "a conditional reset": cirq.Circuit(
        [cirq.ry(0.8)(A), cirq.H(B), cirq.measure(A, key="a")],
        [cirq.reset(B).with_classical_controls("a"), cirq.measure(B, key="m")],
    ),
    "channels": cirq.Circuit(
        [cirq.ry(1.0)(A), cirq.amplitude_damp(0.4)(A), cirq.CNOT(A, B)],
        [cirq.depolarize(0.3, n_qubits=2)(A, B), cirq.phase_damp(0.5)(B), cirq.H(B)],
        cirq.measure(A, B, key="m"),
    ),
    "masks": cirq.Circuit(
        [cirq.ry(0.6)(A), cirq.H(B), cirq.measure(A, B, key="a", invert_mask=(True,))],
        [cirq.X(C).with_classical_controls(A_IS_2), cirq.measure(C, key="m")],
    ),
    "an expression": cirq.Circuit(
        [cirq.H(A), cirq.ry(0.9)(B), cirq.measure(A, C, key="a"), cirq.measure(B, key="b")],
        [cirq.X(C).with_classical_controls(A_GREATER_B), cirq.measure(C, key="m")],
    ),
    "two conditions": cirq.Circuit(
        [cirq.H(A), cirq.H(B), cirq.measure(A, key="a"), cirq.measure(B, key="b")],
        [cirq.CNOT(A, C).with_classical_controls("a", "b"), cirq.measure(C, key="m")],
    ),
    "the first instance of a key": cirq.Circuit(
        [cirq.ry(1.2)(A), cirq.measure(A, key="a"), cirq.X(A), cirq.measure(A, key="a")],
        [cirq.X(C).with_classical_controls(FIRST_A), cirq.X(B).with_classical_controls(KEY_A)],
        cirq.measure(B, C, key="m"),
    ),
    "an earlier block of the controlled qubit": cirq.Circuit(
        [cirq.H(B), cirq.CNOT(B, C), cirq.ry(1.3)(A), cirq.measure(A, key="a")],
        [cirq.X(B).with_classical_controls("a"), cirq.H(B), cirq.measure(B, C, key="m")],
    ),
}


def counts(circuit: cirq.AbstractCircuit, simulator: cirq.SimulatesSamples) -> Counter[Outcomes]:
    """Return how often runs of a circuit have each list of outcomes."""
    records = simulator.run(circuit, repetitions=RUNS).records
    return Counter(
        outcomes({cirq.MeasurementKey(key): found[run] for key, found in records.items()})
        for run in range(RUNS)
    )


def check(circuit: cirq.AbstractCircuit, seed: int) -> None:
    """Compare the outcomes of runs with their exact probabilities, within 5 deviations."""
    expected = probabilities(circuit)
    with warnings.catch_warnings():
        warnings.simplefilter("error", qfleet.cirq.FallbackWarning)
        found = counts(circuit, qfleet.cirq.Simulator(seed=seed))
    assert found.keys() <= expected.keys()
    for outcome, probability in expected.items():
        deviation = np.sqrt(RUNS * probability * max(0, 1 - probability))
        assert abs(found[outcome] - RUNS * probability) <= 5 * deviation + 1e-6, outcome


def check_states(circuit: cirq.AbstractCircuit, seed: int) -> None:
    """Compare final states in another basis, with their records, with exact probabilities."""
    rotation = cirq.Circuit(cirq.rx(0.4 + at)(qubit) for at, qubit in enumerate(QUBITS))
    expected = probabilities(circuit + rotation + cirq.measure(*QUBITS, key="final"))
    simulator = qfleet.cirq.Simulator(seed=seed, dtype=np.complex128)
    found: Counter[Outcomes] = Counter()
    bits = [[number >> at & 1 for at in (2, 1, 0)] for number in range(8)]
    for _ in range(STATES):
        with warnings.catch_warnings():
            warnings.simplefilter("error", qfleet.cirq.FallbackWarning)
            result = simulator.simulate(circuit, qubit_order=QUBITS)
        records = {cirq.MeasurementKey(key): [one] for key, one in result.measurements.items()}
        state = rotation.final_state_vector(
            initial_state=result.final_state_vector, qubit_order=QUBITS, dtype=np.complex128
        )
        for final, probability in zip(bits, np.square(np.abs(state)), strict=True):
            found[outcomes({**records, cirq.MeasurementKey("final"): [final]})] += probability
    for outcome, weight in found.items():
        probability = expected.get(outcome, 0.0)
        deviation = np.sqrt(STATES * probability * max(0, 1 - probability))
        assert abs(weight - STATES * probability) <= 5 * deviation + 1e-6, outcome


def random_circuit(random: np.random.RandomState) -> cirq.Circuit:
    """Return gates, channels, resets, measurements and controls in any order."""
    circuit, keys = cirq.Circuit(), 0
    for _ in range(14):
        first, second = (QUBITS[at] for at in random.permutation(3)[:2])
        angle = random.uniform(0, 3)
        operation = [
            cirq.ry(angle)(first),
            cirq.CNOT(first, second),
            cirq.ISWAP(first, second) ** angle,
            cirq.amplitude_damp(0.3)(first),
            cirq.bit_flip(0.2)(first),
            cirq.reset(first),
            None,
        ][random.randint(7)]
        if operation is None and keys < 3:
            circuit.append(cirq.measure(first, key=f"k{keys}"))
            keys += 1
        elif operation is not None:
            controls = [f"k{random.randint(keys)}"] if keys and random.randint(2) else []
            circuit.append(operation.with_classical_controls(*controls))
    return circuit + cirq.measure(*QUBITS, key="end")


@pytest.mark.parametrize("name", CIRCUITS)
def test_runs_have_the_exact_distribution(name: str) -> None:
    check(CIRCUITS[name], seed=11)


@pytest.mark.parametrize(
    "name", ["teleportation", "a conditional reset", "channels", "masks", "two conditions"]
)
def test_final_states_have_the_exact_distribution(name: str) -> None:
    check_states(CIRCUITS[name], seed=12)


def test_final_states_of_a_random_circuit_are_exact() -> None:
    check_states(random_circuit(np.random.RandomState(5)), seed=5)


@pytest.mark.parametrize("initial", [5, np.array([0.6, 0, 0, 0, 0, 0.8j, 0, 0], np.complex64)])
def test_final_state_starts_at_the_initial_one(initial: Any) -> None:
    order = (C, A, B)
    circuit = cirq.Circuit(cirq.H(A), cirq.reset(A), cirq.CNOT(C, B), cirq.T(C), cirq.X(A))
    found, expected = (
        kind(seed=1).simulate(circuit, qubit_order=order, initial_state=initial)
        for kind in (qfleet.cirq.Simulator, cirq.Simulator)
    )
    np.testing.assert_allclose(
        np.outer(found.final_state_vector, found.final_state_vector.conj()),
        np.outer(expected.final_state_vector, expected.final_state_vector.conj()),
        atol=1e-6,
    )


@pytest.mark.parametrize("permit", [False, True])
def test_values_are_those_of_a_final_state(permit: bool) -> None:
    x = sympy.Symbol("x")
    circuit = cirq.Circuit(
        [cirq.H(A), cirq.measure(A, key="a"), cirq.X(B).with_classical_controls("a")],
        [cirq.S(A), cirq.ry(x)(C), cirq.bit_flip(1.0)(C)],
    )
    if permit:
        circuit += cirq.measure(B, key="b")
    simulator = qfleet.cirq.Simulator(seed=3, dtype=np.complex128)
    sums = [cirq.Z(A) * cirq.Z(B), cirq.Z(A), 2 * cirq.Z(C), cirq.Z(cirq.LineQubit(9))]
    found = simulator.simulate_expectation_values_sweep(
        circuit, sums, [{"x": 0.3}] * 9, permit_terminal_measurements=permit
    )
    signs = [values[1] for values in found]
    np.testing.assert_allclose(np.abs(signs), 1, atol=1e-12)
    assert np.abs(np.sum(signs)) < 9
    for values in found:
        np.testing.assert_allclose(values[::2], [1, -2 * np.cos(0.3)], atol=1e-12)
        assert values[3] == pytest.approx(1)
    if permit:
        with pytest.raises(ValueError, match="terminal"):
            simulator.simulate_expectation_values(circuit, sums, {"x": 0.3})


def test_noise_acts_on_a_final_state() -> None:
    circuit = cirq.Circuit(cirq.H(A), cirq.X(A), cirq.CNOT(A, B))
    found = qfleet.cirq.Simulator(noise=cirq.ConstantQubitNoiseModel(cirq.Z)).simulate(circuit)
    exact = cirq.Simulator(noise=cirq.ConstantQubitNoiseModel(cirq.Z)).simulate(circuit)
    assert abs(np.vdot(found.final_state_vector, exact.final_state_vector)) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(8))
def test_runs_of_random_circuits_have_the_exact_distribution(seed: int) -> None:
    check(random_circuit(np.random.RandomState(seed)), seed)


@pytest.mark.parametrize(
    "noise", [cirq.depolarize(0.1), cirq.ConstantQubitNoiseModel(cirq.amplitude_damp(0.3))]
)
def test_noise_model_acts_after_each_moment(noise: cirq.NOISE_MODEL_LIKE) -> None:
    circuit = cirq.Circuit(cirq.H(A), cirq.CNOT(A, B), cirq.measure(A, B, key="m"))
    model = cirq.NoiseModel.from_noise_model_like(noise)
    exact = probabilities(cirq.Circuit(model.noisy_moments(circuit, [A, B])))
    found = counts(circuit, qfleet.cirq.Simulator(noise=noise, seed=4))
    for outcome, probability in exact.items():
        deviation = np.sqrt(RUNS * probability * (1 - probability))
        assert abs(found[outcome] - RUNS * probability) <= 5 * deviation


def test_pauli_measurement_is_run() -> None:
    circuit = cirq.Circuit(
        [cirq.H(A), cirq.CNOT(A, B)],
        cirq.measure_single_paulistring(cirq.X(A) * cirq.X(B), key="xx"),
        cirq.measure(A, B, key="m"),
    )
    found = qfleet.cirq.Simulator(seed=1).run(circuit, repetitions=200).measurements
    assert not found["xx"].any()
    assert (found["m"][:, 0] == found["m"][:, 1]).all()
    assert 50 < found["m"][:, 0].sum() < 150


def test_runs_depend_on_the_seed_only() -> None:
    circuit = random_circuit(np.random.RandomState(3))
    threads = qfleet.num_threads()
    try:
        found = []
        for count in (1, 2, 5):
            qfleet.set_num_threads(count)
            found.append(qfleet.cirq.Simulator(seed=9).run(circuit, repetitions=300))
    finally:
        qfleet.set_num_threads(threads)
    assert found[0] == found[1] == found[2]
    assert found[0] != qfleet.cirq.Simulator(seed=10).run(circuit, repetitions=300)


def test_points_of_a_sweep_have_their_values() -> None:
    x = sympy.Symbol("x")
    circuit = cirq.Circuit(
        [cirq.X(A) ** x, cirq.measure(A, key="a"), cirq.X(B).with_classical_controls("a")],
        cirq.measure(B, key="b"),
    )
    simulator = qfleet.cirq.Simulator(seed=2)
    found = simulator.run_sweep(circuit, cirq.Points("x", [0, 1]), repetitions=5)
    assert [one.measurements["b"].ravel().tolist() for one in found] == [[0] * 5, [1] * 5]
    with pytest.raises(CircuitError, match="symbol x has no value"):
        simulator.run(circuit)


class Decays(cirq.Gate):
    """A channel by its parts, on any number of qubits."""

    def _num_qubits_(self) -> int:
        return 3

    def _decompose_(self, qubits: tuple[cirq.Qid, ...]) -> list[cirq.Operation]:
        return [cirq.CNOT(qubits[0], qubits[2]), *cirq.amplitude_damp(1).on_each(*qubits[:2])]


def test_channel_without_operators_is_decomposed() -> None:
    circuit = cirq.Circuit(cirq.X(A), Decays()(A, B, C), cirq.measure(A, B, C, key="m"))
    found = qfleet.cirq.Simulator().run(circuit, repetitions=20).measurements["m"]
    np.testing.assert_array_equal(found, [[0, 0, 1]] * 20)


def test_loops_of_a_circuit_are_unrolled() -> None:
    body = cirq.FrozenCircuit(cirq.H(A), cirq.measure(A, key="a"))
    circuit = cirq.Circuit(cirq.CircuitOperation(body, repetitions=3, use_repetition_ids=False))
    found = qfleet.cirq.Simulator(seed=2).run(circuit, repetitions=500).records["a"]
    assert found.shape == (500, 3, 1)
    assert (abs(found.mean(axis=0) - 0.5) < 0.1).all()


def test_confusion_map_changes_records_only() -> None:
    always = {(0,): np.array([[0.0, 1.0], [1.0, 0.0]])}
    circuit = cirq.Circuit(
        cirq.measure(A, key="a", confusion_map=always), cirq.X(A), cirq.measure(A, key="b")
    )
    found = qfleet.cirq.Simulator().run(circuit, repetitions=20).measurements
    assert found["a"].all()
    assert found["b"].all()


def test_no_repetitions_give_empty_records() -> None:
    found = qfleet.cirq.Simulator().run(CIRCUITS["teleportation"], repetitions=0)
    assert found.records["m"].shape == (0, 1, 1)


def test_copied_simulator_runs_other_circuits() -> None:
    simulator = qfleet.cirq.Simulator(seed=5)
    simulator.run(CIRCUITS["teleportation"])
    copy = pickle.loads(pickle.dumps(simulator))
    assert copy.run(CIRCUITS["resets"], repetitions=9).measurements["m"].shape == (9, 2)


def test_wide_circuit_is_run() -> None:
    qubits = cirq.LineQubit.range(12)
    circuit = cirq.Circuit(cirq.H(qubits[0]))
    for left, right in itertools.pairwise(qubits):
        circuit += [cirq.CNOT(left, right), cirq.measure(left, key=str(left))]
    circuit += cirq.measure(qubits[-1], key="end")
    found = qfleet.cirq.Simulator(seed=3).run(circuit, repetitions=100).measurements
    for key in found:
        np.testing.assert_array_equal(found[key], found["end"])
    assert 20 < found["end"].sum() < 80


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_state_wider_than_a_chunk_in_cache_is_exact(dtype: Any) -> None:
    qubits, random = cirq.LineQubit.range(14), np.random.RandomState(7)
    # The second half begins with qubits that have been |0> until then.
    drawn = [[random.permutation(width)[:2] for _ in range(40)] for width in (11, 14)]
    drawn[1] = [np.array(pair) for pair in ((0, 1), (11, 12), (12, 0))] + drawn[1]
    halves = []
    for number, pairs in enumerate(drawn):
        half = cirq.Circuit()
        for pair in pairs:
            first, second = (qubits[at] for at in pair)
            half += [cirq.ry(random.uniform(0, 3))(first), cirq.ry(1.2)(second)]
            half += [cirq.CZ, cirq.FSimGate(*random.uniform(0, 3, 2))][number](first, second)
        halves.append(half)
    circuit = halves[0] + cirq.measure(qubits[3], key="m") + halves[1]
    found = qfleet.cirq.Simulator(seed=2, dtype=dtype).simulate(circuit, qubit_order=qubits)
    start = halves[0].final_state_vector(qubit_order=qubits, dtype=np.complex128)
    start = start.reshape((2,) * 14)
    np.moveaxis(start, 3, 0)[1 - found.measurements["m"][0]] = 0
    expected = halves[1].final_state_vector(
        initial_state=start / np.linalg.norm(start), qubit_order=qubits, dtype=np.complex128
    )
    error = np.abs(found.final_state_vector - expected).max()
    assert error < (1e-6 if dtype is np.complex64 else 1e-13)
