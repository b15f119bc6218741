"""Zero-noise extrapolation in inference: readouts, the head, the trust figure, and workers."""

import csv
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qfleet
from common.errors import run_main
from common.runs import Run
from common.settings import Settings
from inference import chunk_plan, model_loading, model_source, worker
from inference.__main__ import main
from inference.mitigation import predictor_for
from inference.predictor import Predictor
from qfleet.circuits import add_noise
from qfleet.noise_rates import parse_rates
from tests.support.devices import write_device
from tests.support.finished_run import finish, shorten_reports

NOISE = "depolarizing:0.001,amplitude-damping:0.002,readout:0.01"
ENERGY = ("TASK=energy", "DATA=tfim:3:0.5,1.5", "MODEL=hardware-efficient", "QUBITS=3", "LAYERS=1",
          "TRAIN_EXAMPLES=", "VALIDATION_EXAMPLES=", "TEST_EXAMPLES=")  # fmt: skip
MODELS = {
    "hybrid": (),
    "qcnn": ("MODEL=qcnn",),
    "filters": ("MODEL=multi-filter", "FILTERS=2"),
    "energy": ENERGY,
    "robust": (f"NOISE={NOISE}", "GRADIENT=noiseless"),
}


@pytest.fixture(autouse=True)
def short_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_reports(monkeypatch)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    root = tmp_path_factory.mktemp("runs")
    small = ("TEST_EXAMPLES=12",)
    return {name: finish(root, name, *small, *args) for name, args in MODELS.items()}


@pytest.fixture
def infer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable:
    """Run inference successfully in this process, and return its output and its table."""

    def call(run: Run, *args: str) -> tuple[str, list[dict[str, str]]]:
        storage = f"STORAGE={run.path.parent}"
        monkeypatch.setattr(sys, "argv", ["inference", storage, f"RUN={run.name}", *args])
        assert run_main(main) == 0
        with Path(str(run.predictions), "test.csv").open(newline="") as file:
            return capsys.readouterr().out, list(csv.DictReader(file))

    return call


def predictor(run: Run, *args: str) -> tuple[Predictor, int]:
    settings = Settings.from_args([f"STORAGE={run.path.parent}", f"RUN={run.name}", *args])
    source = model_source.choose_model(settings)
    features = int(source.described["features"])
    return predictor_for(model_loading.load(source), features, source, None), features


def rows(features: int, name: str) -> np.ndarray:
    generator = np.random.default_rng(0)
    values = generator.uniform(-1, 1, (5, features)).astype(np.float32)
    if name == "energy":
        values[:, -1] = [0, 1, 0, 1, 0]  # the member
    return values


@pytest.mark.parametrize(
    "name",
    [
        "energy",
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in ("qcnn", "hybrid", "filters", "robust")
        ),
    ],
)
def test_mitigated_readouts_and_outputs_are_closer(runs, name):
    found = {}
    for key, args in {
        "ideal": ("NOISE=none",),
        "noisy": (f"NOISE={NOISE}",),
        "mitigated": (f"NOISE={NOISE}", "ZNE=1,3,5"),
    }.items():
        made, features = predictor(runs[name], *args)
        found[key] = made.predict(rows(features, name), np.arange(5))
    ideal, noisy, mitigated = (found[key] for key in ("ideal", "noisy", "mitigated"))
    for field in ("readouts", "outputs"):
        errors = [
            np.abs(getattr(one, field) - getattr(ideal, field)).mean() for one in (noisy, mitigated)
        ]
        assert errors[1] < 0.4 * errors[0], field
    np.testing.assert_allclose(mitigated.unmitigated, noisy.outputs, atol=1e-5)
    assert noisy.unmitigated is None


def test_readouts_match_the_library(runs):
    made, features = predictor(runs["hybrid"], f"NOISE={NOISE}", "ZNE=1,5", "ZNE_FIT=linear")
    plain, _ = predictor(runs["hybrid"], "NOISE=none")
    (layer,) = plain.layers
    rates = parse_rates(NOISE)
    measured = {qubit for one in layer.observables for qubit in one.qubits}
    mitigated = qfleet.MitigatedCircuit(
        layer.circuit,
        lambda folded, factor: add_noise(folded, rates, measured, readings=factor),
        *(layer.inputs, layer.parameters, layer.observables),
        factors=(1, 5),
        fit="linear",
    )
    angles = rows(features, "hybrid")
    found = made.predict(angles, np.arange(5)).readouts
    np.testing.assert_allclose(
        found, mitigated.expectation(angles, layer.angles.numpy()), atol=1e-5
    )


def test_trust_grows_with_less_noise(runs):
    returned = []
    for rate in (0.01, 0.001):
        made, features = predictor(runs["hybrid"], f"NOISE=depolarizing:{rate}", "ZNE=1,3")
        (trust,) = made.measure_return_probabilities(rows(features, "hybrid"))
        assert trust.mitigated_error < trust.noisy_error
        assert 0 < trust.least <= trust.returned < trust.fidelity < 1
        returned.append(trust.returned)
    assert returned[1] > returned[0]


def test_energies_on_a_device_are_closer(runs, tmp_path):
    noise = f"NOISE={write_device(tmp_path)}"
    ideal, _ = predictor(runs["energy"], "NOISE=none")
    made, features = predictor(runs["energy"], noise, "ZNE=1,3,5")
    angles = rows(features, "energy")
    expected = ideal.predict(angles, np.arange(5)).outputs
    found = made.predict(angles, np.arange(5))
    errors = [np.abs(one - expected).mean() for one in (found.unmitigated, found.outputs)]
    assert errors[1] < 0.3 * errors[0]


def test_shots_are_extrapolated(runs):
    noise = f"NOISE={NOISE}"
    exact, features = predictor(runs["energy"], noise, "ZNE=1,3")
    sampled, _ = predictor(runs["energy"], noise, "SHOTS=100000", "ZNE=1,3")
    angles = rows(features, "energy")
    values, others = (one.predict(angles, np.arange(5)).readouts for one in (exact, sampled))
    distance = np.abs(values - others).max()
    assert 0 < distance < 0.05
    (trust,) = sampled.measure_return_probabilities(angles)
    assert 0.5 < trust.returned < 1


def test_workers_write_what_one_process_writes(runs, infer, monkeypatch):
    args = (f"NOISE={NOISE}", "ZNE=1,3")
    run = runs["energy"]
    out, expected = infer(run, *args)
    assert re.search(r"^without ZNE", out, re.MULTILINE)
    assert "circuit_0: fidelity 0." in out
    page = Path(str(run.predictions), "report.html").read_text()
    for words in ("Zero-noise extrapolation", "without ZNE", "fidelity of the circuit"):
        assert words in page
    monkeypatch.setattr(chunk_plan, "rows_per_batch", lambda *_: 1)  # a chunk for each worker
    arguments = [f"STORAGE={run.path.parent}", "RUN=energy", *args, "PARALLELISM=2"]
    monkeypatch.setattr(sys, "argv", ["worker", *arguments])
    monkeypatch.setenv("QFLEET_JOB_ID", "one")
    before = signal.getsignal(signal.SIGTERM)
    for index in ("0", "1"):
        monkeypatch.setenv(worker.COMPLETION_INDEX, index)
        assert run_main(worker.main) == 0
    signal.signal(signal.SIGTERM, before)
    with Path(str(run.predictions), "test.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    for one, other in zip(found, expected, strict=True):
        for column in ("energy", "unmitigated_energy", "readout_0"):
            assert float(one[column]) == pytest.approx(float(other[column]), abs=1e-5)
        assert one["energy"] != one["unmitigated_energy"]
