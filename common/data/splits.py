"""Splits of a data set before they are written: generated, or taken from a table."""

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from common.built_in_data import DIGITS, require_built_in, require_excitations
from common.data.class_selection import choose_classes, require_all_classes, stratified
from common.data.encoding import Encoding, fit
from common.data.origin import Origin
from common.data.tables import Table, read_table, without_constants
from common.data.target import SIGNS, Target, number_target
from common.errors import DataError
from common.settings.amplitude_checks import AMPLITUDE_ENCODERS
from common.settings.groups.experiment import DataSettings
from qfleet.placement import data_symbols

log = logging.getLogger("qfleet")

SPLITS = ("train", "validation", "test")
EXCITATION_ROWS = {"train": 400, "validation": 200, "test": 4000}

VALIDATION_FRACTION, TEST_FRACTION = 0.15, 0.20

CHUNK_ROWS, CHUNK_ANGLES = 65_536, 1 << 22
"""Limits of the rows of excitations that share a random stream, and of their angles."""


class Examples(NamedTuple):
    """Rows of a split.

    Attributes:
        angles: float32 [n, symbols], radians; states of norm 1 with ENCODER=amplitude.
        labels: float32 [n], see `Target`.
    """

    angles: np.ndarray
    labels: np.ndarray

    @classmethod
    def padding(cls, features: int) -> "Examples":
        """Return a row for places of weight 0: an angle of 1, which is also a state of norm 1."""
        return cls(np.eye(1, features, dtype=np.float32), np.ones(1, np.float32))


class RowSource(NamedTuple):
    """Source of the rows of a split, readable range by range.

    Attributes:
        rows: Number of rows.
        read: Returns rows `first` to `last` - 1.
        origin: Of all rows, for rows of a table.
    """

    rows: int
    read: Callable[[int, int], Examples]
    origin: Origin | None = None

    @classmethod
    def of(cls, examples: Examples, origin: Origin | None = None) -> "RowSource":
        """Return a source of rows in memory."""

        def read(first: int, last: int) -> Examples:
            return Examples(*(part[first:last] for part in examples))

        return cls(len(examples.labels), read, origin)


class PreparedSplits(NamedTuple):
    """All splits of a data set, and the encoding of its features."""

    splits: Mapping[str, RowSource]
    encoding: Encoding

    @property
    def origin_columns(self) -> tuple[str, ...]:
        """Names of the columns of the origin; empty if rows were generated."""
        origin = self.splits["train"].origin
        return origin.columns if origin else ()


def excitations(data: DataSettings, qubits: int) -> PreparedSplits:
    """Generate cluster states with rx(angle) on one qubit; the label is the excitation.

    The angle is uniform in (-pi, pi), the qubit uniform; the label is +1 if |angle| <= pi/2.
    Broughton et al., "TensorFlow Quantum" (arXiv:2003.02989), section on the QCNN.

    Raises:
        SettingsError: TASK, ENCODER, CLASSES or ID_COLUMN has a value that does not apply to this
            data set.
    """
    require_excitations(data)
    wanted = {
        "train": data.train_examples,
        "validation": data.validation_examples,
        "test": data.test_examples,
    }
    splits = {
        split: _random_excitations(
            data.seed, number, wanted[split] or EXCITATION_ROWS[split], qubits
        )
        for number, split in enumerate(SPLITS)
    }
    columns = data_symbols(qubits)
    return PreparedSplits(splits, Encoding("none", "cluster", columns, SIGNS))


def generated_rows(data: DataSettings) -> int:
    """Return the examples of all splits of a built-in data set; 0 if it has a fixed size."""
    if data.data != "excitations":
        return 0
    wanted = (data.train_examples, data.validation_examples, data.test_examples)
    return sum(one or rows for one, rows in zip(wanted, EXCITATION_ROWS.values(), strict=True))


