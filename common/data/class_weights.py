"""Factors of the loss by class: CLASS_WEIGHTS."""

import math
from collections.abc import Mapping

from common.data.tables import label_text
from common.data.target import Target
from common.errors import SettingsError

BALANCED = "balanced"


def class_factors(
    target: Target, class_weights: str, counts: Mapping[str, int]
) -> tuple[float, ...]:
    """Return the factors of the loss in the order of the classes; empty if all are 1.

    Args:
        target: What the model predicts.
        class_weights: CLASS_WEIGHTS: nothing, `balanced`, or label:factor pairs.
        counts: Training examples by encoded label as text.

    Raises:
        SettingsError: The target has no classes, or a pair does not fit them.
    """
    if not class_weights:
        return ()
    title = f"CLASS_WEIGHTS={class_weights}"
    if not target.classes:
        raise SettingsError(
            f"{title} does not fit TASK={target.task}, which has no classes: omit it"
        )
    if class_weights == BALANCED:
        labels = ("-1", "1") if target.kind == "signs" else map(str, range(len(target.classes)))
        rows = [counts.get(label, 0) for label in labels]
        return tuple(sum(rows) / (len(rows) * max(1, count)) for count in rows)
    factors = dict.fromkeys(target.classes, 1.0)
    for pair in class_weights.split(","):
        label, _, factor = pair.rpartition(":")
        if (name := label_text(label)) not in factors:
            raise SettingsError(
                f"{title} names the class {name!r}: the classes are {', '.join(target.classes)}"
            )
        factors[name] = _positive(factor, title)
    return tuple(factors.values())


def _positive(text: str, title: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1e6:
        raise SettingsError(f"{title} has the factor {text}: use numbers above 0 and below 1e6")
    return value
