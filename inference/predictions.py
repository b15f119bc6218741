"""The answers as CSV: row, answer, predicted class, label where it is known, readouts."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from common import storage
from common.storage import StoragePath
from inference.examples import Question
from inference.scoring import Scores


def write(path: StoragePath, question: Question, scores: Scores) -> None:
    """Write a row for each example, in their order; whole or not at all.

    Args:
        path: Where.
        question: Its classes name the labels.
        scores: What is written.
    """
    columns = {
        "row": np.arange(1, len(scores.answers) + 1),
        "answer": _exact(scores.answers),
        "predicted": _names(scores.predicted, question.classes),
    }
    if scores.labels is not None:
        columns["label"] = _names(scores.labels, question.classes)
    if scores.readouts is not None:
        for i in range(scores.readouts.shape[1]):
            columns[f"readout_{i}"] = _exact(scores.readouts[:, i])
    with tempfile.TemporaryDirectory(prefix="qfleet-") as folder:
        file = Path(folder, "predictions.csv")
        with storage.errors(file):
            options = pa.csv.WriteOptions(quoting_style="needed")
            pa.csv.write_csv(pa.table(columns), file, options)
        storage.write_whole(path, file)


def _exact(values: np.ndarray) -> np.ndarray:
    """The shortest decimals that read back as the same float32: Arrow writes them so."""
    return values.astype(np.float32)


def _names(signs: np.ndarray, classes: tuple[str, str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays((signs > 0).astype(np.int8), list(classes)).cast("string")
