"""Quantum kernels in scikit-learn: its own checks, callables, pipelines and searches."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from qfleet.circuits import zz_feature_map
from qfleet.errors import ArgumentError
from qfleet.kernels import FidelityKernel, ProjectedKernel, nearest_psd
from qfleet.kernels.estimators import QuantumKernelClassifier, QuantumKernelRegressor

MODEL = zz_feature_map(2, layers=1)
KERNEL = FidelityKernel(MODEL.circuit, MODEL.inputs)
ROWS, LABELS = make_moons(60, noise=0.1, random_state=0)
NEW, _ = make_moons(15, noise=0.1, random_state=1)
TARGETS = np.sin(ROWS[:, 0]) * ROWS[:, 1]


@parametrize_with_checks([QuantumKernelClassifier(), QuantumKernelRegressor()])
def test_estimator_passes_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_classifier_is_an_svc_with_this_kernel() -> None:
    found = QuantumKernelClassifier(KERNEL, C=3).fit(ROWS, LABELS)
    called = SVC(kernel=KERNEL, C=3).fit(ROWS, LABELS)
    precomputed = SVC(kernel="precomputed", C=3).fit(KERNEL(ROWS), LABELS)
    wanted = precomputed.decision_function(KERNEL(NEW, ROWS))
    np.testing.assert_allclose(called.decision_function(NEW), wanted, atol=1e-9)
    np.testing.assert_allclose(found.decision_function(NEW), wanted, atol=1e-9)
    assert (found.predict(NEW) == precomputed.predict(KERNEL(NEW, ROWS))).all()
    assert len(found.support_vectors_) < len(ROWS)


def test_regressor_is_a_kernel_ridge_with_this_kernel() -> None:
    found = QuantumKernelRegressor(KERNEL, alpha=0.1).fit(ROWS, TARGETS).predict(NEW)
    called = KernelRidge(kernel=KERNEL, alpha=0.1).fit(ROWS, TARGETS).predict(NEW)
    precomputed = KernelRidge(kernel="precomputed", alpha=0.1).fit(KERNEL(ROWS), TARGETS)
    np.testing.assert_allclose(found, precomputed.predict(KERNEL(NEW, ROWS)), atol=1e-9)
    np.testing.assert_allclose(found, called, atol=1e-9)


def test_kernel_with_shots_is_equal_for_pairs() -> None:
    kernel = FidelityKernel(MODEL.circuit, MODEL.inputs, shots=100)
    called = KernelRidge(kernel=kernel, alpha=1).fit(ROWS[:20], TARGETS[:20]).predict(NEW)
    precomputed = KernelRidge(kernel="precomputed", alpha=1)
    precomputed.fit(kernel(ROWS[:20]), TARGETS[:20])
    np.testing.assert_allclose(called, precomputed.predict(kernel(NEW, ROWS[:20])), atol=1e-9)


def test_regressor_of_shots_does_not_diverge() -> None:
    kernel = FidelityKernel(MODEL.circuit, MODEL.inputs, shots=50, seed=1)
    matrix = kernel(ROWS)
    alpha = -float(np.linalg.eigvalsh(matrix)[0]) - 1e-3  # a ridge of the matrix has a pole here
    assert alpha > 0
    found = QuantumKernelRegressor(kernel, alpha=alpha).fit(ROWS, TARGETS).predict(NEW)
    plain = KernelRidge(kernel="precomputed", alpha=alpha)
    with pytest.warns(UserWarning, match="Singular matrix"):
        plain.fit(matrix, TARGETS)
    assert np.abs(found).max() < 2 * np.abs(TARGETS).max()
    clipped = plain.fit(nearest_psd(matrix), TARGETS).predict(kernel(NEW, ROWS))
    np.testing.assert_allclose(found, clipped)


@pytest.mark.parametrize("make", [QuantumKernelClassifier, SVC])
def test_search_varies_an_argument_of_the_kernel(make: Any) -> None:
    kernel = ProjectedKernel(MODEL.circuit, MODEL.inputs, gamma=1)
    search = GridSearchCV(make(kernel=kernel), {"kernel__gamma": [1e-4, 2]}, cv=3)
    search.fit(ROWS, LABELS)
    wanted = []
    for gamma in (1e-4, 2):
        other = ProjectedKernel(MODEL.circuit, MODEL.inputs, gamma=gamma)
        wanted.append(cross_val_score(make(kernel=other), ROWS, LABELS, cv=3).mean())
    assert list(search.cv_results_["mean_test_score"]) == pytest.approx(wanted)
    assert wanted[0] != wanted[1]
    assert kernel.gamma == 1  # clones vary, which share the program
    assert search.best_estimator_.kernel.gamma == search.best_params_["kernel__gamma"]
    assert search.best_estimator_.kernel.compiled is kernel.compiled


def test_wrong_argument_of_a_kernel_is_refused() -> None:
    kernel = clone(KERNEL)
    for change, message in (
        ({"gamma": 1}, "gamma is not an argument that can be changed: use parameter_values"),
        ({"seed": 3, "shots": 0}, "shots is 0"),
    ):
        with pytest.raises(ArgumentError, match=message):
            kernel.set_params(**change)
    assert kernel.get_params() == KERNEL.get_params()


def test_pipeline_search_chooses_kernel_and_strength() -> None:
    kernels = [ProjectedKernel(MODEL.circuit, MODEL.inputs, gamma=gamma) for gamma in (0.1, 1.0)]
    pipeline = make_pipeline(MinMaxScaler((0, np.pi / 2)), QuantumKernelClassifier())
    search = GridSearchCV(
        pipeline,
        {
            "quantumkernelclassifier__kernel": [None, *kernels],
            "quantumkernelclassifier__C": [1.0, 100.0],
        },
        cv=3,
    ).fit(ROWS, LABELS)
    assert search.best_score_ > 0.85
    assert len(search.cv_results_["params"]) == 6


def test_fitted_estimator_pickled_predicts_equal_labels() -> None:
    fitted = QuantumKernelClassifier(KERNEL).fit(ROWS, LABELS)
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.decision_function(NEW) == fitted.decision_function(NEW)).all()
    for one in (fitted, SVC(kernel=KERNEL)):
        assert clone(one).kernel.compiled is KERNEL.compiled


def test_kernel_that_is_no_function_is_refused() -> None:
    with pytest.raises(ArgumentError, match="kernel is 'rbf': pass a FidelityKernel"):
        QuantumKernelClassifier("rbf").fit(ROWS, LABELS)  # type: ignore[arg-type]