def _random_excitations(seed: int, split: int, rows: int, qubits: int) -> RowSource:
    """Return a split of excitations. Each chunk of rows has its own random stream.

    So any range is readable alone, and the size of one split does not change the others.
    """
    chunk_rows = min(CHUNK_ROWS, CHUNK_ANGLES // qubits)

    @lru_cache(maxsize=2)
    def chunk(index: int) -> Examples:
        count = min(chunk_rows, rows - index * chunk_rows)
        stream = [seed, split] if rows <= chunk_rows else [seed, split, 1 + index]
        generator = np.random.Generator(np.random.PCG64(stream))
        angles = np.zeros((count, qubits), np.float32)
        excited = generator.integers(qubits, size=count)
        angle = generator.uniform(-np.pi, np.pi, count)
        angles[np.arange(count), excited] = angle
        return Examples(angles, np.where(np.abs(angle) <= np.pi / 2, 1, -1).astype("f4"))

    def read(first: int, last: int) -> Examples:
        parts = []
        for index in range(first // chunk_rows, -(-last // chunk_rows)):
            begin = index * chunk_rows
            parts.append([part[max(0, first - begin) : last - begin] for part in chunk(index)])
        angles, labels = zip(*parts, strict=True)
        return Examples(np.concatenate(angles), np.concatenate(labels))

    return RowSource(rows, read)


def digits(data: DataSettings, qubits: int) -> PreparedSplits:
    """Load handwritten digits of scikit-learn, 8 by 8 pixels; about 180 images of each.

    Alpaydin and Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
    Repository, 1998 (its test set).

    Raises:
        DataError: CLASSES are not digits, or there are too few images for the splits.
        SettingsError: TASK or ID_COLUMN has a value that does not apply to this data set.
    """
    require_built_in(data)
    from sklearn.datasets import load_digits  # takes seconds

    bunch = load_digits()
    labels = np.array([str(digit) for digit in bunch.target])
    table = Table(bunch.data, labels, tuple(bunch.feature_names))
    return from_table(table, data, qubits, title="DATA=digits", classes=data.classes or DIGITS)


def read_user_table(data: DataSettings, qubits: int, *, is_logged: bool = True) -> PreparedSplits:
    """Load the table of the user, whose path is DATA.

    Args:
        data: Settings of the data set.
        qubits: QUBITS.
        is_logged: Log the notes of the table.

    Raises:
        DataError: The table can't be read, or is not usable for training.
    """
    numeric = data.task == "regression"
    table = read_table(
        data.data,
        data.label_column,
        id_column=data.id_column,
        memory=data.data_memory,
        numeric=numeric,
    )
    if data.encoder not in AMPLITUDE_ENCODERS:  # of which each column is a place in the state
        table = without_constants(data.data, table)
    for note in table.notes if is_logged else ():
        log.warning(note)
    return from_table(table, data, qubits, title=data.data, classes=data.classes)


def from_table(
    table: Table, data: DataSettings, qubits: int, *, title: str, classes: str
) -> PreparedSplits:
    """Select classes, split the rows, fit the encoding on training rows, and encode all.

    Args:
        table: Features and labels.
        data: Settings of the data set.
        qubits: QUBITS.
        title: Name of the table in messages.
        classes: Labels separated by commas, `all`, or nothing for all labels of a table.

    Raises:
        DataError: The labels or the number of rows do not fit the task.
    """
    assert table.labels is not None
    kept = np.arange(len(table.labels))
    target: Target | None = None
    if data.task == "classification":
        target = choose_classes(table.labels, classes, title, data.label_column)
        kept = np.flatnonzero(np.isin(table.labels, target.classes))
    features, labels = table.features[kept], table.labels[kept]
    order = stratified(labels if target else np.zeros(len(labels)), data.seed)
    rows = _split(order, data, title)
    if target is None:
        target = number_target(data.label_column, labels[rows["train"]])
    else:
        require_all_classes({split: labels[rows[split]] for split in SPLITS}, target, title)
    encoding = fit(
        features[rows["train"]],
        data.encoder,
        qubits,
        columns=table.names,
        target=target,
        id_column=data.id_column,
        left_out=table.left_out,
    )
    encoding.require_states(features, title, data.data_memory, kept)
    encoded = target.encode(labels)
    origin = Origin.of_table(len(table.labels), table.ids)

    def source(chosen: np.ndarray) -> RowSource:
        examples = Examples(encoding.apply(features[chosen]), encoded[chosen])
        return RowSource.of(examples, origin.take(kept[chosen]))

    return PreparedSplits({split: source(chosen) for split, chosen in rows.items()}, encoding)


def _split(order: np.ndarray, data: DataSettings, title: str) -> dict[str, np.ndarray]:
    """Return the row numbers of each split: successive ranges of an order of all rows."""
    total = len(order)
    test = data.test_examples or max(1, round(TEST_FRACTION * total))
    validation = data.validation_examples or max(1, round(VALIDATION_FRACTION * total))
    left = total - test - validation
    train = data.train_examples or max(left, 2)
    if train > left:
        kind = " of its classes" if data.task == "classification" else ""
        raise DataError(
            f"{title} has {total} rows{kind}, too few for TRAIN_EXAMPLES={train},"
            f" VALIDATION_EXAMPLES={validation} and TEST_EXAMPLES={test}: lower these settings, or"
            " provide more rows"
        )
    return {
        "test": order[:test],
        "validation": order[test : test + validation],
        "train": order[test + validation : test + validation + train],
    }


GENERATORS: Mapping[str, Callable[[DataSettings, int], PreparedSplits]] = {
    "excitations": excitations,
    "digits": digits,
}
"""Built-in data sets by the value of DATA."""
