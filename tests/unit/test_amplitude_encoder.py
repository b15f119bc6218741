"""ENCODER=amplitude: rows of features are the initial states of the circuits."""

import json
import math
from pathlib import Path

import cirq
import numpy as np
import pandas as pd
import pytest

from common import storage
from common.data import Encoding, Examples, prepare, read_examples
from common.data.description import describe_encoding
from common.data.encoding import fit
from common.data.loading import check
from common.data.target import Target
from common.errors import DataError, SettingsError
from common.settings import Settings
from inference.model_source import choose_model
from qfleet.circuits import qcnn
from qfleet.errors import CircuitError
from tests.support.finished_run import finish

RANDOM = np.random.default_rng(8)
TARGET = Target("signs", "label", ("a", "b"))
SMALL = ("ENCODER=amplitude", "TRAIN_EXAMPLES=20", "VALIDATION_EXAMPLES=5", "TEST_EXAMPLES=5")


def fitted(columns: int, qubits: int) -> Encoding:
    names = [f"c{i}" for i in range(columns)]
    return fit(np.ones((2, columns)), "amplitude", qubits, columns=names, target=TARGET)


def table(folder: Path, columns: int = 5, zero: int | None = None) -> str:
    """Write a table of 40 rows, with a column of one value, and return its path."""
    values = RANDOM.normal(size=(40, columns))
    values[:, 1] = 7
    if zero is not None:
        values[zero] = 0
    frame = pd.DataFrame(values, columns=[f"c{i}" for i in range(columns)])
    frame["label"] = ["a", "b"] * 20
    path = folder / "table.csv"
    frame.to_csv(path, index=False)
    return str(path)


