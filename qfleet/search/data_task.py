"""Tasks of data: rows for training and validation, their loss, and a linear head on readouts."""

import hashlib
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import choice, integer, number
from qfleet.errors import ArgumentError
from qfleet.placement import data_symbols

DataKind = Literal["signs", "classes", "number"]
KINDS = ("signs", "classes", "number")

_RIDGE = 1e-3  # of the first head, relative to the number of rows


class Loss(NamedTuple):
    """The loss of outputs.

    Attributes:
        values: [C] means over rows.
        gradient: [C, n, outputs] of the values by the outputs.
        errors: [C] parts of rows that are classified wrong; the mean squared errors of numbers.
    """

    values: np.ndarray
    gradient: np.ndarray
    errors: np.ndarray


@dataclass(frozen=True, eq=False)
class DataTask:
    """A classification or a regression that circuits are searched for.

    A circuit has a rotation for some of the features, and reads <Z> of each qubit; a linear head
    maps these values to the outputs.

    Args:
        train: [n, features] angles in radians, of the rows that circuits are trained on.
        labels: [n] labels: -1 and 1 for signs, from 0 on for classes, and numbers.
        validation: [m, features] angles of the rows that circuits are compared by.
        validation_labels: [m] their labels.
        kind: "signs" and "number" with the mean squared error as the loss, or "classes" with
            the cross-entropy of logits.
        classes: Number of classes; not for the other kinds.
        scale: Factor of the errors of numbers.

    Raises:
        ArgumentError: Shapes or labels do not fit.
    """

    train: np.ndarray
    labels: np.ndarray
    validation: np.ndarray
    validation_labels: np.ndarray
    kind: DataKind
    classes: int = 0
    scale: float = 1.0

    def __post_init__(self) -> None:
        choice(KINDS)(self.kind, "kind")
        integer(2 if self.kind == "classes" else 0)(self.classes, "classes")
        number(self.scale, "scale")
        for name in ("train", "labels", "validation", "validation_labels"):
            object.__setattr__(self, name, _finite(getattr(self, name), name))
        for rows, labels in (("train", "labels"), ("validation", "validation_labels")):
            found, wanted = getattr(self, rows), getattr(self, labels)
            if found.ndim != 2 or wanted.shape != found.shape[:1] or not found.size:
                raise ArgumentError(
                    f"{rows} has the shape {found.shape} and {labels} {wanted.shape}: pass a row of"
                    " features for each label, and at least one"
                )
            self._check_labels(labels, wanted)
        if self.train.shape[1] != self.validation.shape[1]:
            raise ArgumentError(
                f"validation has {self.validation.shape[1]} features, and train"
                f" {self.train.shape[1]}: pass the same features"
            )

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        return data_symbols(self.train.shape[1])

    @property
    def outputs(self) -> int:
        """Outputs of the head; its weights are the kernel [K, outputs] and the bias, flattened."""
        return self.classes if self.kind == "classes" else 1

    @cached_property
    def digest(self) -> str:
        """A hash of all rows and options."""
        found = hashlib.sha256()
        for one in fields(self):
            value = getattr(self, one.name)
            found.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
        return found.hexdigest()

    def loss(self, outputs: np.ndarray, labels: np.ndarray) -> Loss:
        """Compute the loss and the error.

        Args:
            outputs: [C, n, outputs].
            labels: [n].
        """
        count = len(labels)
        if self.kind == "classes":
            shifted = outputs - outputs.max(axis=2, keepdims=True)
            chances = np.exp(shifted)
            total = chances.sum(axis=2, keepdims=True)
            rows, wanted = np.arange(count), labels.astype(np.int64)
            values = (np.log(total[..., 0]) - shifted[:, rows, wanted]).mean(axis=1)
            gradient = chances / total
            gradient[:, rows, wanted] -= 1
            wrong = outputs.argmax(axis=2) != wanted
            return Loss(values, gradient / count, wrong.mean(axis=1))
        difference = outputs[..., 0] - labels
        values = (difference**2).mean(axis=1)
        gradient = 2 * difference[..., np.newaxis] / count
        if self.kind == "number":
            return Loss(values, gradient, values * self.scale**2)
        wrong = (outputs[..., 0] >= 0) != (labels >= 0)
        return Loss(values, gradient, wrong.mean(axis=1))

    def first_head(self, readouts: np.ndarray) -> np.ndarray:
        """Return the weights [C, (K + 1) * outputs] of ridge regression of the labels.

        Args:
            readouts: [C, n, K] of the training rows.
        """
        wanted = self.labels[:, np.newaxis]
        if self.kind == "classes":
            wanted = 2.0 * (wanted == np.arange(self.classes)) - 1
        ones = np.ones((*readouts.shape[:2], 1))
        columns = np.concatenate([readouts, ones], axis=2)
        squares = np.einsum("cik,cil->ckl", columns, columns)
        squares += _RIDGE * len(self.labels) * np.eye(columns.shape[2])
        found = np.linalg.solve(squares, np.einsum("cik,io->cko", columns, wanted))
        return np.asarray(found.reshape(len(readouts), -1))

    def predictions(self, readouts: np.ndarray, heads: np.ndarray) -> np.ndarray:
        """Return the outputs [C, n, outputs] of heads [C, (K + 1) * outputs] for [C, n, K]."""
        kernel, bias = self.kernels(heads)
        found: np.ndarray = readouts @ kernel + bias[:, np.newaxis]
        return found

    def kernels(self, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return kernels [C, K, outputs] and biases [C, outputs] of flattened heads."""
        whole = heads.reshape(len(heads), -1, self.outputs)
        return whole[:, :-1], whole[:, -1]

    def _check_labels(self, name: str, labels: np.ndarray) -> None:
        allowed = {"signs": np.array([-1.0, 1.0]), "classes": np.arange(self.classes)}
        if self.kind in allowed and (bad := labels[~np.isin(labels, allowed[self.kind])]).size:
            raise ArgumentError(
                f"{name} has {bad[0]:g}: labels of kind {self.kind} are"
                f" {'-1 and 1' if self.kind == 'signs' else f'0 to {self.classes - 1}'}"
            )


def _finite(values: ArrayLike, name: str) -> np.ndarray:
    try:
        found = np.array(values, np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} is not an array of numbers: pass a row per example") from None
    if not np.isfinite(found).all():
        raise ArgumentError(f"{name} has values that are not finite: leave these rows out")
    return found
