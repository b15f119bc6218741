"""scikit-learn: a classifier and a regressor with a quantum kernel. Needs the extra `sklearn`."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import shown
from qfleet.circuits.feature_maps import zz_feature_map
from qfleet.errors import ArgumentError, LibraryError
from qfleet.kernels.fidelity import FidelityKernel
from qfleet.kernels.psd import nearest_psd

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.svm import SVC
    from sklearn.utils import Tags
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise LibraryError(
        f"qfleet.kernels.estimators needs scikit-learn ({error.name} is missing): `pip install"
        " 'qfleet[sklearn]'`"
    ) from None

__all__ = ["QuantumKernelClassifier", "QuantumKernelRegressor"]

_BANDWIDTH = 0.25

Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A kernel of all pairs of two arrays of rows."""


class QuantumKernelClassifier(ClassifierMixin, BaseEstimator):
    """A support vector classifier with a quantum kernel.

    It computes the same as `SVC(kernel="precomputed")`. A prediction compares the rows with the
    support vectors only.

    Args:
        kernel: A `FidelityKernel`, a `ProjectedKernel` or another function of two arrays of rows;
            the fidelity of `zz_feature_map` with one qubit per column and a bandwidth for columns
            of mean 0 and variance 1, unless given.
        C: Inverse strength of the regularization, positive.

    Attributes:
        kernel_: The kernel.
        svc_: The fitted SVC of the kernel matrix.
        support_vectors_: [S, I] rows of the training that predictions depend on.
        classes_: The labels.
        n_features_in_: I.
    """

    def __init__(self, kernel: Kernel | None = None, C: float = 1.0) -> None:
        self.kernel = kernel
        self.C = C

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the classifier.

        Args:
            X: [n, I] rows, in the unit of the circuit's inputs.
            y: [n] labels of two or more classes.
        """
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.kernel_ = _kernel(self.kernel, rows.shape[1])
        self.svc_ = SVC(C=self.C, kernel="precomputed").fit(self.kernel_(rows, rows), labels)
        self.support_vectors_ = rows[self.svc_.support_]
        self.classes_ = self.svc_.classes_
        return self

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return the signed distance from the boundary: [n], or [n, classes] for more than two."""
        check_is_fitted(self)
        return np.asarray(self.svc_.decision_function(self._matrix(X)))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the label of each row, [n]."""
        check_is_fitted(self)
        return np.asarray(self.svc_.predict(self._matrix(X)))

    def _matrix(self, X: ArrayLike) -> np.ndarray:
        """Return the kernel with all training rows; the SVC reads the support vectors' columns."""
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        matrix = np.zeros((len(rows), self.svc_.shape_fit_[0]))
        matrix[:, self.svc_.support_] = self.kernel_(rows, self.support_vectors_)
        return matrix


class QuantumKernelRegressor(RegressorMixin, BaseEstimator):
    """Kernel ridge regression with a quantum kernel.

    It computes the same as `KernelRidge(kernel="precomputed")`, which has no constant term: center
    the targets, for example by `TransformedTargetRegressor`. A fidelity kernel with shots may have
    negative eigenvalues, with which a ridge regression diverges: `nearest_psd` of the matrix of the
    training rows is fitted then.

    Args:
        kernel: As for `QuantumKernelClassifier`.
        alpha: Strength of the regularization, positive.

    Attributes:
        kernel_: The kernel.
        ridge_: The fitted KernelRidge of the kernel matrix.
        X_fit_: [n, I] rows of the training.
        n_features_in_: I.
    """

    def __init__(self, kernel: Kernel | None = None, alpha: float = 1.0) -> None:
        self.kernel = kernel
        self.alpha = alpha

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the regressor.

        Args:
            X: [n, I] rows, in the unit of the circuit's inputs.
            y: [n] targets, or [n, T].
        """
        rows, targets = validate_data(
            self, X, y, dtype=np.float64, y_numeric=True, multi_output=True
        )
        self.kernel_ = _kernel(self.kernel, rows.shape[1])
        matrix = self.kernel_(rows, rows)
        if isinstance(self.kernel_, FidelityKernel) and self.kernel_.shots is not None:
            matrix = nearest_psd(matrix)
        self.ridge_ = KernelRidge(alpha=self.alpha, kernel="precomputed").fit(matrix, targets)
        self.X_fit_ = rows
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the prediction for each row, [n] or [n, T]."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(self.ridge_.predict(self.kernel_(rows, self.X_fit_)))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _kernel(kernel: Any, width: int) -> Kernel:
    if kernel is None:
        model = zz_feature_map(width, bandwidth=_BANDWIDTH)
        return FidelityKernel(model.circuit, model.inputs)
    if not callable(kernel):
        raise ArgumentError(
            f"kernel is {shown(kernel)}: pass a FidelityKernel, a ProjectedKernel or another"
            " function of two arrays"
        )
    found: Kernel = kernel
    return found
