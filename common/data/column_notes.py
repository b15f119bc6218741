"""Columns of a table that are not features, or probably not: a warning names each."""

import re
from collections.abc import Sequence

import numpy as np

_NAMELESS = re.compile(r"\s*|Unnamed: \d+(_level_\d+)?|__index_level_\d+__")
_MISSING = ("na", "n/a", "#n/a", "<na>", "null", "none")
_MAX_LISTED = 8


def is_nameless(name: str) -> bool:
    """Return True for the name of a column without one, as pandas writes its index.

    pandas calls such a column `Unnamed: 0` when it reads it, and `__index_level_0__` in Parquet.
    """
    return bool(_NAMELESS.fullmatch(name))


def listed(names: Sequence[str]) -> str:
    """Return the names of columns for a message, shortened."""
    shown = [repr(name if len(name) <= 40 else name[:40] + "...") for name in names[:_MAX_LISTED]]
    more = len(names) - _MAX_LISTED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def suspicious(names: Sequence[str], features: np.ndarray, labels: np.ndarray) -> list[str]:
    """Return a sentence for each kind of column that is probably no feature.

    Args:
        names: Names of the features.
        features: float64 [n, columns].
        labels: Text or float64 [n].
    """
    answers = _answers(features, labels)
    found: dict[str, list[str]] = {
        "the numbers of the rows, in order or shuffled": [],
        "the label of every row under another name, which gives the answer away": [],
    }
    numbers, label = found.values()
    for i, name in enumerate(names):
        column = features[:, i]
        if len(column) > 2 and (np.diff(np.sort(column)) == 1).all():
            numbers.append(name)
        elif i in answers:
            label.append(name)
    notes = [
        f"{'columns have' if len(some) > 1 else 'column has'} {what}: {listed(some)}; delete what"
        " is not a feature, or name an identifier in ID_COLUMN"
        for what, some in found.items()
        if some
    ]
    if labels.dtype.kind == "U":
        missing = [one for one in np.unique(labels).tolist() if one.lower() in _MISSING]
        if missing:
            notes.append(f"rows have the label {listed(missing)}, which is read as a class")
        if alike := _alike(np.unique(labels).tolist()):
            notes.append(
                f"the labels {listed(alike)} differ in capital letters, blanks or invisible"
                " characters only, and are read as different classes"
            )
    return notes


def is_headless(names: Sequence[str]) -> bool:
    """Return True if names of columns are probably values: all are numbers, except a label."""
    return sum(not _is_number(name) for name in names) <= 1 < len(names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _alike(labels: Sequence[str]) -> list[str]:
    """Return the labels that equal another one but for capitals, blanks, invisible characters."""
    plain = [
        "".join(one for one in label.casefold() if one.isprintable() and one != " ")
        for label in labels
    ]
    return [label for label, one in zip(labels, plain, strict=True) if plain.count(one) > 1]


def _answers(features: np.ndarray, labels: np.ndarray) -> set[int]:
    """Return the columns that have one value for each label, and another for each other label."""
    if labels.dtype.kind == "f":
        return {i for i in range(features.shape[1]) if (features[:, i] == labels).all()}
    classes, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    if len(classes) == len(labels):
        return set()
    return {
        i
        for i, column in enumerate(features.T)
        if len(set(values := column[first])) == len(classes) and (column == values[codes]).all()
    }
