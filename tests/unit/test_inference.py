"""Predictions, baselines, gradient variances and circuit diagrams."""

import contextlib
import csv
import io
import re
import shutil
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import cirq
import numpy as np
import pytest
import sympy
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from common import runs, storage
from common.data import Dataset, Encoding, load
from common.data.target import SIGNS
from common.errors import run_main
from common.runs import Run
from common.settings import Settings
from common.storage import StoragePath
from inference import circuit_svg, gradient_variance, inference_input, model_source, predictor
from inference.__main__ import main
from inference.baseline import STRENGTHS, fit_baselines
from inference.layers import group_by_layer
from qfleet.circuits import qcnn
from tests.support.finished_run import finish, shorten_reports

USER_MODEL = '''
"""A user model."""

from qfleet.tensorflow.runtime import keras


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, angles):
        return self.dense(angles)


def plain(features, settings):
    return Subclassed()
'''


@pytest.fixture
def infer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable:
    """Run inference successfully in this process, with a short report, and return its output."""
    shorten_reports(monkeypatch)

    def call(*args: str) -> str:
        monkeypatch.setattr(sys, "argv", ["inference", *args])
        capsys.readouterr()
        code = run_main(main)
        out, err = capsys.readouterr()
        assert code == 0, err
        assert not err
        return out

    return call


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of digits 1 and 8."""
    root = tmp_path_factory.mktemp("runs")
    return finish(
        root,
        "digits",
        "DATA=digits",
        "TRAIN_EXAMPLES=100",
        "VALIDATION_EXAMPLES=20",
        "TEST_EXAMPLES=60",
    )


@pytest.fixture(scope="module")
def output(run: Run) -> str:
    """The output of inference for the run, with batches of 7."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as out:
        patch.setattr(sys, "argv", ["inference", f"STORAGE={run.path.parent}", "BATCH=7"])
        assert run_main(main) == 0
    return out.getvalue()


def read_rows(path: StoragePath) -> list[dict[str, str]]:
    assert isinstance(path, Path)
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def load_data(run: Run) -> Dataset:
    return load(run.path.parent / "datasets" / run.record()["other"]["dataset"])


def test_scores_printed_match_the_csv(run, output):
    rows = read_rows(run.predictions / "test.csv")
    assert len(rows) == 60
    predictions = np.array([float(row["prediction"]) for row in rows])
    labels = np.array([1 if row["label"] == "8" else -1 for row in rows])
    predicted = np.array([1 if row["predicted_label"] == "8" else -1 for row in rows])
    assert (predicted == np.where(predictions >= 0, 1, -1)).all()
    lines = [line.split() for line in output.splitlines()]
    mse = f"{np.mean((predictions - labels) ** 2):.4f}"
    accuracy = f"{np.mean(predicted == labels):.3f}"
    assert ["hybrid", mse, accuracy] in lines
    for label, name in ((-1, "1"), (1, "8")):
        counts = [str(int(((labels == label) & (predicted == p)).sum())) for p in (-1, 1)]
        assert ["label", name, *counts] in [line[:4] for line in lines]


@pytest.mark.usefixtures("output")
def test_csv_predictions_and_readouts_match_the_model(run):
    from common import models

    rows = read_rows(run.predictions / "test.csv")
    loaded = runs.load("digits", str(run.path.parent)).model
    angles = load_data(run).split("test").angles
    assert np.allclose(
        [float(r["prediction"]) for r in rows], loaded(angles).numpy()[:, 0], atol=1e-6
    )
    readouts = models.readout_model(loaded)(angles).numpy()
    for i in range(readouts.shape[1]):
        assert np.allclose([float(r[f"readout_{i}"]) for r in rows], readouts[:, i], atol=1e-6)


@pytest.mark.usefixtures("output")
def test_predictions_folder_has_only_complete_files(run):
    names = [path.name for path in storage.children(run.predictions)]
    assert names[-2:] == ["report.html", "test.csv"]
    assert not list(Path(str(run.predictions)).glob(".*"))


