"""Splits of a data set before they are written: generated, or taken from a table."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from common.data.encoding import Encoding, fit
from common.data.tables import Table, label_text, read_table
from common.errors import DataError, SettingsError
from common.settings.groups import DataSettings
from qfleet.placement import data_symbols

SPLITS = ("train", "validation", "test")
EXCITATION_ROWS = {"train": 400, "validation": 200, "test": 4000}

DIGITS = "1,8"
"""The pair of digits that a linear model separates worst (93 %, most others 99 %)."""

VALIDATION_FRACTION, TEST_FRACTION = 0.15, 0.20

CHUNK_ROWS, CHUNK_ANGLES = 65_536, 1 << 22
"""Limits of the rows of excitations that share a random stream, and of their angles."""


class Examples(NamedTuple):
    """Rows of a split.

    Attributes:
        angles: float32 [n, symbols], radians.
        labels: float32 [n], -1 or +1.
    """

    angles: np.ndarray
    labels: np.ndarray


class RowSource(NamedTuple):
    """Source of the rows of a split, readable range by range.

    Attributes:
        rows: Number of rows.
        read: Returns rows `first` to `last` - 1.
    """

    rows: int
    read: Callable[[int, int], Examples]

    @classmethod
    def of(cls, examples: Examples) -> "RowSource":
        """Return a source of rows in memory."""
        return cls(len(examples.labels), lambda a, b: Examples(*(part[a:b] for part in examples)))


class PreparedSplits(NamedTuple):
    """All splits of a data set, and the encoding of its features."""

    splits: Mapping[str, RowSource]
    encoding: Encoding


def excitations(data: DataSettings, qubits: int) -> PreparedSplits:
    """Generate cluster states with rx(angle) on one qubit; the label is the excitation.

    The angle is uniform in (-pi, pi), the qubit uniform; the label is +1 if |angle| <= pi/2.
    Broughton et al., "TensorFlow Quantum" (arXiv:2003.02989), section on the QCNN.

    Raises:
        SettingsError: ENCODER or CLASSES has a value that does not apply to this data set.
    """
    if data.encoder not in ("auto", "angle"):
        raise SettingsError(
            f"ENCODER={data.encoder} does not fit DATA=excitations, which has angles on a cluster"
            " state: omit ENCODER"
        )
    if data.classes:
        raise SettingsError(
            f"CLASSES={data.classes} does not fit DATA=excitations, whose labels are -1 and 1: omit"
            " CLASSES"
        )
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
    return PreparedSplits(splits, Encoding("none", "cluster", columns, "label", ("-1", "1")))


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
    """Load two of the handwritten digits of scikit-learn, 8 by 8 pixels; about 360 images.

    Alpaydin and Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
    Repository, 1998 (its test set).

    Raises:
        DataError: CLASSES are not two digits, or there are too few images for the splits.
    """
    from sklearn.datasets import load_digits  # takes seconds

    bunch = load_digits()
    labels = np.array([str(digit) for digit in bunch.target])
    table = Table(bunch.data, labels, tuple(bunch.feature_names))
    return from_table(table, data, qubits, title="DATA=digits", classes=data.classes or DIGITS)


def read_user_table(data: DataSettings, qubits: int) -> PreparedSplits:
    """Load the table of the user, whose path is DATA.

    Raises:
        DataError: The table can't be read, or is not usable for training.
    """
    table = read_table(data.data, data.label_column, memory=data.data_memory)
    return from_table(table, data, qubits, title=data.data, classes=data.classes)


def from_table(
    table: Table, data: DataSettings, qubits: int, *, title: str, classes: str
) -> PreparedSplits:
    """Select two classes, split the rows, fit the encoding on training rows, and encode all.

    Args:
        table: Features and labels.
        data: Settings of the data set.
        qubits: QUBITS.
        title: Name of the table in messages.
        classes: Two labels with a comma, or nothing if the table has only two.
    """
    assert table.labels is not None
    chosen = choose_classes(table.labels, classes, title)
    kept = np.flatnonzero(np.isin(table.labels, chosen))
    features = table.features[kept]
    labels = labels_to_signs(table.labels[kept], chosen)
    rows = _split(labels, data, title)
    encoding = fit(
        features[rows["train"]],
        data.encoder,
        qubits,
        columns=table.names,
        label=data.label_column,
        classes=chosen,
    )
    splits = {s: Examples(encoding.apply(features[rows[s]]), labels[rows[s]]) for s in SPLITS}
    return PreparedSplits({s: RowSource.of(examples) for s, examples in splits.items()}, encoding)


def choose_classes(labels: np.ndarray, classes: str, title: str) -> tuple[str, str]:
    """Return the two labels to classify: the first is -1, the second +1.

    Args:
        labels: Text [n].
        classes: CLASSES, or nothing.
        title: Name of the table in messages.

    Raises:
        DataError: There are not exactly two labels, or CLASSES do not exist.
    """
    found = sorted(np.unique(labels).tolist(), key=_by_number)
    listed = ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")
    if classes:
        negative, positive = map(label_text, classes.split(","))
        for name in (negative, positive):
            if name not in found:
                raise DataError(
                    f"{title} has no label {name!r} of CLASSES={classes}: its labels are {listed}"
                )
        if negative == positive:
            raise DataError(f"CLASSES={classes} has one label twice: choose two of {listed}")
        return negative, positive
    if len(found) == 1:
        raise DataError(f"{title} has only the label {listed}: classification needs two classes")
    if len(found) > 2:
        raise DataError(f"{title} has {len(found)} labels ({listed}): set CLASSES to two of them")
    return found[0], found[1]


def _by_number(label: str) -> tuple[float, str]:
    try:
        return float(label), label
    except ValueError:
        return np.inf, label


def labels_to_signs(labels: np.ndarray, classes: tuple[str, str]) -> np.ndarray:
    """Return float32 [n]: -1 for the first class and +1 for the second."""
    return np.where(labels == classes[1], 1, -1).astype(np.float32)


def _split(labels: np.ndarray, data: DataSettings, title: str) -> dict[str, np.ndarray]:
    """Return random row numbers of each split; the classes have the same proportions in all."""
    total = len(labels)
    test = data.test_examples or max(1, round(TEST_FRACTION * total))
    validation = data.validation_examples or max(1, round(VALIDATION_FRACTION * total))
    left = total - test - validation
    train = data.train_examples or max(left, 2)
    if train > left:
        raise DataError(
            f"{title} has {total} rows of its two classes, too few for TRAIN_EXAMPLES={train},"
            f" VALIDATION_EXAMPLES={validation} and TEST_EXAMPLES={test}: lower these settings, or"
            " provide more rows"
        )
    order = _stratified(labels, data.seed)
    rows = {
        "test": order[:test],
        "validation": order[test : test + validation],
        "train": order[test + validation : test + validation + train],
    }
    if len(np.unique(labels[rows["train"]])) < 2:
        raise DataError(
            f"{title} has only one class in the {train} rows for training: provide more rows of the"
            " other class"
        )
    return rows


def _stratified(labels: np.ndarray, seed: int) -> np.ndarray:
    """Return a random order in which any range has the proportions of the classes, to one row."""
    generator = np.random.Generator(np.random.PCG64([seed, len(SPLITS)]))
    shuffled = generator.permutation(len(labels))
    position = np.empty(len(labels))
    for sign in (-1, 1):
        rows = np.flatnonzero(labels[shuffled] == sign)
        position[rows] = (np.arange(len(rows)) + 0.5) / max(len(rows), 1)
    return shuffled[np.argsort(position, kind="stable")]


GENERATORS: Mapping[str, Callable[[DataSettings, int], PreparedSplits]] = {
    "excitations": excitations,
    "digits": digits,
}
"""Built-in data sets by the value of DATA."""
