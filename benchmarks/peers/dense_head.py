"""The dense layers after the readouts and Adam, in NumPy, for peers without automatic gradients."""

from collections.abc import Sequence

import numpy as np

RATE, DECAYS, EPSILON = 0.01, (0.9, 0.999), 1e-7


class DenseHead:
    """Dense layers with tanh between them.

    Args:
        weights: Kernel [in, out] and bias [out] of each layer.
    """

    def __init__(self, weights: Sequence[np.ndarray]) -> None:
        self._layers = list(zip(weights[::2], weights[1::2], strict=True))

    def predict(self, readouts: np.ndarray) -> np.ndarray:
        """Return the outputs [..., 1] of readouts [..., K]."""
        return self._activations(readouts)[-1]

    def gradients(
        self, readouts: np.ndarray, label: np.ndarray, batch: int
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Differentiate one example's share of the mean squared error.

        Args:
            readouts: [K].
            label: [1].
            batch: Number of examples in the mean.

        Returns:
            The derivatives by the readouts [K], and by each weight.
        """
        activations = self._activations(readouts)
        upstream = 2 * (activations[-1] - label) / batch
        found: list[np.ndarray] = []
        for layer in range(len(self._layers) - 1, -1, -1):
            if layer + 1 < len(self._layers):
                upstream = upstream * (1 - activations[layer + 1] ** 2)
            found[:0] = [np.outer(activations[layer], upstream), upstream]
            upstream = self._layers[layer][0] @ upstream
        return upstream, found

    def _activations(self, readouts: np.ndarray) -> list[np.ndarray]:
        found = [readouts]
        for layer, (kernel, bias) in enumerate(self._layers):
            outputs = found[-1] @ kernel + bias
            found.append(np.tanh(outputs) if layer + 1 < len(self._layers) else outputs)
        return found


class Adam:
    """Kingma and Ba, arXiv:1412.6980.

    Args:
        weights: Arrays of the shapes to update.
        rate: The learning rate.
    """

    def __init__(self, weights: Sequence[np.ndarray], rate: float = RATE) -> None:
        self._count, self._rate = 0, rate
        self._first = [np.zeros_like(array) for array in weights]
        self._second = [np.zeros_like(array) for array in weights]

    def step(self, weights: Sequence[np.ndarray], slopes: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the updated weights."""
        self._count += 1
        one, two = DECAYS
        rate = self._rate * np.sqrt(1 - two**self._count) / (1 - one**self._count)
        updated = []
        for index, (weight, slope) in enumerate(zip(weights, slopes, strict=True)):
            self._first[index] += (1 - one) * (slope - self._first[index])
            self._second[index] += (1 - two) * (slope**2 - self._second[index])
            step = rate * self._first[index] / (np.sqrt(self._second[index]) + EPSILON)
            updated.append(weight - step)
        return updated
