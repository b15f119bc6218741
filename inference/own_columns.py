"""The columns of the user's table: baselines on them show the limit of the encoding.

PCA to few angles may lose most of a table. Then baselines on its columns are compared, too. A data
set holds angles only, and a run may be another user's. So the table is read again only if the user
names it, and if it is the one that the run recorded.
"""

from typing import NamedTuple

import numpy as np

from common.data import Dataset, Examples, read_table
from common.data.formats import sha256_file
from common.errors import DataError, one_line
from inference import baseline
from inference.inference_input import InferenceInput
from inference.model_source import ModelSource

ENOUGH_VARIANCE = 0.9
"""Fraction of the variance from which the angles are compared alone."""


class ColumnBaselines(NamedTuple):
    """Baselines on the columns of a table.

    Attributes:
        found: The baselines; empty where the table is not read.
        hint: What the reader can do about that; else empty.
    """

    found: list[baseline.Baseline]
    hint: str = ""


def compare(
    source: ModelSource, inputs: InferenceInput, data: Dataset, weights: int, seed: int
) -> ColumnBaselines | None:
    """Train the baselines on the columns of the table; None if the angles keep most of it.

    Args:
        source: The model.
        inputs: The predicted examples.
        data: The data set of the training.
        weights: Number of trained numbers of the model.
        seed: SEED.
    """
    variance = data.encoding.variance
    if variance is None or variance >= ENOUGH_VARIANCE or not inputs.is_test_split:
        return None
    recorded = str(source.settings.get("data"))
    if recorded != "digits" and inputs.named_data != recorded:
        return ColumnBaselines(
            [], f"`DATA={recorded}` in the command compares models on the columns of the table, too"
        )
    try:
        table = _features(recorded, data)
    except DataError as error:
        return ColumnBaselines([], one_line(error))
    parts = []
    limits = {"train": baseline.MAX_ROWS, "test": baseline.MAX_TEST_ROWS}
    for split, most in limits.items():
        origin = data.origin(split)
        assert origin is not None
        parts.append(Examples(table[origin.rows[:most] - 1], data.split(split).labels[:most]))
    return ColumnBaselines(baseline.fit_baselines(data.target, parts[0], parts[1], weights, seed))


def _features(path: str, data: Dataset) -> np.ndarray:
    """Return the columns of all rows of a table.

    Raises:
        DataError: The table can't be read, or has changed.
    """
    if path == "digits":
        from sklearn.datasets import load_digits

        features: np.ndarray = load_digits().data
        return features
    memory = data.memory >> 20
    if sha256_file(path, memory) != data.manifest.recipe.get("sha256"):
        raise DataError(f"{path} has changed since the training")
    encoding = data.encoding
    numeric = encoding.target.kind == "number"
    return read_table(
        path,
        encoding.target.column,
        columns=encoding.columns,
        left_out=encoding.left_out,
        numeric=numeric,
        id_column=encoding.id_column,
        memory=memory,
    ).features
