"""The splits of a data set before they are written: made, or taken from a table."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from common.data.encoding import Encoding, fit
from common.data.tables import Table, read_table
from common.errors import DataError, SettingsError
from common.settings import Settings
from qfleet.placement import data_symbols

SPLITS = ("train", "validation", "test")
EXCITATIONS = {"train": 400, "validation": 200, "test": 4000}
# Of all 45 pairs the one that a linear model tells apart worst (93 %, most others 99 %).
DIGITS = "1,8"
VALIDATION_SHARE, TEST_SHARE = 0.15, 0.20
# Rows of excitations that are drawn together.
GENERATED = 65_536


class Examples(NamedTuple):
    """Rows of a split.

    Attributes:
        angles: float32 [n, symbols], radians.
        labels: float32 [n], -1 or +1.
    """

    angles: np.ndarray
    labels: np.ndarray


class RowSource(NamedTuple):
    """Where the rows of a split come from, a stretch at a time.

    Attributes:
        rows: How many there are.
        read: Gives rows `first` to `last` - 1.
    """

    rows: int
    read: Callable[[int, int], Examples]

    @classmethod
    def of(cls, examples: Examples) -> "RowSource":
        """Rows that are in memory."""
        return cls(len(examples.labels), lambda a, b: Examples(*(part[a:b] for part in examples)))


class PreparedSplits(NamedTuple):
    """All splits of a data set, and what made angles of its features."""

    splits: Mapping[str, RowSource]
    encoding: Encoding


def excitations(settings: Settings) -> PreparedSplits:
    """One qubit of a cluster state turned by rx(angle); the label says whether it is excited.

    The angle is uniform in (-pi, pi), the qubit uniform; the label is +1 where |angle| <= pi/2.
    Broughton et al., "TensorFlow Quantum" (arXiv:2003.02989), section on the QCNN.

    Raises:
        SettingsError: ENCODER or CLASSES is set to what this data set does not have.
    """
    if settings.data.encoder not in ("auto", "angle"):
        raise SettingsError(
            f"ENCODER={settings.data.encoder} does not fit DATA=excitations, which is made of angles on"
            " a cluster state: leave ENCODER at auto"
        )
    if settings.data.classes:
        raise SettingsError(
            f"CLASSES={settings.data.classes} does not fit DATA=excitations, whose labels are -1 and 1:"
            " leave CLASSES unset"
        )
    asked = {
        "train": settings.data.train_examples,
        "validation": settings.data.validation_examples,
        "test": settings.data.test_examples,
    }
    rows = {split: asked[split] or EXCITATIONS[split] for split in SPLITS}
    made = {s: _drawn(settings, number, rows[s]) for number, s in enumerate(SPLITS)}
    columns = data_symbols(settings.model.qubits)
    return PreparedSplits(made, Encoding("none", "cluster", columns, "label", ("-1", "1")))


def _drawn(settings: Settings, number: int, rows: int) -> RowSource:
    """A split of excitations, DRAWN rows at a time, each lot from a stream of its own.

    So any stretch can be had by itself, and the size of one split does not change the others.
    """

    @lru_cache(maxsize=2)
    def lot(place: int) -> Examples:
        count = min(GENERATED, rows - place * GENERATED)
        stream = (
            [settings.data.seed, number]
            if rows <= GENERATED
            else [settings.data.seed, number, 1 + place]
        )
        generator = np.random.Generator(np.random.PCG64(stream))
        angles = np.zeros((count, settings.model.qubits), np.float32)
        turned = generator.integers(settings.model.qubits, size=count)
        angle = generator.uniform(-np.pi, np.pi, count)
        angles[np.arange(count), turned] = angle
        return Examples(angles, np.where(np.abs(angle) <= np.pi / 2, 1, -1).astype("f4"))

    def read(first: int, last: int) -> Examples:
        parts = []
        for place in range(first // GENERATED, -(-last // GENERATED)):
            begin, drawn = place * GENERATED, lot(place)
            parts.append([part[max(0, first - begin) : last - begin] for part in drawn])
        angles, labels = zip(*parts, strict=True)
        return Examples(np.concatenate(angles), np.concatenate(labels))

    return RowSource(rows, read)


def digits(settings: Settings) -> PreparedSplits:
    """Two of scikit-learn's handwritten digits, 8 by 8 pixels; about 360 images.

    Alpaydin and Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
    Repository, 1998 (its test set).

    Raises:
        DataError: CLASSES are not two digits, or there are too few for the splits.
    """
    from sklearn.datasets import load_digits  # takes seconds, which others need not pay

    bunch = load_digits()
    labels = np.array([str(digit) for digit in bunch.target])
    table = Table(bunch.data, labels, tuple(bunch.feature_names))
    return from_table(table, settings, where="DATA=digits", classes=settings.data.classes or DIGITS)


def read_user_table(settings: Settings) -> PreparedSplits:
    """The table that DATA names.

    Raises:
        DataError: It can't be read, or can't be trained on.
    """
    table = read_table(settings.data.data, settings.data.label_column)
    return from_table(table, settings, where=settings.data.data, classes=settings.data.classes)


def from_table(table: Table, settings: Settings, *, where: str, classes: str) -> PreparedSplits:
    """Choose two classes, split the rows, fit the encoding on training rows, make angles of all.

    Args:
        table: Features and labels.
        settings: EXAMPLES, VALIDATION, TEST, ENCODER, QUBITS, LABEL and SEED are read.
        where: What to call the table in messages.
        classes: The two labels with a comma between, or nothing where there are just two.
    """
    assert table.labels is not None
    chosen = choose_classes(table.labels, classes, where)
    kept = np.flatnonzero(np.isin(table.labels, chosen))
    features = table.features[kept]
    labels = labels_to_signs(table.labels[kept], chosen)
    rows = _split(labels, settings, where)
    encoding = fit(
        features[rows["train"]],
        settings.data.encoder,
        settings.model.qubits,
        columns=table.names,
        label=settings.data.label_column,
        classes=chosen,
    )
    made = {s: Examples(encoding.apply(features[rows[s]]), labels[rows[s]]) for s in SPLITS}
    return PreparedSplits({s: RowSource.of(examples) for s, examples in made.items()}, encoding)


def choose_classes(labels: np.ndarray, classes: str, where: str) -> tuple[str, str]:
    """The two labels to tell apart: the first is -1, the second +1.

    Args:
        labels: Text [n].
        classes: What CLASSES says, or nothing.
        where: What to call the table in messages.

    Raises:
        DataError: There are not just two, or the chosen two are not there.
    """
    there = sorted(np.unique(labels).tolist(), key=_by_number)
    shown = ", ".join(there[:8]) + (f" and {len(there) - 8} more" if len(there) > 8 else "")
    if classes:
        negative, positive = (name.strip() for name in classes.split(","))
        for name in (negative, positive):
            if name not in there:
                raise DataError(
                    f"{where} has no label {name!r} of CLASSES={classes}: its labels are {shown}"
                )
        if negative == positive:
            raise DataError(f"CLASSES={classes} names one label twice: name two of {shown}")
        return negative, positive
    if len(there) == 1:
        raise DataError(
            f"{where} has the label {shown} alone: two classes are needed to tell them apart"
        )
    if len(there) > 2:
        raise DataError(
            f"{where} has {len(there)} labels ({shown}): set CLASSES to the two to tell apart"
        )
    return there[0], there[1]


def _by_number(label: str) -> tuple[float, str]:
    try:
        return float(label), label
    except ValueError:
        return np.inf, label


def labels_to_signs(labels: np.ndarray, classes: tuple[str, str]) -> np.ndarray:
    """Labels as float32 [n]: -1 for the first class and +1 for the second."""
    return np.where(labels == classes[1], 1, -1).astype(np.float32)


def _split(labels: np.ndarray, settings: Settings, where: str) -> dict[str, np.ndarray]:
    """Row numbers of each split, drawn by SEED, each class in the same proportion in all."""
    total = len(labels)
    test = settings.data.test_examples or max(1, round(TEST_SHARE * total))
    validation = settings.data.validation_examples or max(1, round(VALIDATION_SHARE * total))
    left = total - test - validation
    train = settings.data.train_examples or max(left, 2)
    if train > left:
        raise DataError(
            f"{where} has {total} rows of its two classes, too few for TRAIN_EXAMPLES={train},"
            f" VALIDATION_EXAMPLES={validation} and TEST_EXAMPLES={test}: lower what is set of them, or give more"
            " rows"
        )
    order = _stratified(labels, settings.data.seed)
    made = {
        "test": order[:test],
        "validation": order[test : test + validation],
        "train": order[test + validation : test + validation + train],
    }
    if len(np.unique(labels[made["train"]])) < 2:
        raise DataError(
            f"{where} leaves one class alone for training, of {train} rows: give more rows of the"
            " other"
        )
    return made


def _stratified(labels: np.ndarray, seed: int) -> np.ndarray:
    """A random order in which any stretch holds the classes in their proportion, to a row."""
    generator = np.random.Generator(np.random.PCG64([seed, len(SPLITS)]))
    shuffled = generator.permutation(len(labels))
    place = np.empty(len(labels))
    for sign in (-1, 1):
        rows = np.flatnonzero(labels[shuffled] == sign)
        place[rows] = (np.arange(len(rows)) + 0.5) / max(len(rows), 1)
    return shuffled[np.argsort(place, kind="stable")]
