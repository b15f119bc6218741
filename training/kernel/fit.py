"""The fit of MODEL=kernel: support vector machines or a kernel ridge regression, tuned."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from common.data.target import Target
from common.errors import DataError
from common.tuning import FOLDS, STRENGTHS


class Fit(NamedTuple):
    """Sums of kernel values: output k of x is sum_i coefficients[i, k] K(x, x_i) + constant[k].

    Attributes:
        coefficients: float64 [n, outputs]; 0 for rows that are no support vectors.
        constant: float64 [outputs].
    """

    coefficients: np.ndarray
    constant: np.ndarray

    @property
    def support(self) -> np.ndarray:
        """Numbers of the rows that the outputs depend on, int64 [S]; at least one."""
        found = np.flatnonzero(self.coefficients.any(axis=1))
        return found if len(found) else np.zeros(1, np.int64)


class Tuning(NamedTuple):
    """The bandwidth and the regularisation with the best score of cross-validation.

    Attributes:
        score: Mean accuracy of the machines, or R squared.
        bandwidth: Factor of the angles in the feature map.
        name: Name of the regularisation, C or alpha.
        strengths: Its value for each machine.
    """

    score: float
    bandwidth: float
    name: str
    strengths: tuple[float, ...]

    def __str__(self) -> str:
        low, high = min(self.strengths), max(self.strengths)
        values = f"{low:g}" if low == high else f"{low:g} to {high:g} by class"
        return f"bandwidth={self.bandwidth:g}, {self.name}={values}"


class _Machine(NamedTuple):
    """A machine without its regularisation, and its labels [n]: bool of a class, or a number."""

    model: BaseEstimator
    labels: np.ndarray


def tune(
    matrices: Mapping[float, np.ndarray], rows: np.ndarray, labels: np.ndarray, target: Target
) -> Tuning:
    """Choose bandwidth and regularisation by cross-validation.

    All machines have one bandwidth, and each has its own regularisation.

    Args:
        matrices: float64 [m, m] by bandwidth, the kernel matrices of some rows.
        rows: int64 [m], the numbers of the rows.
        labels: float32 [n], of all rows, encoded by the target.
        target: What is predicted.

    Raises:
        DataError: All rows are of one class.
    """
    machines, name = _machines(labels, target)
    found = []
    for bandwidth, matrix in matrices.items():
        best = [_search(one.model, name, matrix, one.labels[rows]) for one in machines]
        score = sum(one[0] for one in best) / len(best)
        found.append(Tuning(score, bandwidth, name, tuple(one[1] for one in best)))
    return max(found, key=lambda one: one.score)


def fit(matrix: np.ndarray, labels: np.ndarray, target: Target, tuning: Tuning) -> Fit:
    """Fit all rows.

    Classes have a support vector machine each, against all others; two classes have one in all.
    A number has a kernel ridge regression around the mean of the labels.

    Args:
        matrix: float64 [n, n], the kernel matrix.
        labels: float32 [n], encoded by the target.
        target: What is predicted.
        tuning: The regularisation.

    Raises:
        DataError: All rows are of one class.
    """
    machines, name = _machines(labels, target)
    coefficients = np.zeros((len(matrix), len(machines)))
    constant = np.zeros(len(machines))
    for k, (machine, strength) in enumerate(zip(machines, tuning.strengths, strict=True)):
        model = clone(machine.model).set_params(**{name: strength}).fit(matrix, machine.labels)
        if target.classes:
            coefficients[model.support_, k] = model.dual_coef_[0]
            constant[k] = model.intercept_[0]
        else:
            coefficients[:, k], constant[k] = model.dual_coef_, _mean(labels)
    return Fit(coefficients, constant)


def _machines(labels: np.ndarray, target: Target) -> tuple[list[_Machine], str]:
    """Return the machine of each output, and the name of their regularisation."""
    if not target.classes:
        return [_Machine(KernelRidge(kernel="precomputed"), labels - _mean(labels))], "alpha"
    indices = target.class_indices(labels)
    counts = np.bincount(indices, minlength=len(target.classes))
    if (missing := np.flatnonzero(counts == 0)).size:
        raise DataError(
            f"the training split has no example of class {target.classes[missing[0]]}: provide"
            " more rows, or raise TRAIN_EXAMPLES"
        )
    numbers = range(len(target.classes)) if target.kind == "classes" else [1]
    return [_Machine(SVC(kernel="precomputed"), indices == one) for one in numbers], "C"


def _mean(labels: np.ndarray) -> float:
    return float(labels.mean(dtype=np.float64))


def _search(
    model: BaseEstimator, name: str, matrix: np.ndarray, labels: np.ndarray
) -> tuple[float, float]:
    """Return the best score and its regularisation; too few rows for folds have 0 and 1."""
    is_class = labels.dtype == bool
    if len(labels) < FOLDS or (is_class and min(labels.sum(), (~labels).sum()) < 2):
        return 0.0, 1.0
    search: Any = GridSearchCV(model, {name: list(STRENGTHS)}, cv=FOLDS, refit=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        search.fit(matrix, labels)
    return float(search.best_score_), float(search.best_params_[name])
