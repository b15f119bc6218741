"""From features to angles: what is fitted on the training split and applied to everything else."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.errors import DataError
from qfleet.placement import PLACEMENTS

KINDS = ("none", "angle", "pca", "reupload")
# A standardised feature of this many standard deviations, or more, is a quarter turn: <X> of
# ry(x)|0> is sin(x), which tells values apart only between -pi/2 and pi/2.
SIGMAS = 3.0


@dataclass(frozen=True)
class Encoding:
    """Features to angles: clip((features - center) @ matrix.T / SIGMAS, -1, 1) * pi/2.

    `matrix` standardises (angle) or whitens (pca), so a row of it times a training feature has
    standard deviation 1. Kind `none` takes the features for angles as they are.

    Attributes:
        kind: One of KINDS, what the features go through.
        placement: One of `circuits.PLACEMENTS`, where the angles enter the circuit.
        columns: Names of the features, in order.
        label: Name of the column that holds the label.
        classes: The label that is read as -1 and the one that is read as +1.
        center: Mean of each feature over the training split; empty for kind `none`.
        matrix: A row for each angle, a column for each feature; empty for kind `none`.
    """

    kind: str
    placement: str
    columns: tuple[str, ...]
    label: str
    classes: tuple[str, str]
    center: tuple[float, ...] = ()
    matrix: tuple[tuple[float, ...], ...] = ()

    @property
    def symbols(self) -> int:
        """Angles per example."""
        return len(self.columns) if self.kind == "none" else len(self.matrix)

    def apply(self, features: np.ndarray) -> np.ndarray:
        """The angles of examples.

        Args:
            features: float [n, columns], in the order of `columns`.

        Returns:
            float32 [n, symbols], radians.

        Raises:
            DataError: The features are more or fewer than the encoding was fitted on.
        """
        if features.ndim != 2 or features.shape[1] != len(self.columns):
            raise DataError(
                f"examples of shape {features.shape} do not fit an encoding of"
                f" {len(self.columns)} columns: give {', '.join(self.columns[:8])}"
                f"{', ...' if len(self.columns) > 8 else ''}"
            )
        if self.kind == "none":
            return features.astype(np.float32)
        scores = (features - np.array(self.center)) @ np.array(self.matrix).T
        return (np.clip(scores / SIGMAS, -1, 1) * (math.pi / 2)).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and texts, from which `from_json` makes the same encoding."""
        return {
            "kind": self.kind,
            "placement": self.placement,
            "columns": list(self.columns),
            "label": self.label,
            "classes": list(self.classes),
            "center": list(self.center),
            "matrix": [list(row) for row in self.matrix],
        }

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> "Encoding":
        """The encoding that `to_json` wrote.

        Raises:
            DataError: It is not one.
        """
        try:
            negative, positive = map(str, read["classes"])
            made = cls(
                kind=read["kind"],
                placement=read["placement"],
                columns=tuple(map(str, read["columns"])),
                label=str(read["label"]),
                classes=(negative, positive),
                center=tuple(map(float, read["center"])),
                matrix=tuple(tuple(map(float, row)) for row in read["matrix"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"an encoding was recorded that can't be read: {error!r}") from None
        width = 0 if made.kind == "none" else len(made.columns)
        rows = {len(row) for row in made.matrix}
        fits = len(made.center) == width and rows == ({width} if width else set())
        if made.kind not in KINDS or made.placement not in PLACEMENTS or not fits:
            raise DataError(
                f"an encoding was recorded that does not fit together: {made.kind!r} at"
                f" {made.placement!r} of {len(made.columns)} columns"
            )
        return made


def fit(
    features: np.ndarray,
    kind: str,
    qubits: int,
    *,
    columns: Sequence[str],
    label: str,
    classes: tuple[str, str],
) -> Encoding:
    """Fit an encoding to the training split.

    Args:
        features: float64 [n, columns] of the training split alone.
        kind: What ENCODER may be: auto, angle, pca or reupload.
        qubits: Width of the circuit: the most angles there can be.
        columns: Names of the features.
        label: Name of the label's column.
        classes: The label of -1 and the label of +1.

    Raises:
        DataError: More features than qubits where each feature needs a qubit.
    """
    wide = features.shape[1] > qubits
    if kind == "auto":
        kind = "pca" if wide else "angle"
    if kind == "angle" and wide:
        raise DataError(
            f"ENCODER=angle puts one feature on a qubit, but there are {features.shape[1]} features"
            f" and QUBITS={qubits}: raise QUBITS, or set ENCODER=pca or reupload"
        )
    center = features.mean(axis=0)
    matrix = _whiten(features, qubits) if kind == "pca" or wide else _standardise(features)
    return Encoding(
        kind=kind,
        placement="reupload" if kind == "reupload" else "angle",
        columns=tuple(columns),
        label=label,
        classes=classes,
        center=tuple(center.tolist()),
        matrix=tuple(tuple(row) for row in matrix.tolist()),
    )


def _inverse(deviations: np.ndarray, scale: np.ndarray | float) -> np.ndarray:
    """1 / deviation, and 0 where the deviation is rounding alone: such a feature says nothing."""
    told = deviations > 1e-12 * scale
    return np.where(told, 1 / np.where(told, deviations, 1), 0)


def _standardise(features: np.ndarray) -> np.ndarray:
    """The diagonal matrix that gives each feature a standard deviation of 1."""
    return np.diag(_inverse(features.std(axis=0), np.abs(features).max(axis=0)))


def _whiten(features: np.ndarray, components: int) -> np.ndarray:
    """Principal components of the standardised features, each of standard deviation 1.

    The sign of a component is free; here its largest entry is positive.
    """
    standardise = _standardise(features)
    scores = (features - features.mean(axis=0)) @ standardise
    values, vectors = np.linalg.eigh(scores.T @ scores / len(scores))
    # eigh sorts upwards.
    values, vectors = values[::-1][:components], vectors[:, ::-1][:, :components].T
    largest = np.abs(vectors).argmax(axis=1)
    vectors *= np.sign(vectors[np.arange(len(vectors)), largest])[:, None]
    deviations = np.sqrt(np.maximum(values, 0))
    # Rounding of the values, about 1e-16 of the largest, is 1e-8 of its root.
    return _inverse(deviations, 1e6 * deviations.max(initial=0))[:, None] * vectors @ standardise
