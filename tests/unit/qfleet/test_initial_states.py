"""Circuits that take a state per example, compared with cirq.Simulator and with matrices."""

import pickle
from typing import Any

import cirq
import numpy as np
import pytest
import sympy

import qfleet
import qfleet.cirq
from qfleet.circuits.qcnn import qcnn
from qfleet.engine import devices
from qfleet.errors import ArgumentError, CircuitError
from tests.support.mixed_states import SEEDS, draw_mixed_case
from tests.support.random_circuits import INPUTS, PARAMETERS, draw_cases

TOLERANCE = {"complex64": 2e-5, "complex128": 1e-10}
QUBITS = cirq.LineQubit.range(3)
X, P, Q = sympy.symbols("x p q")
CIRCUIT = cirq.Circuit(
    cirq.H.on_each(*QUBITS),  # before the first symbol: gradients by states pass it, too
    [cirq.rx(X).on(QUBITS[0]), cirq.CNOT(QUBITS[0], QUBITS[1]), cirq.ry(P * X).on(QUBITS[1])],
    [cirq.CZ(QUBITS[1], QUBITS[2]), cirq.ISWAP(QUBITS[0], QUBITS[2]) ** Q],
)
OBSERVABLES = (cirq.Z(QUBITS[0]), cirq.X(QUBITS[1]) * cirq.Y(QUBITS[2]) - 0.5 * cirq.Z(QUBITS[0]))
POINT = np.array([[0.3], [-1.1], [0.8]]), np.array([0.7, -0.4])


