"""Classes of a table: chosen by CLASSES, and present in every split."""

from collections.abc import Mapping

import numpy as np

from common.built_in_data import ALL_CLASSES
from common.data.tables import label_text
from common.data.target import MAX_CLASSES, Target
from common.errors import DataError
from common.text import printable

_STREAM = 3  # of the random order; the splits have 0 to 2


def choose_classes(labels: np.ndarray, classes: str, title: str, column: str) -> Target:
    """Return the target of a classification: two labels by sign, more by index.

    Args:
        labels: Text [n].
        classes: CLASSES: labels separated by commas, or `all` or nothing for all labels.
        title: Name of the table in messages.
        column: Name of the label column.

    Raises:
        DataError: There is one label or too many, or CLASSES do not exist.
    """
    found = sorted(np.unique(labels).tolist(), key=_by_number)
    listed = ", ".join(map(_shown, found[:8])) + (
        f" and {len(found) - 8} more" if len(found) > 8 else ""
    )
    chosen = found
    if classes and classes != ALL_CLASSES:
        chosen = [label_text(name) for name in classes.split(",")]
        for name in chosen:
            if name not in found:
                raise DataError(
                    f"{title} has no label {name!r} of CLASSES={classes}: its labels are {listed}"
                )
        if len(set(chosen)) < len(chosen):
            raise DataError(f"CLASSES={classes} has one label twice: choose from {listed}")
    if len(chosen) == 1:
        raise DataError(f"{title} has only the label {listed}: classification needs two classes")
    if len(chosen) > MAX_CLASSES:
        raise DataError(
            f"{title} has {len(chosen)} labels ({listed}): set CLASSES to at most {MAX_CLASSES} of"
            " them, or TASK=regression if they are numbers to predict"
        )
    return Target("signs" if len(chosen) == 2 else "classes", column, tuple(chosen))


def _shown(label: str) -> str:
    """Return a label for a message: in one line, and shortened."""
    text = " ".join(label.split())
    return printable(text if len(text) <= 40 else text[:40] + "...")


def _by_number(label: str) -> tuple[float, str]:
    try:
        return float(label), label
    except ValueError:
        return np.inf, label


def require_all_classes(splits: Mapping[str, np.ndarray], target: Target, title: str) -> None:
    """Raise if a split that has room for every class lacks one.

    Args:
        splits: Labels as text [n], by split.
        target: The classes.
        title: Name of the table in messages.

    Raises:
        DataError: Names the class and the split.
    """
    for split, labels in splits.items():
        missing = sorted(set(target.classes) - set(labels.tolist()), key=_by_number)
        if missing and (split == "train" or len(labels) >= len(target.classes)):
            is_numeric = all(_by_number(one)[0] < np.inf for one in target.classes)
            other = ", or set TASK=regression if the labels are numbers to predict"
            raise DataError(
                f"{title} has no row of the class {_shown(missing[0])!r} among the {len(labels)}"
                f" rows of the {split} split: provide more rows of that class, or leave it out of"
                f" CLASSES{other * is_numeric}"
            )


def stratified(labels: np.ndarray, seed: int) -> np.ndarray:
    """Return a random order in which any range has the proportions of the labels, to one row."""
    generator = np.random.Generator(np.random.PCG64([seed, _STREAM]))
    shuffled = generator.permutation(len(labels))
    position = np.empty(len(labels))
    for label in np.unique(labels):
        rows = np.flatnonzero(labels[shuffled] == label)
        position[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    return shuffled[np.argsort(position, kind="stable")]
