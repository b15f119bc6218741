"""Baselines: classical models of scikit-learn on the same angles and the same split."""

import time
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from common.data.splits import Examples
from inference.scoring import mean_squared_error

# The time of a support vector machine grows at least with the square of its examples: 5,000 take
# a second or two. The time of logistic regression grows linearly.
MAX_SVM_ROWS = 5_000
MAX_LOGISTIC_ROWS = 200_000
MAX_TEST_ROWS = 100_000


@dataclass(frozen=True)
class Baseline:
    """A classical model, trained on the training split and tested on the predicted examples.

    Attributes:
        name: Its name.
        accuracy: Accuracy on the examples.
        mse: Mean squared error of 2p - 1 against labels of -1 and +1, where p is the probability
            of +1; None for a model without probabilities.
        train_rows: Number of examples that it was trained on.
        test_rows: Number of examples that it was tested on.
        seconds: Time of training and testing.
    """

    name: str
    accuracy: float
    mse: float | None
    train_rows: int
    test_rows: int
    seconds: float


def fit_baselines(
    train: Examples, angles: np.ndarray, labels: np.ndarray, seed: int
) -> list[Baseline]:
    """Train and test logistic regression and a support vector machine with an RBF kernel.

    Both get standardized angles and otherwise use scikit-learn's defaults.

    Args:
        train: The training split.
        angles: float32 [n, features], the predicted examples.
        labels: float32 [n] of -1 and +1.
        seed: Seed for the choice of training examples if there are too many.

    Returns:
        The baselines; empty if the training split has examples of one class only.
    """
    if len(np.unique(train.labels)) < 2:
        return []
    logistic = LogisticRegression(max_iter=1000)
    return [
        _fit("logistic regression", logistic, MAX_LOGISTIC_ROWS, train, angles, labels, seed),
        _fit("SVM with RBF kernel", SVC(), MAX_SVM_ROWS, train, angles, labels, seed),
    ]


def _fit(
    name: str,
    classifier: LogisticRegression | SVC,
    max_rows: int,
    train: Examples,
    angles: np.ndarray,
    labels: np.ndarray,
    seed: int,
) -> Baseline:
    start = time.monotonic()
    rows = _sample_rows(len(train.labels), max_rows, seed)
    angles, labels = angles[:MAX_TEST_ROWS], labels[:MAX_TEST_ROWS]
    model = make_pipeline(StandardScaler(), classifier)
    with warnings.catch_warnings():
        # An optimum that is not fully converged is as good a baseline.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(train.angles[rows], train.labels[rows])
    accuracy = float(np.mean(model.predict(angles) == labels))
    mse = None
    if hasattr(model, "predict_proba"):
        mse = mean_squared_error(2 * model.predict_proba(angles)[:, 1] - 1, labels)
    return Baseline(name, accuracy, mse, len(rows), len(labels), time.monotonic() - start)


def _sample_rows(rows: int, max_rows: int, seed: int) -> np.ndarray:
    if rows <= max_rows:
        return np.arange(rows)
    generator = np.random.Generator(np.random.PCG64([seed, rows]))
    return np.sort(generator.choice(rows, max_rows, replace=False))
