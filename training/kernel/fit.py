"""The fit of MODEL=kernel: support vector machines or a kernel ridge regression, tuned."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from common.data.target import Target
from common.errors import DataError
from common.tuning import FOLDS, MAX_TUNING_ROWS, STRENGTHS, sample_rows


class Fit(NamedTuple):
    """Sums of kernel values: output k of x is sum_i coefficients[i, k] K(x, x_i) + constant[k].

    Attributes:
        coefficients: float64 [n, outputs]; 0 for rows that are no support vectors.
        constant: float64 [outputs].
        setting: The tuned setting and its value, such as `C=10`.
    """

    coefficients: np.ndarray
    constant: np.ndarray
    setting: str

    @property
    def support(self) -> np.ndarray:
        """Numbers of the rows that the outputs depend on, int64 [S]; at least one."""
        found = np.flatnonzero(self.coefficients.any(axis=1))
        return found if len(found) else np.zeros(1, np.int64)


def fit(matrix: np.ndarray, labels: np.ndarray, target: Target, seed: int) -> Fit:
    """Tune the regularisation by cross-validation, and fit all rows.

    Classes have a support vector machine each, against all others; two classes have one in all.
    A number has a kernel ridge regression around the mean of the labels.

    Args:
        matrix: float64 [n, n], the kernel matrix.
        labels: float32 [n], encoded by the target.
        target: What is predicted.
        seed: Seed of the rows that the tuning uses, if there are many.

    Raises:
        DataError: All rows are of one class.
    """
    if not target.classes:
        mean = float(labels.mean(dtype=np.float64))
        ridge, setting = _tuned(KernelRidge(kernel="precomputed"), "alpha", matrix,
                                labels - mean, seed)  # fmt: skip
        return Fit(ridge.dual_coef_.reshape(-1, 1), np.array([mean]), setting)
    indices = target.class_indices(labels)
    counts = np.bincount(indices, minlength=len(target.classes))
    if (missing := np.flatnonzero(counts == 0)).size:
        raise DataError(
            f"the training split has no example of class {target.classes[missing[0]]}: provide"
            " more rows, or raise TRAIN_EXAMPLES"
        )
    columns = range(len(target.classes)) if target.kind == "classes" else [1]
    fits = [_machine(matrix, indices == number, seed) for number in columns]
    return Fit(
        np.stack([one[0] for one in fits], axis=1),
        np.array([one[1] for one in fits]),
        ", ".join(dict.fromkeys(one[2] for one in fits)),
    )


def _machine(matrix: np.ndarray, is_class: np.ndarray, seed: int) -> tuple[np.ndarray, float, str]:
    """Return coefficients [n], constant and setting of a machine that finds one class."""
    machine, setting = _tuned(SVC(kernel="precomputed"), "C", matrix, is_class, seed)
    coefficients = np.zeros(len(matrix))
    coefficients[machine.support_] = machine.dual_coef_[0]
    return coefficients, float(machine.intercept_[0]), setting


def _tuned(
    model: BaseEstimator, setting: str, matrix: np.ndarray, labels: np.ndarray, seed: int
) -> tuple[Any, str]:
    """Return a model that is fitted to all rows, and its tuned setting."""
    rows = sample_rows(len(matrix), MAX_TUNING_ROWS, seed)
    is_class = labels.dtype == bool
    if len(rows) >= FOLDS and (not is_class or min(labels[rows].sum(), (~labels[rows]).sum()) > 1):
        search = GridSearchCV(model, {setting: list(STRENGTHS)}, cv=FOLDS)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class")
            search.fit(matrix[np.ix_(rows, rows)], labels[rows])
        model.set_params(**search.best_params_)
    return model.fit(matrix, labels), f"{setting}={model.get_params()[setting]:g}"
