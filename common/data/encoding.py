"""Encoding of features as angles, fitted on the training split and applied to all others.

Features can be the amplitudes of a state, too, which needs no fit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.data import amplitudes
from common.data.target import Target
from common.errors import DataError
from common.settings.amplitude_checks import AMPLITUDE_ENCODERS, MAX_STATE_QUBITS
from qfleet.placement import PLACEMENTS

KINDS = ("none", "angle", "pca", "reupload", "amplitude")
SIGMAS = 3.0
"""Standard deviations of a standardised feature that become pi/2. <X> of ry(x)|0> is sin(x), which
is unique only between -pi/2 and pi/2."""


@dataclass(frozen=True)
class Encoding:
    """Features to angles: clip((features - center) @ matrix.T / SIGMAS, -1, 1) * pi/2.

    `matrix` standardises (angle) or whitens (pca), so a row of it times a training feature has
    standard deviation 1. Kind `none` uses the features as angles. Kind `amplitude` pads them with
    zeros to a state of 2**qubits amplitudes, and divides it by its norm. With `norm`, each row has
    one more feature of this value, so that the state shows the row's norm.

    Attributes:
        kind: One of KINDS.
        placement: Entry point of the angles in the circuit, one of `PLACEMENTS`.
        columns: Names of the features, in order.
        target: What a model predicts.
        center: Mean of each feature over the training split; empty for `none` and `amplitude`.
        matrix: One row per angle, one column per feature; empty for `none` and `amplitude`.
        variance: Fraction of the variance of the standardised features that PCA keeps; None
            without PCA.
        id_column: Name of the column that identifies rows, which is not a feature; empty without.
        left_out: Names of columns that were left out, since they have one value.
        qubits: Width of the states of kind `amplitude`; 0 for angles.
        norm: A typical norm of a row; None if states do not show the norm.
    """

    kind: str
    placement: str
    columns: tuple[str, ...]
    target: Target
    center: tuple[float, ...] = ()
    matrix: tuple[tuple[float, ...], ...] = ()
    variance: float | None = None
    id_column: str = ""
    left_out: tuple[str, ...] = ()
    qubits: int = 0
    norm: float | None = None

    @property
    def symbols(self) -> int:
        """Angles per example, or amplitudes."""
        if self.kind == "amplitude":
            return 2**self.qubits
        return len(self.columns) if self.kind == "none" else len(self.matrix)

    def apply(self, features: np.ndarray) -> np.ndarray:
        """Return the angles of examples, or their states.

        Args:
            features: float [n, columns], in the order of `columns`.

        Returns:
            float32 [n, symbols], radians; states of norm 1 for kind `amplitude`.

        Raises:
            DataError: The number of features differs from the training data, or a state is 0.
        """
        if features.ndim != 2 or features.shape[1] != len(self.columns):
            raise DataError(
                f"examples of shape {features.shape} do not fit an encoding of"
                f" {len(self.columns)} columns: give {', '.join(self.columns[:8])}"
                f"{', ...' if len(self.columns) > 8 else ''}"
            )
        if self.kind == "none":
            return features.astype(np.float32)
        if self.kind == "amplitude":
            if self.norm is not None:
                features = amplitudes.with_norm(features, self.norm)
            amplitudes.require_nonzero(features, "the examples")
            return amplitudes.states(features, self.symbols)
        scores = (features - np.array(self.center)) @ np.array(self.matrix).T
        return (np.clip(scores / SIGMAS, -1, 1) * (math.pi / 2)).astype(np.float32)

    def require_states(
        self, features: np.ndarray, title: str, memory: int, rows: np.ndarray | None = None
    ) -> None:
        """Raise if rows can't become states. Angles have no such limit.

        Args:
            features: float [n, columns].
            title: Name of the table in the message.
            memory: DATA_MEMORY, in MiB.
            rows: int64 [n], their rows in the table from 0; 0 to n - 1 unless given.

        Raises:
            DataError: All features of a row are 0, or the states need more memory.
        """
        if self.kind == "amplitude":
            amplitudes.require_memory(len(features), self.qubits, title, memory)
            if self.norm is None:
                amplitudes.require_nonzero(features, title, rows)

    def to_json(self) -> dict[str, object]:
        """Plain lists, numbers and texts, from which `from_json` makes the same encoding."""
        return {
            "kind": self.kind,
            "placement": self.placement,
            "columns": list(self.columns),
            "target": self.target.to_json(),
            "center": list(self.center),
            "matrix": [list(row) for row in self.matrix],
            **({} if self.variance is None else {"variance": self.variance}),
            **({"id_column": self.id_column} if self.id_column else {}),
            **({"left_out": list(self.left_out)} if self.left_out else {}),
            **({"qubits": self.qubits} if self.qubits else {}),
            **({} if self.norm is None else {"norm": self.norm}),
        }

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> "Encoding":
        """The encoding that `to_json` wrote.

        Raises:
            DataError: It is not one.
        """
        try:
            encoding = cls(
                kind=read["kind"],
                placement=read["placement"],
                columns=tuple(map(str, read["columns"])),
                target=Target.from_json(read["target"]),
                center=tuple(map(float, read["center"])),
                matrix=tuple(tuple(map(float, row)) for row in read["matrix"]),
                variance=float(read["variance"]) if "variance" in read else None,
                id_column=str(read.get("id_column", "")),
                left_out=tuple(map(str, read.get("left_out", ()))),
                qubits=int(read.get("qubits", 0)),
                norm=float(read["norm"]) if "norm" in read else None,
            )
        except DataError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the recorded encoding can't be read: {error!r}") from None
        is_state = encoding.kind == "amplitude"
        width = 0 if is_state or encoding.kind == "none" else len(encoding.columns)
        rows = {len(row) for row in encoding.matrix}
        fits = len(encoding.center) == width and rows == ({width} if width else set())
        norm = encoding.norm
        if is_state or encoding.qubits or encoding.placement == "amplitude" or norm is not None:
            fits &= is_state and encoding.placement == "amplitude"
            fits &= 0 < encoding.qubits <= MAX_STATE_QUBITS
            used = len(encoding.columns) + (norm is not None)
            fits = fits and len(encoding.columns) > 0 and used <= encoding.symbols
            fits = fits and (norm is None or 0 < norm < math.inf)
        if encoding.kind not in KINDS or encoding.placement not in PLACEMENTS or not fits:
            raise DataError(
                f"the recorded encoding is inconsistent: {encoding.kind!r} at"
                f" {encoding.placement!r} of {len(encoding.columns)} columns"
            )
        return encoding


def fit(
    features: np.ndarray,
    kind: str,
    qubits: int,
    *,
    columns: Sequence[str],
    target: Target,
    id_column: str = "",
    left_out: Sequence[str] = (),
) -> Encoding:
    """Fit an encoding to the training split.

    Args:
        features: float64 [n, columns] of the training split only.
        kind: ENCODER: auto, angle, pca, reupload, amplitude or amplitude-norm.
        qubits: Width of the circuit, the maximum of angles.
        columns: Names of the features.
        target: What a model predicts.
        id_column: ID_COLUMN.
        left_out: Names of columns that are not features.

    Raises:
        DataError: There are more features than qubits, and each feature needs a qubit; or more than
            amplitudes.
    """
    if kind in AMPLITUDE_ENCODERS:
        has_norm = kind == "amplitude-norm"
        amplitudes.require_width(features.shape[1] + has_norm, qubits)
        return Encoding(
            kind="amplitude",
            placement="amplitude",
            columns=tuple(columns),
            target=target,
            id_column=id_column,
            left_out=tuple(left_out),
            qubits=qubits,
            norm=amplitudes.typical_norm(features) if has_norm else None,
        )
    wide = features.shape[1] > qubits
    if kind == "auto":
        kind = "pca" if wide else "angle"
    if kind == "angle" and wide:
        raise DataError(
            f"ENCODER=angle puts one feature on a qubit, but there are {features.shape[1]} features"
            f" and QUBITS={qubits}: raise QUBITS, or set ENCODER=pca or reupload"
        )
    center = features.mean(axis=0)
    variance = None
    if kind == "pca" or wide:
        matrix, variance = _whiten(features, qubits)
    else:
        matrix = _standardise(features)
    return Encoding(
        kind=kind,
        placement="reupload" if kind == "reupload" else "angle",
        columns=tuple(columns),
        target=target,
        center=tuple(center.tolist()),
        matrix=tuple(tuple(row) for row in matrix.tolist()),
        variance=variance,
        id_column=id_column,
        left_out=tuple(left_out),
    )


def varies(features: np.ndarray) -> np.ndarray:
    """Return True for each column [columns] whose deviation is more than rounding."""
    return _scales(features) > 0


def _inverse(deviations: np.ndarray, scale: np.ndarray | float) -> np.ndarray:
    """Return 1 / deviation, and 0 if the deviation is only rounding."""
    significant = deviations > 1e-12 * scale
    return np.where(significant, 1 / np.where(significant, deviations, 1), 0)


def _scales(features: np.ndarray) -> np.ndarray:
    """Return the factor of each feature that gives it a standard deviation of 1."""
    return _inverse(features.std(axis=0), np.abs(features).max(axis=0))


def _standardise(features: np.ndarray) -> np.ndarray:
    """Return the diagonal matrix that gives each feature a standard deviation of 1."""
    return np.diag(_scales(features))


def _whiten(features: np.ndarray, components: int) -> tuple[np.ndarray, float]:
    """Return the principal components of the standardised features, with standard deviation 1.

    The second value is the fraction of the variance that they have.

    The sign of a component is arbitrary; here its largest entry is positive.
    """
    scales = _scales(features)
    scores = (features - features.mean(axis=0)) * scales
    values, vectors = _eigenvectors(scores, components)
    largest = np.abs(vectors).argmax(axis=1)
    vectors *= np.sign(vectors[np.arange(len(vectors)), largest])[:, None]
    deviations = np.sqrt(np.maximum(values, 0))
    # Rounding of the values, about 1e-16 of the largest, is 1e-8 of its root.
    matrix = _inverse(deviations, 1e6 * deviations.max(initial=0))[:, None] * vectors * scales
    total = float((scores**2).mean(axis=0).sum())
    return matrix, min(1.0, float(np.maximum(values, 0).sum()) / total) if total else 1.0


def _eigenvectors(scores: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenvalues of the covariance, and their vectors [count, columns].

    A table with more columns than rows has at most as many components as rows: they follow from the
    smaller matrix of scalar products of the rows.
    """
    rows, columns = scores.shape
    count = min(count, columns)
    if columns <= rows:
        values, vectors = np.linalg.eigh(scores.T @ scores / rows)
        # eigh sorts in ascending order.
        return values[::-1][:count], vectors[:, ::-1][:, :count].T
    values, left = np.linalg.eigh(scores @ scores.T / rows)
    values, left = values[::-1][:count], left[:, ::-1][:, :count]
    lengths = np.sqrt(np.maximum(values, 0) * rows)
    vectors = np.zeros((count, columns))
    vectors[: len(values)] = _inverse(lengths, 1e6 * lengths.max(initial=0))[:, None] * (
        left.T @ scores
    )
    return np.concatenate([values, np.zeros(count - len(values))]), vectors
