"""The Keras layers: values, gradients, shots, graphs, dtypes, and saving."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cirq
import numpy as np
import pytest
import sympy

from common.errors import CircuitError
from common.layers import (
    ControlledExpectation,
    Expectation,
    SampledExpectation,
    Samples,
    State,
)
from common.simulator import build
from common.simulator.shift import cut
from common.tensorflow import keras, tf

A, B, C = QUBITS = cirq.LineQubit.range(3)
X, Y = sympy.symbols("x0 x1")
P, Q = sympy.symbols("p q")
CIRCUIT = cirq.Circuit(
    cirq.rx(X).on(A),
    cirq.X(B) ** (Y * P),  # a trained symbol and one of data in the same gate
    cirq.ry(P + 2 * Q).on(C),
    cirq.CNOT(A, B),
    (cirq.ISWAP**P).on(B, C),  # three eigenvalues: one two-term rule would not do
    cirq.rz(Q).on(C).controlled_by(A),
    cirq.ry(sympy.sin(X)).on(A),
)
INPUTS = ("x0", "x1")
SUMS = [cirq.Z(A) * cirq.Z(B) + 0.5 * cirq.X(C) - 0.25, 0.8 * cirq.Y(A) * cirq.X(C) + cirq.Z(B)]
ANGLES = np.random.default_rng(0).uniform(-1.5, 1.5, (4, 2)).astype(np.float32)
TRAINED = np.array([0.7, -0.4], np.float32)

MAKERS: dict[str, Callable[..., keras.layers.Layer]] = {
    "Expectation": lambda **how: Expectation(CIRCUIT, INPUTS, SUMS, **how),
    "State": lambda **how: State(CIRCUIT, INPUTS, **how),
    "Samples": lambda **how: Samples(CIRCUIT, INPUTS, 20, seed=3, **how),
    "SampledExpectation": lambda **how: SampledExpectation(
        CIRCUIT, INPUTS, SUMS, 20, seed=3, **how
    ),
}


def trained(layer: keras.layers.Layer) -> keras.layers.Layer:
    """The layer with TRAINED as its angles."""
    layer(ANGLES[:1])
    layer.angles.assign(TRAINED)
    return layer


def exact(dtype: str = "complex128") -> Any:
    """The expectation values to compare with: those of the simulator, tested elsewhere."""
    return build(CIRCUIT, INPUTS, ("p", "q"), SUMS, backend="tensorflow", dtype=dtype)


def slopes(
    function: Callable[..., tf.Tensor], *sources: tf.Tensor
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """A function's values, and the gradients of a weighted sum of them."""
    with tf.GradientTape() as tape:
        tape.watch(sources)
        values = function(*sources)
        weights = np.random.default_rng(1).normal(size=values.shape)
        total = tf.reduce_sum(values * tf.constant(weights, values.dtype))
    return values, tape.gradient(total, sources)