def test_states_are_padded_rows_of_norm_1() -> None:
    features = RANDOM.normal(size=(6, 5)) * [[1], [1e-300], [1e99], [3], [-2], [1e-5]]
    encoding = fitted(5, 3)
    states = encoding.apply(features)
    assert (states.shape, states.dtype) == ((6, 8), np.float32)
    np.testing.assert_allclose(np.linalg.norm(states, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(states[:, 5:], 0)
    scale = np.abs(features).max(axis=1, keepdims=True)
    wanted = features / scale / np.linalg.norm(features / scale, axis=1, keepdims=True)
    np.testing.assert_allclose(states[:, :5], wanted, atol=1e-7)


def test_column_for_the_norm_tells_rows_of_one_direction_apart() -> None:
    features = np.array([[3.0, 4.0], [6.0, 8.0], [0.0, 0.0]])
    names = {"columns": ["a", "b"], "target": TARGET}
    encoding = fit(features, "amplitude-norm", 2, **names)
    typical = np.sqrt(125 / 3)
    wanted = np.column_stack([features, np.full(3, typical), np.zeros(3)])
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(encoding.apply(features), wanted, atol=1e-7)
    assert Encoding.from_json(json.loads(json.dumps(encoding.to_json()))) == encoding
    assert describe_encoding(encoding).startswith("2 columns and one for the norm, normalized")
    with pytest.raises(DataError, match="with QUBITS=1 has 2 amplitudes: 3 columns need QUBITS=2"):
        fit(features, "amplitude-norm", 1, **names)
    with pytest.raises(DataError, match="inconsistent"):
        Encoding.from_json(encoding.to_json() | {"norm": math.inf})


def test_json_gives_the_same_amplitude_encoding() -> None:
    encoding = fitted(5, 3)
    assert Encoding.from_json(json.loads(json.dumps(encoding.to_json()))) == encoding
    assert (encoding.symbols, encoding.placement) == (8, "amplitude")
    wanted = "5 columns, normalized per row to the 8 amplitudes of 3 qubits, padded with zeros"
    assert describe_encoding(encoding) == wanted


@pytest.mark.parametrize(
    "changed",
    [
        {"qubits": 2},
        {"qubits": 0},
        {"qubits": 10**6},
        {"placement": "angle"},
        {"kind": "none"},
        {"columns": []},
        {"center": [0.0] * 5},
    ],
)
def test_from_json_other_amplitude_encoding_is_refused(changed: dict) -> None:
    with pytest.raises(DataError, match="the recorded encoding is inconsistent"):
        Encoding.from_json({**fitted(5, 3).to_json(), **changed})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (300, "with QUBITS=8 has 256 amplitudes: 300 columns need QUBITS=9$"),
        (40_000, r"40,000 columns are more than 2\^15, the most: set ENCODER=pca"),
        (1, "keeps only the sign of 1 feature"),
    ],
)
def test_columns_that_are_no_amplitudes_are_refused(columns: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fitted(columns, 8)


def test_table_keeps_raw_columns_of_one_value(tmp_path: Path) -> None:
    path = table(tmp_path)
    data = prepare(
        Settings.from_args([*SMALL, f"DATA={path}", "QUBITS=3"]),
        storage.path(str(tmp_path / "sets")),
    )
    assert data.encoding.columns == ("c0", "c1", "c2", "c3", "c4")
    origin = data.origin("train")
    assert origin is not None
    raw = pd.read_csv(path).drop(columns="label").to_numpy()[origin.rows - 1]
    wanted = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    np.testing.assert_allclose(data.split("train").angles[:, :5], wanted, atol=1e-6)
    new = read_examples(path, data.encoding)
    np.testing.assert_array_equal(new.angles[origin.rows - 1], data.split("train").angles)


def test_row_of_zeros_is_refused_by_its_number(tmp_path: Path) -> None:
    path = table(tmp_path, zero=17)
    settings = Settings.from_args([*SMALL, f"DATA={path}", "QUBITS=3"])
    for refused in (lambda: check(settings), lambda: read_examples(path, fitted(5, 3))):
        with pytest.raises(DataError, match=r"table\.csv: row 18 has the value 0 in all features"):
            refused()


def test_states_beyond_the_memory_are_refused(tmp_path: Path) -> None:
    arguments = [*SMALL, f"DATA={table(tmp_path)}", "QUBITS=15", "DATA_MEMORY=4"]
    with pytest.raises(DataError, match="states of 15 qubits need 5 MiB: set DATA_MEMORY"):
        check(Settings.from_args(arguments))


@pytest.mark.parametrize(
    ("arguments", "other"),
    [
        (["SIMULATOR=tfq"], "SIMULATOR=tfq"),
        (["METHOD=tensor_network"], "METHOD=tensor_network"),
        (["METHOD=subspace"], "METHOD=subspace"),
        (["SAMPLER=a:b", "SHOTS=10"], "SAMPLER=a:b"),
        (["SHOTS=10", "GRADIENT=noiseless"], "GRADIENT=noiseless"),
        (["PRUNE=0.1"], "PRUNE=0.1"),
        (["MODEL=a:b"], "MODEL=a:b, whose inputs are angles"),
        (["TASK=energy"], "TASK=energy, which has no features"),
        (["TASK=gate"], "TASK=gate, which has no features"),
        (["TASK=state", "DATA=ghz"], "TASK=state, which has no features"),
        (["QUBITS=16"], "QUBITS=16 is more than 15"),
    ],
)
def test_settings_without_initial_states_are_refused(arguments: list[str], other: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_args(["ENCODER=amplitude", "DATA=digits", *arguments])
    message = str(caught.value)
    assert other in message
    assert "ENCODER=amplitude" in message
    assert "\n" not in message


def test_excitations_have_no_amplitude_encoder() -> None:
    with pytest.raises(SettingsError, match="ENCODER=amplitude does not fit DATA=excitations"):
        check(Settings.from_args(["ENCODER=amplitude"]))


def test_folder_of_states_refuses_other_settings(tmp_path: Path) -> None:
    arguments = [*SMALL, f"DATA={table(tmp_path)}", "QUBITS=3"]
    data = prepare(Settings.from_args(arguments), storage.path(str(tmp_path / "sets")))
    folder = [f"DATA={data.path}", "QUBITS=3"]
    assert check(Settings.from_args(folder)) == data.encoding
    with pytest.raises(SettingsError, match=r"PRUNE=0\.1, where circuits can't start"):
        check(Settings.from_args([*folder, "PRUNE=0.1"]))


def test_qcnn_of_states_has_no_inputs() -> None:
    made = qcnn(4, encoder="amplitude", features=10)
    assert made.initial_states
    assert made.inputs == ()
    assert made.circuit.all_qubits() == frozenset(made.qubits)
    with pytest.raises(CircuitError, match="17 features are more than the 16 amplitudes"):
        qcnn(4, encoder="amplitude", features=17)


def test_padding_is_a_state() -> None:
    padding = Examples.padding(8)
    assert padding.angles.dtype == np.float32
    np.testing.assert_array_equal(np.linalg.norm(padding.angles, axis=1), 1)


@pytest.mark.parametrize("simulator", ["qfleet", "tensorflow"])
def test_model_of_states_equals_cirq(simulator: str) -> None:
    from common.models import build_model

    settings = Settings.from_values(
        encoder="amplitude", data="digits", qubits=3, model="qcnn", simulator=simulator
    )
    encoding = fitted(5, 3)
    states = encoding.apply(RANDOM.normal(size=(4, 5)))
    model = build_model(encoding.symbols, settings, encoding.placement, encoding.target)
    made = qcnn(3, encoder="amplitude")
    (angles,) = model.get_weights()
    resolver = dict(zip(made.parameters, angles.tolist(), strict=True))
    wanted = [
        cirq.Simulator(dtype=np.complex128).simulate_expectation_values(
            made.circuit,
            list(made.observables),
            resolver,
            initial_state=one / np.linalg.norm(one),
            qubit_order=made.qubits,
        )
        for one in states.astype(complex)
    ]
    np.testing.assert_allclose(model(states), np.real(wanted), atol=1e-5)


def test_inference_of_states_refuses_zne_and_a_sampler(tmp_path: Path) -> None:
    finish(storage.path(str(tmp_path)), "r", *SMALL, "DATA=digits", "QUBITS=6")
    chosen = [f"STORAGE={tmp_path}", "RUN=r", "NOISE=depolarizing:0.01"]
    assert choose_model(Settings.from_args(chosen)).has_other_noise
    for more, message in (
        (["ZNE=1,3"], "ZNE=1,3 does not fit ENCODER=amplitude of run r"),
        (["SAMPLER=a:b", "SHOTS=9"], "can't be used with SAMPLER=a:b"),
    ):
        with pytest.raises(SettingsError, match=message):
            choose_model(Settings.from_args([*chosen, *more]))


def test_report_measures_gradients_from_states() -> None:
    from common.models import build_model, circuit_layers
    from inference.gradient_variance import measure_gradient_variance
    from inference.report_sections import diagram

    settings = Settings.from_values(encoder="amplitude", data="digits", qubits=3)
    (layer,) = circuit_layers(build_model(8, settings, "amplitude", TARGET))
    states = fitted(5, 3).apply(RANDOM.normal(size=(3, 5)))
    measured = measure_gradient_variance(layer, states, seed=0)
    assert measured.layers
    assert measured.layers[0].variance > 0
    assert "it starts at the state of an example" in diagram(layer, "c")[0]
