"""Encodings are fitted on the training split only."""

import json
from pathlib import Path

import numpy as np
import pytest

from common.data import Encoding
from common.data.encoding import fit
from common.data.target import Target
from common.errors import DataError

GENERATOR = np.random.default_rng(3)
FEATURES = GENERATOR.normal(size=(500, 6)) * [1, 10, 0.1, 1, 1, 1] + [0, 100, 0, -5, 0, 1e6]


TARGET = Target("signs", "label", ("0", "1"))


def fitted(features: np.ndarray, kind: str, qubits: int) -> Encoding:
    columns = [f"c{i}" for i in range(features.shape[1])]
    return fit(features, kind, qubits, columns=columns, target=TARGET)


@pytest.mark.parametrize(
    ("kind", "qubits", "expected", "placement", "symbols"),
    [
        ("auto", 8, "angle", "angle", 6),
        ("auto", 4, "pca", "angle", 4),
        ("angle", 6, "angle", "angle", 6),
        ("pca", 8, "pca", "angle", 6),
        ("pca", 3, "pca", "angle", 3),
        ("reupload", 8, "reupload", "reupload", 6),
        ("reupload", 3, "reupload", "reupload", 3),
    ],
)
def test_fit_encoder_determines_angles_and_placement(
    kind: str, qubits: int, expected: str, placement: str, symbols: int
) -> None:
    encoding = fitted(FEATURES, kind, qubits)
    assert (encoding.kind, encoding.placement, encoding.symbols) == (expected, placement, symbols)
    angles = encoding.apply(FEATURES)
    assert angles.shape == (500, symbols)
    assert angles.dtype == np.float32
    assert np.abs(angles).max() <= np.float32(np.pi / 2)


@pytest.mark.parametrize(("kind", "qubits"), [("angle", 6), ("pca", 4)])
def test_angles_are_centred_and_independent_of_units(kind: str, qubits: int) -> None:
    angles = fitted(FEATURES, kind, qubits).apply(FEATURES)
    np.testing.assert_allclose(angles.mean(axis=0), 0, atol=0.01)
    np.testing.assert_allclose(angles.std(axis=0), np.pi / 2 / 3, rtol=0.02)


def test_standard_deviation_is_pi_over_6_and_outliers_pi_over_2() -> None:
    encoding = fitted(np.array([[-1.0], [1.0]]), "angle", 2)
    angles = encoding.apply(np.array([[0.0], [1.0], [-2.0], [3.0], [1e9]]))
    expected = np.pi / 2 * np.array([[0], [1 / 3], [-2 / 3], [1], [1]])
    np.testing.assert_allclose(angles, expected, rtol=1e-6)


def test_principal_components_are_those_of_scikit_learn() -> None:
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    mixed = FEATURES @ GENERATOR.normal(size=(6, 6))
    ours = fitted(mixed, "pca", 3).apply(mixed)
    theirs = PCA(3, whiten=True).fit_transform(StandardScaler().fit_transform(mixed))
    theirs = np.clip(theirs / 3, -1, 1) * np.pi / 2
    for i in range(3):
        assert abs(np.corrcoef(ours[:, i], theirs[:, i])[0, 1]) == pytest.approx(1, abs=1e-6)
        # scikit-learn divides by n - 1.
        assert np.abs(ours[:, i]).mean() == pytest.approx(np.abs(theirs[:, i]).mean(), rel=0.01)


@pytest.mark.parametrize("kind", ["angle", "pca"])
def test_a_feature_that_never_changes_is_angle_zero(kind: str) -> None:
    features = FEATURES.copy()
    features[:, 2] = 0.1
    encoding = fitted(features, kind, 6)
    new = features.copy()
    new[:, 2] = 1e6
    np.testing.assert_array_equal(encoding.apply(features), encoding.apply(new))
    assert (np.array(encoding.matrix)[:, 2] == 0).all()


def test_pca_of_copies_of_one_feature_has_one_angle_that_moves() -> None:
    angles = fitted(np.repeat(FEATURES[:, :1], 5, axis=1), "pca", 3).apply(
        np.repeat(FEATURES[:, :1], 5, axis=1)
    )
    assert angles[:, 0].std() > 0.4
    np.testing.assert_array_equal(angles[:, 1:], 0)


def test_json_gives_the_same_encoding_to_the_bit(tmp_path: Path) -> None:
    for kind in ("angle", "pca", "reupload"):
        encoding = fitted(FEATURES, kind, 6)
        again = Encoding.from_json(json.loads(json.dumps(encoding.to_json())))
        assert again == encoding
        np.testing.assert_array_equal(again.apply(FEATURES), encoding.apply(FEATURES))


def test_another_width_is_refused() -> None:
    with pytest.raises(DataError, match=r"\(500, 5\) do not fit an encoding of 6 columns: give c0"):
        fitted(FEATURES, "angle", 6).apply(FEATURES[:, :5])


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "amplitude"},
        {"placement": "nowhere"},
        {"target": {"kind": "signs", "column": "label", "classes": ["0"]}},
        {"center": [1.0]},
        {"matrix": [[1.0, 2.0]]},
        {"matrix": [["x"] * 6]},
        {"matrix": []},
        {"columns": None},
    ],
)
def test_from_json_inconsistent_encoding_is_refused(changed: dict) -> None:
    recorded = fitted(FEATURES, "angle", 6).to_json()
    with pytest.raises(DataError, match=r"the recorded (encoding|target)"):
        Encoding.from_json({**recorded, **changed})