def test_an_expectation_s_values_and_gradients_are_the_simulator_s() -> None:
    layer = trained(Expectation(CIRCUIT, INPUTS, SUMS))
    assert layer.parameters == ("p", "q")
    angles = tf.constant(ANGLES)
    with tf.GradientTape() as tape:
        tape.watch(angles)
        values = layer(angles)
        total = tf.reduce_sum(values**2)
    found = tape.gradient(total, [angles, layer.angles])
    with tf.GradientTape() as tape:
        sources = tf.constant(ANGLES, tf.float64), tf.constant(TRAINED, tf.float64)
        tape.watch(sources)
        wanted = exact().expectation(*sources)
        total = tf.reduce_sum(wanted**2)
    np.testing.assert_allclose(values, wanted, atol=1e-5)
    for one, other in zip(found, tape.gradient(total, sources), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_a_controlled_expectation_takes_parameters_per_example() -> None:
    layer = ControlledExpectation(CIRCUIT, INPUTS, SUMS)
    assert not layer.weights
    parameters = np.random.default_rng(2).uniform(-1, 1, (4, 2)).astype(np.float32)
    values, (by_angles, by_parameters) = slopes(
        lambda *sources: layer(list(sources)), tf.constant(ANGLES), tf.constant(parameters)
    )
    for row in range(4):
        one = tf.constant(ANGLES[row : row + 1], tf.float64)
        wanted = exact().expectation(one, tf.constant(parameters[row], tf.float64))
        np.testing.assert_allclose(values[row : row + 1], wanted, atol=1e-5)
    # A step along the gradient climbs by its square, so both parts of it are right.
    step = 1e-3
    ahead, _ = slopes(
        lambda *sources: layer(list(sources)),
        tf.constant(ANGLES) + step * by_angles,
        tf.constant(parameters) + step * by_parameters,
    )
    weights = np.random.default_rng(1).normal(size=values.shape)
    climbed = float(tf.reduce_sum((ahead - values) * weights)) / step
    squares = float(tf.reduce_sum(by_angles**2) + tf.reduce_sum(by_parameters**2))
    assert climbed == pytest.approx(squares, rel=2e-2)


def test_a_controlled_expectation_trains_the_layer_before_it() -> None:
    angles, context = keras.Input((2,)), keras.Input((3,))
    before = dense(2, 1)
    readouts = ControlledExpectation(CIRCUIT, INPUTS, SUMS)([angles, before(context)])
    model = keras.Model([angles, context], readouts)
    model.compile("adam", "mse")
    kernel = before.get_weights()[0]
    model.fit([ANGLES, np.ones((4, 3))], np.ones((4, 2)), epochs=1, verbose=0)
    assert (before.get_weights()[0] != kernel).all()


@pytest.mark.parametrize("given", [ANGLES, [ANGLES, ANGLES[:, :1]], [ANGLES] * 3])
def test_a_controlled_expectation_names_the_shapes_that_it_takes(given: Any) -> None:
    with pytest.raises(ValueError, match=r"takes \[angles, parameters\] of shapes \[batch, 2\]"):
        ControlledExpectation(CIRCUIT, INPUTS, SUMS)(given)


def test_a_state_is_cirq_s() -> None:
    found = trained(State(CIRCUIT, INPUTS))(ANGLES)
    assert found.dtype == tf.complex64
    for row, angles in zip(found, ANGLES, strict=True):
        values = dict(zip((*INPUTS, "p", "q"), map(float, [*angles, *TRAINED]), strict=True))
        resolved = cirq.resolve_parameters(CIRCUIT, values)
        np.testing.assert_allclose(row, resolved.final_state_vector(dtype=np.complex128), atol=1e-6)


def test_samples_follow_the_state_s_chances() -> None:
    shots = 20_000
    layer = trained(Samples(CIRCUIT, INPUTS, shots, seed=11))
    bits = layer(ANGLES).numpy()
    assert bits.shape == (4, shots, 3)
    assert bits.dtype == np.int8
    chances = np.abs(trained(State(CIRCUIT, INPUTS))(ANGLES).numpy()) ** 2
    patterns = bits @ [4, 2, 1]
    for row in range(4):
        counts = np.bincount(patterns[row], minlength=8)
        # Five standard deviations of each count.
        spread = 5 * np.sqrt(shots * chances[row] * (1 - chances[row])) + 1e-3
        assert (np.abs(counts - shots * chances[row]) <= spread).all()


def test_a_pattern_that_cannot_be_is_never_drawn() -> None:
    ghz = cirq.Circuit(cirq.H(A), cirq.CNOT(A, B), cirq.CNOT(B, C))
    bits = Samples(ghz, (), 5000, seed=0)(np.zeros((3, 0))).numpy()
    assert set(map(tuple, bits.reshape(-1, 3))) == {(0, 0, 0), (1, 1, 1)}


def test_samples_are_the_same_for_the_same_seed_alone() -> None:
    def made(seed: int) -> np.ndarray:
        return trained(Samples(CIRCUIT, INPUTS, 50, seed=seed))(ANGLES).numpy()

    first = made(5)
    np.testing.assert_array_equal(first, made(5))
    assert (first != made(6)).any()
    layer = trained(Samples(CIRCUIT, INPUTS, 50, seed=5))
    np.testing.assert_array_equal(tf.function(layer)(ANGLES), first)
    np.testing.assert_array_equal(layer(ANGLES), first)
    assert (first[0] != layer(ANGLES[[0, 0]]).numpy()[1]).any(), "rows share their shots"


def test_a_seed_that_is_not_given_is_drawn_and_saved() -> None:
    layers = [Samples(CIRCUIT, INPUTS, 5) for _ in range(2)]
    assert layers[0].seed != layers[1].seed
    assert Samples.from_config(layers[0].get_config()).seed == layers[0].seed


@pytest.mark.parametrize("shots", [0, -3, 1.5])
def test_a_number_of_shots_that_cannot_be_is_refused(shots: Any) -> None:
    with pytest.raises(ValueError, match="at least one shot"):
        Samples(CIRCUIT, INPUTS, shots)
    with pytest.raises(ValueError, match="at least one shot"):
        SampledExpectation(CIRCUIT, INPUTS, SUMS, shots)


def test_the_shift_rule_is_exact_for_every_turn() -> None:
    """The cut circuit has the original's readouts and, by the two-term rule, its gradients."""
    wanted = {qubit for observable in SUMS for qubit in observable.qubits}
    parts = cut(CIRCUIT, INPUTS, wanted)
    simulator = build(parts.circuit, parts.data.names, parts.shared.names, SUMS, dtype="complex128")
    point = dict(zip((X, Y, P, Q), map(float, [*ANGLES[0], *TRAINED]), strict=True))
    data = np.array([[float(e.subs(point)) for e in parts.data.exponents]])
    shared = np.array([float(e.subs(point)) for e in parts.shared.exponents])
    values, found = slopes(simulator.expectation, tf.constant(data), tf.constant(shared))
    sources = tf.constant(ANGLES[:1], tf.float64), tf.constant(TRAINED, tf.float64)
    np.testing.assert_allclose(values, exact().expectation(*sources), atol=1e-12)
    weights = np.random.default_rng(1).normal(size=values.shape)
    for which, turns in enumerate((parts.data, parts.shared)):
        assert len(turns.names) > 2
        for at, (turn, shift) in enumerate(zip(turns.turns, turns.shifts, strict=True)):

            def moved(step: float, which: int = which, at: int = at) -> np.ndarray:
                points = [data.copy(), shared.copy()]
                points[which][..., at] += step
                return simulator.expectation(*map(tf.constant, points)).numpy()

            slope = np.pi * turn * ((moved(shift) - moved(-shift)) * weights).sum()
            assert slope == pytest.approx(float(tf.reshape(found[which], [-1])[at]), abs=1e-12)


def test_sampled_values_and_gradients_scatter_around_the_exact_ones() -> None:
    shots = 40_000
    layer = trained(SampledExpectation(CIRCUIT, INPUTS, SUMS, shots, seed=2))
    sources = tf.constant(ANGLES), layer.angles
    with tf.GradientTape() as tape:
        tape.watch(sources)
        total = tf.reduce_sum(layer(sources[0], training=True) * [[1.0, -0.6]])
    found = tape.gradient(total, sources)
    points = tf.constant(ANGLES, tf.float64), tf.constant(TRAINED, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(points)
        wanted = exact().expectation(*points)
        total = tf.reduce_sum(wanted * np.array([[1.0, -0.6]]))
    # A readout's spread is at most its coefficients' sum over the root of the shots.
    np.testing.assert_allclose(layer(ANGLES), wanted, atol=5 * 1.8 / np.sqrt(shots))
    for one, other in zip(found, tape.gradient(total, points), strict=True):
        np.testing.assert_allclose(one, other, atol=0.12)
        assert (np.abs(other) > 0.3).any()


def test_shots_are_fresh_in_training_and_the_same_for_the_same_seed() -> None:
    def run(call: Callable[[keras.layers.Layer], tf.Tensor], times: int = 3) -> np.ndarray:
        layer = trained(SampledExpectation(CIRCUIT, INPUTS, SUMS, 30, seed=4))
        return np.stack([call(layer) for _ in range(times)])

    eager = run(lambda layer: layer(ANGLES, training=True))
    assert (eager[0] != eager[1]).any()
    assert (eager[1] != eager[2]).any()
    np.testing.assert_array_equal(run(lambda layer: layer(ANGLES, training=True)), eager)
    graphs: dict[int, Any] = {}

    def in_graph(layer: keras.layers.Layer) -> tf.Tensor:
        key = id(layer)
        graphs.setdefault(key, tf.function(lambda: layer(ANGLES, training=True)))
        return graphs[key]()

    np.testing.assert_array_equal(run(in_graph), eager)

    def in_loop(layer: keras.layers.Layer) -> tf.Tensor:
        @tf.function
        def loop() -> tf.Tensor:
            found = tf.TensorArray(tf.float32, 3)
            for at in tf.range(3):
                found = found.write(at, layer(ANGLES, training=True))
            return found.stack()

        return loop()

    np.testing.assert_array_equal(run(in_loop, 1)[0], eager)
    calm = run(lambda layer: layer(ANGLES))
    np.testing.assert_array_equal(calm[0], calm[1])


def test_gradients_from_shots_are_the_same_in_a_graph() -> None:
    def gradient(layer: keras.layers.Layer) -> list[tf.Tensor]:
        angles = tf.constant(ANGLES)
        with tf.GradientTape() as tape:
            tape.watch(angles)
            total = tf.reduce_sum(layer(angles, training=True) ** 2)
        return tape.gradient(total, [angles, *layer.trainable_variables])

    layers = [trained(SampledExpectation(CIRCUIT, INPUTS, SUMS, 30, seed=4)) for _ in range(2)]
    eager, graph = gradient(layers[0]), tf.function(gradient)(layers[1])
    for one, other in zip(eager, graph, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_derivative_that_nobody_asks_for_is_not_measured() -> None:
    circuit = cirq.Circuit(cirq.rx(X).on(A), cirq.ry(P).on(A), cirq.rz(X).on(A), cirq.ry(P).on(A))
    layer = SampledExpectation(circuit, ["x0"], [cirq.Z(A)], 10, seed=4)
    measured = []
    measure = layer._simulate._measure
    layer._simulate._measure = lambda *args: measured.append(1) or measure(*args)
    angles = tf.constant(ANGLES[:, :1])
    with tf.GradientTape(persistent=True) as tape:
        total = tf.reduce_sum(layer(angles))
    assert len(measured) == 1
    tape.gradient(total, layer.angles)
    assert len(measured) == 1 + 2 * 2
    with tf.GradientTape() as tape:
        tape.watch(angles)
        total = tf.reduce_sum(layer._simulate.expectation(angles, tf.zeros([1]), [0, 0]))
    tape.gradient(total, angles)
    assert len(measured) == 1 + 2 * 2 + 1 + 2 * 2


def test_shots_train_a_model() -> None:
    qubit = cirq.LineQubit(0)
    circuit = cirq.Circuit(cirq.rx(X).on(qubit), cirq.rx(P).on(qubit))
    angles = np.linspace(-1, 1, 16, dtype=np.float32)[:, None]
    layer = SampledExpectation(circuit, ["x0"], [cirq.Z(qubit)], 200, seed=1, initializer="ones")
    model = keras.Sequential([keras.Input((1,)), layer])
    model.compile(keras.optimizers.Adam(0.1), "mse")
    model.fit(angles, np.cos(angles - 0.5), epochs=60, batch_size=16, verbose=0)
    assert layer.angles.numpy()[0] == pytest.approx(-0.5, abs=0.1)


@pytest.mark.parametrize("name", MAKERS)
def test_an_empty_batch_gives_an_empty_result(name: str) -> None:
    layer = MAKERS[name]()
    whole = layer(ANGLES)
    empty = layer(ANGLES[:0])
    assert empty.shape == (0, *whole.shape[1:])
    assert empty.dtype == whole.dtype
    graph = tf.function(layer, input_signature=[tf.TensorSpec([None, 2])])
    assert graph(ANGLES[:0]).shape == empty.shape


def test_an_empty_batch_gives_an_empty_result_of_a_controlled_expectation() -> None:
    layer = ControlledExpectation(CIRCUIT, INPUTS, SUMS)
    assert layer([ANGLES[:0], ANGLES[:0]]).shape == (0, 2)


@pytest.mark.parametrize("name", MAKERS)
def test_a_layer_of_float64_simulates_in_complex128(name: str) -> None:
    layer = trained(MAKERS[name](dtype="float64"))
    assert layer.angles.dtype == tf.float64
    found = layer(ANGLES.astype(np.float64))
    kinds = {"State": tf.complex128, "Samples": tf.int8}
    assert found.dtype == kinds.get(name, tf.float64)
    if name == "Expectation":
        point = tf.constant(ANGLES, tf.float64), tf.constant(TRAINED, tf.float64)
        np.testing.assert_allclose(found, exact().expectation(*point), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MAKERS)
def test_a_layer_of_float16_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="dtype float16: circuits are simulated in float32 or"):
        MAKERS[name](dtype="float16")


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("simulator", ["tensorflow", "tfq"])
def test_a_layer_gives_the_same_with_every_simulator(name: str, simulator: str) -> None:
    found = trained(MAKERS[name](simulator=simulator))(ANGLES)
    wanted = trained(MAKERS[name]())(ANGLES)
    assert found.dtype == wanted.dtype
    if name in ("Samples", "SampledExpectation"):
        # A chance that differs in its seventh digit moves a shot now and then.
        assert np.mean(found.numpy() != wanted.numpy()) < 0.05
    else:
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_circuit_that_cannot_be_taken_is_refused_when_the_layer_is_made() -> None:
    noisy = cirq.Circuit(cirq.rx(X).on(A), cirq.depolarize(0.1).on(A))
    for make in (
        lambda: Expectation(noisy, ["x0"], [cirq.Z(A)]),
        lambda: ControlledExpectation(noisy, ["x0"], [cirq.Z(A)]),
        lambda: State(noisy, ["x0"]),
        lambda: Samples(noisy, ["x0"], 3),
        lambda: SampledExpectation(noisy, ["x0"], [cirq.Z(A)], 3),
    ):
        with pytest.raises(CircuitError, match="noise"):
            make()


def dense(units: int, seed: int) -> keras.layers.Layer:
    return keras.layers.Dense(
        units, "tanh", kernel_initializer=keras.initializers.GlorotUniform(seed)
    )


def mixed() -> keras.Model:
    """All layers, between other layers of Keras's."""
    inputs = keras.Input((3,), name="features")
    angles, parameters = dense(2, 1)(inputs), dense(2, 2)(inputs)
    amplitudes = State(CIRCUIT, INPUTS, seed=1)(angles)
    bits = Samples(CIRCUIT, INPUTS, 4, seed=5)(angles)
    outputs = [
        Expectation(CIRCUIT, INPUTS, SUMS, seed=2)(angles),
        ControlledExpectation(CIRCUIT, INPUTS, SUMS)([angles, parameters]),
        SampledExpectation(CIRCUIT, INPUTS, SUMS, 20, seed=3)(angles),
        keras.layers.Lambda(lambda a: tf.abs(a))(amplitudes),
        keras.layers.Flatten()(keras.layers.Lambda(lambda b: tf.cast(b, tf.float32))(bits)),
    ]
    return keras.Model(inputs, dense(1, 3)(keras.layers.Concatenate()(outputs)))


FEATURES = np.random.default_rng(4).normal(size=(6, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> keras.Model:
    """The mixed model after a little training, in several steps a call."""
    keras.utils.set_random_seed(0)
    made = mixed()
    made.compile("adam", "mse", steps_per_execution=3)
    made.fit(FEATURES, np.ones(6), batch_size=2, epochs=2, verbose=0)
    return made


def test_gradients_reach_every_layer(model: keras.Model) -> None:
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(model(FEATURES, training=True))
    gradients = tape.gradient(total, model.trainable_variables)
    # Samples have no gradient, and the weights of that layer none.
    missing = [
        v.name for v, g in zip(model.trainable_variables, gradients, strict=True) if g is None
    ]
    assert missing == [layer.angles.name for layer in model.layers if isinstance(layer, Samples)]
    assert all(bool(tf.reduce_any(g != 0)) for g in gradients if g is not None)


@pytest.mark.parametrize("name", ["model.keras", "model.h5", "saved_model"])
@pytest.mark.filterwarnings("ignore:.*saving your model as an HDF5 file:UserWarning")
def test_a_saved_model_answers_and_goes_on_alike(
    model: keras.Model, name: str, tmp_path: Path
) -> None:
    model.save(tmp_path / name)
    loaded = keras.models.load_model(tmp_path / name, safe_mode=False)
    np.testing.assert_array_equal(loaded(FEATURES), model(FEATURES))
    # The number of calls is saved as well: the next shots of both are the same.
    calls = [w for w in model.weights if "calls" in w.name]
    before = [int(count.numpy()) for count in calls]
    assert before >= [6]
    np.testing.assert_array_equal(loaded(FEATURES, training=True), model(FEATURES, training=True))
    calls[0].assign(before[0])


def test_saved_weights_are_loaded(model: keras.Model, tmp_path: Path) -> None:
    model.save_weights(tmp_path / "weights.h5")
    other = mixed()
    other.load_weights(tmp_path / "weights.h5")
    np.testing.assert_allclose(other(FEATURES), model(FEATURES), atol=1e-6)


def test_the_weights_of_an_expectation_fit_a_sampled_one() -> None:
    exactly, sampled = trained(Expectation(CIRCUIT, INPUTS, SUMS)), MAKERS["SampledExpectation"]()
    sampled(ANGLES[:1])
    sampled.angles.assign(exactly.angles)
    np.testing.assert_array_equal(sampled.angles, TRAINED)


def test_the_saved_form_of_an_expectation_has_not_changed() -> None:
    config = Expectation(CIRCUIT, INPUTS, SUMS, name="e", seed=1).get_config()
    assert set(config) == {
        "name", "trainable", "dtype", "circuit", "inputs", "observables", "parameters",
        "simulator", "initializer",
    }  # fmt: skip
    layer = trained(Expectation(CIRCUIT, INPUTS, SUMS))
    assert [weight.name.split("/")[-1] for weight in layer.weights] == ["angles:0"]
    assert keras.utils.get_registered_name(Expectation) == "qfleet>Expectation"


def test_weights_without_a_seed_follow_keras_s() -> None:
    def drawn() -> list[np.ndarray]:
        keras.utils.set_random_seed(3)
        layers = [Expectation(CIRCUIT, INPUTS, SUMS), keras.layers.Dense(2)]
        for layer in layers:
            layer.build((None, 2))
        return [layer.get_weights()[0] for layer in layers]

    for one, other in zip(drawn(), drawn(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_layer_describes_itself() -> None:
    assert "2 inputs, 2 parameters, 2 readouts" in MAKERS["Expectation"]().describe()
    assert "20 shots of each of 2 groups" in MAKERS["SampledExpectation"]().describe()
    bound = trained(MAKERS["State"]()).bound_circuit()
    assert cirq.parameter_names(bound) == set(INPUTS)
