"""Mistakes in TASK and its data: one sentence each, before anything starts."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import cirq
import numpy as np
import pytest

from common.data import prepare
from common.data.class_weights import class_factors
from common.data.target import SIGNS, Target
from common.data.task_fit import require_fit
from common.errors import DataError, SettingsError
from common.settings import Settings

NOISE = ("NOISE=depolarizing:0.01",)
SAMPLER = ("SAMPLER=a:b", "SHOTS=10")
ENERGY = ("TASK=energy", "MODEL=hardware-efficient")
STATE = ("TASK=state", "MODEL=hardware-efficient", "QUBITS=2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["TASK=energy", "MODEL=hybrid"], ["MODEL=hybrid", "uccsd"]),
        (["MODEL=uccsd"], ["MODEL=uccsd", "TASK=energy"]),
        ([*STATE, "STATE_SHARDS=2"], ["STATE_SHARDS=2"]),
        ([*STATE, "METHOD=subspace"], ["METHOD=subspace", "TASK=state"]),
        ([*STATE[:1], "MODEL=uccsd"], ["MODEL=uccsd", "TASK=state"]),
        ([*ENERGY, "METHOD=subspace", "SIMULATOR=tensorflow"], ["METHOD=subspace", "tensorflow"]),
        (["TASK=other"], ["TASK=other", "regression"]),
        (["NOISE=readout:2"], ["NOISE=readout:2", "from 0 to 0.5"]),
        (["NOISE=decay:0.1"], ["NOISE=decay:0.1", "depolarizing"]),
        (["NOISE=0.1"], ["NOISE=0.1", "pairs"]),
        ([*NOISE, "SIMULATOR=tensorflow"], ["NOISE", "SIMULATOR=tensorflow"]),
        ([*NOISE, "METHOD=subspace"], ["NOISE", "METHOD=subspace"]),
        ([*NOISE, "STATE_SHARDS=2", "WORKERS=2"], ["NOISE", "STATE_SHARDS=2"]),
        ([*NOISE, "MODEL=a:b"], ["NOISE", "MODEL=a:b"]),
        (["SHOTS=0"], ["SHOTS=0", "none"]),
        (["SHOTS=-5"], ["SHOTS=-5", "none"]),
        (["SHOTS=10", "SIMULATOR=tensorflow"], ["SHOTS=10", "SIMULATOR=tensorflow"]),
        (["SHOTS=10", "METHOD=subspace"], ["SHOTS=10", "METHOD=subspace"]),
        (["SHOTS=10", "STATE_SHARDS=2", "WORKERS=2"], ["SHOTS=10", "STATE_SHARDS=2"]),
        (["SHOTS=10", "MODEL=a:b"], ["SHOTS=10", "MODEL=a:b"]),
        (["SHOTS=10", *STATE, "QUBITS=7"], ["QUBITS=7", "TASK=state", "SHOTS"]),
        (["TRAJECTORIES=0"], ["TRAJECTORIES=0", "1"]),
        (["TRAJECTORIES=-1"], ["TRAJECTORIES=-1", "1"]),
        (["ZNE=1,2"], ["ZNE=1,2", "the factor 2", "odd"]),
        (["ZNE=0,1"], ["ZNE=0,1", "from 1"]),
        (["ZNE=-1,1"], ["ZNE=-1,1", "1,3,5"]),
        (["ZNE=1.5,3"], ["ZNE=1.5,3", "1,3,5"]),
        (["ZNE=1"], ["ZNE=1", "2 factors"]),
        (["ZNE=1,3,3"], ["ZNE=1,3,3", "twice"]),
        (["ZNE=3,5"], ["ZNE=3,5", "1 is missing"]),
        (["ZNE_FIT=cubic"], ["ZNE_FIT=cubic", "richardson"]),
        (["PRUNE=1"], ["PRUNE=1", "below 1"]),
        (["PRUNE=-0.1"], ["PRUNE=-0.1", "from 0"]),
        (["PRUNE=most"], ["PRUNE=most"]),
        (["PRUNE=0.5", "SIMULATOR=tfq"], ["PRUNE=0.5", "SIMULATOR=tfq"]),
        (["PRUNE=0.5", "METHOD=tensor_network"], ["PRUNE=0.5", "METHOD=tensor_network"]),
        ([*NOISE, "GRADIENT=noiseless", "PRUNE=0.5"], ["PRUNE=0.5", "GRADIENT=noiseless"]),
        (["PRUNE=0.5", "STATE_SHARDS=2"], ["PRUNE=0.5", "STATE_SHARDS=2"]),
        (["PRUNE=0.5", "MODEL=a:b"], ["PRUNE=0.5", "MODEL=a:b", "hybrid"]),
        ([*NOISE, *STATE, "QUBITS=7"], ["QUBITS=7", "TASK=state", "NOISE"]),
        (["GRADIENT=noiseless"], ["GRADIENT=noiseless", "NOISE", "SAMPLER"]),
        ([*NOISE, *ENERGY, "GRADIENT=noiseless"], ["GRADIENT=noiseless", "TASK=energy"]),
        (["SAMPLER=a:b"], ["SAMPLER=a:b", "SHOTS"]),
        ([*SAMPLER, "REPRODUCIBLE=true"], ["SAMPLER=a:b", "REPRODUCIBLE=true"]),
        ([*SAMPLER, "METHOD=subspace"], ["SAMPLER=a:b", "METHOD=subspace"]),
        ([*SAMPLER, "SIMULATOR=tensorflow"], ["SAMPLER=a:b", "SIMULATOR=tensorflow"]),
        ([*SAMPLER, "MODEL=a:b"], ["SAMPLER=a:b", "MODEL=a:b"]),
        (["NORMALIZE_READOUTS=true", "MODEL=qcnn"], ["NORMALIZE_READOUTS", "MODEL=qcnn"]),
        (["NORMALIZE_READOUTS=true", "MODEL=a:b"], ["NORMALIZE_READOUTS", "MODEL=a:b"]),
        (["NORMALIZE_READOUTS=true", *ENERGY], ["NORMALIZE_READOUTS", "TASK=energy"]),
        (["NORMALIZE_READOUTS=true", *STATE], ["NORMALIZE_READOUTS", "TASK=state"]),
        (["CLASSES=a"], ["CLASSES=a"]),
        ([*ENERGY, "CLASSES=a,b"], ["CLASSES=a,b", "TASK=energy"]),
        (["TASK=regression", "CLASS_WEIGHTS=balanced"], ["CLASS_WEIGHTS=balanced", "omit"]),
        (["CLASS_WEIGHTS=a"], ["CLASS_WEIGHTS=a", "balanced"]),
        (["LOSS=no_such_loss"], ["LOSS=no_such_loss", "huber"]),
        ([*ENERGY, "LOSS=huber"], ["LOSS=huber", "TASK=energy", "omit LOSS"]),
    ],
)
def test_contradicting_settings_are_refused(arguments: list[str], words: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_args(arguments)
    assert all(word in str(caught.value) for word in words)


def refused(folder: Path, *arguments: str) -> str:
    with pytest.raises((DataError, SettingsError)) as caught:
        prepare(Settings.from_args([*arguments]), folder / "datasets")
    assert not (folder / "datasets").exists()
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*ENERGY, "DATA=tfim:9:1", "QUBITS=8"), ["9 qubits", "set QUBITS=9"]),
        ((*ENERGY, "DATA=tfim:3:1", "QUBITS=8"), ["3 qubits", "set QUBITS=3"]),
        ((*ENERGY, "DATA=tfim:4:1", "ENCODER=pca"), ["ENCODER=pca"]),
        ((*ENERGY, "DATA=nothing"), ["nothing", "tfim:N:g", ".json"]),
        ((*ENERGY, "DATA=missing.json"), ["missing.json", "does not exist", "a Hamiltonian"]),
        ((*ENERGY, "DATA=tfim:4:1e31"), ["tfim:4:1e31", "1e+31"]),
        ((*STATE, "DATA=nothing"), ["nothing", "ghz"]),
        ((*STATE[:2], "DATA=ghz", "QUBITS=13"), ["QUBITS=13", "12"]),
        (("DATA=tfim:4:1",), ["DATA=tfim:4:1", "TASK=energy"]),
        (("TASK=regression",), ["DATA=excitations", "TASK=regression"]),
        (("TASK=regression", "DATA=digits"), ["DATA=digits"]),
    ],
)
def test_problem_that_does_not_fit_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], words: list[str]
) -> None:
    message = refused(tmp_path, *arguments)
    assert all(word in message for word in words), message


Q = cirq.LineQubit.range(9)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (cirq.to_json(1j * cirq.X(Q[0]) + cirq.PauliSum()), ["complex", "Hermitian"]),
        (json.dumps({"cirq_type": "PauliSum", "items": [1]}), ["PauliSum"]),
        ("[" * 100_000, ["PauliSum"]),
        ("0.5 [X0 Q1]", ["Q1"]),
        ("1.5 []", ["besides the identity"]),
        ("0 [X0] + 1 []", ["besides the identity"]),
    ],
)
def test_unusable_hamiltonian_file_is_refused(
    tmp_path: Path, content: str, words: list[str]
) -> None:
    path = tmp_path / "h.json"
    path.write_text(content)
    message = refused(tmp_path, *ENERGY, f"DATA={path}")
    assert all(word in message for word in (str(path), *words)), message


NUMBER = Target("number", "label")


@pytest.mark.parametrize(
    ("target", "arguments", "name"),
    [
        (Target("energy", "e", terms=("X",)), ["TASK=energy", "MODEL=uccsd"], "MODEL=uccsd"),
        (Target("state", "f", members=2), [*STATE, "ANGLES=shared"], "ANGLES=shared"),
        (Target("energy", "e", members=2), ["TASK=energy", "PRUNE=0.5"], "PRUNE=0.5"),
        (Target("classes", "label", ("a", "b", "c")), ["MODEL=qcnn"], "MODEL=qcnn"),
        (SIGNS, ["LOSS=categorical_crossentropy"], "LOSS=categorical_crossentropy"),
        (SIGNS, ["LOSS=poisson"], "LOSS=poisson"),
        (NUMBER, ["TASK=regression", "LOSS=binary_crossentropy"], "LOSS=binary_crossentropy"),
    ],
)
def test_setting_that_does_not_fit_the_target_is_refused(
    target: Target, arguments: list[str], name: str
) -> None:
    with pytest.raises(SettingsError, match=name):
        require_fit(target, Settings.from_args(arguments))


def test_unnormalised_target_state_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    np.savez(path, state=np.ones(4))
    assert "norm 2" in refused(tmp_path, *STATE, f"DATA={path}")


def write(folder: Path, labels: Iterable[object]) -> str:
    path = folder / "t.csv"
    lines = [f"{i % 7},{i % 5},{label}" for i, label in enumerate(labels)]
    path.write_text("\n".join(["a,b,label", *lines]) + "\n")
    return f"DATA={path}"


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (lambda i: 3.5, ["'label' is 3.5"]),
        (lambda i: f"text {i}", ["row 1", "'text 0'", "regression"]),
        (lambda i: "" if i == 4 else i, ["row 5", "empty or NaN"]),
        (lambda i: "inf" if i == 4 else i, ["row 5", "inf"]),
        (lambda i: 1e9 + i / 1e6, ["1000000000.0", "nothing to learn"]),
    ],
    ids=["constant", "text", "missing", "infinite", "narrow"],
)
def test_unusable_number_to_predict_is_refused(
    tmp_path: Path, label: Callable[[int], object], words: list[str]
) -> None:
    data = write(tmp_path, [label(i) for i in range(40)])
    message = refused(tmp_path, "TASK=regression", data)
    assert all(word in message for word in words), message


def test_number_far_from_those_of_training_is_refused(tmp_path: Path) -> None:
    rows = np.arange(40.0)
    training = prepare(Settings.from_args(["TASK=regression", write(tmp_path, rows)]), tmp_path)
    with pytest.raises(DataError, match=r"'label' holds 1e\+30"):
        training.target.encode(np.array([1.0, 1e30]))


def test_label_nan_is_no_class_however_it_is_written(tmp_path: Path) -> None:
    message = refused(tmp_path, write(tmp_path, ["a", "NaN", "b", "c"] * 10))
    assert "row 2 has no label" in message


def test_class_with_a_colon_may_have_a_weight() -> None:
    settings = Settings.from_args(["CLASS_WEIGHTS=12:30:2,12:45:1.5"])
    target = Target("signs", "label", ("12:30", "12:45"))
    assert class_factors(target, settings.data.class_weights, {}) == (2.0, 1.5)


def test_more_labels_than_classes_allow_name_regression(tmp_path: Path) -> None:
    message = refused(tmp_path, write(tmp_path, [i / 7 for i in range(200)]))
    assert "200 labels" in message
    assert "TASK=regression" in message


def test_data_set_of_another_task_is_refused(tmp_path: Path) -> None:
    small = ("TRAIN_EXAMPLES=10", "VALIDATION_EXAMPLES=4", "TEST_EXAMPLES=4", "QUBITS=4")
    made = prepare(Settings.from_args([*small]), tmp_path / "datasets")
    with pytest.raises(SettingsError, match="TASK=regression does not fit"):
        prepare(
            Settings.from_args(["TASK=regression", f"DATA={made.path}", *small]),
            tmp_path / "datasets",
        )
