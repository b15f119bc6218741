"""Losses and metrics by the kind of target, as sums over the rows of a batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from common.data.target import Target
from common.errors import SettingsError
from qfleet.tensorflow.runtime import keras, tf

RowFunction = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""Of predictions [n, outputs] and labels [n]; returns [n]."""

Means = Sequence[tf.Tensor | float]
"""Numbers in the graph of a step, or of its results."""


@dataclass(frozen=True)
class Measures:
    """Sums over rows, and the metrics that follow from them.

    Attributes:
        loss: Name of the loss among `metrics`.
        rows: Functions whose results are summed over rows. The first is the loss.
        metrics: Names in order; the loss first.
        finish: Returns `metrics` for means float64 [rows] over examples.
        kind: Kind of the target.
        class_factors: Factors of the loss by class; empty if all are 1.
    """

    loss: str
    rows: tuple[RowFunction, ...]
    metrics: tuple[str, ...]
    finish: Callable[[Means], Means]
    kind: str
    class_factors: tuple[float, ...] = ()

    @property
    def sums(self) -> int:
        """Sums over rows: those of `rows`, and the number of rows."""
        return len(self.rows) + 1

    def stack(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Return float32 [sums, n] for predictions [n, outputs] and labels [n]."""
        parts = [function(predictions, labels) for function in self.rows]
        return tf.stack([*parts, tf.ones_like(labels)])

    def factors(self, labels: tf.Tensor) -> tf.Tensor | None:
        """Return float32 [n], the factors of the losses of rows; None if all are 1."""
        if not self.class_factors:
            return None
        indices = labels >= 0 if self.kind == "signs" else labels
        return tf.gather(tf.constant(self.class_factors), tf.cast(indices, tf.int32))

    def results(self, sums: tf.Tensor | np.ndarray) -> dict[str, tf.Tensor | float]:
        """Return metrics by name, and the number of examples, for float64 [sums]."""
        examples = sums[self.sums - 1]
        means = [sums[index] / examples for index in range(self.sums - 1)]
        values = self.finish(means)
        return {**dict(zip(self.metrics, values, strict=True)), "examples": examples}


def measures_of(
    target: Target,
    loss: str = "",
    model_loss: object = None,
    class_factors: Sequence[float] = (),
) -> Measures:
    """Return the measures of a target.

    Args:
        target: What the model predicts.
        loss: LOSS: the name of a loss of Keras, or nothing for the target's.
        model_loss: Loss that a user's model was compiled with, if LOSS is not given.
        class_factors: Factors of the loss by class.

    Raises:
        SettingsError: LOSS is unknown or does not fit the target.
    """
    measures = _BY_KIND[target.kind](target)
    if loss or model_loss is not None:
        measures = _with_loss(measures, target, loss, model_loss)
    if class_factors:
        measures = replace(measures, class_factors=tuple(class_factors))
    return measures


def _signs(target: Target) -> Measures:
    def squared(predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.square(_only(predictions) - labels)

    def correct(predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        # The sign of a prediction is its class; 0 counts as +1.
        return tf.cast((_only(predictions) >= 0) == (labels >= 0), tf.float32)

    return _measures(target, (squared, correct))


def _classes(target: Target) -> Measures:
    def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        indices = tf.cast(labels, tf.int32)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(indices, logits)

    def correct(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        predicted = tf.argmax(logits, axis=1, output_type=tf.int32)
        return tf.cast(predicted == tf.cast(labels, tf.int32), tf.float32)

    return _measures(target, (cross_entropy, correct))


def _number(target: Target) -> Measures:
    def error(predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return _only(predictions) - labels

    def finish(means: Means) -> Means:
        squared, absolute, mean, mean_square = means
        variance = mean_square - mean * mean
        r2 = 1 - squared / tf.maximum(variance, tf.constant(1e-12, tf.float64))
        return squared * target.scale**2, absolute * target.scale, r2

    rows: tuple[RowFunction, ...] = (
        lambda predictions, labels: tf.square(error(predictions, labels)),
        lambda predictions, labels: tf.abs(error(predictions, labels)),
        lambda _, labels: labels,
        lambda _, labels: tf.square(labels),
    )
    return _measures(target, rows, finish)


def _energy(target: Target) -> Measures:
    def energy(predictions: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
        return _only(predictions)

    def error(predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.abs(_only(predictions) - labels)

    return _measures(target, (energy, error) if target.has_reference else (energy,))


def _state(target: Target) -> Measures:
    def infidelity(predictions: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
        return 1 - _only(predictions)

    def finish(means: Means) -> Means:
        return means[0], 1 - means[0]

    return _measures(target, (infidelity,), finish)


_BY_KIND: dict[str, Callable[[Target], Measures]] = {
    "signs": _signs,
    "classes": _classes,
    "number": _number,
    "energy": _energy,
    "state": _state,
}


def _only(predictions: tf.Tensor) -> tf.Tensor:
    return tf.reshape(predictions, [-1])


def _measures(
    target: Target,
    rows: tuple[RowFunction, ...],
    finish: Callable[[Means], Means] = lambda means: means,
) -> Measures:
    return Measures(target.loss, rows, target.metrics, finish, target.kind)


def _with_loss(measures: Measures, target: Target, name: str, model_loss: object) -> Measures:
    """Return measures with a loss of Keras in front of the others."""
    source = f"LOSS={name}" if name else "the loss that the model was compiled with"
    if target.kind in ("energy", "state"):
        raise SettingsError(
            f"{source} does not fit TASK={target.task}, whose loss is the {measures.loss}: omit it"
        )
    try:
        found = keras.losses.get(name or model_loss)
    except (ValueError, TypeError):
        raise SettingsError(
            f"{source} is not a loss of Keras: use a name such as huber, hinge or"
            " mean_absolute_error"
        ) from None
    function = getattr(found, "call", found)  # of a loss object, without its reduction
    config = found.get_config() if isinstance(found, keras.losses.Loss) else {}
    keras_name = getattr(getattr(found, "fn", found), "__name__", "")  # "bce" has its own one
    title = name or _metric_name(str(getattr(found, "name", keras_name)), measures)
    as_logits = bool(config.get("from_logits"))

    def row_losses(predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        truth, outputs = _keras_operands(keras_name, target, predictions, labels, as_logits)
        losses = tf.convert_to_tensor(function(truth, outputs))
        return tf.reshape(losses, [-1])

    sample = np.zeros([2], np.float32)
    try:
        losses = row_losses(tf.zeros([2, target.outputs]), tf.constant(sample))
    except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SettingsError(
            f"{source} can't be computed for {target.outputs} outputs: {reason}"
        ) from None
    if losses.shape != [2]:
        raise SettingsError(
            f"{source} does not return one number per example: average over the last axis only"
            " (axis=-1)"
        )
    metrics = (title, *(one for one in measures.metrics if one != title))
    kept = measures.finish

    def finish(means: Means) -> Means:
        others = dict(zip(measures.metrics, kept(means[1:]), strict=True))
        return [means[0], *(others[one] for one in metrics[1:])]

    return Measures(title, (row_losses, *measures.rows), metrics, finish, target.kind)


def _metric_name(name: str, measures: Measures) -> str:
    """Return the name of a loss as a metric, different from the others."""
    if not name.isidentifier():  # such as <lambda>
        return "loss"
    return f"{name}_loss" if name in measures.metrics else name


def _keras_operands(
    name: str, target: Target, predictions: tf.Tensor, labels: tf.Tensor, as_logits: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return labels and outputs as a loss of Keras expects them.

    Cross-entropies get labels of 0 and 1 and probabilities, or logits if they are made for them.
    Other losses get labels of -1 and 1 and the signed prediction, one-hot labels and probabilities,
    or scaled numbers.
    """
    if target.kind == "classes":
        probabilities = predictions if as_logits else tf.nn.softmax(predictions)
        if name.startswith("sparse"):
            return labels, probabilities
        return tf.one_hot(tf.cast(labels, tf.int32), target.outputs), probabilities
    column = labels[:, tf.newaxis]
    outputs = tf.reshape(predictions, [-1, 1])
    if target.kind == "signs" and "crossentropy" in name:
        return (column + 1) / 2, outputs if as_logits else tf.sigmoid(outputs)
    return column, outputs
