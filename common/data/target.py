"""The target of a model: two or several classes, a number, an energy, a state or a gate.

The target follows from TASK and the data set. It is recorded with the encoding of the data set.

| kind | label of a row, float32 | outputs of a model |
|---|---|---|
| signs | -1 or +1 | one, whose sign is the class |
| classes | index of the class | one logit per class |
| number | (number - center) / scale | one, scaled like the label |
| energy | reference energy; 0 if it is unknown | one, the energy |
| state | 1 | one, the fidelity |
| gate | 1 | one, the fidelity of a perturbed device |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from common.errors import DataError

Kind = Literal["signs", "classes", "number", "energy", "state", "gate"]

TASKS = {
    "signs": "classification",
    "classes": "classification",
    "number": "regression",
    "energy": "energy",
    "state": "state",
    "gate": "gate",
}
"""TASK by the kind of the target."""

METRICS: Mapping[str, tuple[str, ...]] = {
    "signs": ("mse", "accuracy"),
    "classes": ("log_loss", "accuracy"),
    "number": ("mse", "mae", "r2"),
    "energy": ("energy", "energy_error"),
    "state": ("infidelity", "fidelity"),
    "gate": ("infidelity", "fidelity", "leakage"),
}
"""Metrics by the kind of the target; training minimises the first one."""

PROBLEM_KINDS = ("energy", "state", "gate")
"""Kinds whose rows are problems, not examples."""

MAX_CLASSES = 100
MAX_SCALED = 1e6
MAX_TERMS = 100_000
MAX_MEMBERS = 10_000
MAX_ELECTRONS = 100


@dataclass(frozen=True)
class Target:
    """The target of a model: the kind of its outputs, and of labels.

    Attributes:
        kind: See the module.
        column: Name of the label column.
        classes: Labels of the classes in order; for signs, those of -1 and +1.
        center: Number that becomes 0.
        scale: Difference to the center that becomes 1; positive.
        terms: Pauli words of the Hamiltonians, one letter per qubit; for kind energy.
        coefficients: Means of the coefficients of the words over all Hamiltonians.
        fields: Names of the numbers that distinguish the members of a family, which are the first
            features; for kinds energy and gate.
        has_reference: True if labels are reference energies.
        members: Hamiltonians, states or devices, each of which is a row.
        electrons: Electrons of a molecule; 0 for other Hamiltonians.
        gate: The gate and what its pulse may be, as JSON; for kind gate.
    """

    kind: Kind
    column: str
    classes: tuple[str, ...] = ()
    center: float = 0.0
    scale: float = 1.0
    terms: tuple[str, ...] = ()
    coefficients: tuple[float, ...] = ()
    fields: tuple[str, ...] = ()
    has_reference: bool = True
    members: int = 1
    electrons: int = 0
    gate: str = ""

    @property
    def outputs(self) -> int:
        """Numbers that a model returns per example."""
        return len(self.classes) if self.kind == "classes" else 1

    @property
    def task(self) -> str:
        """Value of TASK."""
        return TASKS[self.kind]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics: `loss`, then the others."""
        names = METRICS[self.kind]
        return names if self.has_reference else names[:1]

    @property
    def loss(self) -> str:
        """Name of the metric that training minimises unless LOSS names another."""
        return self.metrics[0]

    def encode(self, labels: np.ndarray) -> np.ndarray:
        """Return float32 [n] for labels as text (classes) or float64 (a number).

        Raises:
            DataError: A number is so far from those of training that its square overflows.
        """
        if self.kind == "number":
            scaled = (labels - self.center) / self.scale
            if (far := np.abs(scaled) > MAX_SCALED).any():
                raise DataError(
                    f"the target column {self.column!r} holds {labels[far.argmax()]:g}, more than"
                    f" {MAX_SCALED:g} times the range of the training rows from their center,"
                    f" {self.center:g}: correct this number, or delete its row"
                )
            scaled_labels: np.ndarray = scaled.astype(np.float32)
            return scaled_labels
        order = {name: index for index, name in enumerate(self.classes)}
        known, codes = np.unique(labels, return_inverse=True)
        indices = np.array([order[name] for name in known.tolist()], np.float32)[codes]
        return 2 * indices - 1 if self.kind == "signs" else indices

    def class_indices(self, labels: np.ndarray) -> np.ndarray:
        """Return int64 [n]: the class of each encoded label or signed prediction."""
        if self.kind == "signs":
            return (labels >= 0).astype(np.int64)
        return labels.astype(np.int64)

    def predicted_classes(self, predictions: np.ndarray) -> np.ndarray:
        """Return int64 [n]: the class of each prediction, float [n, outputs]."""
        if self.kind == "signs":
            return self.class_indices(predictions[:, 0])
        return predictions.argmax(axis=1)

    def to_json(self) -> dict[str, object]:
        """Return plain data, from which `from_json` makes the same target."""
        result: dict[str, object] = {"kind": self.kind, "column": self.column}
        if self.classes:
            result["classes"] = list(self.classes)
        if self.kind == "number":
            result |= {"center": self.center, "scale": self.scale}
        if self.kind == "energy":
            result |= {"terms": list(self.terms), "coefficients": list(self.coefficients)}
            result["fields"] = list(self.fields)
            result |= {"has_reference": self.has_reference, "electrons": self.electrons}
        if self.kind == "gate":
            result |= {"fields": list(self.fields), "gate": self.gate}
        if self.kind in PROBLEM_KINDS:
            result["members"] = self.members
        return result

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> "Target":
        """Return the target that `to_json` wrote.

        Raises:
            DataError: It is not one.
        """
        try:
            target = cls(
                kind=read["kind"],
                column=str(read["column"]),
                classes=_texts(read.get("classes", ())),
                center=float(read.get("center", 0.0)),
                scale=float(read.get("scale", 1.0)),
                terms=_texts(read.get("terms", ())),
                coefficients=tuple(map(float, read.get("coefficients", ()))),
                fields=_texts(read.get("fields", ())),
                has_reference=bool(read.get("has_reference", True)),
                members=int(read.get("members", 1)),
                electrons=int(read.get("electrons", 0)),
                gate=str(read.get("gate", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the recorded target can't be read: {error!r}") from None
        target._check()
        return target

    def _check(self) -> None:
        """Raise if a recorded target is impossible."""
        least = {"signs": 2, "classes": 3}.get(self.kind, 0)
        most = {"signs": 2, "classes": MAX_CLASSES}.get(self.kind, 0)
        words = {(len(term), *sorted(set(term) - set("IXYZ"))) for term in self.terms}
        is_possible = (
            self.kind in get_args(Kind)
            and least <= len(self.classes) <= most
            and len(set(self.classes)) == len(self.classes)
            and np.isfinite([self.center, self.scale]).all()
            and self.scale > 0
            and (self.kind == "energy") == (len(self.terms) > 0)
            and len(self.terms) == len(self.coefficients) <= MAX_TERMS
            and all(len(word) == 1 for word in words)
            and len(words) <= 1
            and 1 <= self.members <= MAX_MEMBERS
            and 0 <= self.electrons <= MAX_ELECTRONS
            and (self.kind == "gate") == bool(self.gate)
        )
        if not is_possible:
            raise DataError(f"the recorded target of kind {str(self.kind)[:20]!r} is inconsistent")


SIGNS = Target("signs", "label", ("-1", "1"))
"""The target of the excitations."""


def _texts(read: Sequence[object]) -> tuple[str, ...]:
    if isinstance(read, str):
        raise TypeError("a text instead of a list")
    return tuple(map(str, read))


def number_target(column: str, numbers: np.ndarray) -> Target:
    """Return a target whose training numbers become -1 to 1, the range of a readout.

    Args:
        column: Name of the label column.
        numbers: float64 [n], of the training split.

    Raises:
        DataError: All numbers are equal.
    """
    lowest, highest = float(numbers.min()), float(numbers.max())
    scale = highest / 2 - lowest / 2
    if not scale > 1e-12 * max(abs(lowest), abs(highest)):
        values = f"{lowest!r} to {highest!r}" if lowest < highest else f"{lowest:g}"
        raise DataError(
            f"the target column {column!r} is {values} in all {len(numbers)} rows for training,"
            " so that there is nothing to learn: provide rows with other targets"
        )
    return Target("number", column, center=lowest / 2 + highest / 2, scale=scale)
