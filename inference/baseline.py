"""What scikit-learn makes of the same angles and the same split: is the circuit worth it?"""

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

# A support vector machine's time grows as the square of its examples and more: 5,000 of them take
# a second or two. Logistic regression's grows with them.
MAX_SVM_ROWS = 5_000
MAX_LOGISTIC_ROWS = 200_000
MAX_TEST_ROWS = 100_000


@dataclass(frozen=True)
class Baseline:
    """A classical model, trained on the training split and tested on what was answered.

    Attributes:
        name: Its name.
        accuracy: Accuracy on the examples.
        mse: Mean squared error of 2p - 1 against labels of -1 and +1, p being the probability of
            +1; None for a model without probabilities.
        trained: Examples that it was trained on.
        tested: Examples that it was tested on.
        seconds: Both together.
    """

    name: str
    accuracy: float
    mse: float | None
    trained: int
    tested: int
    seconds: float


def baselines(train: Examples, angles: np.ndarray, labels: np.ndarray, seed: int) -> list[Baseline]:
    """Logistic regression and a support vector machine with an RBF kernel.

    Both take the angles standardised, and scikit-learn's defaults otherwise.

    Args:
        train: The training split.
        angles: float32 [n, features], what was answered.
        labels: float32 [n] of -1 and +1.
        seed: Of the choice of examples where there are too many.

    Returns:
        Nothing where the training split holds one class alone.
    """
    if len(np.unique(train.labels)) < 2:
        return []
    logistic = LogisticRegression(max_iter=1000)
    return [
        _measure("logistic regression", logistic, MAX_LOGISTIC_ROWS, train, angles, labels, seed),
        _measure("SVM with RBF kernel", SVC(), MAX_SVM_ROWS, train, angles, labels, seed),
    ]


def _measure(
    name: str,
    classifier: LogisticRegression | SVC,
    most: int,
    train: Examples,
    angles: np.ndarray,
    labels: np.ndarray,
    seed: int,
) -> Baseline:
    began = time.monotonic()
    rows = _sample(len(train.labels), most, seed)
    angles, labels = angles[:MAX_TEST_ROWS], labels[:MAX_TEST_ROWS]
    model = make_pipeline(StandardScaler(), classifier)
    with warnings.catch_warnings():
        # Not quite the optimum is as good a baseline.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(train.angles[rows], train.labels[rows])
    predicted = model.predict(angles)
    mse = None
    if hasattr(model, "predict_proba"):
        answers = 2 * model.predict_proba(angles)[:, 1] - 1
        mse = mean_squared_error(answers, labels)
    accuracy = float(np.mean(predicted == labels))
    seconds = time.monotonic() - began
    return Baseline(name, accuracy, mse, len(rows), len(labels), seconds)


def _sample(rows: int, most: int, seed: int) -> np.ndarray:
    if rows <= most:
        return np.arange(rows)
    generator = np.random.Generator(np.random.PCG64([seed, rows]))
    return np.sort(generator.choice(rows, most, replace=False))