def random_states(batch: int, qubits: int, seed: int = 0) -> np.ndarray:
    """Return states [batch, 2**qubits]."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(batch, 2**qubits)) + 1j * rng.normal(size=(batch, 2**qubits))
    return states / np.linalg.norm(states, axis=1, keepdims=True)


def compiled(**options: Any) -> qfleet.CompiledCircuit:
    """Compile CIRCUIT."""
    options = {"observables": OBSERVABLES, "initial_states": True} | options
    return qfleet.compile(CIRCUIT, ["x"], **options)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("drawn", range(12))
def test_random_circuit_from_random_states_equals_cirq(drawn: int, dtype: str) -> None:
    case = draw_cases(91, 12, most_qubits=6)[drawn]
    qubits = sorted(case.circuit.all_qubits())
    arguments = case.circuit, INPUTS, PARAMETERS
    options = {"dtype": dtype, "initial_states": True}
    circuit = qfleet.compile(*arguments, case.observables, **options)
    rng = np.random.default_rng(case.seed)
    batch = min(case.batch, 3)
    inputs, parameters = rng.normal(size=(batch, len(INPUTS))), rng.normal(size=len(PARAMETERS))
    states = random_states(batch, len(qubits), case.seed)
    upstream = rng.normal(size=(batch, len(case.observables)))
    values, gradients = circuit.value_and_gradient(
        inputs, parameters, upstream, initial_states=states, state_gradients=True
    )
    final = qfleet.compile(*arguments, **options).state(inputs, parameters, initial_states=states)
    sums = [cirq.PauliSum.wrap(one) for one in case.observables]
    matrices = [one.matrix(qubits) for one in sums]
    scale = max(1.0, *(abs(one).sum(axis=1).max() for one in matrices))
    tolerance = TOLERANCE[dtype] * scale
    for row, start in enumerate(states):
        symbols = dict(zip((*INPUTS, *PARAMETERS), [*inputs[row], *parameters], strict=True))
        resolved = cirq.resolve_parameters(case.circuit, symbols)
        unitary = resolved.unitary(qubit_order=qubits, dtype=np.complex128)
        np.testing.assert_allclose(final[row], unitary @ start, atol=TOLERANCE[dtype])
        wanted = [np.vdot(unitary @ start, one @ unitary @ start).real for one in matrices]
        np.testing.assert_allclose(values[row], wanted, atol=tolerance)
        mixed = sum(weight * one for weight, one in zip(upstream[row], matrices, strict=True))
        by_state = 2 * unitary.conj().T @ mixed @ unitary @ start
        np.testing.assert_allclose(gradients.initial_states[row], by_state, atol=5 * tolerance)


def test_derivatives_equal_differences() -> None:
    circuit, states = compiled(), random_states(3, 3)
    _, gradients = circuit.value_and_gradient(*POINT, initial_states=states)
    assert gradients.initial_states is None
    direction = np.array([0.6, -0.8])
    step = 1e-5

    def along(sign: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        moved = POINT[0], POINT[1] + sign * step * direction
        values, found = circuit.value_and_gradient(*moved, initial_states=states)
        return values, found.inputs, found.parameters

    differences = [(up - low) / (2 * step) for up, low in zip(along(1), along(-1), strict=True)]
    np.testing.assert_allclose(gradients.parameters @ direction, differences[0].sum(), atol=1e-8)
    tangents, second = circuit.hvp(*POINT, None, None, direction, initial_states=states)
    np.testing.assert_allclose(tangents, differences[0], atol=1e-8)
    np.testing.assert_allclose(second.inputs, differences[1], atol=1e-8)
    np.testing.assert_allclose(second.parameters, differences[2], atol=1e-8)


def test_state_gradient_reaches_the_initial_states() -> None:
    circuit, starts = compiled(observables=()), random_states(3, 3)
    states = circuit.state(*POINT, initial_states=starts)
    upstream = random_states(3, 3, seed=1)
    found = circuit.state_vjp(*POINT, upstream, initial_states=starts, state_gradients=True)
    # The states are linear in the initial ones, so that <upstream|states> = <gradient|initial>.
    expected = np.einsum("bi,bi->b", upstream.conj(), states)
    actual = np.einsum("bi,bi->b", found.initial_states.conj(), starts)
    np.testing.assert_allclose(actual, expected, atol=1e-12)


def test_forward_and_vjp_equal_the_joint_call() -> None:
    circuit, states = compiled(), random_states(3, 3)
    options = {"initial_states": states, "state_gradients": True}
    values, expected = circuit.value_and_gradient(*POINT, **options)
    forward, residuals = circuit.forward(*POINT, initial_states=states)
    np.testing.assert_array_equal(forward, values)
    for kept in (residuals, None):
        found = circuit.vjp(*POINT, np.ones((3, 2)), residuals=kept, **options)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-14)
        np.testing.assert_allclose(found.initial_states, expected.initial_states, atol=1e-14)
        again = pickle.loads(pickle.dumps(found))
        np.testing.assert_array_equal(again.initial_states, found.initial_states)
    other = {"initial_states": random_states(3, 3, seed=9)}
    with pytest.raises(ArgumentError, match="residuals belong to another"):
        circuit.vjp(*POINT, np.ones((3, 2)), residuals=residuals, **other)
    states[0] = np.roll(states[0], 1)
    with pytest.raises(ArgumentError, match="kept does not hold the states"):
        circuit.vjp(*POINT, np.ones((3, 2)), residuals=residuals, initial_states=states)


def test_state_without_a_batch_axis_is_one_example() -> None:
    circuit, states = compiled(), random_states(3, 3)
    values, gradients = circuit.value_and_gradient(
        *POINT, initial_states=states, state_gradients=True
    )
    point = POINT[0][1], POINT[1]
    one, by_one = circuit.value_and_gradient(*point, initial_states=states[1], state_gradients=True)
    np.testing.assert_allclose(one, values[1], atol=1e-14)
    np.testing.assert_allclose(by_one.initial_states, gradients.initial_states[1], atol=1e-14)


def test_states_give_the_batch_of_a_circuit_without_inputs() -> None:
    circuit = qfleet.compile(
        cirq.Circuit(cirq.ry(P).on(QUBITS[0])), observables=cirq.Z(QUBITS[0]), initial_states=True
    )
    states = np.eye(2)
    np.testing.assert_allclose(
        circuit.expectation(None, [0.3], initial_states=states)[:, 0],
        [np.cos(0.3), -np.cos(0.3)],
    )
    assert circuit.expectation(None, [0.3], initial_states=states[0]).shape == (1,)
    assert circuit.expectation(None, [0.3], initial_states=states[:0]).shape == (0, 1)


def test_samples_follow_the_states() -> None:
    circuit = qfleet.compile(
        cirq.Circuit(cirq.X(QUBITS[1]), cirq.I(QUBITS[0])), initial_states=True
    )
    bits = circuit.sample(None, None, 7, seed=3, initial_states=np.eye(4))
    wanted = [[0, 1], [0, 0], [1, 1], [1, 0]]
    np.testing.assert_array_equal(bits, np.repeat(np.array(wanted)[:, None], 7, axis=1))


NOISY = CIRCUIT.with_noise(cirq.ConstantQubitNoiseModel(cirq.depolarize(0.05)))
DAMPED = cirq.Circuit(CIRCUIT, cirq.amplitude_damp(0.3).on_each(*QUBITS[:2]), cirq.H(QUBITS[0]))


def on_any_states(circuit: qfleet.CompiledCircuit, inputs: np.ndarray, states: np.ndarray) -> Any:
    """Return values of states of any norm: the values are quadratic forms."""
    norms = np.linalg.norm(states, axis=1, keepdims=True)
    return norms**2 * circuit.expectation(inputs, POINT[1], initial_states=states / norms)


@pytest.mark.parametrize("circuit", [NOISY, DAMPED], ids=["depolarized", "damped"])
@pytest.mark.parametrize("batch", [1, 3, 9])
def test_density_matrices_of_states_equal_cirq(circuit: cirq.Circuit, batch: int) -> None:
    # The second and third qubit of the observables' cone are traced out early, or not at all.
    for observables in (OBSERVABLES, (cirq.Z(QUBITS[0]) + 0.2,)):
        noisy = qfleet.compile(circuit, ["x"], observables=observables, initial_states=True)
        assert noisy.method == "density_matrix"
        assert len(noisy.qubits) == 3
        states, rng = random_states(batch, 3, batch), np.random.default_rng(batch)
        inputs = rng.normal(size=(batch, 1))
        upstream = rng.normal(size=(batch, len(observables)))
        values, gradients = noisy.value_and_gradient(
            inputs, POINT[1], upstream, initial_states=states, state_gradients=True
        )
        for row, start in enumerate(states):
            resolver = {"x": inputs[row, 0], "p": POINT[1][0], "q": POINT[1][1]}
            wanted = cirq.DensityMatrixSimulator(dtype=np.complex128).simulate_expectation_values(
                circuit, list(observables), resolver, initial_state=start, qubit_order=QUBITS
            )
            np.testing.assert_allclose(values[row], wanted, atol=1e-10)
        steps = random_states(batch, 3, 77)
        change = (
            on_any_states(noisy, inputs, states + steps)
            - on_any_states(noisy, inputs, states - steps)
        ) / 2
        found = (gradients.initial_states.conj() * steps).sum(axis=1).real
        np.testing.assert_allclose(found, (upstream * change).sum(axis=1), atol=1e-10)


def random_matrices(batch: int, qubits: int, seed: int = 0) -> np.ndarray:
    """Return density matrices [batch, 2**qubits, 2**qubits] of rank 3."""
    states = random_states(3 * batch, qubits, seed).reshape(batch, 3, -1)
    weights = np.random.default_rng(seed).dirichlet(np.ones(3), batch)
    return np.einsum("br,bri,brj->bij", weights, states, states.conj())


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("circuit", [NOISY, DAMPED], ids=["depolarized", "damped"])
@pytest.mark.parametrize("batch", [1, 9])
def test_density_matrices_as_states_equal_cirq(
    circuit: cirq.Circuit, batch: int, dtype: str
) -> None:
    for observables in (OBSERVABLES, (cirq.Z(QUBITS[0]) + 0.2,)):
        noisy = qfleet.compile(
            circuit, ["x"], observables=observables, initial_states=True, dtype=dtype
        )
        matrices, rng = random_matrices(batch, 3, batch), np.random.default_rng(batch)
        inputs, upstream = rng.normal(size=(batch, 1)), rng.normal(size=(batch, len(observables)))
        values, gradients = noisy.value_and_gradient(
            inputs, POINT[1], upstream, initial_states=matrices, state_gradients=True
        )
        for row, start in enumerate(matrices):
            resolver = {"x": inputs[row, 0], "p": POINT[1][0], "q": POINT[1][1]}
            wanted = cirq.DensityMatrixSimulator(dtype=np.complex128).simulate_expectation_values(
                circuit, list(observables), resolver, initial_state=start, qubit_order=QUBITS
            )
            np.testing.assert_allclose(values[row], wanted, atol=TOLERANCE[dtype])
        others = random_matrices(batch, 3, 77)
        change = values - noisy.expectation(inputs, POINT[1], initial_states=others)
        found = np.einsum("bij,bij->b", gradients.initial_states.conj(), matrices - others).real
        tolerance = 10 * TOLERANCE[dtype]
        np.testing.assert_allclose(found, (upstream * change).sum(axis=1), atol=tolerance)
        adjoint = gradients.initial_states.conj().swapaxes(1, 2)
        np.testing.assert_allclose(gradients.initial_states, adjoint, atol=tolerance)


def test_pure_density_matrices_equal_their_vectors() -> None:
    noisy = qfleet.compile(DAMPED, ["x"], observables=OBSERVABLES, initial_states=True)
    states = random_states(3, 3)
    matrices = np.einsum("bi,bj->bij", states, states.conj())
    arguments = {"state_gradients": True}
    values, expected = noisy.value_and_gradient(*POINT, initial_states=states, **arguments)
    found, gradients = noisy.value_and_gradient(*POINT, initial_states=matrices, **arguments)
    np.testing.assert_allclose(found, values, atol=1e-12)
    np.testing.assert_allclose(gradients.inputs, expected.inputs, atol=1e-12)
    np.testing.assert_allclose(gradients.parameters, expected.parameters, atol=1e-12)
    by_state = 2 * np.einsum("bij,bj->bi", gradients.initial_states, states)
    np.testing.assert_allclose(by_state, expected.initial_states, atol=1e-12)
    one, by_one = noisy.value_and_gradient(
        POINT[0][1], POINT[1], initial_states=matrices[1], **arguments
    )
    np.testing.assert_allclose(one, values[1], atol=1e-12)
    np.testing.assert_allclose(by_one.initial_states, gradients.initial_states[1], atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_mixed_states_are_the_mean_of_their_vectors(seed: int) -> None:
    case = draw_mixed_case(seed)
    names = INPUTS, PARAMETERS
    noisy = qfleet.compile(case.circuit, *names, case.observables, initial_states=True)
    values, found = noisy.value_and_gradient(
        *(case.inputs, case.parameters, case.upstream),
        initial_states=case.matrices,
        state_gradients=True,
    )
    np.testing.assert_allclose(values, case.values, atol=1e-12)
    for one, wanted in zip((*found, found.initial_states), case.gradients, strict=True):
        np.testing.assert_allclose(one, wanted, atol=1e-12)


@pytest.mark.parametrize("noise", [None, cirq.depolarize(0.1)])
def test_sweeps_of_cirq_start_at_density_matrices(noise: cirq.Gate | None) -> None:
    order = [QUBITS[2], QUBITS[0], cirq.q("extra"), QUBITS[1]]
    circuit = DAMPED + cirq.measure(QUBITS[0])
    matrix = random_matrices(1, 4)[0]
    sweep = [{"x": x, "p": 0.3, "q": x**2} for x in (0.4, -1.1)]
    options = {
        "qubit_order": order,
        "initial_state": matrix,
        "permit_terminal_measurements": True,
    }
    ours = qfleet.cirq.Simulator(dtype=np.complex128, noise=noise)
    theirs = cirq.DensityMatrixSimulator(dtype=np.complex128, noise=noise)
    arguments = circuit, list(OBSERVABLES)
    found = ours.simulate_expectation_values_sweep(*arguments, sweep, **options)
    wanted = [  # without the measurement, which is ignored
        theirs.simulate_expectation_values(DAMPED, arguments[1], point, order, matrix)
        for point in sweep
    ]
    np.testing.assert_allclose(found, np.real(wanted), atol=1e-7)
    slopes = ours.simulate_expectation_gradients(*arguments, sweep[0], **options)
    for name in "xpq":
        ahead, back = (
            ours.simulate_expectation_values(
                *arguments, sweep[0] | {name: sweep[0][name] + step}, **options
            )
            for step in (1e-5, -1e-5)
        )
        difference = (np.array(ahead) - back) / 2e-5
        np.testing.assert_allclose([one[name] for one in slopes], difference, atol=1e-8)


def test_wrong_density_matrix_is_refused_in_cirq() -> None:
    simulator, circuit = qfleet.cirq.Simulator(), cirq.Circuit(cirq.H(QUBITS[0]))
    with pytest.raises(CircuitError, match=r"^initial_state has the trace 2: divide"):
        simulator.simulate_expectation_values(circuit, cirq.Z(QUBITS[0]), initial_state=np.eye(2))
    with pytest.raises(
        CircuitError, match=r"initial_state is a density matrix.*expectation_values"
    ):
        simulator.simulate(circuit, initial_state=np.eye(2) / 2)


def test_matrices_give_the_batch_of_a_circuit_without_inputs() -> None:
    circuit = cirq.Circuit(cirq.ry(P).on(QUBITS[0]), cirq.phase_flip(0.2).on(QUBITS[0]))
    noisy = qfleet.compile(circuit, observables=cirq.Z(QUBITS[0]), initial_states=True)
    mixed = np.array([[[0.75, 0], [0, 0.25]], [[0.5, 0], [0, 0.5]]])
    found = noisy.expectation(None, [0.3], initial_states=mixed)[:, 0]
    np.testing.assert_allclose(found, [0.5 * np.cos(0.3), 0], atol=1e-12)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(8) / 4, "has the trace 2: divide"),
        (np.diag([1.5, -0.5, 0, 0, 0, 0, 0, 0]), "has the eigenvalue -0.5: pass a positive"),
        (np.eye(8) / 8 + np.eye(8, k=1) / 2, "differs from its adjoint by 0.5"),
        (np.full((8, 8), np.nan), r"initial_states is \(?nan.* at index \(0, 0, 0\)"),
        (np.eye(4) / 4, r"shape \[1, 4, 4\]"),
    ],
)
def test_wrong_density_matrix_is_refused(matrix: np.ndarray, message: str) -> None:
    noisy = qfleet.compile(DAMPED, ["x"], observables=OBSERVABLES, initial_states=True)
    with pytest.raises(ArgumentError, match=message):
        noisy.expectation(POINT[0][:1], POINT[1], initial_states=matrix[None])


@pytest.mark.parametrize("options", [{}, {"trajectories": 3}])
def test_density_matrices_need_their_method(options: dict[str, Any]) -> None:
    circuit = qfleet.compile(
        DAMPED if options else CIRCUIT, ["x"], observables=OBSERVABLES, initial_states=True,
        **options,
    )  # fmt: skip
    with pytest.raises(ArgumentError, match='method="density_matrix"'):
        circuit.expectation(*POINT, initial_states=random_matrices(3, 3))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_trajectories_of_states_have_exact_derivatives(dtype: str) -> None:
    noisy = qfleet.compile(
        NOISY, ["x"], observables=OBSERVABLES, initial_states=True, trajectories=40, dtype=dtype
    )
    states, steps = random_states(3, 3), random_states(3, 3, 77)
    _, gradients = noisy.value_and_gradient(*POINT, initial_states=states, state_gradients=True)
    # The drawn unitaries depend on the inputs only, so that each estimate is a quadratic form.
    change = (
        on_any_states(noisy, POINT[0], states + steps)
        - on_any_states(noisy, POINT[0], states - steps)
    ) / 2
    found = (gradients.initial_states.conj() * steps).sum(axis=1).real
    np.testing.assert_allclose(found, change.sum(axis=1), atol=20 * TOLERANCE[dtype])


def test_estimates_of_states_are_those_of_density_matrices() -> None:
    states = random_states(3, 3)
    options = {"observables": OBSERVABLES, "initial_states": True}
    exact = qfleet.compile(DAMPED, ["x"], **options)
    estimated = qfleet.compile(DAMPED, ["x"], **options, trajectories=4000, seed=3)
    measured = qfleet.compile(CIRCUIT, ["x"], **options, shots=20000, seed=3)
    arguments = {"initial_states": states, "state_gradients": True}
    values, gradients = exact.value_and_gradient(*POINT, **arguments)
    means, slopes = estimated.value_and_gradient(*POINT, **arguments)
    np.testing.assert_allclose(means, values, atol=0.1)
    np.testing.assert_allclose(slopes.initial_states, gradients.initial_states, atol=0.15)
    shots, wanted = (
        one.expectation(*POINT, initial_states=states) for one in (measured, compiled())
    )
    assert not np.array_equal(shots, wanted)
    np.testing.assert_allclose(shots, wanted, atol=0.05)


@pytest.mark.parametrize("batch", [1, 5, 40])
def test_qcnn_whose_last_blocks_are_absorbed_is_exact(batch: int) -> None:
    model = qcnn(8, features=8)
    arguments = model.circuit, model.inputs, model.parameters, model.observables
    taking = qfleet.compile(*arguments, initial_states=True)
    rng = np.random.default_rng(batch)
    inputs = rng.normal(size=(batch, len(taking.inputs)))
    parameters = rng.normal(size=len(taking.parameters))
    starts = np.zeros((batch, 2 ** len(taking.qubits)))
    starts[:, 0] = 1
    own = qfleet.compile(*arguments).value_and_gradient(inputs, parameters)
    given = taking.value_and_gradient(inputs, parameters, initial_states=starts)
    np.testing.assert_allclose(given[0], own[0], atol=1e-12)
    np.testing.assert_allclose(given[1].parameters, own[1].parameters, atol=1e-10)


def test_pickled_circuit_takes_states_and_describes_them() -> None:
    circuit, states = compiled(), random_states(3, 3)
    copy = pickle.loads(pickle.dumps(circuit))
    expected = circuit.expectation(*POINT, initial_states=states)
    np.testing.assert_array_equal(copy.expectation(*POINT, initial_states=states), expected)
    assert copy.with_all_inputs().takes_states
    assert "initial states: one per example" in circuit.describe()


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (None, "initial_states are missing"),
        (np.eye(8)[:2], r"initial_states has shape \[2, 8\]: pass an array \[3, 8\]"),
        (np.eye(4)[:3], r"shape \[3, 4\].*one state of 3 qubits per example"),
        (2 * np.eye(8)[:3], r"initial_states\[0\] has the norm 2: normalize it to 1, to 0.0001"),
        (np.full((3, 8), np.nan), r"initial_states is \(?nan.* at index \(0, 0\)"),
        ([["a"] * 8] * 3, "initial_states has dtype"),
    ],
)
def test_wrong_states_are_refused_before_the_call(states: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        compiled().expectation(*POINT, initial_states=states)


def test_states_of_a_circuit_without_them_are_refused() -> None:
    with pytest.raises(ArgumentError, match="compile the circuit with initial_states=True"):
        compiled(initial_states=False).expectation(*POINT, initial_states=np.eye(8)[:3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial_state": np.eye(8)[0]}, "initial_state and initial_states exclude each other"),
        ({"method": "tensor_network"}, "tensor_network has no initial states"),
        ({"method": "density_matrix", "observables": ()}, "pass observables"),
        ({"observables": cirq.Z(cirq.LineQubit(7))}, "initial state has no qubit q\\(7\\)"),
    ],
)
def test_circuit_that_cannot_take_states_is_refused(options: Any, message: str) -> None:
    with pytest.raises(CircuitError, match=message):
        compiled(**options)


def test_gpu_for_initial_density_matrices_warns_and_uses_the_cpu() -> None:
    devices.warn_once.cache_clear()
    with pytest.warns(UserWarning, match="density_matrix with initial states runs on the CPU"):
        assert compiled(device="cuda", method="density_matrix").device == devices.CPU