def test_baseline_accuracy_matches_scikit_learn(run, output):
    train, test = load_data(run).split("train"), load_data(run).split("test")
    scaler = StandardScaler().fit(train.angles)
    fitted = [
        LogisticRegression(max_iter=1000, C=c).fit(scaler.transform(train.angles), train.labels)
        for c in STRENGTHS
    ]
    scores = [one.score(scaler.transform(test.angles), test.labels) for one in fitted]
    line = next(line for line in output.splitlines() if line.startswith("logistic regression"))
    assert line.split()[-1] in [f"{score:.3f}" for score in scores]
    assert "logistic regression, own columns" in output
    assert "64 columns, PCA to 4 angles" in output


@pytest.mark.parametrize("label", [True, False])
def test_input_table_uses_column_names_and_recorded_encoding(run, infer, tmp_path, label):
    loaded = runs.load("digits", str(run.path.parent))
    bunch = load_digits()
    rows = np.flatnonzero(np.isin(bunch.target, (1, 8)))[:5]
    order = list(reversed(range(64)))
    with (tmp_path / "new ones.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        names = [loaded.described["encoding"]["columns"][i] for i in order]
        writer.writerow([*["label"] * label, *names])
        for row in rows:
            writer.writerow([*[bunch.target[row]] * label, *bunch.data[row, order]])

    out = infer(f"STORAGE={run.path.parent}", f"INPUT={tmp_path / 'new ones.csv'}")
    table = read_rows(run.predictions / "new-ones.csv")
    assert [row["row"] for row in table] == ["1", "2", "3", "4", "5"]
    assert {row["predicted_label"] for row in table} <= {"1", "8"}
    assert ("label" in table[0]) == label
    assert ("label 8" in out) == label
    if label:
        assert [row["label"] for row in table] == [str(n) for n in bunch.target[rows]]
    angles = Encoding.from_json(loaded.described["encoding"]).apply(bunch.data[rows])
    predictions = loaded.model(angles).numpy()[:, 0]
    assert np.allclose([float(row["prediction"]) for row in table], predictions, atol=1e-6)


def test_predictions_keep_the_rows_and_identifiers_of_the_table(infer, tmp_path):
    lines = [f"p{i:03},{i * 7 % 60},{'ab'[i % 2]}" for i in range(60)]
    table = tmp_path / "mine.csv"
    table.write_text("\n".join(["patient,x,label", *lines]))
    sizes = ("TRAIN_EXAMPLES=", "VALIDATION_EXAMPLES=", "TEST_EXAMPLES=")
    mine = finish(tmp_path / "runs", "mine", f"DATA={table}", "ID_COLUMN=patient", *sizes)
    infer(f"STORAGE={tmp_path / 'runs'}")
    found = {int(row["row"]): row for row in read_rows(mine.predictions / "test.csv")}
    loaded = runs.load("mine", str(tmp_path / "runs"))
    train, test = loaded.split("train"), loaded.split("test")
    assert set(found) == set(test.rows.tolist())
    assert not set(found) & set(train.rows.tolist())
    for row, one in found.items():
        assert [one["id"], one["label"]] == [lines[row - 1].split(",")[i] for i in (0, 2)]
    assert [train.ids[i] for i in (0, 1)] == [f"p{row - 1:03}" for row in train.rows[:2]]
    page = storage.read_bytes(mine.predictions / "report.html").decode()
    errors = page.split("Most confident errors")[1].split("</table>")[0]
    wrong = [row for row, one in found.items() if one["label"] != one["predicted_label"]]
    shown = [int(row) for row in re.findall(r"<tr><td>(\d+)</td><td>p\d{3}</td>", errors)]
    assert set(shown) <= set(wrong)
    assert len(shown) == min(10, len(wrong)) > 0
    with pytest.raises(ValueError, match="'all'"):
        loaded.split("all")


def test_training_data_missing_is_created_again(run, tmp_path):
    source = model_source.choose_model(Settings.from_args([f"STORAGE={run.path.parent}"]))
    assert inference_input.find_training_data(source, tmp_path).fingerprint == run.record()["data"]


def test_training_data_not_reproducible_raises_data_error(tmp_path, capsys, monkeypatch):
    table = tmp_path / "mine.csv"
    lines = [f"{i % 7},{i % 5},{'ab'[i % 2]}" for i in range(60)]
    table.write_text("\n".join(["one,two,label", *lines]))
    finish(
        tmp_path / "runs",
        "mine",
        f"DATA={table}",
        "TRAIN_EXAMPLES=",
        "VALIDATION_EXAMPLES=",
        "TEST_EXAMPLES=",
    )
    table.unlink()
    shutil.rmtree(tmp_path / "runs" / "datasets")
    monkeypatch.setattr(sys, "argv", ["inference", f"STORAGE={tmp_path / 'runs'}"])
    assert run_main(main) == 2
    err = capsys.readouterr().err
    assert f"is read only if you name it: set DATA={table}" in err
    assert "INPUT=table" in err
    assert err.count("\n") == 1
    monkeypatch.setattr(sys, "argv", ["inference", f"STORAGE={tmp_path / 'runs'}", f"DATA={table}"])
    assert run_main(main) == 2
    assert "can't be created again" in capsys.readouterr().err
    # New examples need the training data for the baselines only.
    table.write_text("one,two,label\n1,2,a\n3,3,b\n")
    monkeypatch.setattr(
        sys, "argv", ["inference", f"STORAGE={tmp_path / 'runs'}", f"INPUT={table}"]
    )
    assert run_main(main) == 0
    assert "no baselines" in " ".join(capsys.readouterr().out.split())


def test_subclassed_model_without_circuits_is_supported(tmp_path, infer, monkeypatch):
    (tmp_path / "own_inference.py").write_text(USER_MODEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    run = finish(tmp_path / "runs", "own", "MODEL=own_inference:plain")
    out = infer(f"STORAGE={tmp_path / 'runs'}")
    assert "60 examples" in out
    assert "circuits/s" not in out
    assert list(read_rows(run.predictions / "test.csv")[0]) == [
        "row", "prediction", "predicted_label", "label",
    ]  # fmt: skip


@pytest.mark.parametrize(("qubits", "most"), [(1, 1024), (20, 16), (30, 1)])
def test_rows_per_batch_is_bounded_by_memory(qubits, most):
    assert 1 <= predictor.rows_per_batch(qubits) <= most
    assert predictor.rows_per_batch(qubits, max_rows=3) <= 3


def test_fit_baselines_is_bounded_and_seeded():
    from common.data.splits import Examples

    generator = np.random.default_rng(0)
    angles = generator.uniform(-1, 1, (6000, 3)).astype(np.float32)
    labels = np.where(angles.sum(axis=1) > 0, 1, -1).astype(np.float32)
    train = Examples(angles, labels)
    tested = Examples(angles[:100], labels[:100])
    one, other = (fit_baselines(SIGNS, train, tested, 30, seed=3) for _ in range(2))
    assert [b.metrics for b in one] == [b.metrics for b in other]
    assert [b.name for b in one][2] == "MLP with 6 hidden units"
    assert all(b.metrics["accuracy"] > 0.9 for b in one)
    assert one[1].train_rows == 5000
    only = Examples(angles[labels > 0], labels[labels > 0])
    assert fit_baselines(SIGNS, only, train, 30, 0) == []


def expectation(circuit, parameters, observables, name="c"):
    from qfleet.tensorflow.layers import Expectation

    data = [s for s in cirq.parameter_names(circuit) if s not in parameters]
    layer = Expectation(circuit, data, observables, parameters=parameters, name=name, seed=0)
    layer.build((None, len(data)))
    return layer


def test_gradient_variance_of_one_rotation_matches_formula():
    """<Z> after rx(t) is cos t; its gradient is -sin t, whose variance over a period is 1/2."""
    qubit, other = cirq.LineQubit.range(2)
    circuit = cirq.Circuit(
        cirq.rx(sympy.Symbol("a_0"))(qubit),
        cirq.rx(sympy.Symbol("b_0"))(other),
        cirq.rz(sympy.Symbol("x"))(qubit),
    )
    layer = expectation(circuit, ["a_0", "b_0"], [cirq.Z(qubit)])
    measured = gradient_variance.measure_gradient_variance(
        layer, np.zeros((4, 1), np.float32), seed=1
    )
    assert [each.name for each in measured.layers] == ["a", "b"]
    assert measured.layers[0].variance == pytest.approx(0.5, abs=0.12)
    assert measured.layers[1].variance == pytest.approx(0.0, abs=1e-9)
    assert measured.samples == gradient_variance.SAMPLES


def test_gradient_variance_of_random_circuit_matches_plateau():
    """Many layers of random rotations and CZ are nearly a 2-design: McClean et al."""
    n, depth = 4, 12
    qubits = cirq.LineQubit.range(n)
    names = [[f"t{layer:02d}_{i}" for i in range(2 * n)] for layer in range(depth)]
    circuit = cirq.Circuit(cirq.ry(0.7).on_each(*qubits), cirq.rz(sympy.Symbol("x"))(qubits[0]))
    for layer in names:
        circuit += [cirq.ry(sympy.Symbol(s))(q) for s, q in zip(layer[:n], qubits, strict=True)]
        circuit += [cirq.rz(sympy.Symbol(s))(q) for s, q in zip(layer[n:], qubits, strict=True)]
        circuit += [cirq.CZ(a, b) for a, b in pairwise(qubits)]
    parameters = [s for layer in names for s in layer]
    layer = expectation(circuit, parameters, [cirq.X(qubits[0]) * cirq.Z(qubits[1])])
    measured = gradient_variance.measure_gradient_variance(
        layer, np.zeros((1, 1), np.float32), seed=2
    )
    middle = measured.layers[depth // 2]
    assert middle.plateau == pytest.approx(256 / (2 * 17**2 * 15))
    assert middle.variance == pytest.approx(middle.plateau, rel=0.35)
    assert not measured.warning, "the gradients of a random circuit of 4 qubits are large enough"


def test_warning_names_the_flat_layer():
    flat = gradient_variance.LayerGradients("layer 1", 9e-4, 6e-4, 21)
    steep = gradient_variance.LayerGradients("layer 2", 3e-3, 6e-4, 21)
    small = gradient_variance.LayerGradients("layer 3", 9e-4, 1e-5, 21)
    measured = gradient_variance.GradientVariance("c", 12, (flat, steep, small), samples=100)
    assert [layer.is_flat for layer in measured.layers] == [True, False, False]
    assert "plateau in layer 1:" in measured.warning


def test_gradient_variance_of_wide_circuit_is_skipped():
    circuit = qcnn(19, layers=1)
    layer = expectation(circuit.circuit, circuit.parameters, circuit.observables)
    measured = gradient_variance.measure_gradient_variance(
        layer, np.zeros((1, 19), np.float32), seed=0
    )
    assert not measured.layers
    assert "19 qubits" in measured.skipped


def test_distinct_layers_ignores_symbol_names():
    layers = [
        expectation(circuit.circuit, circuit.parameters, circuit.observables, f"c{i}")
        for i, circuit in enumerate([qcnn(3, prefix="f1_"), qcnn(3), qcnn(3, layers=1)])
    ]
    assert gradient_variance.distinct_layers(layers) == [layers[0], layers[2]]


def test_group_by_layer_uses_symbol_names():
    assert group_by_layer(qcnn(4, prefix="f2_").parameters).keys() == {"layer 1", "layer 2"}
    assert group_by_layer(["a[0]", "a[1]", "b", "c-3"]) == {"a": [0, 1], "b": [2], "c": [3]}
    assert group_by_layer([f"x{'y' * i}" for i in range(30)]) == {"all angles": list(range(30))}


def test_arrange_columns_has_each_gate_once_without_overlap():
    circuit = qcnn(5, encoder="reupload", features=7)
    trained = dict.fromkeys(circuit.parameters, 0.5)
    columns = circuit_svg.arrange_columns(circuit.circuit, circuit.inputs, trained)
    gates = [gate for column in columns for gate in column]
    assert len(gates) == len(list(circuit.circuit.all_operations()))
    assert sum(gate.kind == "data" for gate in gates) == 7 * 3
    for column in columns:
        spans = sorted((min(gate.rows), max(gate.rows)) for gate in column)
        assert all(low[1] < high[0] for low, high in pairwise(spans))


def test_circuit_to_svg_takes_any_gate_up_to_the_limit():
    a, b = cirq.LineQubit.range(2)
    matrix = cirq.MatrixGate(cirq.unitary(cirq.ISWAP), name="<b>&")
    circuit = cirq.Circuit(matrix(a, b), cirq.CNOT(a, b) ** 0.5, cirq.FSimGate(1, 2)(a, b))
    svg = circuit_svg.circuit_to_svg(circuit, [], {}, [cirq.PauliSum.wrap(cirq.X(a) * cirq.Z(b))])
    assert svg.count('class="gate fixed"') == 3
    assert "<b>" not in svg
    assert circuit_svg.circuit_to_svg(cirq.Circuit([cirq.X(a)] * 4001), [], {}) == ""
