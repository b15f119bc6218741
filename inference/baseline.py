"""Baselines: classical models of scikit-learn on the same angles and the same split.

Each model is tuned by cross-validation over its regularisation. An RBF kernel is tuned over its
width too, by as many configurations as MODEL=kernel.
"""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from common.data import Examples
from common.data.target import Target
from common.tuning import FOLDS, GAMMAS, MAX_TUNING_ROWS, STRENGTHS, sample_rows
from inference.scoring import scores_for

# The time of a support vector machine grows at least with the square of its examples: 5,000 take
# a second or two. The time of logistic regression grows linearly.
MAX_KERNEL_ROWS = 5_000
MAX_ROWS = 200_000
MAX_MLP_ROWS = 20_000
MAX_TEST_ROWS = 100_000


@dataclass(frozen=True)
class Baseline:
    """A classical model, trained on the training split and tested on the predicted examples.

    Attributes:
        name: Its name.
        metrics: Metrics on the examples, as for the model; some lack those of probabilities.
        train_rows: Number of examples that it was trained on.
        test_rows: Number of examples that it was tested on.
        seconds: Time of tuning, training and testing.
    """

    name: str
    metrics: dict[str, float]
    train_rows: int
    test_rows: int
    seconds: float


def fit_baselines(
    target: Target, train: Examples, tested: Examples, weights: int, seed: int
) -> list[Baseline]:
    """Tune, train and test the baselines of a classification or a regression.

    All get standardized angles. The multilayer perceptron has one hidden layer and about as many
    weights as the model.

    Args:
        target: What is predicted.
        train: The training split.
        tested: The predicted examples.
        weights: Number of trained numbers of the model.
        seed: Seed for the choice of training examples if there are too many, and of the perceptron.

    Returns:
        The baselines; empty if the training split has examples of one class only.
    """
    if target.classes and len(np.unique(train.labels)) < 2:
        return []
    outputs = 1 if target.kind == "signs" else target.outputs
    width = max(1, round((weights - outputs) / (train.angles.shape[1] + 1 + outputs)))
    hidden: dict[str, Any] = {
        "hidden_layer_sizes": (width,), "solver": "lbfgs", "max_iter": 300, "random_state": seed,
    }  # fmt: skip
    gammas = [gamma / train.angles.shape[1] for gamma in GAMMAS]
    c, alpha = {"C": STRENGTHS}, {"alpha": STRENGTHS}
    tuned: Sequence[tuple[str, BaseEstimator, Mapping[str, Sequence[float]], int]]
    if target.classes:
        tuned = (
            ("logistic regression", LogisticRegression(max_iter=1000), c, MAX_ROWS),
            ("SVM with RBF kernel", SVC(), {**c, "gamma": gammas}, MAX_KERNEL_ROWS),
            (f"MLP with {width} hidden units", MLPClassifier(**hidden), alpha, MAX_MLP_ROWS),
        )
    else:
        tuned = (
            ("ridge regression", Ridge(), alpha, MAX_ROWS),
            ("kernel ridge with RBF kernel", KernelRidge(kernel="rbf", gamma=0.1),
             {**alpha, "gamma": gammas}, MAX_KERNEL_ROWS),
            (f"MLP with {width} hidden units", MLPRegressor(**hidden), alpha, MAX_MLP_ROWS),
        )  # fmt: skip
    tested = Examples(*(part[:MAX_TEST_ROWS] for part in tested))
    return [_fit(target, train, tested, seed, *one) for one in tuned]


def _fit(
    target: Target,
    train: Examples,
    tested: Examples,
    seed: int,
    name: str,
    model: BaseEstimator,
    grid: Mapping[str, Sequence[float]],
    max_rows: int,
) -> Baseline:
    start = time.monotonic()
    labels = train.labels
    if target.classes:
        labels = target.class_indices(labels)
    rows = sample_rows(len(labels), max_rows, seed)
    tuning = sample_rows(len(labels), MAX_TUNING_ROWS, seed)
    pipeline = make_pipeline(StandardScaler(), model)
    prefix = type(model).__name__.lower()
    tried = {f"{prefix}__{setting}": list(values) for setting, values in grid.items()}
    # In matrices this small, threads of BLAS cost far more than they save on a busy machine.
    with warnings.catch_warnings(), threadpool_limits(1, "blas"):
        # An optimum that is not fully converged is as good a baseline; a class may have few rows.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        if np.unique(labels[tuning], return_counts=True)[1].min() >= FOLDS or not target.classes:
            search = GridSearchCV(pipeline, tried, cv=FOLDS)
            search.fit(train.angles[tuning], labels[tuning])
            pipeline.set_params(**search.best_params_)
        pipeline.fit(train.angles[rows], labels[rows])
    metrics = _metrics(target, pipeline, tested)
    return Baseline(name, metrics, len(rows), len(tested.labels), time.monotonic() - start)


def _metrics(target: Target, model: Pipeline, tested: Examples) -> dict[str, float]:
    if not target.classes:
        scores = scores_for(target, None, True, 0)
        scores.add(model.predict(tested.angles), None, tested.labels)
        return scores.metrics
    labels = target.class_indices(tested.labels)
    metrics = {"accuracy": float(np.mean(model.predict(tested.angles) == labels))}
    if not hasattr(model, "predict_proba"):
        return metrics
    probabilities = model.predict_proba(tested.angles)
    if target.kind == "classes":
        known = range(len(target.classes))
        return {"log_loss": float(log_loss(labels, probabilities, labels=known)), **metrics}
    signed = 2 * probabilities[:, 1] - 1
    squares = (signed.astype(np.float64) - tested.labels) ** 2
    return {"mse": float(np.mean(squares)), **metrics}
